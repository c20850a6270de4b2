"""The papers' own code through the whole harness: chains, composition, models of full size.

Runs where HARNESS_MIRRORS names a folder of mirrors of the upstreams. A mirror that lacks the
pinned commit gives its newest, which the harness marks as evidence of a second class.
"""

import json
import os
import resource
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import gpt2_files
import pytest
import yaml
from command_line import harness

from harness import launch, mirrors, nix, places, sandbox, sources
from harness.checkpoint import read
from harness.compose import compose
from harness.data import pins, ready
from harness.data.progress import silent
from harness.errors import Refused
from harness.plan import Choices, Plan, plan
from harness.project import Project
from harness.recipes import load
from harness.sandbox import Box, Mount
from harness.sources import Mirror

SOURCE = Path(__file__).parents[2]
FOLDER = os.environ.get("HARNESS_MIRRORS")
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(not FOLDER, reason="HARNESS_MIRRORS names no folder of upstream mirrors"),
]
PAIRS = list(load(SOURCE).pairs())
UPSTREAMS = sorted(sources.pins(Project(SOURCE, SOURCE)))
CLAIMS_OF_THE_PIN = {"source commit"}  # what cannot be checked of another commit


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return Project(source=SOURCE, root=tmp_path_factory.mktemp("upstreams"))


def options(project: Project) -> dict[str, Mirror]:
    """For each mirror that lacks the pinned commit, the one it has."""
    found = {}
    for name, pin in sources.pins(project).items():
        place = Path(str(FOLDER), f"{pin.owner}+{pin.repo}", "repo")
        if _git(place, "cat-file", "-e", f"{pin.commit}^{{commit}}") is None:
            found[name] = Mirror(place, _git(place, "rev-parse", "HEAD"))
    return found


