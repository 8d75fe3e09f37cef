"""Arguments of calls that are written part by part, in the shapes that a format has."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence

from benchmarks.guides.random_json import CONSTANTS, NAMES, random_value
from benchmarks.guides.written_parts import Written, random_text, written_json
from specguide.guided.reading import Part
from specguide.guided.reading.json_reader import pointer_step
from specguide.guided.reading.spelled import mark_bytes
from specguide.guided.tools import ArgumentsForm, CallLayout, ToolFormat
from specguide.guided.tools.arguments_form import kind_of
from specguide.guided.tools.formats import with_id
from specguide.guided.tools.shapes import (
    ArrayShape,
    ChoiceShape,
    JsonShape,
    Member,
    ObjectShape,
    Shape,
    TextShape,
)
from specguide.guided.tools.words import Words

_TEXT = TextShape({})
_OPTIONAL = TextShape({}, Words(("null",)))


def random_shapes(
    one: ToolFormat, tools: Mapping[str, Sequence[str]], rng: random.Random
) -> dict[str, ObjectShape]:
    """Of the arguments of tools, as of a layout. tools: by name the arguments that are texts"""
    form = one.arguments
    if form is None:
        return dict.fromkeys(tools, ObjectShape())
    has_texts = form.text_marks is not None
    shapes = {}
    for tool, texts in tools.items():
        is_text = {name: has_texts and name in texts for name in NAMES}
        members = [
            Member(name, _TEXT if is_text[name] else _shape(form, rng, 2), False) for name in NAMES
        ]
        shapes[tool] = ObjectShape(members)
    return shapes


def _shape(form: ArgumentsForm, rng: random.Random, depth: int) -> Shape:
    """A random shape that a format has. depth: objects and arrays in each other, at most"""
    made: list[Shape] = [JsonShape(True, True)]
    if form.tells_texts:
        null = JsonShape({"type": "null"}, {"type": "null"}, "null")
        made += [_TEXT, ChoiceShape((_TEXT, null))]
    if form.has_bare_texts:
        made.append(_OPTIONAL)
    if form.has_literals:  # whose objects and arrays are read without their shapes
        return rng.choice(made)
    if depth and form.array_marks is not None:
        made.append(ArrayShape(_shape(form, rng, depth - 1), 0, None))
    if depth and form.object_marks is not None:
        names = rng.sample(NAMES, rng.randint(1, 3))
        members = [Member(name, _shape(form, rng, depth - 1), False) for name in names]
        made.append(ObjectShape(members))
    return rng.choice(made)


class ArgumentWriter:
    """Writes random arguments."""

    def __init__(self, made: Written, layout: CallLayout, rng: random.Random) -> None:
        self._made, self._layout, self._rng = made, layout, rng
        self._one = layout.tool_format

    def _mark(self, text: str) -> bytes:
        return mark_bytes(text, self._layout.special_ids)

    def write(self, around: Part, shape: ObjectShape) -> str:
        """Writes them, and the mark behind; as JSON."""
        one, made, rng = self._one, self._made, self._rng
        after = with_id(one.after_arguments, around.call or 0)
        if one.arguments is not None:
            around = around._replace(path="")
            return self._members(one.arguments, around, shape, one.arguments.if_none, after)
        names = rng.sample(NAMES, rng.randrange(4))
        told = written_json(made, around, {name: random_value(rng, 2) for name in names}, rng)
        made.add(around, self._mark(after))
        return told

    def _members(
        self, form: ArgumentsForm, inner: Part, shape: ObjectShape, none: str, after: str
    ) -> str:
        """Writes values with names, and the mark behind them; as JSON. none: stands before that
        where there are no values"""
        made, told = self._made, []
        some = self._rng.sample(list(shape.members), self._rng.randint(0, len(shape.members)))
        for number, member in enumerate(some):
            made.add(inner, self._mark((form.separator if number else "") + form.before_name))
            key = inner._replace(role="key", path=f"{inner.path}/{pointer_step(member.name)}")
            made.add(key, member.name.encode())
            made.add(inner, self._mark(form.before_value))
            value = self._value(form, key, inner, member.shape, form.after_value_of(member.name))
            told.append(f'"{member.name}": {value}')
        made.add(inner, self._mark((none if not some else "") + after))
        return "{" + ", ".join(told) + "}"

    def _value(
        self, form: ArgumentsForm, place: Part, outer: Part, shape: Shape, after: str
    ) -> str:
        """Writes a value, and the mark behind it; as JSON."""
        made, inner = self._made, place._replace(role="punctuation")
        match shape:
            case ChoiceShape():
                return self._value(form, place, outer, self._rng.choice(shape.options), after)
            case TextShape() if shape.beside and self._rng.random() < 0.3:
                made.add(place._replace(role="value"), b"null")
                made.add(outer, self._mark(after))
                return "null"
            case TextShape() if form.text_marks is not None:
                text = random_text(self._rng, self._mark(form.text_marks[1] + after))
                made.add(outer, self._mark(form.text_marks[0]))
                made.add(place._replace(role="value"), text.encode())
                made.add(outer, self._mark(form.text_marks[1] + after))
                return json.dumps(text, ensure_ascii=False)
            case ObjectShape() if form.object_marks is not None:
                made.add(inner, self._mark(form.object_marks[0]))
                return self._members(form, inner, shape, "", form.object_marks[1] + after)
            case ArrayShape() if form.array_marks is not None:
                return self._items(form, inner, shape.item, after)
        assert isinstance(shape, JsonShape)
        return self._listed_json(form, place, outer, shape, after)

    def _items(self, form: ArgumentsForm, inner: Part, item: Shape, after: str) -> str:
        assert form.array_marks is not None
        made, told = self._made, []
        made.add(inner, self._mark(form.array_marks[0]))
        for number in range(self._rng.randrange(4)):
            made.add(inner, self._mark((form.separator if number else "") + form.item_marks[0]))
            place = inner._replace(path=f"{inner.path}/{number}")
            told.append(self._value(form, place, inner, item, form.item_marks[1]))
        made.add(inner, self._mark(form.array_marks[1] + after))
        return "[" + ", ".join(told) + "]"

    def _listed_json(
        self, form: ArgumentsForm, place: Part, outer: Part, shape: JsonShape, after: str
    ) -> str:
        made, place = self._made, place._replace(role="value")
        value = None if shape.kind == "null" else random_value(self._rng, 2)
        made.add(outer, self._mark(form.before_json_of(shape.kind and kind_of(value))[0]))
        told = json.dumps(value)
        if any(value is word for word in CONSTANTS):
            made.add(place, form.constants.get(told, told).encode())
        else:
            told = written_json(made, place, value, self._rng)
        made.add(outer, self._mark(after))
        return told
