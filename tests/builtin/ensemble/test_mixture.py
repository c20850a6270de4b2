"""The plan: each window once, the chat's share of what is trained on, and every check by name."""

import json

import ensemble_runs
import numpy as np
import pytest
from ensemble import batches, mixture, stores, windows
from ensemble.settings import Refusal


@pytest.fixture
def made(root):
    config = ensemble_runs.settings(root, "x")
    found = stores.load(
        root / "stores", config["data"]["manifest_sha256"], ensemble_runs.CONTEXT, 23
    )
    indexed = windows.index(found.of("train"), ensemble_runs.CONTEXT)
    return config, indexed, mixture.build(indexed, config, found.sha256, 77)


def build(made, **changes):
    config, indexed, plan = made
    for name, value in changes.items():
        config = ensemble_runs.changed(config, name.replace("__", "."), value)
    return mixture.build(indexed, config, plan.record["made_from"]["stores_sha256"], 77)


@pytest.mark.parametrize("fraction", [0.0, 0.1, 0.25, 0.3])
@pytest.mark.parametrize("batch", [1, 7, 8, 1000])
def test_every_window_of_an_epoch_is_seen_exactly_once(made, fraction, batch) -> None:
    _, indexed, _ = made
    plan = build(made, mixture__chat_fraction=fraction, batch__windows=batch)
    for epoch in plan.epochs:
        parts = [mixture.batch_of(epoch, n, batch)[0] for n in range(epoch.updates(batch))]
        seen = np.concatenate(parts)
        assert len(np.unique(seen)) == len(seen)
        assert set(indexed.of(0)) <= set(seen)
        assert all(len(part) == batch for part in parts[:-1])
        chat = epoch.kept[epoch.domain == 1]
        wanted = fraction / (1 - fraction) * epoch.kept[epoch.domain == 0].sum()
        assert wanted <= chat.sum() < wanted + max(chat.max(initial=0), 1)


def test_epochs_differ_and_follow_from_the_seed(made) -> None:
    _, _, plan = made
    first, second = plan.epochs
    assert first.order.tolist() != second.order.tolist()
    assert build(made).sha256 == plan.sha256
    other = mixture.build(made[1], made[0], "0" * 64, 78)
    assert other.epochs[0].order.tolist() != first.order.tolist()


def test_batches_hold_windows_of_like_length(made) -> None:
    def spread(pool):
        plan = build(made, batch__pool=pool)
        epoch = plan.epochs[0]
        batches = [mixture.batch_of(epoch, n, 8)[1] for n in range(epoch.updates(8) - 1)]
        return np.mean([np.ptp(kept) for kept in batches])

    assert spread(1000) < 0.4 * spread(1)


def test_a_sample_of_which_nothing_counts_has_a_shape(made) -> None:
    _, indexed, plan = made
    samples, kept = mixture.batch_of(plan.epochs[0], 0, 1)
    tokens, labels, valid = batches.collate(indexed, samples, kept * 0, 22)
    assert tokens.shape == labels.shape == valid.shape == (1, 1)
    assert not valid.any()


def test_too_little_chat_is_refused(made) -> None:
    with pytest.raises(Refusal, match=r"chat_fraction=0.95: needs \d+ chat targets an epoch, the"):
        build(made, mixture__chat_fraction=0.95)


def changed_epoch(folder, change):
    """Change an epoch's samples, and its digest with them."""
    record = json.loads((folder / "plan.json").read_text())
    path = folder / record["epochs"][0]["file"]
    order = np.frombuffer(path.read_bytes(), "<u4").copy()
    raw = change(order).astype("<u4").tobytes()
    path.write_bytes(raw)
    import hashlib

    record["epochs"][0]["sha256"] = hashlib.sha256(raw).hexdigest()
    (folder / "plan.json").write_text(json.dumps(record))


def changed_record(folder, change):
    record = json.loads((folder / "plan.json").read_text())
    change(record)
    (folder / "plan.json").write_text(json.dumps(record))


def doubled(order):
    order[1] = order[0]
    return order


def strange(order):
    order[0] = 10_000
    return order


FAULTS = {
    "schema": (lambda f: changed_record(f, lambda r: r.update(schema_version=2)), "schema version"),
    "stores": (
        lambda f: changed_record(f, lambda r: r["made_from"].update(stores_sha256="0")),
        "was made with stores_sha256 0",
    ),
    "seed": (
        lambda f: changed_record(f, lambda r: r["made_from"].update(seed=9)),
        "was made with seed 9, this run has 1",
    ),
    "epochs": (
        lambda f: changed_record(f, lambda r: r["epochs"].pop()),
        "incomplete, 1 of 2 epochs",
    ),
    "many": (
        lambda f: changed_record(f, lambda r: r.update(epochs=r["epochs"] * 11)),
        "22 epochs; a plan has 1 to 20",
    ),
    "file": (
        lambda f: changed_record(f, lambda r: r["epochs"][0].update(file="../x")),
        "epoch 1: its file is ../x",
    ),
    "missing": (lambda f: (f / "plan" / "epoch-2.u32").unlink(), "the plan's epoch is missing"),
    "bytes": (
        lambda f: (f / "plan" / "epoch-1.u32").write_bytes(b"1234"),
        r"epoch-1.u32: sha256 \w+, plan.json says",
    ),
    "outside": (lambda f: changed_epoch(f, strange), "window 10000, the stores have"),
    "twice": (lambda f: changed_epoch(f, doubled), r"epoch 1: window \d+ stands in it twice"),
    "lacking": (lambda f: changed_epoch(f, lambda o: o[:-4]), r"old-web window \d+ is not in it"),
    "updates": (
        lambda f: changed_record(f, lambda r: r["epochs"][0].update(updates=3)),
        "epoch 1: updates 3, its samples make",
    ),
    "targets": (
        lambda f: changed_record(f, lambda r: r["epochs"][1]["targets"].update(chat=3)),
        "epoch 2: targets",
    ),
    "windows": (
        lambda f: changed_record(f, lambda r: r["epochs"][1]["windows"].update(chat=3)),
        "epoch 2: windows",
    ),
    "nothing": (lambda f: (f / "plan.json").write_text("{"), "no readable plan"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_of_a_plan_has_its_own_message(made, tmp_path, fault) -> None:
    config, indexed, plan = made
    mixture.write(plan, tmp_path)
    sha256 = plan.record["made_from"]["stores_sha256"]
    assert mixture.read(tmp_path, indexed, config, sha256, 77).sha256 == plan.sha256
    spoil, said = FAULTS[fault]
    spoil(tmp_path)
    with pytest.raises(Refusal, match=said):
        mixture.read(tmp_path, indexed, config, sha256, 77)


def test_a_plan_with_another_share_of_chat_is_refused(made, tmp_path) -> None:
    config, indexed, _ = made
    plan = build(made, mixture__chat_fraction=0.1)
    mixture.write(plan, tmp_path)
    changed_record(tmp_path, lambda r: r["made_from"].update(chat_fraction=0.25))
    sha256 = plan.record["made_from"]["stores_sha256"]
    with pytest.raises(Refusal, match=r"epoch 1: chat is 0.1\d+ of its targets, wanted is 0.25"):
        mixture.read(tmp_path, indexed, config, sha256, 77)
