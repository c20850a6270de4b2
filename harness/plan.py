"""A launch as a value: what would run, on what, with which inputs. Nothing is done here.

A plan comes from a recipe and a user's choices. It holds only paths inside the sandbox in its
argument list and variables, and host paths only as the sources of mounts.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness import adapters, places
from harness.argv import argument_list
from harness.data import offline, pins
from harness.data.places import Places
from harness.data.ready import missing, visible
from harness.errors import Refused
from harness.identity import one_or_list
from harness.project import Project
from harness.recipes import Catalogue, Recipe, load
from harness.sandbox import Mount
from harness.sources import Mirror, Source, look, pin
from harness.teacher import Teacher, find_all

# An offline Hub: no variable here depends on the host.
OFFLINE = {
    **offline.VARIABLES,
    "HF_DATASETS_CACHE": f"{places.WORK}/datasets",
    "HF_HOME": places.HUGGINGFACE,
    "WANDB_MODE": "disabled",
}
PYTHON = {
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
    "PYTHONPATH": f"{places.SOURCE}:{places.ADAPTERS}",
    "PYTHONUNBUFFERED": "1",
}


@dataclass(frozen=True)
class Choices:
    """What a user may choose for one launch; None takes the recipe's own value."""

    model: str
    dataset: str
    profile: str = "paper"
    devices: int | None = None
    nodes: int = 1
    per_device_batch: int | None = None
    seed: int = 42
    resume: bool = True
    teachers: tuple[Path, ...] = ()
    teacher_weights: str | None = None
    student_init: str | None = None
    locked: Mapping[str, str] = field(default_factory=dict)
    name: str | None = None
    mirrors: Mapping[str, Mirror] = field(default_factory=dict)


@dataclass(frozen=True)
class Input:
    """A declared input of a launch: where it is, and what is missing of it (empty: nothing)."""

    name: str
    path: Path
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plan:
    """One launch, fully decided."""

    recipe: Recipe
    choices: Choices
    devices: int
    nodes: int
    per_device_batch: int
    accumulation: int
    student_init: str | None
    source: Source
    teachers: tuple[Teacher, ...]
    overrides: tuple[str, ...]
    argv: tuple[str, ...]
    variables: Mapping[str, str]
    mounts: tuple[Mount, ...]
    inputs: tuple[Input, ...]
    run: Path

    @property
    def effective_batch(self) -> int:
        """Examples a step: equal to the recipe's global batch, or the plan was refused."""
        return self.devices * self.nodes * self.per_device_batch * self.accumulation

    @property
    def missing(self) -> tuple[str, ...]:
        """One line for each input that is not ready."""
        return tuple(f"{entry.name}: {line}" for entry in self.inputs for line in entry.missing)

    def lacks(self, name: str) -> bool:
        """Whether something is missing of the input `name`."""
        return any(entry.missing for entry in self.inputs if entry.name == name)

    def record(self) -> dict[str, object]:
        """The plan as JSON, for `plan --json`."""
        return {
            "schema_version": 1,
            "recipe": self.recipe.record(),
            "seed": self.choices.seed,
            "devices": self.devices,
            "nodes": self.nodes,
            "per_device_batch": self.per_device_batch,
            "accumulation": self.accumulation,
            "effective_batch": self.effective_batch,
            "student_init": self.student_init,
            "source": {
                "name": self.source.name,
                "commit": self.source.commit,
                "pinned": self.source.pinned,
                "absent": list(self.source.absent),
                "near": self.source.near,
            },
            "teacher": one_or_list(teacher.record() for teacher in self.teachers),
            "argv": list(self.argv),
            "working_folder": places.OUTPUT,
            "variables": dict(self.variables),
            "mounts": [
                {"source": str(m.source), "target": m.target, "writable": m.writable}
                for m in self.mounts
            ],
            "inputs": [
                {"name": i.name, "path": str(i.path), "missing": list(i.missing)}
                for i in self.inputs
            ],
            "run": str(self.run),
        }


