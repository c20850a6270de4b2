"""What a run says about itself, checked against its own files; needs nothing else here."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from harness import folder, resume
from harness.argv import argument_list
from harness.audit.recorded import Recorded
from harness.audit.verdicts import Claim, all_of, differs, equal, holds, unchecked
from harness.canonical import digest
from harness.complete import METRICS, candidates, final_metrics, held_step
from harness.json_files import read_json

# Clocks of two machines may differ by so much before a time counts as later than now.
SKEW = timedelta(minutes=5)
_LAST = datetime(9999, 12, 31, tzinfo=UTC).timestamp()
MOST_NAMED = 1000  # files told one by one; a hostile folder could hold any number


def files(run: Recorded) -> Iterator[Claim]:
    """Every file is there with its recorded bytes, and nothing else is."""
    faults = {**folder.unlike(run.files, run.completed), **run.faults}
    for path in sorted(faults)[:MOST_NAMED]:
        yield differs(f"file {path}", faults[path])
    if len(faults) > MOST_NAMED:
        yield differs("files", f"{len(faults) - MOST_NAMED} more differ")
    if not faults:
        size = sum(entry.size for entry in run.files.values())
        yield holds("files", f"{len(run.files)} files, {size} bytes")


def identity(run: Recorded) -> Iterator[Claim]:
    """The identity has the digest that the completion record names."""
    expected = run.completed["identity_sha256"]
    yield equal("identity", expected, digest(run.identity), folder.IDENTITY)


def facts(run: Recorded) -> Iterator[Claim]:
    """The facts were recorded for this identity."""
    expected = digest(run.identity)
    found = run.provenance["identity_sha256"]
    yield equal("identity of the facts", expected, found, folder.PROVENANCE)


def copies(run: Recorded) -> Iterator[Claim]:
    """What stands in the identity and in a file of its own is the same in both."""
    identity = run.identity
    yield equal("recipe", identity["recipe"], read_json(run.run / folder.RECIPE), folder.RECIPE)
    yield equal("argument list", identity["argv"], read_json(run.run / folder.ARGV), folder.ARGV)
    config = run.sha256(folder.CONFIG)
    yield equal("configuration", identity["config_sha256"], config, folder.CONFIG)


def rendering(run: Recorded) -> Iterator[Claim]:
    """The argument list is what the recorded recipe and choices render to."""
    identity = run.identity
    choices = {
        name: identity[name]
        for name in (
            *("devices", "nodes", "per_device_batch", "accumulation"),
            *("seed", "resume", "student_init"),
        )
    }
    rendered = list(argument_list(identity["recipe"], **choices))
    yield equal("argument list rendered", rendered, identity["argv"], folder.IDENTITY)


def batch(run: Recorded) -> Iterator[Claim]:
    """Devices, nodes, batch and accumulation come to the recipe's global batch."""
    identity = run.identity
    product = 1
    for name in ("devices", "nodes", "per_device_batch", "accumulation"):
        product *= identity[name]
    fields = identity["recipe"]["fields"]
    faults = [
        f"{what} is {found}, {product} examples make a step"
        for what, found in {
            "effective_batch": identity["effective_batch"],
            "the recipe's global batch": fields.get("global_batch"),
        }.items()
        if found != product
    ]
    yield all_of("batch", faults, product)


def network(run: Recorded) -> Iterator[Claim]:
    """The sandbox had no network; or its hosts' own, which only several nodes may share."""
    expected = "fabric" if run.identity["nodes"] > 1 else "none"
    yield equal("network", expected, run.identity["network"], folder.IDENTITY)


def logs(run: Recorded) -> Iterator[Claim]:
    """Both logs are there."""
    absent = [name for name in (folder.STDOUT, folder.STDERR) if name not in run.files]
    yield all_of("logs", (f"{name} is missing" for name in absent))


def result(run: Recorded) -> Iterator[Claim]:
    """The checkpoint is the one the recipe selects, and all is recorded of it as it is."""
    recipe, checkpoint = run.identity["recipe"], run.completed["checkpoint"]
    config = run.completed["config_sha256"]
    yield equal("configuration of the result", run.identity["config_sha256"], config)
    yield equal("checkpoint file", checkpoint["sha256"], run.sha256(folder.MODEL), folder.MODEL)
    source = checkpoint["from"]
    yield equal("checkpoint's origin", checkpoint["sha256"], run.sha256(source), source)
    known = [f"{folder.OUTPUT}/{name}" for name in candidates(recipe["fields"])]
    if source not in known:
        yield differs("checkpoint's place", "not where the recipe's lies", known, source)
    yield equal("step of the result", held_step(recipe["fields"]), checkpoint["step"])


def metrics(run: Recorded) -> Iterator[Claim]:
    """The recorded metrics are the last ones the trainer wrote."""
    found = final_metrics(run.run / folder.OUTPUT / METRICS)
    yield equal("metrics", run.completed["metrics"], found, f"{folder.OUTPUT}/{METRICS}")


def ending(run: Recorded) -> Iterator[Claim]:
    """The last attempt ended well."""
    if run.unfinished:
        yield unchecked("exit status", run.unfinished)
        return
    yield equal("exit status", 0, run.provenance["attempts"][-1]["status"], folder.PROVENANCE)


def resumed(run: Recorded) -> Iterator[Claim]:
    """The result says where its training went on, as the attempts do."""
    at = resume.steps(run.provenance["attempts"])
    yield equal("resumed at", at, run.completed.get("resumed_at", []), folder.COMPLETED)
    if at:
        why = "it went on from a checkpoint, which its trainer does not do bit for bit"
        yield unchecked("tensors of another run", f"need not equal these: {why}")


def order(run: Recorded) -> Iterator[Claim]:
    """Attempts follow each other, completion comes last, and nothing lies in the future.

    An honest machine's clock can be set back meanwhile, and a record of that is like one that was
    made up: which of the two it is cannot be told, so that the times vouch for nothing.
    """
    told = []
    for number, attempt in enumerate(run.provenance["attempts"], 1):
        for what in ("started", "ended"):
            if attempt[what] is not None:
                place = f"{folder.PROVENANCE}: attempt {number} {what}"
                told.append((place, _time(attempt[what])))
    told.append((f"{folder.COMPLETED}: completed", _time(run.completed["completed"])))
    future = [
        f"{what} {_text(when)}, later than now" for what, when in told if when > run.now + SKEW
    ]
    back = [
        (before - after, f"{later} {_text(after)}, before {earlier} {_text(before)}")
        for (earlier, before), (later, after) in pairwise(told)
        if after < before
    ]
    far = [line for by, line in back if by > SKEW]
    if far and not future:
        why = "the clock was set back, or the record was made up"
        yield unchecked("order of times", f"{'; '.join(far)}: {why}")
    else:
        most = max((by for by, _ in back), default=timedelta())
        remark = f"the clock was set back by {most.seconds} s" if most else ""
        yield all_of("order of times", future + far, remark)


def dates(run: Recorded) -> Iterator[Claim]:
    """No file was changed later than now, nor a folder."""
    latest = (run.now + SKEW).timestamp()
    faults = []
    for name in dict.fromkeys((*run.files, *run.records, *folder.folders_of(run.files))):
        changed = (run.run / name).lstat().st_mtime
        if changed > latest:
            date = datetime.fromtimestamp(min(changed, _LAST), UTC)
            faults.append(f"{name} is dated {_text(date)}, later than now")
    yield all_of("dates of files", faults)


def _time(text: str) -> datetime:
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)


def _text(when: datetime) -> str:
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")
