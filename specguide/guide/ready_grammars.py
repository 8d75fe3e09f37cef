"""Owns the library of ready grammars and formats: the top-level folder `grammars/`, which is
installed as package data.

A grammar is a file NAME.lark, NAME.ebnf or NAME.json in the folder of its form. `@NAME` refers to
it wherever a guide takes a grammar or a schema.
"""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from specguide.errors import InvalidGuide

MARK = "@"
"""The first character of a ready grammar's name, where a grammar could be given as well."""
_INSTALLED = Path(__file__).parents[1] / "grammars"
_IN_THE_SOURCES = Path(__file__).parents[2] / "grammars"
_FOLDERS = {"lark": "*.lark", "ebnf": "*.ebnf", "schemas": "*.json"}
_BETWEEN_SAMPLES = "%%"


def grammars_folder() -> Path:
    """The folder; without an installed one, the folder in the sources."""
    return _INSTALLED if _INSTALLED.is_dir() else _IN_THE_SOURCES


@dataclass(frozen=True)
class ReadyGrammar:
    """A grammar of the library.

    form: its folder: "lark", "ebnf" or "schemas"
    """

    name: str
    form: str
    text: str
    path: Path

    @property
    def is_schema(self) -> bool:
        """Whether it is a JSON Schema."""
        return self.form == "schemas"

    @property
    def about(self) -> str:
        """What it describes, in one or two sentences."""
        if self.is_schema:
            return str(json.loads(self.text)["description"])
        sign = "//" if self.form == "lark" else "#"
        words = []
        for line in self.text.splitlines():
            comment = line.removeprefix(sign)
            if comment == line or comment.lstrip().startswith("Source:"):
                break
            words.append(comment.strip())
        return " ".join(words)

    def samples(self, kind: str) -> list[str]:
        """Texts that match it ("valid") or do not ("invalid"): the blocks between lines of `%%`;
        without such lines, each line is one text."""
        text = self.path.with_suffix(f".{kind}").read_text(encoding="utf-8").removesuffix("\n")
        blocks = f"\n{text}\n".split(f"\n{_BETWEEN_SAMPLES}\n")
        return text.split("\n") if len(blocks) == 1 else [block.strip("\n") for block in blocks]


@cache
def ready_grammars() -> dict[str, ReadyGrammar]:
    """All grammars of the library, by name."""
    found = [
        ReadyGrammar(path.stem, folder, path.read_text(encoding="utf-8"), path)
        for folder, files in _FOLDERS.items()
        for path in sorted((grammars_folder() / folder).glob(files))
    ]
    return {one.name: one for one in sorted(found, key=lambda one: one.name)}


def ready_grammar(name: str, *, param: str = "grammar") -> ReadyGrammar:
    """The grammar of this name, with or without the mark. Raises InvalidGuide that lists similar
    names."""
    bare = name.removeprefix(MARK)
    known = ready_grammars()
    if bare not in known:
        close = ", ".join(MARK + one for one in difflib.get_close_matches(bare, known, cutoff=0.4))
        raise InvalidGuide(
            f"there is no ready grammar {bare!r}; {f'similar names: {close}; ' if close else ''}"
            "`specguide grammars list` shows all",
            param=param,
        )
    return known[bare]


def grammar_text(given: Any) -> Any:
    """A guide's grammar: the text of a ready grammar where `given` names one, else `given`. A ready
    schema becomes a grammar of its JSON."""
    if not _is_name(given):
        return given
    one = ready_grammar(given)
    return f"start: %json {one.text}" if one.is_schema else one.text


def schema_text(given: Any) -> Any:
    """A guide's schema: the text of a ready schema where `given` names one, else `given`. Raises
    InvalidGuide where the name is a grammar's."""
    if not _is_name(given):
        return given
    one = ready_grammar(given, param="json_schema")
    if not one.is_schema:
        raise InvalidGuide(
            f"{given} is a grammar, and not a JSON schema; give it as `grammar`",
            param="json_schema",
        )
    return one.text


def _is_name(given: Any) -> bool:
    return isinstance(given, str) and given.startswith(MARK)
