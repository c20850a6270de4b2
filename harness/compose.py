"""The composed configuration of a launch, made inside the sandbox."""

import json

from harness import places, sandbox
from harness.errors import Refused
from harness.nix import Environment
from harness.plan import OFFLINE, PYTHON, Plan
from harness.project import Project
from harness.sandbox import Box, Mount
from harness.sources import hidden, is_code


def inside_box(
    project: Project,
    environment: Environment,
    mounts: tuple[Mount, ...] = (),
    source: str = "",
) -> Box:
    """A sandbox for the harness's own small tools, with nothing writable but scratch space."""
    return Box(
        base=environment.base.path,
        closure=environment.closure,
        mounts=(
            Mount(environment.path, places.ENVIRONMENT),
            Mount(project.source / "harness" / "inside", places.INSIDE),
            *mounts,
        ),
        variables={**OFFLINE, **PYTHON},
        cwd=places.OUTPUT,
        tmpfs=("/tmp", places.WORK, places.OUTPUT),
        hidden=hidden(mounts, source),
    )


def compose(project: Project, plan: Plan, environment: Environment) -> bytes:
    """The YAML the trainer will see, resolved; equal on every machine.

    Raises Refused with Hydra's own complaint where an override does not fit the configuration.
    """
    request = {
        "config_dir": f"{places.SOURCE}/{plan.recipe.config_dir}",
        "config_name": plan.recipe.config_name,
        "overrides": list(plan.overrides),
        "devices": plan.devices,
    }
    code = tuple(mount for mount in plan.mounts if is_code(mount))
    box = inside_box(project, environment, code, plan.recipe.source)
    command = [places.PYTHON, f"{places.INSIDE}/compose.py"]
    done = sandbox.run(box, command, input=json.dumps(request).encode())
    if done.returncode != 0:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["no message"]
        raise Refused(
            f"{plan.recipe.model} on {plan.recipe.dataset}: its configuration does not compose: "
            f"{lines[-1]}"
        )
    return done.stdout
