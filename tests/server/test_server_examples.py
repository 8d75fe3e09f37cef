"""What README, docs/ and examples/ say about the API, run against a live server."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import openai
import pytest
from live_server import KEY

ROOT = Path(__file__).parents[2]


def test_readme_runs_as_printed(server):
    pages = (ROOT / name for name in ("README.md", "docs/serving.md"))
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    printed = re.findall(r"```python\n(.*?)```", text, re.S)
    blocks = [block for block in printed if "client" in block and "image_url" not in block]
    code = "\n".join(blocks)
    for ours, live in (
        ('"http://127.0.0.1:8000/v1"', repr(f"{server.url}/v1")),
        ('"none"', repr(KEY)),
        ("specguide-small", "small"),
    ):
        assert ours in code
        code = code.replace(ours, live)
    names: dict[str, Any] = {}
    exec(code, names)
    assert names["done"].choices[0].message.parsed == names["Person"](name="Anna", age=31)
    assert {"type": "function_call_output", "output": "18:00"}.items() <= names["items"][2].items()


@pytest.mark.parametrize("name", ["extract.py", "agent.py"])
def test_examples(client, monkeypatch, capsys, name):
    monkeypatch.setattr(openai, "OpenAI", lambda **_: client)
    monkeypatch.setattr(
        "sys.argv", [name, *([str(ROOT / "examples/person.txt")] if name == "extract.py" else [])]
    )
    runpy.run_path(str(ROOT / "examples" / name), run_name="__main__")
    printed = capsys.readouterr()
    assert {"extract.py": "name='Maria Keller', age=34", "agent.py": 'get_time({"city": "Riga"})'}[
        name
    ] in (printed.out + printed.err)
