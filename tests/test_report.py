"""Reports: all that an audit found is on the page, whatever a run's files say is only text."""

import contextlib
import json
import re
import tempfile
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass, replace
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from run_folders import SMOKE, Here, completed_run, read_here, reading, relist, rewrite

from harness.audit import Verdict, audit
from harness.papers import Figure
from harness.project import Project
from harness.report import Page, gather, html, markdown
from harness.report.curves import HEIGHT, WIDTH, Axis, curve, thinned

__all__ = ["reading"]
SOURCE = Path(__file__).parents[1]
HOSTILE = "\x1b[31m<script>alert(1)</script> | `x` \u202e ]]>"


class Checked(HTMLParser):
    """Reads a page: every tag closed, ids unique, links within it known, nothing from outside."""

    VOID = frozenset({"meta", "link", "br", "line", "polyline", "circle"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.targets: list[str] = []
        self.text: list[str] = []
        self.tags: set[str] = set()
        self.every: list[tuple[str, ...]] = []
        self.feed(text)
        assert self.open == []
        assert len(self.ids) == len(set(self.ids))
        assert {target.removeprefix("#") for target in self.targets} <= set(self.ids)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.every.append((tag, *(name for name, _ in attrs)))
        if tag not in self.VOID:
            self.open.append(tag)
        given = dict(attrs)
        if given.get("id"):
            self.ids.append(given["id"] or "")
        assert not given.keys() & {"src", "srcset", "style", "onclick", "onload"}
        href = given.get("href") or ""
        if tag == "a":
            assert href.startswith(("#", "https://")), href
            if href.startswith("#"):
                self.targets.append(href)
        elif href:
            assert href == "data:,"

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text.append(data)


@pytest.mark.usefixtures("reading")
class TestPage:
    def test_a_page_shows_what_was_found(self, project: Project) -> None:
        run = completed_run(project)
        page = gather(project, [audit(Here(project), run)])
        seen = Checked(html(page))
        text = " ".join(" ".join(seen.text).split())
        completed = json.loads((run / "completed.json").read_text())
        for expected in (
            "mdlm on lm1b", "profile smoke", "no figure of a paper", "not comparable",
            completed["identity_sha256"], completed["checkpoint"]["tensors"]["state"]["digest"],
            "validation perplexity", "27.04", "cores",
        ):  # fmt: skip
            assert expected in text, expected
        assert "script" not in seen.tags
        assert {"svg", "polyline", "details"} <= seen.tags

    def test_a_tree_has_an_index_and_names_what_differs(self, project: Project) -> None:
        good = completed_run(project)
        bad = completed_run(project, replace(SMOKE, seed=7))
        (bad / "model.ckpt").write_bytes(b"x")
        page = gather(project, [audit(Here(project), run) for run in (good, bad)])
        seen = Checked(html(page))
        text = " ".join(seen.text)
        assert "nav" in seen.tags
        assert {"#run-1", "#run-2"} <= set(seen.targets)
        assert text.count("file model.ckpt") >= 2  # in the index, too
        told = markdown(page)
        assert "file model.ckpt" in told
        assert f"| {bad.name} | mdlm on lm1b, smoke | differs |" in told

    def test_a_run_without_a_valid_record_is_shown_all_the_same(self, project: Project) -> None:
        run = completed_run(project)
        for name in ("identity.json", "completed.json", "provenance.json"):
            (run / name).write_text("{}")
        page = gather(project, [audit(Here(project), run)])
        text = " ".join(Checked(html(page)).text)
        assert "no valid launch" in text
        assert "identity.json" in markdown(page)

    def test_a_record_nested_without_end_is_left_out(self, project: Project) -> None:
        run = completed_run(project)
        record = json.loads((run / "identity.json").read_text())
        for _ in range(200):
            record["transformation"] = {"deeper": record["transformation"]}
        (run / "identity.json").write_text(json.dumps(record))
        page = gather(project, [audit(Here(project), run)])
        assert "no valid launch" in html(page)

    def test_whatever_a_run_says_is_text(self, project: Project) -> None:
        run = completed_run(project)
        record = json.loads((run / "provenance.json").read_text())
        record["attempts"][-1]["host"] |= {"processor": HOSTILE, "gpus": [HOSTILE]}
        (run / "provenance.json").write_text(json.dumps(record))
        (run / HOSTILE.replace("/", "")).write_bytes(b"")
        page = gather(project, [audit(Here(project), run)])
        text = html(page)
        assert "script" not in Checked(text).tags
        told = markdown(page)
        for made in (text, told):
            assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u202e]", made)
        rows = [line for line in told.splitlines() if "<script>" in line and line[0] == "|"]
        assert rows
        assert all(row.count("|") == 6 for row in rows)


def filled(value: Any, text: str) -> Any:
    """A part of a page in which every text that a run can choose is `text`."""
    if isinstance(value, Figure | Verdict):
        return value
    if isinstance(value, str):
        return text if value else value
    if isinstance(value, tuple | list):
        return type(value)(filled(item, text) for item in value)
    if isinstance(value, dict):
        return {name: filled(item, text) for name, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        ours = {"anchor", "line", "standing", "kind"}
        parts = {f.name: getattr(value, f.name) for f in dataclass_fields(value)}
        return replace(value, **{n: filled(v, text) for n, v in parts.items() if n not in ours})
    return value


def shape(text: str) -> list[Any]:
    """All of a Markdown text but its words: blocks, cells, and what is in a line."""
    found: list[Any] = []
    reader = MarkdownIt("commonmark").enable("table").enable("strikethrough")
    for token in reader.parse(text):
        inner = [one for one in token.children or () if one.type not in ("text", "code_inline")]
        found.append((token.type, token.tag, [one.type for one in inner]))
        for one in token.children or ():  # what GitHub makes links and pictures of, in text alone
            if one.type == "text":
                assert not LIVE.search(one.content), one.content
    return found


LIVE = re.compile(r"@|://|www\.|#\d|GH-\d|&\w+;|:\w+:|\b[0-9a-f]{7,40}\b", re.IGNORECASE)
TEXTS = st.text(min_size=1, max_size=12) | st.lists(
    st.sampled_from(
        ["@name", "https://a.example", "www.a.example", "a.example", "&lt;", "<b>", "![x](y)",
         "[x](y)", "|", "\n", "# ", "- ", "1. ", "`", "``", "\\", "*", "_", "~~", "---", "===", " ",
         "x", ":tada:", "#1", "GH-1", "0123abc", "<!--", "-->", "$", "\u2028", "\t", "    ", "> ",
         "a@b.example", "javascript:x", "\"", "'", "{{x}}", "]]>"]
    ),
    min_size=1, max_size=6,
).map("".join)  # fmt: skip


@cache
def page() -> Page:
    """Two runs, one of which differs."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as made:
        project = Project(source=SOURCE, root=Path(made))
        patch.setattr("harness.checkpoint._ask", read_here)
        patch.setattr("harness.sandbox.version", lambda: "0.8.0")
        runs = [completed_run(project), completed_run(project, replace(SMOKE, seed=7))]
        (runs[1] / "model.ckpt").write_bytes(b"x")
        return gather(project, [audit(Here(project), run) for run in runs])


@cache
def shapes(text: str) -> tuple[list[Any], list[Any]]:
    """What a page is beside its words, as Markdown and as HTML, where its runs say `text`."""
    made = replace(page(), runs=tuple(filled(run, text) for run in page().runs))
    return shape(markdown(made)), Checked(html(made)).every


@given(TEXTS)
@settings(max_examples=40)
def test_no_text_of_a_run_is_more_than_text(text: str) -> None:
    assert shapes(text) == shapes("x")


VALUES = st.floats(-1e6, 1e6) | st.floats(-1e99, 1e99)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-3, (1 << 53) - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=4)
    | st.sampled_from(["../../etc/passwd", "lm1b", "0" * 64, "2999-01-01T00:00:00Z", [], {}])
)


def places(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a JSON document."""
    if not isinstance(value, dict | list):
        return [here]
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    return [here, *(p for name, item in inner for p in places(item, (*here, name)))]


@pytest.mark.usefixtures("reading")
@given(st.data())
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_whatever_consistent_records_say_there_is_a_verdict_and_a_page(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    project = Project(source=SOURCE, root=tmp_path_factory.mktemp("root"))
    run = completed_run(project)
    name = data.draw(st.sampled_from(["identity.json", "completed.json", "provenance.json"]))

    def change(record: Any) -> None:
        *way, last = data.draw(st.sampled_from(places(record)[1:]))
        for step in way:
            record = record[step]
        if data.draw(st.booleans()):
            del record[last]
        else:
            record[last] = data.draw(LEAVES)

    rewrite(run / name, change)
    with contextlib.suppress(KeyError, TypeError):  # the completion record is beyond repair
        relist(run)
    found = audit(Here(project), run)
    assert found.claims
    Checked(html(gather(project, [found])))
    markdown(gather(project, [found]))


POINTS = st.dictionaries(st.integers(1, 5000), VALUES, min_size=1, max_size=900)


@given(POINTS)
def test_a_curve_lies_in_its_drawing(values: dict[int, float]) -> None:
    rows = [{"step": step, "loss": value} for step, value in values.items()]
    found = curve("loss", rows, "loss")
    assert found is not None
    for point in found.line.split():
        x, y = map(float, point.split(","))
        assert 0 <= x <= WIDTH
        assert 0 <= y <= HEIGHT
    assert found.count == len(values)
    assert found.lowest[1] == min(values.values())
    assert all(0 <= tick.at <= WIDTH for tick in found.x_ticks)
    assert all(0 <= tick.at <= HEIGHT for tick in found.y_ticks)


def test_no_values_no_curve() -> None:
    assert curve("loss", [{"step": 1}, {"loss": 1.0}], "loss") is None
    assert curve("loss", [{"step": 1, "loss": 1e300}, {"step": 1e200, "loss": 1}], "loss") is None


@given(POINTS)
def test_thinning_keeps_the_ends_and_the_extremes(values: dict[int, float]) -> None:
    points = sorted((float(x), y) for x, y in values.items())
    kept = thinned(points)
    assert len(kept) <= 402
    assert kept == sorted(kept)
    assert (kept[0], kept[-1]) == (points[0], points[-1])
    for pick in (min, max):
        assert pick(y for _, y in kept) == pick(y for _, y in points)


@given(st.floats(-1e5, 1e5), st.floats(1e-3, 1e5))
def test_ticks_are_few_and_on_the_axis(low: float, span: float) -> None:
    axis = Axis(low, low + span, 0, 100)
    assert 1 <= len(axis.ticks()) <= 10
    assert all(-1e-6 <= tick.at <= 100 + 1e-6 for tick in axis.ticks())
