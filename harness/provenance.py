"""Facts of where and when a launch ran: recorded beside the identity, never part of it."""

import os
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from harness import __version__, gpu, nix, sandbox
from harness.folder import PROVENANCE
from harness.identity import one_or_list
from harness.json_files import publish_json
from harness.launch import Launch
from harness.schemas import read_record


def now() -> str:
    """The time in UTC, to the second, ISO 8601."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def begin(
    run: Path,
    launch: Launch,
    resumed_at: int | None = None,
    site: Mapping[str, object] | None = None,
) -> dict[str, object]:
    """Record a new attempt at `launch` in `run`, keeping the attempts before it.

    `resumed_at` is the step it goes on from, where that is not bit for bit; `site` is what a
    scheduler adds: the job, and each node's own facts.
    """
    before: list[object] = []
    if (run / PROVENANCE).exists():
        old = read_record(run / PROVENANCE, "provenance")["attempts"]
        assert isinstance(old, list)  # the schema says so
        before = old
    attempt: dict[str, object] = {
        "started": now(),
        "ended": None,
        "status": None,
        "host": host(),
        "tools": tools(),
    }
    if resumed_at is not None:
        attempt["resumed_at"] = resumed_at
    if site is not None:
        attempt["site"] = dict(site)
    record: dict[str, object] = {
        "schema_version": 1,
        "identity_sha256": launch.identity.sha256,
        "harness": __version__,
        "paths": {
            "environment": str(launch.environment.path),
            "base": str(launch.environment.base.path),
            "mounts": {mount.target: str(mount.source) for mount in launch.plan.mounts},
            "teacher": one_or_list(str(teacher.file) for teacher in launch.plan.teachers),
        },
        "attempts": [*before, attempt],
    }
    publish_json(run / PROVENANCE, record)
    return record


def end(run: Path, record: dict[str, object], status: int) -> None:
    """Record how the last attempt ended.

    Raises OSError where that cannot be written, unless the attempt failed: why matters more then.
    """
    attempts = record["attempts"]
    assert isinstance(attempts, list)
    attempts[-1] |= {"ended": now(), "status": status}
    try:
        publish_json(run / PROVENANCE, record)
    except OSError:
        if status == 0:
            raise


def host() -> dict[str, object]:
    """The machine: name, kernel, processor, cores, memory, GPUs and driver."""
    return {
        "name": platform.node(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "gpus": gpu.models(),
        "driver": gpu.driver_version(),
    }


def tools() -> dict[str, object]:
    """The versions of what builds and encloses a run."""
    return {"nix": nix.version(), "bubblewrap": sandbox.version()}


def _processor() -> str | None:
    names = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return names[0] if names else None
