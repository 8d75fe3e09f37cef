"""Owns the shape of each argument of a tool where arguments are written one by one. The grammar is
made from it, and calls are read by it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from specguide.guided.schema.document.shapes import check_shapes
from specguide.guided.schema.json_values import is_object
from specguide.guided.schema.pointers import escaped, step_into
from specguide.guided.tools.argument_schemas import (
    LoneSchemas,
    allows_nothing,
    can_be_named,
    constants,
    is_text,
    listed_of,
    may_be,
    properties_of,
    refers_beyond_definitions,
)
from specguide.guided.tools.arguments_form import KINDS, ArgumentsForm, kind_of
from specguide.guided.tools.shapes import (
    AnyShape,
    ArrayShape,
    ChoiceShape,
    JsonShape,
    Member,
    ObjectShape,
    Shape,
    TextShape,
    leaves,
)
from specguide.guided.tools.words import JSON_OPENERS, NO_WORDS, NOTES, are_apart, words_for

_MOST_VALUES = 400
"""Most values of a tool that are written piece by piece; further ones are JSON."""
_MOST_DEPTH = 20
_MOST_ITEMS = 1000
_OBJECT = frozenset((*NOTES, "type", "properties", "required", "additionalProperties"))
_ARRAY = frozenset((*NOTES, "type", "items", "minItems", "maxItems"))
_SCALARS = frozenset(("string", "number", "integer", "boolean", "null"))


def arguments_shape(form: ArgumentsForm, parameters: Mapping[str, Any]) -> ObjectShape:
    """The shape of a tool's arguments. Raises InvalidGuide for an invalid schema."""
    return _Shapes(form, parameters).arguments()


def num_schemas(form: ArgumentsForm | None, shape: ObjectShape) -> int:
    """Number of JSON schemas in the grammar of a tool's arguments."""
    if form is None:
        return 1
    return sum(
        isinstance(leaf, JsonShape) and not constants(form, leaf.written) for leaf in leaves(shape)
    )


