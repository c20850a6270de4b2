"""One step of a selective scan: imported, never called."""

from mamba_ssm import absent

selective_state_update = absent
