"""Owns the Lark rules of schemas, and how several schemas share them.

llguidance takes a millisecond to read the rules of a small schema, most of it for terminals that
nearly all schemas have. So schemas that are alternatives, such as the arguments of tools, become
one nested grammar, in which each rule occurs once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from itertools import starmap

_OPEN, _CLOSE = '"{"', '"}"'


def content_name(body: str, *, terminal: bool) -> str:
    """The name of a rule, or of a terminal, made from its body, so that equal bodies have one
    name."""
    digest = blake2b(body.encode(), digest_size=6).hexdigest()
    return f"T{digest.upper()}" if terminal else f"r{digest}"


def together(*parts: str) -> str:
    """Terms one behind the other; some may be empty. The library takes as long to read a space as a
    name, so spaces only separate terms that would otherwise run together."""
    text = ""
    for part in parts:
        runs_on = part[:1].isalpha() and (text[-1:].isalnum() or text[-1:] == "?")
        text += f" {part}" if runs_on else part
    return text


@dataclass(frozen=True)
class SchemaRules:
    """A schema as rules of Lark.

    start:      the term of its texts
    rules:      bodies by their names, which are content names
    whitespace: a regular expression of what may stand between two JSON tokens; "" for nothing
    is_closed:  no rule has a name that may mean something else in another schema
    """

    start: str
    rules: Mapping[str, str]
    whitespace: str
    is_closed: bool

    def __str__(self) -> str:
        """A term of a Lark rule: a nested grammar."""
        return self._text

    @cached_property
    def _text(self) -> str:
        return _nested(self.start, self.rules, self.whitespace)

    @cached_property
    def members(self) -> str | None:
        """The part between the braces of its objects; None where it has other values, too, or its
        rules cannot be mixed with others."""
        body = self.rules.get(self.start, "")
        is_object = body.startswith(_OPEN) and body.endswith(_CLOSE)
        return body[len(_OPEN) : -len(_CLOSE)] if self.is_closed and is_object else None

    @cached_property
    def rules_of_members(self) -> Mapping[str, str]:
        """The rules that `members` needs."""
        others = {name: body for name, body in self.rules.items() if name != self.start}
        return self.rules if self.start in " ".join(others.values()) else others


@dataclass(frozen=True)
class Marked:
    """A schema with the text `before` in front, and one of the texts `after` behind it; nothing
    behind it where `after` is empty."""

    before: str
    schema: SchemaRules | str
    after: Sequence[str] = ()

    def __str__(self) -> str:
        """A term of a Lark rule."""
        ends = f" ({_one_of('', self.after)})" if self.after else ""
        return f"{json.dumps(self.before)} {self.schema}{ends}"

    @property
    def shareable(self) -> SchemaRules | None:
        """The schema's rules, where they can be mixed with those of others."""
        schema = self.schema
        return schema if isinstance(schema, SchemaRules) and schema.members is not None else None


def alternatives(options: Sequence[Marked | str]) -> str:
    """A choice of marked schemas and terms, as alternatives of a Lark rule. Schemas share their
    rules where they can."""
    shared: dict[str, list[tuple[Marked, SchemaRules]]] = {}  # by their whitespace
    terms = []
    for option in options:
        rules = option.shareable if isinstance(option, Marked) else None
        if isinstance(option, Marked) and rules is not None:
            shared.setdefault(rules.whitespace, []).append((option, rules))
        else:
            terms.append(str(option))
    return " | ".join([*starmap(_shared, shared.items()), *terms])


def _shared(whitespace: str, options: Sequence[tuple[Marked, SchemaRules]]) -> str:
    """One grammar of several kinds of objects, which share their rules. A brace and the text beside
    it are one terminal, so that no whitespace comes between the two."""
    rules: dict[str, str] = {}
    starts = []
    for marked, schema in options:
        rules |= schema.rules_of_members
        ends = marked.after or [""]
        closing = _one_of("}", ends) if len(ends) == 1 else f"({_one_of('}', ends)})"
        starts.append(f"{json.dumps(marked.before + '{')} {schema.members} {closing}")
    return _nested(" | ".join(starts), rules, whitespace)


def _one_of(brace: str, ends: Sequence[str]) -> str:
    return " | ".join(json.dumps(brace + end) for end in ends)


def _nested(start: str, rules: Mapping[str, str], whitespace: str) -> str:
    lines = [f"start: {start}", *(f"{name}:{body}" for name, body in rules.items())]
    if whitespace:
        lines += ['%llguidance {"ignore_once": true}', f"%ignore /{whitespace}/"]
    return "%lark {\n" + "\n".join(lines) + "\n}"
