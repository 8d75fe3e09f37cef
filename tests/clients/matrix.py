"""Owns `make clients`: runs clients of the API against a live server, and writes docs/clients.md.

Each file of `cases/` runs in a virtual environment of its own, with what `requirements/` pins for
it; a file that ends with .mjs runs with Node.js.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from client_case import CELLS

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
BUILD = ROOT / "build" / "clients"
PAGE = ROOT / "docs" / "clients.md"
PORT = 8137
_LONGEST_S = 300
_HEAD = """# Clients

What the server's API is used with. `make clients` installs each client as pinned, runs it against
`specguide serve` with the shipped model, and writes this page.

"""
_BY_HAND = """## Tried by hand

These worked too, with structured answers, tools and streams as far as they have them: Agno, aider,
AutoGen, BAML, CrewAI, Google's ADK, Haystack, Inspect, LangChain.js, LiteLLM's proxy in front of
all three APIs, simonw's llm, Mastra, Microsoft's Agent Framework, mirascope, openai-agents for
Node.js, opencode, outlines (its models for OpenAI, vLLM and SGLang), promptfoo, Semantic Kernel,
Strands, and what the benchmarks of vLLM and SGLang send.

Some send a schema or tools only where they are told that the model takes them:

- AI SDK, `createOpenAICompatible`: `supportsStructuredOutputs: true`
- AutoGen: `model_info`
- DSPy: a provider of `dspy.lm15.register_provider` with `ModelSupport(response_schema=True)`, or
  `engine="litellm"` and `litellm.register_model`; else it asks for JSON in words
- llama-index, `OpenAILike`: `is_chat_model` and `is_function_calling_model`
- llm, `extra-openai-models.yaml`: `supports_schema` and `supports_tools`

Agent Framework's `OpenAIChatClient`, which is for responses, refers to earlier ones unless its
options have `store: False`.

Claude Code takes the server's address without `/v1`. Its first prompt has 20,000 to 35,000 tokens;
`--bare` makes it small.
"""


@dataclass
class Row:
    """What one client did. outcomes: by cell, its outcome and why"""

    client: str
    versions: str
    outcomes: dict[str, tuple[str, str]] = field(default_factory=dict)


def main(names: list[str]) -> int:
    """Run the cases named, or all; 1 where a cell fails."""
    paths = sorted(HERE.glob("cases/*.py")) + sorted(HERE.glob("cases/*.mjs"))
    rows = []
    with Server() as url:
        for path in paths:
            if not names or path.stem in names:
                rows.append(row_of(path, url))
                print(rows[-1].client, rows[-1].outcomes, flush=True)
    if not names:
        PAGE.write_text(page(rows))
    return int(any(kind == "fails" for row in rows for kind, _ in row.outcomes.values()))


class Server:
    """`specguide serve` with the shipped model, while it is entered. Gives its URL."""

    def __enter__(self) -> str:
        command = [sys.executable, "-m", "specguide", "serve", "--port", str(PORT)]
        command += ["--served-model-name", "small", "--max-batch-size", "8"]
        self._process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if "serving on" in line:
                return f"http://127.0.0.1:{PORT}"
        raise SystemExit("the server did not start")

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.communicate(timeout=60)


def row_of(path: Path, url: str) -> Row:
    """Install what a case needs, and run it."""
    pinned = (HERE / "requirements" / f"{path.stem}.txt").read_text().split()
    first_line = path.read_text().split("\n")[0]
    row = Row(first_line.strip('"/ .'), "")
    row.versions = ", ".join(" ".join(one.replace("==", "@").rsplit("@", 1)) for one in pinned)
    environ = os.environ | {"SPECGUIDE_URL": url, "PYTHONPATH": str(HERE)}
    environ["SPECGUIDE_TOKENIZER"] = str(ROOT / "specguide" / "assets" / "small" / "target")
    command = installed(path, pinned)
    try:
        done = subprocess.run(
            command, env=environ, capture_output=True, text=True, timeout=_LONGEST_S, cwd=BUILD
        )
        said, complaint = done.stdout, done.stderr.strip().split("\n")[-1]
    except subprocess.TimeoutExpired:
        said, complaint = "", f"it did not end within {_LONGEST_S} s"
    for line in said.splitlines():
        if line.startswith("{"):
            told = json.loads(line)
            row.outcomes[told["cell"]] = told["outcome"], told.get("why", "")
    if not row.outcomes:
        row.outcomes["structured"] = "fails", complaint
    return row


def installed(path: Path, pinned: list[str]) -> list[str]:
    """The command that runs a case, in an environment with what is pinned."""
    folder = BUILD / path.stem
    mark = folder / ".installed"
    if not mark.exists() or mark.read_text() != " ".join(pinned):
        folder.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".mjs":
            subprocess.run(["npm", "install", "--silent", *pinned], cwd=folder, check=True)
        else:
            subprocess.run([sys.executable, "-m", "venv", folder], check=True)
            subprocess.run([folder / "bin/pip", "install", "-q", *pinned], check=True)
        mark.write_text(" ".join(pinned))
    if path.suffix == ".mjs":
        for one in (path, HERE / "client_case.mjs"):
            (folder / one.name).write_text(one.read_text())
        return ["node", str(folder / path.name)]
    return [str(folder / "bin/python"), str(path)]


def page(rows: list[Row]) -> str:
    """The table, and what its words mean."""
    lines = [f"| client | versions | {' | '.join(CELLS)} |", "|---" * (2 + len(CELLS)) + "|"]
    notes = []
    for row in rows:
        cells = []
        for cell in CELLS:
            outcome, why = row.outcomes.get(cell, ("–", ""))
            if why:
                notes.append(f"{row.client}, {cell}: {outcome}, {why}.")
            cells.append(outcome + (f" [{len(notes)}]" if why else ""))
        lines.append(f"| {row.client} | {row.versions} | {' | '.join(cells)} |")
    meaning = [f"- **{cell}**: {words}" for cell, words in CELLS.items()]
    meaning.append("- **–**: the client does not do this")
    why = [f"{number}. {note}" for number, note in enumerate(notes, 1)]
    parts = ("\n".join(part) for part in (lines, meaning, why) if part)
    return _HEAD + "\n\n".join((*parts, _BY_HAND))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