def plan(project: Project, choices: Choices, catalogue: Catalogue | None = None) -> Plan:
    """Decide a launch. Raises Refused for any choice the recipe does not allow."""
    catalogue = catalogue or load(project.source)
    recipe = catalogue.recipe(choices.model, choices.dataset, choices.profile)
    _check_locked(catalogue, recipe, choices.locked)
    devices = _positive("devices", choices.devices, recipe.choices["devices"])
    nodes = _positive("nodes", choices.nodes, 1)
    per_device = _positive(
        "per-device batch", choices.per_device_batch, recipe.choices["per_device_batch"]
    )
    if not 0 <= choices.seed < 1 << 32:
        raise Refused(f"seed {choices.seed}: must lie in 0 to 2^32 - 1")
    accumulation = _accumulation(recipe.number("global_batch"), devices, nodes, per_device)
    student_init = _student_init(catalogue, recipe, choices.student_init)
    source = _source(project, recipe, choices)
    teachers = _teachers(project, catalogue, recipe, choices)
    argv = argument_list(
        recipe.record(),
        devices=devices,
        nodes=nodes,
        per_device_batch=per_device,
        accumulation=accumulation,
        seed=choices.seed,
        resume=choices.resume,
        student_init=student_init,
    )
    name = _run_name(recipe, choices, source, devices, nodes, per_device)
    run = project.runs / (name if choices.name is None else _plain(choices.name))
    inputs = _inputs(project, recipe, source, teachers)
    if "repo" in (start := catalogue.tables["student_inits"].get(student_init, {})):
        inputs = (*inputs, _start(project, recipe, start))
    return Plan(
        recipe=recipe,
        choices=choices,
        devices=devices,
        nodes=nodes,
        per_device_batch=per_device,
        accumulation=accumulation,
        student_init=student_init,
        source=source,
        teachers=teachers,
        overrides=argv[2:],
        argv=argv,
        variables={**OFFLINE, **PYTHON, "PYTHONPATH": _imports(recipe), **recipe.variables},
        mounts=_mounts(project, recipe, source, teachers, run),
        inputs=inputs,
        run=run,
    )


def _positive(name: str, chosen: int | None, default: str | float) -> int:
    value = int(default) if chosen is None else chosen
    if value < 1:
        raise Refused(f"{name} {value}: must be a positive whole number")
    return value


def _plain(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}", name):
        raise Refused(f"name {name!r}: must be one plain folder name (letters, digits, . _ -)")
    return name


def _accumulation(global_batch: int, devices: int, nodes: int, per_device: int) -> int:
    accumulation, rest = divmod(global_batch, devices * nodes * per_device)
    if rest or accumulation < 1:
        raise Refused(
            f"global batch {global_batch}: is no multiple of {devices} devices x {nodes} nodes x "
            f"{per_device} per device; choose --devices, --nodes or --per-device-batch to divide it"
        )
    return accumulation


def _check_locked(catalogue: Catalogue, recipe: Recipe, given: Mapping[str, str]) -> None:
    for name, value in given.items():
        if name not in catalogue.tables["locked"]:
            raise Refused(f"{name}: not a locked field of a recipe")
        if name not in recipe.fields:
            raise Refused(f"{name} {value}: {recipe.model} has no such setting; leave it out")
        locked = recipe.fields[name]
        try:
            equal = value == locked if isinstance(locked, str) else float(value) == locked
        except ValueError:
            equal = False
        if not equal:
            raise Refused(
                f"{name} {value}: the recipe {recipe.model} on {recipe.dataset} has {locked}; "
                "it is locked, so leave it out"
            )


def _student_init(catalogue: Catalogue, recipe: Recipe, chosen: str | None) -> str | None:
    default = recipe.choices.get("student_init")
    if default is None:
        if chosen is not None:
            raise Refused(f"student init {chosen}: only Di4C recipes have one; leave it out")
        return None
    value = str(default) if chosen is None else chosen
    if value not in catalogue.tables["student_inits"]:
        options = ", ".join(catalogue.tables["student_inits"])
        raise Refused(f"student init {value}: unknown; one of {options}")
    fits = catalogue.tables["student_inits"][value].get("datasets", (recipe.dataset,))
    if recipe.dataset not in fits:
        raise Refused(
            f"student init {value}: a model for {', '.join(fits)}, whose vocabulary is not that of "
            f"{recipe.dataset}; use another"
        )
    return value


