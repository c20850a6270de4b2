"""`harness show`: a recipe beside its published list, and why they differ."""

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

import click

from harness.cli.saying import say, say_lines
from harness.project import Project
from harness.recipes import Catalogue, Recipe, load

_WIDEST = 64  # of the published column: what is longer has the launched one below it
_LINE = 100


@dataclass(frozen=True)
class Row:
    """An override as published and as launched ("" where it is not), and what changed it."""

    published: str
    launched: str
    changed_by: str = ""


@click.command()
@click.argument("model")
@click.argument("dataset")
@click.option("--profile", default="paper", show_default=True)
@click.pass_obj
def command(project: Project, model: str, dataset: str, profile: str) -> None:
    """Show the published override list of MODEL on DATASET beside the launched one, and why."""
    catalogue = load(project.source)
    recipe = catalogue.recipe(model, dataset, profile)
    evidence = str(recipe.fields["evidence"])
    say(f"{recipe.title} on {dataset}, profile {profile}; published: {evidence}")
    say_lines(f"  {catalogue.tables['evidence'][evidence]}\n")
    shown = [Row("published", "launched"), *rows(catalogue, recipe)]
    width = min(_WIDEST, max(len(row.published) for row in shown))
    for row in shown:
        say_lines(line(row, width))
    for name, value in recipe.variables.items():
        say(f"$ {name}={value}   [profile {profile}]")
    for deviation in recipe.deviations:
        why = f"[{deviation.name}] {deviation.reason} ({deviation.evidence})"
        say_lines("\n" + textwrap.fill(why, _LINE, subsequent_indent="  "))
    for mismatch in catalogue.mismatches(model, dataset):
        told = "Published: {recipe}. The upstream's own: {upstream} ({evidence}).".format(
            **mismatch
        )
        say_lines("\n" + textwrap.fill(told, _LINE, subsequent_indent="  "))


def rows(catalogue: Catalogue, recipe: Recipe) -> Iterator[Row]:
    """The program and each override, in the published order, then what was added.

    Of two settings of one key the later one counts, as for Hydra.
    """
    profile = f"profile {recipe.profile}"
    by_profile = [(override, profile) for override in recipe.additions]
    by_need = [(o, deviation.name) for deviation in recipe.deviations for o in deviation.overrides]
    later = {_key(override): (override, by) for override, by in [*by_need, *by_profile]}
    replaced = next((d.name for d in recipe.deviations if d.entrypoint), "")
    program = catalogue.tables["sources"][recipe.upstream]["entrypoint"]
    yield Row(program if replaced else recipe.entrypoint, recipe.entrypoint, replaced)
    for published, listed in zip(recipe.published, recipe.listed, strict=True):
        launched, by = later.pop(_key(published), (listed, profile))
        yield Row(published, launched, "" if launched == published else by)
    for override, by in later.values():
        yield Row("", override, by)


def line(row: Row, width: int) -> str:
    """A row for people: `~` marks what is changed, `+` what is added."""
    mark = " " if not row.changed_by else "~" if row.published else "+"
    launched = row.launched if row.published != row.launched else "="
    by = f"   [{row.changed_by}]" if row.changed_by else ""
    gap = "\n" + " " * (width + 4) if len(row.published) > width else "  "
    return f"{mark} {row.published:<{width}}{gap}{launched}{by}"


def _key(override: str) -> str:
    return override.partition("=")[0].lstrip("+~")
