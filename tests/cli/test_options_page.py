"""docs/options.md has every option, and what the pages call is there."""

from __future__ import annotations

import re
from collections.abc import Iterator

from options_page import PAGE, commands, page

ROOT = PAGE.parent.parent
_CODE = re.compile(r"^ *```\w*\n(.*?)```|`([^`]+)`", re.M | re.S)
_CALL = re.compile(
    r"(?<!from )(?<![\w./-])specguide (?!import )((?:bench |grammars )?[a-z-]+)([^#|;\n]*)"
)
_OPTION = re.compile(r"(?<![\w-])--?[a-z][a-z0-9-]*")


def test_the_page_is_what_the_commands_say() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text == page(), "python tests/support/options_page.py writes it"


def _calls(text: str) -> Iterator[tuple[str, str]]:
    """Commands in a page's code, each with what stands behind it up to the end of its line."""
    for found in _CODE.finditer(text):
        code = found[1] or " ".join(found[2].split())
        for call in _CALL.finditer(code.replace("\\\n", " ")):
            yield call[1], call[2]


def test_commands_of_the_pages_have_the_options_that_they_are_shown_with() -> None:
    every = commands()
    known = {
        name: {flag for each in command.params for flag in (*each.opts, *each.secondary_opts)}
        for name, command in every.items()
    }
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    calls = [(page, *call) for page in pages for call in _calls(page.read_text(encoding="utf-8"))]
    assert len(calls) > 40
    for path, name, rest in calls:
        if name not in ("bench", "grammars"):
            assert name in every, f"{path.name}: specguide {name}"
            unknown = set(_OPTION.findall(rest)) - known[name] - {"--help"}
            assert not unknown, f"{path.name}: specguide {name}{rest}"
