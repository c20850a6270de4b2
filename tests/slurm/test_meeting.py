"""Nodes find each other by files, and none trains another launch or waits for one that failed."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.errors import HarnessError, Refused
from harness.json_files import publish_json
from harness.run import TrainingFailed
from harness.site import Rendezvous
from harness.slurm import commands, meeting
from harness.slurm.meeting import Place, join_meeting, open_meeting

ONE, OTHER = "1" * 64, "2" * 64


def never() -> bool:
    return False


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meeting, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(commands, "node_address", lambda node: "127.0.0.1")


@pytest.fixture
def places(tmp_path: Path) -> list[Place]:
    return [Place(tmp_path, "7", 0, ("a", "b", "c"), rank) for rank in range(3)]


def beside(*calls: Callable[[], object]) -> list[object]:
    """What each call returned or raised, all running at once."""
    found: list[object] = [None] * len(calls)

    def one(index: int) -> None:
        try:
            found[index] = calls[index]()
        except HarnessError as error:
            found[index] = error

    threads = [threading.Thread(target=one, args=(index,)) for index in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return found


def test_all_meet_at_the_first_node(places: list[Place]) -> None:
    first, *others = beside(
        lambda: open_meeting(places[0], ONE, None, never),
        lambda: join_meeting(places[1], ONE, None, never),
        lambda: join_meeting(places[2], ONE, "lo", never),
    )
    assert isinstance(first, tuple)
    where, members = first
    assert [member["name"] for member in members] == ["b", "c"]
    assert (where.rank, where.address, where.interface) == (0, "127.0.0.1", "lo")
    assert others == [Rendezvous(rank, "127.0.0.1", where.port, "lo") for rank in (1, 2)]
    assert where.variables["GLOO_SOCKET_IFNAME"] == where.variables["NCCL_SOCKET_IFNAME"] == "lo"


def test_a_node_with_another_launch_is_refused(places: list[Place]) -> None:
    def opened() -> object:
        try:
            return open_meeting(places[0], ONE, None, never)
        except HarnessError as error:
            places[0].leave(error, stopped=False)
            raise

    first, *others = beside(
        opened,
        lambda: join_meeting(places[1], ONE, None, never),
        lambda: join_meeting(places[2], OTHER, None, never),
    )
    assert isinstance(first, Refused)
    assert "node c: would train another launch than a" in str(first)
    for other in others:
        assert isinstance(other, TrainingFailed)
        assert other.exit_code == 2
        assert str(other).startswith("node a: node c: would train another launch")


def test_a_node_that_fails_is_waited_for_by_none(places: list[Place]) -> None:
    places[1].leave(Refused("data: missing"), stopped=False)
    places[2].leave(HarnessError("a disk is full"), stopped=False)  # the first reason counts
    with pytest.raises(TrainingFailed, match="^node b: data: missing$") as caught:
        open_meeting(places[0], ONE, None, never)
    assert caught.value.exit_code == 2


def test_a_node_that_was_stopped_is_no_trouble(places: list[Place]) -> None:
    places[1].leave(TrainingFailed("interrupted", 143), stopped=True)
    places[2].leave(None, stopped=False)
    assert places[0].trouble() is None
    assert places[0].lost() is None


def test_a_node_that_says_nothing_is_lost(
    places: list[Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(meeting, "LOST_SECONDS", 0.05)
    places[1].leave(None, stopped=False)
    assert places[0].lost() == "c"


def test_a_wait_ends_when_slurm_stops_the_job(places: list[Place]) -> None:
    with pytest.raises(TrainingFailed, match="stopped before its nodes met") as caught:
        open_meeting(places[0], ONE, None, lambda: True)
    assert caught.value.exit_code == 143


def test_a_wait_has_an_end(places: list[Place], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meeting, "SECONDS", 0)
    with pytest.raises(HarnessError, match="not there after 0 minutes; do all nodes see it"):
        join_meeting(places[1], ONE, None, never)


def test_an_earlier_attempts_files_are_not_this_ones(places: list[Place], tmp_path: Path) -> None:
    places[1].leave(HarnessError("earlier"), stopped=False)
    again = Place(tmp_path, "7", 1, ("a", "b", "c"), 0)
    assert again.trouble() is None


def test_a_record_that_is_none_is_refused(places: list[Place]) -> None:
    publish_json(places[0].file("meeting"), {"address": "x"})
    with pytest.raises(Refused, match="schema meeting"):
        join_meeting(places[1], ONE, None, never)
