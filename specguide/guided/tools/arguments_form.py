"""Owns the description of formats that write arguments one by one, and not as a JSON object."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

KINDS = ("string", "number", "boolean", "null", "object", "array")
"""The kinds of values, by the words that may stand for {kind}."""
_KIND_OF: Mapping[type, str] = {
    str: "string",
    bool: "boolean",
    int: "number",
    float: "number",
    type(None): "null",
    dict: "object",
    list: "array",
}


def kind_of(value: Any) -> str:
    """The kind of a JSON value, one of KINDS."""
    return _KIND_OF[type(value)]


@dataclass(frozen=True)
class ArgumentsForm:
    """How arguments are written one by one, with `separator` between them:

        before_name · name · before_value · value · after_value

    after_value may contain the name, as {name}.

    text_marks:   the marks around a raw text; None: texts are JSON. A value is JSON where it may be
                  no text, where a listed text contains their end, or where the schema has a
                  pattern, a format, or a minLength that is large or beside a large maxLength. But
                  where no mark tells texts, a text written like another allowed value is that one
    other_text_marks: marks around a raw text instead, mostly where it has signs of XML or several
                      lines; None: always text_marks
    has_json_texts: a raw text may be written as JSON instead
    before_json:  the text before a value that is written as JSON; it may contain one of KINDS, as
                  {kind}
    constants:    other words for JSON's true, false and null
    has_json_constants: JSON's own words may be written, too
    if_none:      the text in place of no arguments
    object_marks: the marks around the values of an object, which are written as arguments are;
                  None: objects are JSON. An object is also JSON where not all its values are named,
                  or it refers to itself
    array_marks:  the marks around the items of an array, which have `separator` between them and
                  item_marks around each; None: arrays are JSON
    is_sorted:    names are in alphabetical order, ignoring case
    has_literals: objects and arrays are written as Python writes them; see LITERALS
    is_quoted:    texts are Python literals, escaped between quotes of either kind
    barred:       a text that no such literal contains
    """

    before_name: str
    before_value: str
    after_value: str
    separator: str
    text_marks: Sequence[str] | None = None
    other_text_marks: Sequence[str] | None = None
    has_json_texts: bool = False
    before_json: str = ""
    constants: Mapping[str, str] = field(default_factory=dict)
    has_json_constants: bool = False
    if_none: str = ""
    object_marks: Sequence[str] | None = None
    array_marks: Sequence[str] | None = None
    item_marks: Sequence[str] = ("", "")
    is_sorted: bool = False
    has_literals: bool = False
    is_quoted: bool = False
    barred: str = ""

    @cached_property
    def inner(self) -> ArgumentsForm:
        """How the values in objects and arrays are written."""
        if not self.has_literals:
            return self
        marks = self.other_text_marks  # JSON escapes a character of such a mark, so texts lack it
        return replace(LITERALS, barred=marks[0] if marks else "")

    def is_plain_literal(self, name: str) -> bool:
        """Whether a name between single quotes is a Python literal without escapes."""
        return repr(name) == f"'{name}'" and '"' not in name

    @property
    def tells_texts(self) -> bool:
        """Whether a raw text begins with a mark of its own."""
        return self.text_marks is not None and bool(self.text_marks[0])

    @cached_property
    def has_bare_texts(self) -> bool:
        """Whether nothing in front of a value tells a raw text from JSON."""
        return self.text_marks is not None and not any((*self.text_marks, self.before_json))

    @property
    def tells_kinds(self) -> bool:
        """Whether the text before JSON says which of KINDS the value is."""
        return "{kind}" in self.before_json

    @cached_property
    def has_own_values(self) -> bool:
        """Whether other values than texts may be written in another way than as JSON."""
        has_marks = self.object_marks is not None or self.array_marks is not None
        return has_marks or self.tells_texts

    def words(self, text: str) -> tuple[str, ...]:
        """The ways to write a value that is not a text. text: the value as JSON"""
        if text not in self.constants:
            return (text,)
        word = self.constants[text]
        return (word, text) if self.has_json_constants else (word,)

    def after_value_of(self, name: str) -> str:
        """The text behind an argument's value."""
        return self.after_value.replace("{name}", name)

    def before_json_of(self, kind: str) -> list[str]:
        """The texts that may stand before a value that is written as JSON. kind: a type of JSON
        Schema; "": there may be several"""
        kinds = KINDS if not kind else ["number" if kind == "integer" else kind]
        named = kinds if self.tells_kinds else kinds[:1]
        return [self.before_json.replace("{kind}", name) for name in named]

    def written(self, arguments: str) -> str:
        """Arguments, given as a JSON object, written one by one; strings raw where texts are."""
        return self._members(json.loads(arguments)) or self.if_none

    def _members(self, values: Mapping[str, Any]) -> str:
        names = sorted(values, key=str.lower) if self.is_sorted else values
        return self.separator.join(
            self.before_name
            + name
            + self.before_value
            + self._value(values[name])
            + self.after_value_of(name)
            for name in names
        )

    def _value(self, value: Any) -> str:
        if isinstance(value, str) and self.text_marks is not None:
            is_plain = not any(sign in value for sign in "<&\n")
            return value.join(
                self.text_marks if is_plain else self.other_text_marks or self.text_marks
            )
        if isinstance(value, dict | list) and self.has_literals:
            return repr(value)
        if isinstance(value, dict) and self.object_marks is not None:
            return self._members(value).join(self.object_marks)
        if isinstance(value, list) and self.array_marks is not None:
            items = (self._value(item).join(self.item_marks) for item in value)
            return self.separator.join(items).join(self.array_marks)
        text = json.dumps(value, ensure_ascii=False)
        return self.before_json_of(kind_of(value))[0] + self.constants.get(text, text)


LITERALS = ArgumentsForm(
    before_name="'",
    before_value="': ",
    after_value="",
    separator=", ",
    text_marks=("'", "'"),
    constants={"true": "True", "false": "False", "null": "None"},
    object_marks=("{", "}"),
    array_marks=("[", "]"),
    is_quoted=True,
)
"""How Python writes the values in objects and arrays."""
