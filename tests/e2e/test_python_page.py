"""docs/python.md runs as it is printed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "python.md"


def test_the_page_runs_as_printed(capsys):
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    names: dict[str, Any] = {}
    for block in blocks:
        exec(block, names)
    names["llm"].close()
    assert len(blocks) == 5 and names["output"].error is None
    printed = capsys.readouterr().out
    assert '{"city": "Riga", "year": 1932}' in printed and "get_time /city (" in printed
