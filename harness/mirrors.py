"""Bring an upstream's tree into the Nix store, from GitHub or from a mirror that a user names.

The commit decides: a tree with a pinned digest is the same store path from anywhere, and Nix
refuses any other. A mirror that names a commit of its own (`DIR@COMMIT`) is taken as it is, with
its absent files listed: what is trained from it is evidence of a second class.
"""

import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from harness import nix, sources
from harness.errors import HarnessError, Refused
from harness.files import impossible
from harness.json_files import publish_json
from harness.nar import nar_sha256
from harness.project import Project
from harness.sources import Mirror, Pin, Source
from harness.text import short

FOLDER = "HARNESS_MIRRORS"  # a folder of mirrors, each in OWNER+REPO or in OWNER+REPO/repo
DEEPEST = 100  # folders within folders of a source tree
_OPTION = re.compile(r"([a-z0-9_]+)=(.+?)(?:@([0-9a-f]{40}))?")


def parse(options: tuple[str, ...]) -> dict[str, Mirror]:
    """Mirrors by source name, from texts `KEY=DIR` or `KEY=DIR@COMMIT`.

    Raises Refused for any other text.
    """
    found = {}
    for option in options:
        match = _OPTION.fullmatch(option)
        if match is None:
            raise Refused(
                f"mirror {short(option)!r}: expected KEY=DIR, or KEY=DIR@COMMIT with 40 "
                "hexadecimal digits"
            )
        name, place, commit = match.groups()
        if why := impossible(place):
            raise Refused(f"mirror {name}={short(place)}: {why}")
        found[name] = Mirror(Path(place).absolute(), commit)
    return found


def realise(
    project: Project, source: str, mirrors: Mapping[str, Mirror], report: Callable[[str], None]
) -> Source:
    """The tree of `source`, fetched into the store if it is not there.

    Raises Refused where a mirror has no such commit or lacks files of a pinned tree, or where
    GitHub is out of reach.
    """
    there = sources.look(project, source, mirrors)
    if there.path.is_dir():
        return there
    pin = sources.pin(project, source)
    chosen = mirrors.get(source) or Mirror(None)
    place = chosen.place or _in_folder(pin)
    named = f"source {source}: {pin.owner}/{pin.repo} at {there.commit}"
    report(f"{named}, from {place or 'GitHub'}")
    absent: tuple[str, ...] = ()
    if place is not None:
        absent = _absent(place, str(there.commit), source)
        if absent and there.commit == pin.commit:
            raise Refused(
                f"mirror {source}={place}: lacks {_listed(absent)} of the pinned commit, whose "
                "digest only a whole tree has; name a whole clone"
            )
    if place is not None and absent:
        path = _partial(place, str(there.commit), absent)
    else:
        url = pin.url if place is None else place.as_uri()
        try:
            path = nix.fetch_source(project, source, url, str(there.commit))
        except HarnessError as error:
            raise Refused(
                f"{named} cannot be fetched from {place or 'GitHub'}: {error}; name a clone of "
                f"it: --mirror {source}=DIR"
            ) from error
    _keep(project, source, there, path, absent)
    return sources.look(project, source, mirrors)


def _keep(
    project: Project, source: str, wanted: Source, path: Path, absent: tuple[str, ...]
) -> None:
    """Record a fetched tree and keep it from Nix's garbage collection."""
    link, record = sources.kept(project, source, str(wanted.commit))
    link.parent.mkdir(parents=True, exist_ok=True)
    tree = nar_sha256(path)
    publish_json(
        record,
        {
            "schema_version": 1,
            "name": source,
            "commit": wanted.commit,
            "tree": tree,
            "absent": list(absent),
        },
    )
    nix.keep(path, link)


def _in_folder(pin: Pin) -> Path | None:
    """The mirror of `pin` in the folder that the user's environment names, if it is there."""
    folder = os.environ.get(FOLDER)
    if not folder:
        return None
    own = Path(folder, f"{pin.owner}+{pin.repo}").absolute()
    return next((place for place in (own / "repo", own) if place.is_dir()), None)


def _absent(place: Path, commit: str, source: str) -> tuple[str, ...]:
    """The files of `commit` whose contents a mirror lacks, in name order."""
    if not place.is_dir():
        raise Refused(f"mirror {source}={place}: no such folder")
    if _git(place, "rev-parse", "--git-dir").returncode:
        raise Refused(f"mirror {source}={place}: git does not take it for a repository")
    if _git(place, "cat-file", "-e", f"{commit}^{{commit}}").returncode:
        raise Refused(
            f"mirror {source}={place}: has no commit {commit}; fetch it there, or give one "
            f"that it has, as evidence of a second class: --mirror {source}={place}@COMMIT"
        )
    objects = _git(place, "rev-list", "--objects", "--no-walk", "--missing=print", commit)
    lacking = {line[1:] for line in objects.stdout.decode().splitlines() if line[:1] == "?"}
    return tuple(path for path, _, blob in _files(place, commit) if blob in lacking)


def _partial(place: Path, commit: str, absent: tuple[str, ...]) -> Path:
    """The tree of `commit` without its absent files, in the store."""
    files = [entry for entry in _files(place, commit) if entry[0] not in absent]
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, "source")  # the name is part of the store path
        tree.mkdir()
        for path, mode, blob in files:
            target = tree / path
            target.parent.mkdir(parents=True, exist_ok=True)
            data = _git(place, "cat-file", "blob", blob).stdout
            if mode == "120000":
                target.symlink_to(os.fsdecode(data))
            else:
                target.write_bytes(data)
                target.chmod(0o755 if mode == "100755" else 0o644)
        return nix.add_tree(tree)


def _files(place: Path, commit: str) -> Iterator[tuple[str, str, str]]:
    """Path, mode and blob of each file of a commit, submodules left out, in name order."""
    listed = _git(place, "ls-tree", "-r", "-z", commit).stdout
    for entry in filter(None, listed.split(b"\0")):
        facts, _, path = entry.partition(b"\t")
        mode, kind, blob = facts.decode().split()
        if path.count(b"/") > DEEPEST:
            raise Refused(f"{place}: {commit} has folders over {DEEPEST} deep; no source has those")
        if kind == "blob":
            yield os.fsdecode(path), mode, blob


def _git(place: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    # A clone that left out large files would fetch each of them when asked.
    environment = {**os.environ, "GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0"}
    command = ["git", "-C", str(place), *arguments]
    try:
        return subprocess.run(command, capture_output=True, check=False, env=environment)
    except FileNotFoundError as error:
        raise HarnessError("git: not found; run ./bootstrap") from error


def _listed(paths: tuple[str, ...]) -> str:
    rest = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
    return f"{', '.join(paths[:3])}{rest}"
