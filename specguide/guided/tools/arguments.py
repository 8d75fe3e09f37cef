"""Owns the Lark grammar of calls whose arguments are written one by one, and not as a JSON
object."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from specguide.config import GuideConfig
from specguide.errors import UnsupportedGuide
from specguide.guided.lark.literal import literal, pattern_of
from specguide.guided.lark.quoted import literal_rules, quoted_patterns
from specguide.guided.lark.schema import schema_term
from specguide.guided.tools.argument_schemas import (
    can_be_named,
    constants,
    constants_among,
    listed_of,
    not_enforced,
)
from specguide.guided.tools.arguments_form import ArgumentsForm
from specguide.guided.tools.shapes import (
    AnyShape,
    ArrayShape,
    ChoiceShape,
    JsonShape,
    Member,
    ObjectShape,
    Shape,
    TextShape,
)
from specguide.guided.tools.value_shapes import arguments_shape
from specguide.guided.tools.words import JSON_OPENERS, NUMERALS, Words


class ArgumentRules:
    """Writes the arguments of tools as rules.

    after: the text behind the arguments
    terms: writes a text as Lark, in which special tokens are tokens
    """

    def __init__(
        self, form: ArgumentsForm, after: str, terms: Callable[[str], str], limits: GuideConfig
    ) -> None:
        self._form, self._after, self._terms, self._limits = form, after, terms, limits
        self._num_rules = 0
        self._own: list[str] = []  # lines of the current tool
        self._before: dict[str, str] = {}  # terms of what is in front of values, with their names
        self._begins: dict[str, str] = {}  # terms of what is in front of JSON, by its kind
        self._texts: dict[tuple[Any, ...], str] = {}  # terms of texts, by their constraints
        self._shared: dict[str, str] = {}  # names of rules, by their bodies

    @property
    def shared(self) -> list[str]:
        """The rules that terms of several tools use."""
        return [name + body for body, name in self._shared.items()]

    def of(self, parameters: Mapping[str, Any]) -> tuple[ObjectShape, str, list[str]]:
        """A tool's arguments: their shape, their term, "" for none, and the rules that only they
        need. Raises UnsupportedGuide for what cannot be enforced, and InvalidGuide for an invalid
        schema."""
        shape = arguments_shape(self._form, parameters)
        unknown = not_enforced(parameters)
        if unknown:
            raise UnsupportedGuide(
                f"{unknown[0]} of a tool's arguments cannot be enforced in this model's tool "
                "format, which writes them one by one; leave it out",
                keyword=unknown[0],
            )
        for member in shape.members:
            if not can_be_named(self._form, member.name, self._after):
                raise _cannot_be_named(member.name)
        self._own = []
        return shape, self._members(shape, self._form.if_none), self._own

    def _members(self, shape: ObjectShape, none: str) -> str:
        """Values with names. none: the text where there are no values"""
        terms = [(self._member(member), member.is_required) for member in shape.members]
        self._num_rules += 1
        own, number = self._own, self._num_rules
        separator, if_none = self._terms(self._form.separator), self._terms(none)
        if terms and (separator or if_none) and not terms[0][1]:
            return self._chain(f"a_{number}", terms, separator, if_none)
        parts = [
            _perhaps(f"{separator} {term}" if i else term, is_required)
            for i, (term, is_required) in enumerate(terms)
        ]
        if not terms:
            return if_none
        own.append(f"a_{number}: {' '.join(parts)}")
        return f"a_{number}"

    def _member(self, member: Member) -> str:
        form, name = self._form, member.name
        marked = form.before_name + name + form.before_value
        before = self._before.get(marked)  # most names are used again
        if before is None:
            if form.is_quoted:
                before = literal(marked)
            elif "<[" in self._terms(name):
                raise _cannot_be_named(name)
            else:
                before = self._terms(marked)
            self._before[marked] = before
        return f"{before} {self._value(member.shape, form.after_value_of(name))}"

    def _chain(
        self, rule: str, terms: Sequence[tuple[str, bool]], separator: str, if_none: str
    ) -> str:
        """A rule for values any of which may be the first, which has no separator in front."""
        first, later = if_none or '""', '""'
        for i, (term, is_required) in reversed(list(enumerate(terms))):
            name = f"{rule}_{i}"
            self._own.append(f"{name}: {term}")
            ways = [f"{name} {later}"] if is_required else [f"{name} {later}", first]
            self._own.append(f"{name}_first: {' | '.join(ways)}")
            self._own.append(f"{name}_next: {_perhaps(f'{separator} {name}', is_required)} {later}")
            first, later = f"{name}_first", f"{name}_next"
        return first

    def _value(self, shape: Shape, after: str) -> str:
        """A value, and the text behind it."""
        form = self._form
        match shape:
            case TextShape() if form.is_quoted:
                return f"{self._quoted(shape.schema)} {self._terms(after)}"
            case TextShape() if form.text_marks is not None:
                return self._any_text(shape, form.text_marks, after)
            case ObjectShape() if form.object_marks is not None:
                begin, end = form.object_marks
                with self._inside():
                    members = self._members(shape, "")
                return f"{self._terms(begin)} {members} {self._terms(end + after)}"
            case ArrayShape() if form.array_marks is not None:
                begin, end = form.array_marks
                with self._inside():
                    items = self._items(shape)
                return f"{self._terms(begin)} {items} {self._terms(end + after)}"
            case AnyShape():
                return f"{self._any(shape.kind)} {self._terms(after)}"
            case ChoiceShape():
                return f"({' | '.join(self._value(option, after) for option in shape.options)})"
            case _:
                assert isinstance(shape, JsonShape)
                return f"{self._json(shape)} {self._terms(after)}"

    @contextmanager
    def _inside(self) -> Iterator[None]:
        """A context in which terms are for values inside an object or array."""
        outer, self._form = self._form, self._form.inner
        try:
            yield
        finally:
            self._form = outer

    def _items(self, shape: ArrayShape) -> str:
        """The items of an array."""
        begin, end = self._form.item_marks
        item = f"{self._terms(begin)} {self._value(shape.item, end)}"
        self._num_rules += 1
        name = f"i_{self._num_rules}"
        self._own.append(f"{name}: {item}")
        if shape.most == 0:
            return ""
        least, most = max(shape.least - 1, 0), "" if shape.most is None else shape.most - 1
        more = f"({self._terms(self._form.separator)} {name}){{{least},{most}}}"
        return _perhaps(f"{name} {more}", bool(shape.least))

    def _json(self, shape: JsonShape) -> str:
        form = self._form
        begin = self._begins.get(shape.kind)
        if begin is None:
            before = [self._terms(text) for text in form.before_json_of(shape.kind)]
            begin = before[0] if len(before) == 1 else f"({' | '.join(before)})"
            self._begins[shape.kind] = begin
        if only := constants(form, shape.written):
            return f"{begin} ({' | '.join(map(self._terms, only))})"
        value = schema_term(shape.schema, self._limits)
        if words := constants_among(form, shape.written):
            value = f"({' | '.join(map(self._terms, words))} | {value})"
        return f"{begin} {value}"

    def _any_text(self, shape: TextShape, marks: Sequence[str], behind: str) -> str:
        """A term for a text between marks, or a value in its place, and the text behind it."""
        others = self._form.other_text_marks
        before, end = self._terms(marks[0]), marks[1] + behind
        if others is None:
            return f"{before} {self._text(shape, end)}"
        usual = f"{before} {self._text(shape, end, others[0][:1])}"
        alone = self._text(TextShape(shape.schema), others[1] + behind)
        return f"({usual} | {self._terms(others[0])} {alone})"

    def _text(self, shape: TextShape, end: str, barred: str = "") -> str:
        """A term for a text, or a value in its place, and the text behind it. barred: characters
        with which the text must not begin, unless it is listed"""
        schema = shape.schema
        if listed := listed_of(schema):
            ways = (*map(literal, listed), *_patterns(shape.beside))
            return f"({' | '.join(ways)}) {self._terms(end)}"
        barred += "".join(JSON_OPENERS) if shape.is_apart else ""
        constraints = (
            int(schema.get("minLength", 0)),
            schema.get("maxLength"),
            barred,
            shape.beside,
            end,
        )
        term = self._texts.get(constraints)
        if term is None:
            term = self._texts[constraints] = self._free_text(*constraints)
        return term

    def _quoted(self, schema: Mapping[str, Any]) -> str:
        """A term for a text as a Python literal."""
        if listed := listed_of(schema):
            return f"({' | '.join(literal(repr(value)) for value in listed)})"
        least, most = int(schema.get("minLength", 0)), schema.get("maxLength")
        ways = quoted_patterns(least, None if most is None else int(most), self._form.barred)
        return self._named("TEXT", "", ways)

    def _any(self, kind: str) -> str:
        """The name of the rule for any literal of a kind."""
        barred = self._form.inner.barred
        text = self._named("TEXT", "", quoted_patterns(0, None, barred))
        self._shared.update((body, name) for name, body in literal_rules(text).items())
        return f"any_{kind or 'value'}"

    def _free_text(
        self, least: int, most: float | None, barred: str, beside: Words, end: str
    ) -> str:
        text, words, after = _pattern(least, most, barred), _patterns(beside), self._terms(end)
        if not least and most is None:  # it may be any of these words anyway
            words = ()
        first, _, rest = after.partition(" ")
        if not first.startswith('"'):  # a special token, which no text contains
            return f"{self._named('TEXT', '', (text, *words))} {after}"
        sooner = f" & ~(/(?s:.{{0,{least - 1}}})/ {first} /(?s:.*)/)" if least else ""
        ways = (f"{text} {first}{sooner}", *(f"{word} {first}" for word in words))
        return f"{self._named('text', '[lazy]', ways)} {rest}"

    def _named(self, kind: str, attribute: str, ways: Sequence[str]) -> str:
        """The name of a rule that several tools may use."""
        body = f"{attribute}: {' | '.join(ways)}"
        return self._shared.setdefault(body, f"{kind}_{len(self._shared)}")


def _pattern(least: int, most: float | None, barred: str) -> str:
    """The regular expression of texts with `least` to `most` characters that begin with no
    character of `barred`."""
    if not barred or most == 0:
        return f"/(?s:.{{{least},{'' if most is None else int(most)}}})/"
    more = f"{max(least - 1, 0)},{'' if most is None else int(most) - 1}"
    text = f"[^{pattern_of(barred)}](?s:.{{{more}}})"
    return f"/{text}/" if least else f"/({text})?/"


def _patterns(words: Words) -> tuple[str, ...]:
    """Words as terms."""
    numerals = (f"/{NUMERALS[words.numeral]}/",) if words.numeral else ()
    return (*map(literal, words.listed), *numerals)


def _cannot_be_named(name: str) -> UnsupportedGuide:
    return UnsupportedGuide(
        f"an argument cannot be named {name!r} in this model's tool format, whose marks "
        "could not be told from the name; give it another name"
    )


def _perhaps(term: str, is_required: bool) -> str:
    return term if is_required else f"({term})?"
