"""Reports: runs, their audits, curves and provenance as one self-contained page or Markdown."""

from harness.report.page import Page, gather
from harness.report.render import html, markdown

__all__ = ["Page", "gather", "html", "markdown"]
