"""A gathered report as one HTML page or as Markdown; both are templates filled with it."""

import re
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
# Text without a character that Markdown acts on; and what is acted on all the same, by a reader
# that adds links of its own: lists and headings, addresses, names with a dot, emoji, commits.
_PLAIN = re.compile(r"(?:[^\W_]|[ ,.:;()/+%=✓✗?→–-])*")  # noqa: RUF001
_LIVE = re.compile(
    r"^[ +=:-]|^\d+[.)](?:\s|$)|\s$|://|\.\w*[^\W\d_]|:\S|GH-|\b[0-9a-f]{7,40}\b", re.IGNORECASE
)
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
    """Markdown that shows a text as it is, in a table's cell too: as code where it could be more.

    GitHub looks for mentions and addresses in all text but code, whatever is escaped in it.
    """
    if (
        not isinstance(value, str)
        or not value
        or (_PLAIN.fullmatch(value) and not _LIVE.search(value))
    ):
        return value
    text = printable(value).replace("`", r"\x60").replace("|", r"\x7c")
    return f"`{text}`"
