"""A gathered report as one HTML page or as Markdown; both are templates filled with it."""

from typing import TYPE_CHECKING

from harness.report.curves import HEIGHT, WIDTH
from harness.report.page import Page
from harness.text import printable

if TYPE_CHECKING:
    from jinja2 import Environment

STANDINGS = {
    0: ("holds", "holds"),
    1: ("differs", "differs"),
    2: ("unchecked", "not all could be checked"),
}
MARKS = {"holds": "✓", "differs": "✗", "cannot be checked here": "?"}


def html(page: Page) -> str:
    """One file that needs nothing else: no script, no font, no picture from outside."""
    template = _templates(escape=True).get_template("page.html.j2")
    text = template.render(page=page, standings=STANDINGS, marks=MARKS, width=WIDTH, height=HEIGHT)
    return "\n".join(map(printable, text.split("\n")))


def markdown(page: Page) -> str:
    """The same for a text file or a pull request, without the curves."""
    template = _templates(escape=False).get_template("page.md.j2")
    text = template.render(page=page, standings=STANDINGS, marks=MARKS)
    return "\n".join(line.rstrip() for line in text.splitlines()).strip() + "\n"


def _templates(*, escape: bool) -> "Environment":
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("harness.report"),
        autoescape=escape,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=None if escape else _plain,
    )
    made.filters["kind"] = lambda value: (
        "map" if isinstance(value, dict) else "list" if isinstance(value, list) else "leaf"
    )
    return made


def _plain(value: object) -> object:
    """Markdown that shows a text as it is, in a table's cell too."""
    if not isinstance(value, str):
        return value
    return "".join(f"\\{c}" if c in "\\`*_{}[]<>#|!~" else c for c in printable(value))
