"""Owns what the two kinds of descriptions under grammars/ share: how a model family writes tool
calls, and how it writes reasoning."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, TypeVar

from specguide.guide.ready_grammars import grammars_folder

F = TypeVar("F", bound="WrittenForm")


@dataclass(frozen=True)
class WrittenForm:
    """How some models write something.

    models:         the models that write so
    template_marks: texts that all of their chat templates contain
    foreign_marks:  texts that none of their chat templates contains
    special_tokens: parts of the texts that are single tokens where the tokenizer has them
    """

    name: str
    models: str
    template_marks: tuple[str, ...]
    foreign_marks: tuple[str, ...]
    special_tokens: tuple[str, ...]

    def fits(self, template: str) -> bool:
        """Whether models with this chat template write so."""
        return all(mark in template for mark in self.template_marks) and not any(
            mark in template for mark in self.foreign_marks
        )


def read_forms(folder: str, form: type[F]) -> dict[str, F]:
    """The descriptions in a folder under grammars/, by name."""
    forms = {}
    for path in sorted((grammars_folder() / folder).glob("*.json")):
        described: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        fields: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in described.items()
        }
        forms[path.stem] = form(name=path.stem, **fields)
    return forms
