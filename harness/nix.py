"""The one door to Nix: bases, environments, closures.

On the standard library alone, for the launcher also calls it with the user's own Python, before
there is an environment to run in: `python -m harness.nix ENVIRONMENT`.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from harness.errors import HarnessError, Refused
from harness.project import Project


@dataclass(frozen=True)
class Base:
    """What environments stand on: interpreter, C library and shell, as one store path."""

    path: Path
    kind: str
    python: str
    system: str
    glibc: str
    loader: Path
    libraries: Path

    def command(self, environment: Path, *arguments: str) -> list[str]:
        """A command that runs `environment`'s Python on this host, by the base's own loader."""
        loader = [str(self.loader), "--library-path", str(self.libraries)]
        named = ["--argv0", str(environment / "bin/python3")]
        return [*loader, *named, str(self.path / "bin/python3.11"), "-B", *arguments]


@dataclass(frozen=True)
class Environment:
    """A lock, built on a base: a store path with everything a sandboxed Python imports."""

    name: str
    path: Path
    base: Base
    lock_sha256: str

    @cached_property
    def closure(self) -> tuple[Path, ...]:
        """Every store path it needs, itself and the base included, in name order."""
        return closure(self.path)


def realise(project: Project, name: str) -> Environment:
    """The environment `name`, its files fetched by the user's pip and built by Nix if need be.

    Raises Refused where there is no such lock, HarnessError where fetching or building fails.
    """
    place = link(project, name)
    if (there := _read(name, place)) is not None:
        return there
    locks = [str(_lock(project, one)) for one in ("build", *_chain(project, name))]
    prefetch = str(project.source / "nix/prefetch.py")
    _checked(
        f"environment {name}: files cannot be fetched",
        [str(host_python()), "-I", "-B", prefetch, *locks],
    )
    place.parent.mkdir(parents=True, exist_ok=True)
    build = ["nix-build", str(project.source / "nix/build"), "--attr", "environment"]
    arguments = ["--argstr", "base", str(base().path), "--argstr", "name", name]
    envs = ["--arg", "envs", str(project.source / "envs")]
    _checked(
        f"environment {name}: cannot be built",
        [*build, *arguments, *envs, "--out-link", str(place)],
    )
    made = _read(name, place)
    if made is None:
        raise HarnessError(f"environment {name}: Nix built it, but {place} does not lead to it")
    return made


def realised(project: Project, name: str) -> Environment | None:
    """The environment `name` where it is built already, else None; builds and fetches nothing."""
    return _read(name, link(project, name))


def base() -> Base:
    """The base this machine uses. Raises HarnessError where none was chosen yet."""
    chosen = Path(os.environ.get("HARNESS_BASE") or state() / "base")
    try:
        return _base(chosen.resolve(strict=True))
    except FileNotFoundError as error:
        raise HarnessError("no base is chosen yet; start by ./bootstrap or nix run") from error


def state() -> Path:
    """The folder of this user's choices and of the links that keep environments alive."""
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state"
    return Path(home, "diffusion-harness")


def host_python() -> Path:
    """The user's own CPython 3.11 that has pip. Raises HarnessError where it is gone."""
    chosen = state() / "python"
    # As it was found, not as a link to it: a venv is known by its own path.
    there = chosen.readlink() if chosen.is_symlink() else chosen
    python = Path(os.environ.get("HARNESS_HOST_PYTHON") or there)
    if not os.access(python, os.X_OK):
        raise HarnessError(f"{python}: no CPython 3.11 with pip there any more; run ./bootstrap")
    return python


def fetch_source(project: Project, name: str, url: str, commit: str) -> Path:
    """An upstream's tree at `commit` from `url`, put into the store.

    Raises HarnessError with git's or Nix's own reason.
    """
    command = ["nix-instantiate", "--eval", "--json", str(project.source / "nix/source.nix")]
    named = ["--argstr", "name", name, "--argstr", "url", url, "--argstr", "rev", commit]
    # git would ask for the name and password of what does not exist.
    done = _run([*command, *named], capture_output=True, GIT_TERMINAL_PROMPT="0")
    if done.returncode:
        lines = done.stderr.splitlines()
        raise HarnessError(_reason([line for line in lines if "fatal: " in line] or lines))
    return Path(json.loads(done.stdout))


def add_tree(path: Path) -> Path:
    """Copy a tree into the store, under its own name."""
    return Path(_output(f"{path} cannot be added", ["nix-store", "--add", str(path)]).strip())


def keep(path: Path, link: Path) -> None:
    """Keep a store path from garbage collection as long as `link` leads to it."""
    root = ["--add-root", str(link), "--indirect"]
    _output(f"{path} cannot be kept", ["nix-store", "--realise", str(path), *root])


def closure(*paths: Path) -> tuple[Path, ...]:
    """Every store path that `paths` refer to, themselves included, in name order."""
    command = ["nix-store", "--query", "--requisites", *map(str, paths)]
    return tuple(sorted(map(Path, _output("the closure cannot be read", command).split())))


def size(paths: Iterable[Path]) -> int:
    """What store paths take, in bytes, each counted once."""
    return sum(sizes(paths).values())


def sizes(paths: Iterable[Path]) -> dict[Path, int]:
    """The bytes of each store path, without those it refers to."""
    order = sorted(paths)
    if not order:
        return {}
    command = ["nix-store", "--query", "--size", *map(str, order)]
    told = _output("the sizes cannot be read", command).split()
    return dict(zip(order, map(int, told), strict=True))


