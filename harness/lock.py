"""Locks: the exact files an environment is made of, as pip's own resolver chose them.

`envs/NAME.in` is a pip requirements file: requirements, `-r OTHER.in` for an environment this
one extends, `--no-binary NAME` for what is published as source only, and a comment
`# deviation: WHAT: REASON` for each difference from an upstream's own list. `envs/NAME.json` is
what it resolves to. Only hashes are kept, no addresses: a file is the same wherever it comes from.
"""

import json
import re
import subprocess
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from harness.errors import Refused
from harness.files import sha256_file
from harness.json_files import publish_json
from harness.schemas import read_record

PYTHON = "3.11"
PLATFORM = "manylinux_2_28_x86_64"
# Older names of manylinux_2_N (PEP 600), which wheels such as PyTorch's up to 2.5 still have.
LEGACY = {
    "x86_64": {"manylinux2014": 17, "manylinux2010": 12, "manylinux1": 5},
    "aarch64": {"manylinux2014": 17},
}


@dataclass(frozen=True, order=True)
class Wheel:
    """One locked file: a wheel, or a source distribution where nothing else is published."""

    name: str
    version: str
    file: str
    sha256: str
    kind: str


@dataclass(frozen=True)
class Deviation:
    """A difference from the upstream's own requirements, and why."""

    what: str
    reason: str


@dataclass(frozen=True)
class Lock:
    """An environment's files, for one Python on one platform, beyond those it extends."""

    name: str
    python: str
    platform: str
    extends: tuple[str, ...]
    wheels: tuple[Wheel, ...]
    deviations: tuple[Deviation, ...]

    @property
    def system(self) -> str:
        """Nix's name of the platform: `x86_64-linux` or `aarch64-linux`."""
        return f"{_machine(self.platform)}-linux"

    def record(self) -> dict[str, object]:
        """The lock as its file holds it."""
        return {"schema_version": 1, "system": self.system, **asdict(self)}


@dataclass(frozen=True)
class Request:
    """A parsed `.in` file."""

    requirements: tuple[str, ...]
    extends: tuple[str, ...]
    sources: frozenset[str]
    deviations: tuple[Deviation, ...]


def load(envs: Path, name: str) -> Lock:
    """Read `NAME.json` in the folder `envs`. Raises Refused where it is absent or malformed."""
    path = envs / f"{name}.json"
    record = read_record(path, "lock")
    record.pop("schema_version")
    system = record.pop("system")
    fields: dict[str, object] = record
    wheels, deviations, extends = (fields.pop(k) for k in ("wheels", "deviations", "extends"))
    assert isinstance(wheels, list) and isinstance(deviations, list) and isinstance(extends, list)
    lock = Lock(
        **{key: str(value) for key, value in fields.items()},
        extends=tuple(extends),
        wheels=tuple(Wheel(**wheel) for wheel in wheels),
        deviations=tuple(Deviation(**deviation) for deviation in deviations),
    )
    if lock.name != name or lock.system != system:
        raise Refused(f"{path}: is the lock of {lock.name} for {system}; run: harness lock {name}")
    return lock


def chain(envs: Path, name: str) -> tuple[Lock, ...]:
    """The lock `name` after all that it extends, each once.

    Raises Refused as `load` does, and where one extends itself.
    """
    seen: dict[str, Lock] = {}

    def visit(one: str, below: tuple[str, ...]) -> None:
        if one in below:
            raise Refused(f"{envs / one}.json: extends itself, through {' and '.join(below)}")
        lock = load(envs, one)
        for parent in lock.extends:
            visit(parent, (*below, one))
        seen.setdefault(one, lock)

    visit(name, ())
    return tuple(seen.values())


def read_request(path: Path) -> Request:
    """Parse a `.in` file. Raises Refused for an option this file format does not have."""
    if not path.is_file():
        raise Refused(f"{path}: not found; an environment is described by its .in file")
    requirements: list[str] = []
    extends: list[str] = []
    sources: set[str] = set()
    deviations: list[Deviation] = []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise Refused(f"{path}: is no UTF-8 text ({error.reason})") from error
    for line in (raw.strip() for raw in lines):
        if match := re.fullmatch(r"# deviation: (.+?): (.+)", line):
            deviations.append(Deviation(*match.groups()))
        elif match := re.fullmatch(r"-r (\w+)\.in", line):
            extends.append(match[1])
        elif match := re.fullmatch(r"--no-binary (\S+)", line):
            sources.add(canonical_name(match[1]))
        elif line.startswith("-"):
            raise Refused(f"{path}: {line}: only -r NAME.in and --no-binary NAME are understood")
        elif line and not line.startswith("#"):
            requirements.append(line.partition(" #")[0].strip())
    return Request(tuple(requirements), tuple(extends), frozenset(sources), tuple(deviations))


