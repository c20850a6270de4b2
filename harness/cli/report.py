"""`harness report`: runs, verdicts, curves and published figures as one page."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.arguments import RUN, Place
from harness.cli.distrust import full_option
from harness.cli.saying import note, say_lines
from harness.project import Project

if TYPE_CHECKING:
    from harness.audit import Audit

FORMATS = {".html": "html", ".md": "md"}


@click.command()
@click.argument("run", type=RUN)
@click.option(
    "-o",
    "--output",
    type=Place(dir_okay=False),
    help="Default: standard output.",
)
@click.option("--format", "form", type=click.Choice(["html", "md"]), help="Default: the name's.")
@full_option
@click.pass_obj
def command(project: Project, run: Path, output: Path | None, form: str | None) -> None:
    """Audit RUN, or every run below a folder, and write one self-contained page.

    HTML for a browser, a phone or paper, needing nothing else; or Markdown.
    """
    from harness.audit import Machine, audit_all, runs_below
    from harness.cli.bars import bars
    from harness.files import publish_bytes
    from harness.report import gather, html, markdown

    form = form or FORMATS.get(output.suffix if output else "", "html")
    runs = runs_below(run.resolve())
    with bars() as progress:
        done = [0]

        def told(found: "Audit") -> None:
            done[0] += 1
            progress("runs audited", done[0], len(runs))

        page = gather(project, audit_all(Machine(project), runs, told))
    text = html(page) if form == "html" else markdown(page)
    if output is None:
        say_lines(text.removesuffix("\n"))
    else:
        publish_bytes(output.resolve(), text.encode())
        note(f"{output}: {len(runs)} run(s)")
