"""Links of the pages lead to files and headings that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "training/README.md", *sorted((ROOT / "docs").glob("*.md"))]
_LINK = re.compile(r"\]\(([^)\s]+)\)")


def _anchors(page: Path) -> set[str]:
    """Names of a page's headings, as GitHub makes them, and those that it sets itself."""
    text = page.read_text(encoding="utf-8")
    named = re.findall(r'<a name="([^"]+)">', text)
    text = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    heads = re.findall(r"^#+ (.*)$", text, re.M)
    return {*named, *(re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    for link in _LINK.findall(page.read_text(encoding="utf-8")):
        path, _, anchor = link.partition("#")
        if "://" not in path:
            target = (page.parent / path).resolve() if path else page
            assert target.exists(), link
            assert not anchor or anchor in _anchors(target), link