def resolve(
    envs: Path, name: str, pip: list[str], python: str = PYTHON, platform: str = PLATFORM
) -> Lock:
    """Resolve `NAME.in` with pip (the command `pip`) for `python` on `platform`.

    What an extended lock holds stays at its version. Raises Refused with pip's own last word.
    """
    request = read_request(envs / f"{name}.in")
    extended = [lock for one in request.extends for lock in chain(envs, one)]
    parents = {wheel.name: wheel for lock in extended for wheel in lock.wheels}
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        sources = [
            _source(requirement, pip, scratch)
            for requirement in request.requirements
            if _project(requirement) in request.sources
        ]
        # What is extended is part of what must agree, at the versions it has.
        pinned = [f"{wheel.name}=={wheel.version}" for wheel in parents.values()]
        for wheel in parents.values():
            if wheel.kind == "sdist":
                _source(f"{wheel.name}=={wheel.version}", pip, scratch)
        (scratch / "wanted.txt").write_text("\n".join([*request.requirements, *pinned]))
        report = _report(pip, scratch, python, platform)
    found = {w.name: w for w in map(_wheel, report["install"])} | {w.name: w for w in sources}
    return Lock(
        name=name,
        python=python,
        platform=platform,
        extends=request.extends,
        wheels=tuple(sorted(w for n, w in found.items() if n not in parents)),
        deviations=request.deviations,
    )


def write(envs: Path, lock: Lock) -> None:
    """Publish a lock as `NAME.json`."""
    publish_json(envs / f"{lock.name}.json", lock.record())


def canonical_name(name: str) -> str:
    """A project's name in its normal form (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _project(requirement: str) -> str:
    return canonical_name(re.split(r"[=<>!~ \[;]", requirement)[0])


def _source(requirement: str, pip: list[str], scratch: Path) -> Wheel:
    """Fetch a source distribution, and a wheel of it for the resolver to look at."""
    folder = scratch / "sdist" / canonical_name(requirement)
    only = ["--no-deps", f"--no-binary={_project(requirement)}"]
    _pip([*pip, "download", *only, "--dest", str(folder), requirement])
    (file,) = folder.iterdir()
    _pip([*pip, "wheel", "--no-deps", "--wheel-dir", str(scratch / "built"), str(file)])
    name, _, version = file.name.removesuffix(".tar.gz").rpartition("-")
    return Wheel(canonical_name(name), version, file.name, sha256_file(file), "sdist")


def _report(pip: list[str], scratch: Path, python: str, platform: str) -> dict[str, list[object]]:
    (scratch / "built").mkdir(exist_ok=True)
    report = scratch / "report.json"
    tags = [f"--platform={tag}" for tag in platform_tags(platform)]
    command = ["install", "--dry-run", "--ignore-installed", "--quiet", f"--report={report}"]
    target = [f"--target={scratch / 'target'}", "--only-binary=:all:", f"--python-version={python}"]
    wanted = [f"--find-links={scratch / 'built'}", f"--requirement={scratch / 'wanted.txt'}"]
    _pip([*pip, *command, *target, *tags, *wanted])
    value: dict[str, list[object]] = json.loads(report.read_text())
    return value


def platform_tags(platform: str) -> list[str]:
    """Every platform tag a host of `platform` (`manylinux_2_N_MACHINE`) takes, best first."""
    match = re.fullmatch(r"manylinux_2_(\d+)_(x86_64|aarch64)", platform)
    if match is None:
        raise Refused(f"platform {platform}: expected manylinux_2_N_(x86_64|aarch64)")
    newest, machine = int(match[1]), match[2]
    return [
        *(f"manylinux_2_{minor}_{machine}" for minor in range(newest, 4, -1)),
        *(f"{old}_{machine}" for old, minor in LEGACY[machine].items() if minor <= newest),
        f"linux_{machine}",
    ]


def _machine(platform: str) -> str:
    return platform_tags(platform)[-1].removeprefix("linux_")


def _wheel(item: object) -> Wheel:
    assert isinstance(item, dict)
    metadata, info = item["metadata"], item["download_info"]
    file = unquote(Path(urlsplit(info["url"]).path).name)
    digest = info["archive_info"]["hashes"]["sha256"]
    return Wheel(canonical_name(metadata["name"]), metadata["version"], file, digest, "wheel")


def _pip(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.lower().startswith("error: ")]
        reason = (lines or ["error: it gives no reason"])[0].partition(": ")[2]
        raise Refused(f"pip cannot resolve it: {reason}")
