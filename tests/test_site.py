"""What a launch needs of its machines is added to the sandbox, and stays out of the identity."""

from pathlib import Path

from run_folders import launch

from harness import places
from harness.plan import Choices
from harness.project import Project
from harness.sandbox import options
from harness.site import ALONE, Rendezvous, Site

PROJECT = Project(source=Path(__file__).parents[1], root=Path("/nonexistent"))
SMOKE = Choices("mdlm", "lm1b", profile="smoke")
TWO = Choices("mdlm", "lm1b", profile="smoke", nodes=2, devices=4, per_device_batch=2)
MEETING = Rendezvous(rank=1, address="192.0.2.1", port=4711, interface="ib0")


def test_alone_nothing_is_added() -> None:
    made = launch(PROJECT, SMOKE)
    assert ALONE.command(made) == list(made.plan.argv)
    assert ALONE.box(made) == made.box()
    assert not made.box().share_network
    assert "--unshare-net" in options(ALONE.box(made), 9)


def test_a_node_of_several_runs_torchrun_of_the_same_command() -> None:
    made = launch(PROJECT, TWO)
    python, program, *words = Site(rendezvous=MEETING).command(made)
    assert (python, program) == (places.PYTHON, f"{places.INSIDE}/torchrun.py")
    assert words[-len(made.plan.argv) + 1 :] == list(made.plan.argv[1:])
    assert words[: 1 - len(made.plan.argv)] == [
        *("--nnodes=2", "--node-rank=1", "--master-addr=192.0.2.1", "--master-port=4711"),
        *("--nproc-per-node=4", "--max-restarts=0"),
    ]


def test_several_nodes_share_the_hosts_network_and_are_still_offline() -> None:
    made = launch(PROJECT, TWO)
    box = Site(rendezvous=MEETING, variables={"CUDA_VISIBLE_DEVICES": "2,3"}).box(made)
    assert "--unshare-net" not in options(box, 9)
    assert made.identity.document["network"] == "fabric"
    assert box.variables["CUDA_VISIBLE_DEVICES"] == "2,3"
    assert box.variables["GLOO_SOCKET_IFNAME"] == "ib0"
    assert {box.variables[name] for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE")} == {"1"}
    assert [mount.target for mount in box.mounts].count(places.INSIDE) == 1


def test_no_fact_of_a_site_is_in_the_identity() -> None:
    made = launch(PROJECT, TWO)
    text = str(made.identity.document)
    assert "SOCKET_IFNAME" not in text and "torchrun" not in text