def dead() -> frozenset[Path]:
    """Every store path that no root keeps."""
    command = ["nix-store", "--gc", "--print-dead"]
    return frozenset(map(Path, _output("unused store paths cannot be listed", command).split()))


def delete(paths: Iterable[Path]) -> None:
    """Delete store paths that no root keeps; Nix refuses any other."""
    order = sorted(map(str, paths))
    if order:
        _output("store paths cannot be deleted", ["nix-store", "--delete", *order])


def verify_path(path: Path) -> bool:
    """Whether a store path still has the bytes Nix registered."""
    command = ["nix-store", "--verify-path", str(path)]
    return _run(command, capture_output=True).returncode == 0


def version() -> str:
    """Nix's version, such as `2.18.1`."""
    return _output("Nix does not answer", ["nix-store", "--version"]).split()[-1]


def lock_sha256(project: Project, name: str) -> str:
    """Digest of the lock `name`: of the texts of the build tools' lock, those extended, its own."""
    texts = (_lock(project, one).read_bytes() for one in ("build", *_chain(project, name)))
    return hashlib.sha256(b"".join(texts)).hexdigest()


def _chain(project: Project, name: str, within: tuple[str, ...] = ()) -> list[str]:
    """The lock's name after those it extends, each once."""
    path = _lock(project, name)
    if name in within:
        raise Refused(f"{path}: extends: {name} extends itself")
    try:
        parents = [str(parent) for parent in json.loads(path.read_bytes())["extends"]]
    except (ValueError, KeyError, TypeError) as error:
        raise Refused(
            f"{path}: extends: no list of locks ({error!r}); 'harness lock' makes it"
        ) from error
    names = [one for parent in parents for one in _chain(project, parent, (*within, name))]
    return list(dict.fromkeys([*names, name]))


def _lock(project: Project, name: str) -> Path:
    path = project.source / "envs" / f"{name}.json"
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or not path.is_file():
        known = sorted(one.stem for one in path.parent.glob("*.json"))
        raise Refused(f"environment {name}: no lock of it in envs/, which has {', '.join(known)}")
    return path


def link(project: Project, name: str) -> Path:
    """Where the environment's link is: named by all that decides what it holds.

    The launcher (nix/launch) computes the same name.
    """
    digest = hashlib.sha256(f"{base().path}\n".encode())
    for path in _ingredients(project, name):
        digest.update(path.read_bytes())
    return state() / "environments" / f"{name}-{digest.hexdigest()}"


def _ingredients(project: Project, name: str) -> Iterator[Path]:
    yield from sorted((project.source / "nix/build").iterdir())
    for lock in sorted({"build", *_chain(project, name)}):
        yield _lock(project, lock)


def _read(name: str, link: Path) -> Environment | None:
    try:
        path = link.resolve(strict=True)
        record = json.loads((path / "environment.json").read_bytes())
    except FileNotFoundError:
        return None
    return Environment(name, path, _base(Path(record["base"])), record["lock_sha256"])


def _base(path: Path) -> Base:
    record = json.loads((path / "base.json").read_bytes())
    return Base(
        path=path,
        kind=record["kind"],
        python=record["python"],
        system=record["system"],
        glibc=record["glibc"],
        loader=path / record["loader"],
        libraries=path / record["libraries"],
    )


def _output(what: str, command: list[str]) -> str:
    done = _run(command, capture_output=True)
    if done.returncode:
        raise HarnessError(f"{what}: {_reason(done.stderr.splitlines())}")
    return str(done.stdout)


def _checked(what: str, command: list[str]) -> None:
    """Run a long command, a line on stderr for each step; its last word where it fails."""
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=environment,
        )
    except FileNotFoundError as error:
        raise HarnessError(f"{command[0]}: not found; run ./bootstrap") from error
    lines: list[str] = []
    with process:
        assert process.stderr is not None
        for line in process.stderr:
            lines = [*lines[-50:], line]
            if (step := _step(line)) is not None:
                print(step, file=sys.stderr, flush=True)
    if process.returncode:
        raise HarnessError(f"{what}: {_reason(lines)}")


def _step(line: str) -> str | None:
    if line.startswith("fetch "):
        return line.rstrip()
    built = re.match(r"building '/nix/store/[a-z0-9]{32}-(.+)\.drv'", line)
    return f"build {built[1]}" if built else None


def _reason(lines: list[str]) -> str:
    """The last line that says something: a builder's own word before Nix's account of it."""
    plain = [re.sub(r"\x1b\[[0-9;]*m", "", line).strip() for line in lines]
    logged = [line.removeprefix("> ") for line in plain if line.startswith("> ")]
    spoken = [
        line.removeprefix("error: ")
        for line in plain
        if line
        and not re.match(
            r"fetch \d|building |error: \d+ dependenc|For full logs|last \d+ log", line
        )
        and "failed with exit code" not in line
        and "build of '" not in line
    ]
    return (logged or spoken or ["no reason given"])[-1]


def _run(
    command: list[str], capture_output: bool, **variables: str
) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **variables}
    try:
        return subprocess.run(
            command, capture_output=capture_output, text=True, check=False, env=environment
        )
    except FileNotFoundError as error:
        raise HarnessError(f"{command[0]}: not found; run ./bootstrap") from error


if __name__ == "__main__":
    try:
        realise(Project(source=Path(__file__).parents[1], root=Path.cwd()), sys.argv[1])
    except HarnessError as problem:
        sys.exit(f"harness: {problem}")
