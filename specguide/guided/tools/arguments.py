"""Owns calls whose arguments are written one by one, and not as a JSON object: their grammar in
Lark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from specguide.config import GuideConfig
from specguide.errors import UnsupportedGuide
from specguide.guided.lark.literal import literal
from specguide.guided.lark.schema import schema_term
from specguide.guided.schema.document.shapes import check_shapes
from specguide.guided.schema.pointers import escaped
from specguide.guided.tools.argument_schemas import (
    ArgumentsForm,
    alone,
    constants,
    constants_among,
    ends_first,
    is_text,
    not_enforced,
    properties_of,
)


class ArgumentRules:
    """Writes arguments of tools as rules.

    after: stands behind the arguments
    terms: writes a text as Lark, in which special tokens stand as such
    """

    def __init__(
        self, form: ArgumentsForm, after: str, terms: Callable[[str], str], limits: GuideConfig
    ) -> None:
        self._form, self._after, self._terms, self._limits = form, after, terms, limits
        self._num_tools = 0
        self._own: list[str] = []  # lines of the tool at hand
        self._shared: dict[str, None] = {}

    @property
    def shared(self) -> list[str]:
        """The rules that terms of several tools need."""
        return list(self._shared)

    def of(self, parameters: Mapping[str, Any], param: str) -> tuple[str, list[str]]:
        """A tool's arguments as a term, "" for none, and the rules that it alone needs. Raises
        UnsupportedGuide for what is not enforced, and InvalidGuide for what is no schema."""
        check_shapes(parameters, "")
        for name, schema in properties_of(parameters):
            check_shapes(schema, f"/properties/{escaped(name)}")
        self._own = []
        return self._term(parameters, param), self._own

    def _term(self, parameters: Mapping[str, Any], param: str) -> str:
        unknown = not_enforced(parameters)
        if unknown:
            error = UnsupportedGuide(
                f"{unknown[0]} of a tool's arguments cannot be enforced in this model's tool "
                "format, which writes them one by one; leave it out",
                keyword=unknown[0],
            )
            error.param = param
            raise error
        for name, _ in properties_of(parameters):
            self._check_name(name, param)
        required = set(parameters.get("required", ()))
        terms = [
            (
                self._terms(self._form.before_name + name + self._form.before_value)
                + f" {self._value(name, schema, parameters)}",
                name in required,
            )
            for name, schema in properties_of(parameters)
        ]
        self._num_tools += 1
        separator = self._terms(self._form.separator)
        none = self._terms(self._form.if_none)
        if terms and (separator or none) and not terms[0][1]:
            return self._chain(terms, separator)
        parts = [
            _perhaps(f"{separator} {term}" if i else term, is_required)
            for i, (term, is_required) in enumerate(terms)
        ]
        if not terms:
            return none
        self._own.append(f"a_{self._num_tools}: {' '.join(parts)}")
        return f"a_{self._num_tools}"

    def _check_name(self, name: str, param: str) -> None:
        form = self._form
        is_read = ends_first(name, form.before_value) and "<[" not in self._terms(name)
        if not name or not is_read or (form.before_name + name).startswith(self._after):
            error = UnsupportedGuide(
                f"an argument cannot be named {name!r} in this model's tool format, whose marks "
                "could not be told from the name; give it another name"
            )
            error.param = param
            raise error

    def _chain(self, terms: Sequence[tuple[str, bool]], separator: str) -> str:
        """A rule for arguments of which any may be the first, which has no separator before it."""
        first, later = self._terms(self._form.if_none) or '""', '""'
        for i, (term, is_required) in reversed(list(enumerate(terms))):
            name = f"a_{self._num_tools}_{i}"
            self._own.append(f"{name}: {term}")
            ways = [f"{name} {later}"] if is_required else [f"{name} {later}", first]
            self._own.append(f"{name}_first: {' | '.join(ways)}")
            self._own.append(f"{name}_next: {_perhaps(f'{separator} {name}', is_required)} {later}")
            first, later = f"{name}_first", f"{name}_next"
        return first

    def _value(self, name: str, schema: Any, root: Mapping[str, Any]) -> str:
        form = self._form
        before, after = self._terms(form.before_json), self._terms(form.after_value)
        if only := constants(form, schema):
            return f"{before} ({' | '.join(map(self._terms, only))}) {after}"
        if form.text_marks is None or not is_text(form, schema):
            value = schema_term(alone(name, schema, root), self._limits)
            if words := constants_among(self._form, schema):
                value = f"({' | '.join(map(self._terms, words))} | {value})"
            return f"{before} {value} {after}"
        return f"{self._terms(form.text_marks[0])} {self._text(schema)}"

    def _text(self, schema: Mapping[str, Any]) -> str:
        """A term for a text up to what stands behind it."""
        after = self._terms(self._form.after_text)
        listed = [schema["const"]] if "const" in schema else schema.get("enum")
        if listed is not None:
            return f"({' | '.join(map(literal, listed))}) {after}"
        least, most = int(schema.get("minLength", 0)), schema.get("maxLength", "")
        most = most if most == "" else int(most)
        text = f"/(?s:.{{{least},{most}}})/"
        first, _, rest = after.partition(" ")
        if not first.startswith('"'):  # a special token, which is in no text
            name = f"TEXT_{least}_{most}"
            self._shared[f"{name}: {text}"] = None
            return f"{name} {after}"
        name = f"text_{least}_{most}"  # with the first of these marks, of which two may overlap
        sooner = f" & ~(/(?s:.{{0,{least - 1}}})/ {first} /(?s:.*)/)" if least else ""
        self._shared[f"{name}[lazy]: {text} {first}{sooner}"] = None
        return f"{name} {rest}"


def _perhaps(term: str, is_required: bool) -> str:
    return term if is_required else f"({term})?"
