"""What is in a run's checkpoint, read inside the sandbox: step, tensors, finiteness."""

from collections.abc import Iterator

from harness import checkpoint, folder
from harness.audit.recorded import Recorded
from harness.audit.verdicts import Claim, all_of, differs, equal, unchecked
from harness.errors import HarnessError, Refused


def tensors(run: Recorded) -> Iterator[Claim]:
    """The checkpoint holds the recorded step and tensors, all finite."""
    try:
        environment = run.machine.reader(run.identity["environment"]["name"])
        found = checkpoint.read(run.project, environment, run.run / folder.MODEL)
    except Refused as error:
        yield differs("tensors", str(error).removeprefix(f"{run.run}/"))
        return
    except (HarnessError, OSError) as error:
        for name in ("step", "tensors", "finite"):
            yield unchecked(name, f"cannot be read here: {error}")
        return
    recorded = run.completed["checkpoint"]
    yield equal("step", recorded["step"], found.step, folder.MODEL)
    for name in dict.fromkeys([*recorded["tensors"], *found.groups]):
        group = found.groups.get(name)
        here = group and {"digest": group.digest, "tensors": group.tensors, "bytes": group.bytes}
        yield equal(f"tensors: {name}", recorded["tensors"].get(name), here, folder.MODEL)
    yield all_of("finite", (f"{name} is not" for name in found.spoilt))