def _source(project: Project, recipe: Recipe, choices: Choices) -> Source:
    for name in choices.mirrors:
        pin(project, name)  # refused where there is no such upstream
    return look(project, recipe.source, choices.mirrors)


def _teachers(
    project: Project, catalogue: Catalogue, recipe: Recipe, choices: Choices
) -> tuple[Teacher, ...]:
    families = recipe.teacher_families
    if not families:
        given = {"teacher": next(iter(choices.teachers), None), "weights": choices.teacher_weights}
        for option, value in given.items():
            if value is not None:
                name = "teacher" if option == "teacher" else "teacher weights"
                raise Refused(f"{name} {value}: {recipe.model} has no teacher; leave it out")
        return ()
    if not choices.teachers:
        a_teacher = "a teacher of family" if len(families) == 1 else "teachers of families"
        raise Refused(
            f"{recipe.model} on {recipe.dataset}: needs {a_teacher} {', '.join(families)}; give "
            f"--teacher FILE or RUN{'' if len(families) == 1 else ' for each'}, or --with-teacher "
            f"to train {', '.join(catalogue.teachers(recipe))} first"
        )
    return find_all(project, recipe, choices.teachers, choices.teacher_weights)


def _imports(recipe: Recipe) -> str:
    """Where a trainer's modules are: its packages, its tree, and the adapters beside it."""
    packages = (f"{places.SOURCE}/{name}" for name in recipe.packages)
    at_start = [f"{places.ADAPTERS}/cpu"] if "cpu" in recipe.adapters else []
    return ":".join((*packages, places.SOURCE, places.ADAPTERS, *at_start))


def _inputs(
    project: Project, recipe: Recipe, source: Source, teachers: tuple[Teacher, ...]
) -> tuple[Input, ...]:
    data = tuple(missing(project, recipe.data, recipe.data_layout))
    return (
        Input("source", source.path, source.missing),
        Input("data", project.data, data),
        *(Input("teacher", teacher.file, teacher.missing) for teacher in teachers),
    )


def _start(project: Project, recipe: Recipe, start: Mapping[str, str]) -> Input:
    """The published model that a student starts at: pinned, for this data, and fetched."""
    repo, branch, known = start["repo"], start["branch"], pins.load(project.source)
    models = (known.model(name) for name in known.dataset(recipe.data).models)
    model = next((model for model in models if model.repo == repo), None)
    if model is None:
        line = (
            f"{repo} at {branch} is not pinned; run 'harness pin {repo} --revision {branch}' and "
            f"name it among the models of {recipe.data} in pins.json"
        )
        return Input("student's start", project.data, (line,))
    file = Places.of(project).snapshot("model", repo, model.revision) / start["file"]
    gone = () if file.is_file() else (f"{file} does not exist; run 'harness fetch {recipe.data}'",)
    return Input("student's start", file, gone)


def _mounts(
    project: Project, recipe: Recipe, source: Source, teachers: tuple[Teacher, ...], run: Path
) -> tuple[Mount, ...]:
    data = Places.of(project)
    hub = visible(project, recipe.data)
    mounts = [
        Mount(source.path, places.SOURCE),
        *adapters.mounts(project, recipe.adapters),
        Mount(data.training(recipe.data_layout, recipe.processed), places.DATA),
        *(Mount(path, f"{places.HUGGINGFACE}/{name}") for path, name in hub),
        Mount(run / "output", places.OUTPUT, writable=True),
    ]
    # Where the recipe adapts its teacher, a ready launch has the adapted file in this one's place.
    return (*mounts, *(Mount(teacher.file, teacher.target) for teacher in teachers))


def _run_name(
    recipe: Recipe, choices: Choices, source: Source, devices: int, nodes: int, per_device: int
) -> str:
    """A name a reader knows the launch by; what is not the recipe's own choice is added."""
    parts = [recipe.model, recipe.dataset, recipe.profile, f"seed{choices.seed}"]
    own = (recipe.choices["devices"], 1, recipe.choices["per_device_batch"])
    if (devices, nodes, per_device) != own:
        parts.append(f"{nodes}x{devices}x{per_device}")
    if choices.student_init not in (None, recipe.choices.get("student_init")):
        parts.append(str(choices.student_init))
    if source.near:
        parts.append(f"near-{str(source.commit)[:12]}")
    return "-".join(parts)
