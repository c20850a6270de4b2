"""A run has no Hub: settings that make asking for one fail at once, and saying what was asked.

The sandbox has no network, and a run sees pinned snapshots alone. What remains is to be clear:
the libraries' own messages end in advice to check the connection, which is no help here.
"""

import re
from dataclasses import dataclass

from harness.data.pins import Pins

# Nothing listens there: a library that asks although it is told not to is refused at once.
ENDPOINT = "http://127.0.0.1:9/the-hub-is-offline-in-a-run"
VARIABLES = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_ENDPOINT": ENDPOINT,
}

_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_REPO = rf"(?P<repo>{_NAME}(?:/{_NAME})?)"
# How the libraries name what they miss, each with the kind of repository if the text tells.
_ASKED = (
    (re.compile(rf"{re.escape(ENDPOINT)}/api/models/{_REPO}(?=[\s:/'\"]|$)"), "model"),
    (re.compile(rf"{re.escape(ENDPOINT)}/api/datasets/{_REPO}(?=[\s:/'\"]|$)"), "dataset"),
    (re.compile(rf"{re.escape(ENDPOINT)}/datasets/{_REPO}/resolve/"), "dataset"),
    (re.compile(rf"{re.escape(ENDPOINT)}/(?!datasets/|api/){_REPO}/resolve/"), "model"),
    (re.compile(rf"it looks like {_REPO} is not the path to a directory"), "model"),
    (re.compile(rf"Couldn't reach '{_REPO}' on the Hub"), "dataset"),
    (re.compile(rf"Couldn't reach the Hugging Face Hub for dataset '{_REPO}'"), "dataset"),
    (re.compile(rf"\(repo_id: {_REPO}, repo_type: model"), "model"),
    (re.compile(rf"\(repo_id: {_REPO}, repo_type: dataset"), "dataset"),
)
# In an API address a third part follows the name of a repository without owner.
_PARTS = ("revision", "tree", "resolve", "paths-info")
_UNNAMED = re.compile(r"outgoing traffic has been disabled|couldn't find them in the cached files")


@dataclass(frozen=True, order=True)
class Asked:
    """A repository that a run wanted from the Hub."""

    kind: str
    repo: str


def asked(log: str) -> list[Asked]:
    """The repositories that a run's log shows to have been asked for, sorted."""
    found = set()
    for pattern, kind in _ASKED:
        for match in pattern.finditer(log):
            owner, _, name = match["repo"].partition("/")
            found.add(Asked(kind, owner if name in _PARTS else match["repo"]))
    return sorted(found)


def explain(log: str, known: Pins, dataset_key: str) -> list[str]:
    """Lines for a run's log: what it asked the Hub for, and which pin to add; often none."""
    seen = known.dataset(dataset_key).models
    pinned = {(m.repo, "model"): key for key, m in known.models.items()}
    for name, dataset in known.datasets.items():
        pinned |= {(repo, "dataset"): name for repo in (dataset.repo, dataset.training_name)}
    lines = []
    for want in asked(log):
        what = f"the run asked the Hub for {want.kind} {want.repo}"
        key = pinned.get((want.repo, want.kind))
        if key is None:
            kind = "" if want.kind == "model" else " --kind dataset"
            lines.append(f"{what}, which is not pinned; add it: harness pin {want.repo}{kind}")
        elif want.kind == "dataset":
            lines.append(f"{what}: pinned as {key}, but a run sees its prepared data only")
        elif key in seen:
            lines.append(f"{what}, of which the pinned files were not enough; add files to its pin")
        else:
            lines.append(
                f"{what}: pinned as {key}, but not shown to runs on {dataset_key}; add it to the "
                "models of that dataset in pins.json"
            )
    if not lines and _UNNAMED.search(log):
        lines.append(
            "the run asked the Hub for files that it does not see, and the library does not say "
            f"which; it sees {', '.join(seen)} (harness pin REPO adds one)"
        )
    return [f"harness: {line}" for line in lines]