class _Shapes:
    """Makes the shapes of one tool's values. A pointer is the place of a shape's schema in
    `root`."""

    def __init__(self, form: ArgumentsForm, root: Mapping[str, Any]) -> None:
        self.form, self.root = form, root
        self._lone = LoneSchemas(root)
        self._num_left, self._depth = _MOST_VALUES, 0
        self._open: list[str] = []  # pointers that are being followed

    def arguments(self) -> ObjectShape:
        root = self.root
        check_shapes(root, "")
        for name, schema in properties_of(root):
            check_shapes(schema, f"/properties/{escaped(name)}")
        return ObjectShape(self._members(root, ""))

    def _members(self, schema: Mapping[str, Any], pointer: str) -> Sequence[Member]:
        described, required = schema.get("properties", {}), set(schema.get("required", ()))
        members = []
        for name, one in properties_of(schema):
            if name not in required and allows_nothing(one):
                continue
            step = f"properties/{escaped(name)}" if name in described else "additionalProperties"
            shape = self._value(one, f"{pointer}/{step}", self.form.after_value_of(name))
            members.append(Member(name, shape, name in required))
        if self.form.is_sorted:
            members.sort(key=lambda member: member.name.lower())
        return tuple(members)

    def _value(self, schema: Any, pointer: str, after: str) -> Shape:
        """A value's shape. after: the text behind it"""
        form = self.form
        if is_text(form, schema, after):
            text = TextShape(schema)
            is_json_too = form.has_json_texts
            return ChoiceShape((text, self._json(schema, pointer))) if is_json_too else text
        if not (form.has_own_values or form.has_bare_texts):
            return self._json(schema, pointer)
        self._num_left -= 1
        if form.has_literals or form.is_quoted:
            kind = _kind_of_any(schema)
            if kind is not None and (kind or form.is_quoted):
                return AnyShape(kind)
        if self._num_left < 0 or self._depth == _MOST_DEPTH or not is_object(schema):
            return self._json(schema, pointer)
        self._depth += 1
        shape = self._own(schema, pointer, after)
        self._depth -= 1
        return shape or self._json(schema, pointer)

    def _own(self, schema: Mapping[str, Any], pointer: str, after: str) -> Shape | None:
        """The shape of a value in the format's own marks; None where the format has none for it."""
        form = self.form
        if "$ref" in schema and schema.keys() - set(NOTES) == {"$ref"}:
            return self._referred(schema["$ref"], after)
        if form.object_marks is not None and self._is_object(schema, after):
            with self._inside():
                return ObjectShape(self._members(schema, pointer))
        if form.array_marks is not None and _is_array(schema):
            with self._inside():
                item = self._value(schema["items"], f"{pointer}/items", form.item_marks[1])
            most = schema.get("maxItems")
            return ArrayShape(item, int(schema.get("minItems", 0)), most and int(most))
        has_kinds = not isinstance(schema.get("type"), str)
        return self._choice(schema, pointer, after) if has_kinds else None

    @contextmanager
    def _inside(self) -> Iterator[None]:
        """A context in which shapes are for values inside an object or array."""
        outer, self.form = self.form, self.form.inner
        yield
        self.form = outer

    def _choice(self, schema: Mapping[str, Any], pointer: str, after: str) -> Shape | None:
        found = list(_options(schema))
        shapes = [self._value(option, f"{pointer}{step}", after) for option, step in found]
        options = tuple(_with_one_list([one for shape in shapes for one in _flat(shape)]))
        has_text = any(isinstance(one, TextShape) for one in options)
        if self.form.is_quoted or (self.form.has_literals and not has_text):
            return ChoiceShape(options) if options else None  # it is read without shapes
        if self.form.has_bare_texts:
            return self._bare(options, after)
        is_told = bool(options) and self.form.tells_texts and self._are_distinct(options)
        return ChoiceShape(options) if is_told else None

    def _bare(self, options: Sequence[Shape], after: str) -> Shape | None:
        """The shape of a value with several options, where raw texts have no mark of their own."""
        texts = [one for one in options if isinstance(one, TextShape)]
        others = [one for one in options if isinstance(one, JsonShape)]
        brackets = ObjectShape | ArrayShape | AnyShape
        own = [one for one in options if self.form.has_literals and isinstance(one, brackets)]
        every = (one for one in texts if not one.schema.keys() - {*NOTES, "type"})
        text = next(every, texts[0] if len(texts) == 1 else None)
        if text is None or len(texts) + len(others) + len(own) < len(options):
            return None
        json = [one for one in others if one.kind in ("object", "array")]
        words = words_for(self.form, [one.written for one in others if one not in json])
        in_brackets = [*json, *own]
        beside = sum((one.beside for one in texts), words or NO_WORDS)
        if words is not None and not in_brackets:
            return TextShape(text.schema, beside)
        if listed := listed_of(text.schema):
            return ChoiceShape(options) if not text.beside and are_apart(listed) else None
        if words is None or after.startswith(JSON_OPENERS):
            return None
        quoted = JsonShape(text.schema, text.schema, "string")
        return ChoiceShape((TextShape(text.schema, beside, True), quoted, *in_brackets))

    def _referred(self, reference: Any, after: str) -> Shape | None:
        """The shape of a reference's target; None where it leads elsewhere or into itself."""
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return None
        pointer, value = reference[1:], self.root
        if pointer in self._open or "$id" in self.root or "%" in pointer:
            return None
        try:
            for step in pointer.split("/")[1:]:
                value = step_into(value, step)
        except LookupError:
            return None
        check_shapes(value, pointer)
        self._open.append(pointer)
        shape = self._value(value, pointer, after)
        self._open.pop()
        return shape

    def _is_object(self, schema: Mapping[str, Any], after: str) -> bool:
        """Whether it is an object whose values all have known names."""
        if schema.get("type") != "object" or schema.keys() - _OBJECT:
            return False
        if schema.get("additionalProperties", False) is not False:
            return False
        form, named = self.form, schema.get("properties", {})
        assert form.object_marks is not None
        for name, one in named.items():
            check_shapes(one, f"/properties/{escaped(name)}")
        if not named or not named.keys() >= set(schema.get("required", ())):
            return False
        if form.inner.is_quoted:
            return all(map(form.is_plain_literal, named))
        end = form.object_marks[1] + after
        return all(can_be_named(form, name, end) for name in named)

    def _are_distinct(self, options: Sequence[Shape]) -> bool:
        """Whether the beginnings of the options tell which one is there."""
        texts = sum(isinstance(option, TextShape) for option in options)
        json = [option.kind for option in options if isinstance(option, JsonShape)]
        if self.form.tells_kinds:
            return texts + json.count("string") <= 1 and "" not in json
        own = [type(option) for option in options if isinstance(option, ObjectShape | ArrayShape)]
        is_apart = not own or _SCALARS.issuperset(json)
        return texts <= 1 and len(set(own)) == len(own) and is_apart

    def _json(self, schema: Any, pointer: str) -> JsonShape:
        kind = schema.get("type") if is_object(schema) else None
        alone = self._lone.of(pointer, schema)
        return JsonShape(alone, schema, kind if isinstance(kind, str) else "")


