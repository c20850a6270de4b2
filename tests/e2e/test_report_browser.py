"""The report's page in a real browser: it renders, complains of nothing, works by keyboard."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import browser
import pytest
from browser import Browser
from run_folders import SMOKE, Here, completed_run, reading

from harness.audit import audit
from harness.project import Project
from harness.report import gather, html

__all__ = ["reading"]
SOURCE = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(browser.PROGRAM is None, reason="no chromium here to render the page in"),
]

# The ratio of each text's colour to its ground (WCAG 2.2, "contrast ratio"): the lowest, and where.
CONTRAST = """
(() => {
  const parts = c => c.match(/[\\d.]+/g).map(Number);
  const light = c => { const [r, g, b] = parts(c).map(v => v / 255).map(
    v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const ground = e => { for (; e; e = e.parentElement) {
    const c = getComputedStyle(e).backgroundColor;
    if (parts(c).length < 4 || parts(c)[3] > 0) return c; } return 'rgb(255, 255, 255)'; };
  let worst = [99, ''];
  for (const e of document.querySelectorAll('body *')) {
    if (![...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim())) continue;
    const style = getComputedStyle(e);
    const ink = e.closest('svg') ? style.fill : style.color;
    const [a, b] = [light(ink), light(ground(e))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < worst[0]) worst = [ratio, e.outerHTML.slice(0, 80)];
  }
  return worst;
})()
"""


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser.browser(tmp_path_factory.mktemp("profile")) as shown:
        yield shown


@pytest.fixture
def page(tmp_path: Path, reading: None, chromium: Browser) -> Iterator[str]:
    """A page of two runs, one of which does not hold."""
    project = Project(source=SOURCE, root=tmp_path / "root")
    good, bad = completed_run(project), completed_run(project, replace(SMOKE, seed=7))
    (bad / "model.ckpt").write_bytes(b"x")
    path = tmp_path / "page.html"
    path.write_text(html(gather(project, [audit(Here(project), run) for run in (good, bad)])))
    yield path.as_uri()
    assert chromium.complaints == []


@pytest.mark.parametrize("width", [320, 390, 768, 1200])
def test_it_fits_every_width(chromium: Browser, page: str, width: int) -> None:
    chromium.open(page, width)
    assert chromium.evaluate("document.querySelectorAll('article').length") == 2
    assert chromium.evaluate("document.documentElement.scrollWidth") <= width
    chromium.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert chromium.evaluate("document.documentElement.scrollWidth") <= width
    drawn = "[...document.querySelectorAll('svg')].map(s => s.getBoundingClientRect().height)"
    assert all(height > 80 for height in chromium.evaluate(drawn))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_can_be_read_in_light_and_dark(chromium: Browser, page: str, scheme: str) -> None:
    chromium.media(scheme=scheme)
    chromium.open(page)
    chromium.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    ratio, where = chromium.evaluate(CONTRAST)
    assert ratio >= 4.5, where
    ground = chromium.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(255, 255, 255)") == (scheme == "light")
    chromium.media()


def test_links_and_disclosures_work_by_keyboard(chromium: Browser, page: str) -> None:
    chromium.open(page)
    active = "document.activeElement"
    chromium.press("Tab", 9)
    assert chromium.evaluate(f"{active}.className") == "skip"
    chromium.press("Tab", 9)
    assert chromium.evaluate(f"{active}.getAttribute('href')") == "#run-1"
    chromium.press("Tab", 9)
    chromium.press("Enter", 13)
    assert chromium.evaluate("location.hash") == "#run-2"
    for _ in range(30):
        chromium.press("Tab", 9)
        if chromium.evaluate(f"{active}.tagName") == "SUMMARY":
            break
    assert chromium.evaluate(f"getComputedStyle({active}).outlineStyle") != "none"
    assert chromium.evaluate(f"{active}.parentElement.open") is False
    chromium.press("Enter", 13)
    assert chromium.evaluate(f"{active}.parentElement.open") is True


def test_each_link_within_the_page_leads_somewhere(chromium: Browser, page: str) -> None:
    chromium.open(page)
    lost = """[...document.querySelectorAll('a[href^="#"]')]
        .filter(a => !document.querySelector(a.getAttribute('href'))).length"""
    assert chromium.evaluate(lost) == 0


def test_print_shows_what_the_screen_folds(chromium: Browser, page: str) -> None:
    chromium.open(page)
    shown = "document.querySelector('details table').checkVisibility()"
    assert chromium.evaluate(shown) is False
    chromium.media("print", "dark")
    assert chromium.evaluate(shown) is True
    assert chromium.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    chromium.media()