def _git(place: Path, *words: str) -> str | None:
    command = ["git", "--git-dir", str(place), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return None if done.returncode else done.stdout.strip()


def words(given: dict[str, Mirror]) -> Iterator[str]:
    for name, mirror in given.items():
        yield from ("--mirror", f"{name}={mirror.place}@{mirror.commit}")


@pytest.mark.parametrize("model", ["duo_dcd", "mdlm_sdtt"])
def test_a_chain_on_the_real_code_is_audited(project: Project, model: str) -> None:
    near = options(project)
    train = ("train", model, "lm1b", "--profile", "conform", "--with-teacher", "--json")
    told = json.loads(harness(project.root, *train, *words(near)).stdout)
    source = load(SOURCE).recipe(model, "lm1b", "conform").source
    done = harness(project.root, "audit", told["run"], "--json", check=2 if source in near else 0)
    verdicts = {claim["name"]: claim["verdict"] for claim in json.loads(done.stdout)["claims"]}
    others = {name for name, verdict in verdicts.items() if verdict != "holds"}
    assert others == (CLAIMS_OF_THE_PIN if source in near else set())
    assert any(name.startswith("teacher ") for name in verdicts)


def test_the_authors_code_measures_what_it_trained(project: Project, tmp_path: Path) -> None:
    """By its own two evaluations; a small GPT-2 lies where the published one would."""
    judged = gpt2_files.pinned(tmp_path / "source", project.root, length=1024)
    train = ("train", "mdlm", "lm1b", "--profile", "conform", "--json")
    run = json.loads(harness(project.root, *train, source=judged.source).stdout)["run"]
    found = {}
    for name in ("validation-perplexity", "own-generative-perplexity"):
        command = ("evaluate", run, name, "--json")
        done = json.loads(harness(project.root, *command, source=judged.source).stdout)
        found[done["metric"]] = done["value"]
        again = harness(project.root, *command[:-1], source=judged.source)
        assert "skipped" in again.stdout
    assert found["perplexity_bound"] > 1
    assert found["generative_perplexity"] > gpt2_files.END  # it knows nothing of text
    shutil.rmtree(project.root / "data" / "raw" / "huggingface" / "hub" / "models--gpt2-large")
    refused = harness(project.root, "evaluate", run, name, "--full", check=2).stderr
    assert "run 'harness fetch gpt2-large'" in refused


def planned(project: Project, model: str, dataset: str, profile: str) -> Plan:
    """A launch, with any file as the teacher where it has one; what is missing is not asked."""
    catalogue = load(SOURCE)
    taught = len(catalogue.teachers(catalogue.recipe(model, dataset, profile)))
    choices = Choices(
        model,
        dataset,
        profile=profile,
        mirrors=options(project),
        teachers=(project.root / "teacher.ckpt",) * taught,
    )
    return plan(project, choices, catalogue)


@pytest.mark.parametrize("name", UPSTREAMS)
def test_recipes_compose_as_by_the_upstream_itself(project: Project, name: str) -> None:
    pairs = [pair for pair in PAIRS if load(SOURCE).recipe(*pair).source == name]
    launches = [planned(project, *pair, "paper") for pair in pairs]
    source = mirrors.realise(project, name, options(project), lambda _: None)
    environment = nix.realise(project, launches[0].recipe.environment)
    launches = [launch.sourced(launched, source) for launched in launches]
    composed = []
    for launched in launches:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        if source.near and launched.recipe.model == "fmlm":
            with pytest.raises(Refused, match=r"fmlm on .* does not compose: .*'algo/fmlm'"):
                compose(project, launched, environment)
            continue
        config = compose(project, launched, environment)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        composed.append((launched, config))
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        assert spent < 1, f"composing took {spent:.2f} s of CPU"
    theirs = printed([launched for launched, _ in composed], environment)
    for (launched, ours), text in zip(composed, theirs, strict=True):
        assert ours.decode().strip() == text.strip(), launched.recipe.model


# Its imports take the most of a minute, so one process is asked for every configuration.
PRINTS = """
import contextlib, io, json, sys
entry, lists = sys.argv[1], json.load(sys.stdin)
code, texts = compile(open(entry).read(), entry, "exec"), []
for words in [lists[0], *lists]:
    sys.argv = [entry, *words, "--cfg", "job", "--resolve"]
    with contextlib.redirect_stdout(io.StringIO()) as text:
        main() if "main" in globals() else exec(code)  # as the main program: it runs
    texts.append(text.getvalue())
del texts[0]  # with what its imports say
json.dump(texts, sys.stdout)
"""


def printed(launches: list[Plan], environment: nix.Environment) -> list[str]:
    """What the upstream's own program prints of its configuration, launch by launch."""
    first = launches[0]
    code = tuple(mount for mount in first.mounts if sources.is_code(mount))
    box = Box(
        base=environment.base.path,
        closure=environment.closure,
        mounts=(Mount(environment.path, places.ENVIRONMENT), *code),
        variables=first.variables,
        cwd=places.OUTPUT,
        tmpfs=("/tmp", places.WORK, places.OUTPUT),
        hidden=sources.hidden(first.mounts, first.recipe.source),
    )
    entry = load(SOURCE).tables["sources"][first.recipe.source]["entrypoint"]
    command = [places.PYTHON, "-c", PRINTS, f"{places.SOURCE}/{entry}"]
    asked = json.dumps([list(launched.overrides) for launched in launches])
    done = sandbox.run(box, command, input=asked.encode())
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    found: list[str] = json.loads(done.stdout)
    return found


# What a paper's own launch cannot have here: a GPU, its batch, its million steps.
HERE = (
    "trainer.accelerator=cpu",
    "trainer.precision=32",  # no CPU of this kind multiplies bfloat16 in bearable time
    "trainer.devices=1",
    "trainer.max_steps=2",
    "trainer.accumulate_grad_batches=1",
    "trainer.num_sanity_val_steps=0",
    "trainer.limit_val_batches=0",
    "loader.global_batch_size=2",
    "loader.eval_global_batch_size=2",
    "loader.batch_size=2",
    "loader.eval_batch_size=2",
    "loader.num_workers=1",
    "callbacks.checkpoint_every_n_steps.every_n_train_steps=2",
)


@pytest.mark.parametrize("model", ["mdlm", "duo"])
def test_the_model_of_the_paper_takes_two_steps(project: Project, model: str) -> None:
    """Twelve blocks, from the paper recipe's own list, but for HERE, data and tokenizer."""
    small, paper = (planned(project, model, "lm1b", profile) for profile in ("conform", "paper"))
    data = pins.load(SOURCE).dataset(small.recipe.data)
    ready.prepare_embedded(project, data.key, silent)
    small = planned(project, model, "lm1b", "conform")
    tokenizer = next(word for word in small.argv if "tokenizer_name_or_path=" in word)
    snapshot = tokenizer.partition("=")[2]
    own = [word for word in paper.argv if not word.startswith(("data.tokenizer", "eval.gen_ppl"))]
    given = (*HERE, tokenizer, f"eval.gen_ppl_eval_model_name_or_path={snapshot}")
    argv = (*own, *given)
    real = replace(small, argv=argv, overrides=argv[2:], run=project.runs / f"{model}-unshrunk")
    output = real.run / "output"
    output.mkdir(parents=True)
    outputs = {places.OUTPUT: Mount(output, places.OUTPUT, writable=True)}
    real = replace(real, mounts=tuple(outputs.get(m.target, m) for m in real.mounts))
    found = launch.ready_launch(project, real, lambda _: None)
    config = yaml.safe_load(found.config)
    assert (config["model"]["n_blocks"], config["model"]["hidden_size"]) == (12, 768)
    done = sandbox.run(found.box(), list(argv))
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    report = read(project, found.environment, output / "checkpoints" / "last.ckpt")
    assert report.step == 2
    assert report.spoilt == ()
    blocks = {
        t.name.split("blocks.")[1].split(".")[0] for t in report.tensors if ".blocks." in t.name
    }
    assert len(blocks) == 12
