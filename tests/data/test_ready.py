"""What a launch asks of the data: gaps are named, spoilt files refused, digests portable."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from harness.data import ready
from harness.data.digests import Digests
from harness.data.places import Places
from harness.data.progress import silent
from harness.errors import Refused
from harness.project import Project

KEY, NAME = "smoke-lm1b", "smoke-lm1b-bert-128"


def test_inputs_of_a_ready_project(smoke: Project) -> None:
    found = ready.inputs(smoke, KEY, "lightning")
    assert ready.missing(smoke, KEY, "lightning") == []
    assert found.training_cache == ready.training_cache(smoke, KEY, "lightning")
    assert sorted(p.name for p in found.training_cache.glob("*.dat")) == [
        "lm1b_test_bs128_wrapped.dat",
        "lm1b_train_bs128_wrapped.dat",
    ]
    assert found.tokenizer == found.hub / "models--smoke-bert" / "snapshots" / (
        found.tokenizer_revision
    )


def test_another_root_gives_the_same_digests(smoke: Project, tmp_path: Path) -> None:
    other = Project(source=smoke.source, root=tmp_path / "elsewhere")
    ready.prepare_embedded(other, KEY, silent)
    one, two = (ready.inputs(project, KEY, "lightning") for project in (smoke, other))
    assert one.manifest_sha256 == two.manifest_sha256
    assert one.tokenizer_sha256 == two.tokenizer_sha256


def test_a_moved_and_touched_copy_is_the_same_data(smoke: Project, tmp_path: Path) -> None:
    shutil.copytree(smoke.data, tmp_path / "moved" / "data", copy_function=shutil.copyfile)
    moved = Project(source=smoke.source, root=tmp_path / "moved")
    one, two = (ready.inputs(project, KEY, "lightning") for project in (smoke, moved))
    assert replace(one, training_cache=Path(), tokenizer=Path(), hub=Path()) == replace(
        two, training_cache=Path(), tokenizer=Path(), hub=Path()
    )


def test_nothing_there_is_named_with_the_command(smoke: Project, tmp_path: Path) -> None:
    empty = Project(source=smoke.source, root=tmp_path)
    lines = ready.missing(empty, KEY, "lightning")
    assert len(lines) == 3
    assert all(line.endswith("run 'harness prepare smoke-lm1b'") for line in lines)
    with pytest.raises(Refused, match="not ready; run 'harness prepare smoke-lm1b'"):
        ready.inputs(empty, KEY, "lightning")
    assert "run 'harness prepare lm1b'" in ready.missing(empty, "lm1b", "lightning")[0]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("layout", ["lightning", "rdlm"])
def test_any_spoilt_file_of_a_training_cache_is_refused(smoke_copy: Project, layout: str) -> None:
    folder = ready.training_cache(smoke_copy, KEY, layout)
    for path in sorted(p for p in folder.rglob("*") if p.is_file() and p.name != "bridge.json"):
        good = path.read_bytes()
        path.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
        with pytest.raises(Refused, match="sha256"):
            ready.inputs(smoke_copy, KEY, layout)
        path.write_bytes(good)
    ready.inputs(smoke_copy, KEY, layout)


def test_a_spoilt_tokenizer_is_refused(smoke_copy: Project) -> None:
    tokenizer = ready.inputs(smoke_copy, KEY, "lightning").tokenizer
    path = tokenizer / "vocab.txt"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(Refused, match=r"vocab\.txt: sha256"):
        ready.inputs(smoke_copy, KEY, "lightning")


def test_a_snapshot_that_leads_out_of_its_repository_is_refused(smoke_copy: Project) -> None:
    tokenizer = ready.inputs(smoke_copy, KEY, "lightning").tokenizer
    path = tokenizer / "vocab.txt"
    outside = path.rename(smoke_copy.root / "vocab.txt")
    path.symlink_to(outside)
    with pytest.raises(Refused, match="leads to"):
        ready.inputs(smoke_copy, KEY, "lightning")


def test_a_forged_bridge_record_does_not_help(smoke_copy: Project) -> None:
    folder = ready.training_cache(smoke_copy, KEY, "lightning")
    record = json.loads((folder / "bridge.json").read_text())
    record["manifest_sha256"] = "0" * 64
    (folder / "bridge.json").write_text(json.dumps(record))
    assert ready.missing(smoke_copy, KEY, "lightning")
    ready.prepare_embedded(smoke_copy, KEY, silent)
    assert ready.missing(smoke_copy, KEY, "lightning") == []


def test_full_distrusts_what_is_remembered(smoke_copy: Project) -> None:
    places = Places.of(smoke_copy)
    found = ready.inputs(smoke_copy, KEY, "lightning")
    shard = next(found.training_cache.glob("*train*/data-*.arrow"))
    digests = Digests(places.digests)
    good = digests.of([shard])[shard]
    shard.write_bytes(shard.read_bytes()[:-1] + b"x")
    # A memory that has been tampered with says that the spoilt file is good.
    from harness.data.digests import _key
    from harness.json_files import publish_json

    publish_json(places.digests, {_key(shard.lstat()): good})
    ready.inputs(smoke_copy, KEY, "lightning")
    with pytest.raises(Refused, match="sha256"):
        ready.inputs(replace(smoke_copy, distrust=True), KEY, "lightning")


def test_preparing_again_does_nothing(smoke: Project) -> None:
    times = {p: p.stat().st_mtime_ns for p in (smoke.data / "processed").rglob("*")}
    ready.prepare_embedded(smoke, KEY, silent)
    assert {p: p.stat().st_mtime_ns for p in (smoke.data / "processed").rglob("*")} == times


def test_only_one_prepares(smoke_copy: Project) -> None:
    from harness.data.locking import only_one

    with (
        only_one(Places.of(smoke_copy).lock(NAME), "this test"),
        pytest.raises(Refused, match="preparing smoke-lm1b: another process is at it"),
    ):
        ready.prepare_embedded(smoke_copy, KEY, silent)


@pytest.mark.parametrize("name", ["added_tokens.json", "folder/deep.json", "link"])
def test_a_file_beside_the_pinned_ones_is_refused(smoke_copy: Project, name: str) -> None:
    snapshot = ready.inputs(smoke_copy, KEY, "lightning").tokenizer
    added = snapshot / name
    added.parent.mkdir(exist_ok=True)
    if name == "link":
        added.symlink_to("vocab.txt")
    else:
        added.write_text("{}")
    with pytest.raises(Refused, match=f"{name}: no pinned file of smoke-bert; remove it"):
        ready.inputs(smoke_copy, KEY, "lightning")
    added.unlink()
    ready.inputs(smoke_copy, KEY, "lightning")


def test_a_hub_dataset_is_not_embedded(smoke: Project) -> None:
    with pytest.raises(Refused, match="not embedded"):
        ready.prepare_embedded(smoke, "lm1b", silent)
    with pytest.raises(Refused, match="run 'harness fetch lm1b'"):
        ready.prepare_dataset(smoke, "lm1b", silent)
    assert ready.is_embedded(smoke, KEY)
    assert not ready.is_embedded(smoke, "owt")


def test_a_run_sees_pinned_snapshots_only(smoke: Project) -> None:
    places = [place for _, place in ready.visible(smoke, "lm1b")]
    assert len(places) == 4
    for place in places:
        repository, what = place.split("/")[1:3]
        assert repository in ("models--bert-base-uncased", "models--gpt2-large")
        assert what in ("refs", "snapshots")
    revision = ready.inputs(smoke, KEY, "lightning").tokenizer_revision
    assert [place for _, place in ready.visible(smoke, KEY)] == [
        "hub/models--smoke-bert/refs",
        f"hub/models--smoke-bert/snapshots/{revision}",
    ]


def test_looking_imports_nothing_heavy(smoke: Project) -> None:
    code = (
        "import sys; from pathlib import Path; from harness.project import Project; "
        "from harness.data import ready; "
        f"p = Project(source=Path({str(smoke.source)!r}), root=Path({str(smoke.root)!r})); "
        f"assert ready.missing(p, {KEY!r}, 'lightning') == []; "
        "heavy = {'numpy', 'pyarrow', 'tokenizers', 'huggingface_hub'} & set(sys.modules); "
        "sys.exit(str(heavy) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("change", ["other", "added", "link"])
def test_a_reference_that_is_not_the_pin_is_refused(smoke_copy: Project, change: str) -> None:
    refs = ready.inputs(smoke_copy, KEY, "lightning").tokenizer.parents[1] / "refs"
    {
        "other": lambda: (refs / "main").write_text("0" * 40),
        "added": lambda: (refs / "v2").write_text((refs / "main").read_text()),
        "link": lambda: (refs / "v2").symlink_to("main"),
    }[change]()
    with pytest.raises(Refused, match="refs/"):
        ready.inputs(smoke_copy, KEY, "lightning")