def _options(schema: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Schemas, with the steps to them, such that a value fits the given schema exactly where it
    fits one of them. Yields nothing where these cannot be found simply."""
    constraints = schema.keys() - set(NOTES)
    kinds = schema.get("type")
    if constraints == {"anyOf"}:
        for index, option in enumerate(schema["anyOf"]):
            check_shapes(option, f"/anyOf/{index}")
            yield option, f"/anyOf/{index}"
    elif not constraints:
        yield from (({"type": kind}, "") for kind in KINDS)
    elif constraints in ({"enum"}, {"const"}):
        listed = schema.get("enum", [schema.get("const")])
        for kind in KINDS:
            if those := [value for value in listed if kind_of(value) == kind]:
                yield {"type": kind, "enum": those}, ""
    elif isinstance(kinds, list) and not refers_beyond_definitions(schema):
        listed = schema.get("enum")
        for kind in kinds:
            here = [value for value in listed or () if may_be(kind, value)]
            fitting = {} if listed is None else {"enum": here}
            if fitting.get("enum") != []:
                yield {**schema, "type": kind, **fitting}, ""


def _with_one_list(options: Sequence[Shape]) -> Iterator[Shape]:
    """The shapes, with one listed text in place of all listed ones without words beside."""
    alone = [option for option in options if isinstance(option, TextShape) and not option.beside]
    listed = dict.fromkeys(text for option in alone for text in listed_of(option.schema))
    for option in options:
        if not (isinstance(option, TextShape) and listed_of(option.schema) and not option.beside):
            yield option
        elif listed:
            yield TextShape({"enum": list(listed)})
            listed = {}


def _kind_of_any(schema: Any) -> str | None:
    """The kind, "object" or "array", of which any value fits; "" where any value at all fits; None
    where the schema asks for more."""
    if not is_object(schema):
        return "" if schema is True else None
    constraints = schema.keys() - set(NOTES)
    if not constraints:
        return ""
    kind = schema.get("type")
    if kind == "array":
        return kind if constraints == {"type"} else None
    is_free = kind == "object" and not constraints - {"type", "properties", "additionalProperties"}
    is_open = schema.get("additionalProperties", True) in (True, {})
    return "object" if is_free and is_open and not schema.get("properties") else None


def _is_array(schema: Mapping[str, Any]) -> bool:
    """Whether it is an array whose items all have one schema."""
    if schema.get("type") != "array" or schema.keys() - _ARRAY or "items" not in schema:
        return False
    check_shapes(schema["items"], "/items")
    return schema.get("minItems", 0) <= schema.get("maxItems", _MOST_ITEMS) <= _MOST_ITEMS


def _flat(shape: Shape) -> Sequence[Shape]:
    return shape.options if isinstance(shape, ChoiceShape) else (shape,)
