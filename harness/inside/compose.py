"""Compose an upstream's Hydra configuration, resolved, as its trainer will see it.

Run inside the sandbox with the upstream's own environment, since its `eval` resolver runs code:
`python compose.py < request > config.yaml`. The request is JSON: `config_dir`, `config_name`,
`overrides`, `devices`. The resolvers the upstreams define are given host-independent values:
the working folder and the device count are the launch's.
"""

import json
import os
import sys
from typing import Any


def register(devices: int) -> None:
    """Define the resolvers the upstreams use: `cwd`, `device_count`, `eval`, `div_up`."""
    from omegaconf import OmegaConf

    resolvers = {
        "cwd": os.getcwd,
        "device_count": lambda: devices,
        "eval": eval,
        "div_up": lambda x, y: -(-int(x) // int(y)),
    }
    for name, function in resolvers.items():
        OmegaConf.register_new_resolver(name, function, replace=True)


def compose(request: dict[str, Any]) -> str:
    """The composed and resolved configuration as YAML (what `--cfg job --resolve` prints)."""
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from omegaconf import OmegaConf

    register(request["devices"])
    with initialize_config_dir(config_dir=request["config_dir"], version_base=None):
        config = hydra_compose(request["config_name"], overrides=request["overrides"])
    return str(OmegaConf.to_yaml(config, resolve=True))


def main() -> int:
    """Answer one request; a bad override is one line on stderr and exit status 2."""
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    try:
        sys.stdout.write(compose(json.load(sys.stdin)))
    except (HydraException, OmegaConfBaseException) as error:
        cause = error.__cause__ or error
        sys.stderr.write(" ".join(str(cause).split()) + "\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
