"""The command of a launch, as seen in the sandbox."""

import re
from collections.abc import Mapping
from typing import Any

from harness import places
from harness.errors import Refused
from harness.recipes import number, overrides


def argument_list(
    recipe: Mapping[str, Any],
    *,
    devices: int,
    nodes: int,
    per_device_batch: int,
    accumulation: int,
    seed: int,
    resume: bool,
    student_init: str | None,
) -> tuple[str, ...]:
    """The command of a launch, rendered from its recipe's record alone."""
    tokenizer = recipe["tokenizer"]
    values = {
        "data_cache": places.DATA,
        "tokenizer": places.snapshot(tokenizer["name"], tokenizer["revision"]),
        "per_device_batch_size": number(per_device_batch),
        "devices": number(devices),
        "nodes": number(nodes),
        "accumulation": number(accumulation),
        "output": places.OUTPUT,
        "resume": "true" if resume else "false",
        "seed": number(seed),
        "root": places.ROOT,
        "teacher": places.TEACHER_FILE,
        "adapted_teacher": places.TEACHER_FILE,
        "integral_cache": places.INTEGRAL_CACHE,
        "student_init": student_init or "",
    }
    rendered = overrides(recipe, values)
    for override in rendered:
        if unknown := re.search(r"(?<!\$)\{[a-z_]+\}", override):
            raise Refused(f"recipe {recipe['model']}: {override}: nothing fills {unknown[0]}")
    return (places.PYTHON, _entrypoint(recipe["entrypoint"]), *rendered)


def _entrypoint(entrypoint: str) -> str:
    folder, _, rest = entrypoint.partition("/")
    if folder == "adapters":
        return f"{places.ADAPTERS}/{rest}"
    return f"{places.SOURCE}/{entrypoint}"
