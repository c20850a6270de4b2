"""Audits of runs: `audit` one, `audit_all` a whole tree. Verdicts: docs/audits.md."""

from harness.audit.core import audit
from harness.audit.machine import Machine
from harness.audit.trees import audit_all, runs_below
from harness.audit.verdicts import Audit, Claim, Verdict

__all__ = ["Audit", "Claim", "Machine", "Verdict", "audit", "audit_all", "runs_below"]
