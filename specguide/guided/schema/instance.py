"""Owns the question whether a JSON value is an instance of a schema as it was given, keyword by
keyword.

It is asked of the values that a schema lists. There are three answers: True, False, and None where
it is not certain: for keywords that are not read here, for formats that an expression tells only in
part, and after too many steps.
Source: JSON Schema drafts 4, 6, 7, 2019-09 and 2020-12.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from specguide.errors import InvalidGuide
from specguide.guided.budget import spend
from specguide.guided.regex.charset import EVERYTHING
from specguide.guided.regex.parse import parse
from specguide.guided.regex.tree import RegexError
from specguide.guided.regex.writer import is_exact, whole
from specguide.guided.schema.document import Document, Place
from specguide.guided.schema.formats import FORMATS, FORMATS_ALSO, TOLD_IN_PART
from specguide.guided.schema.json_values import (
    Json,
    exact,
    has_type,
    json_type,
    keys_by_type,
    named_types,
    value_key,
)
from specguide.guided.schema.patterns import pattern_matches

MAX_STEPS = 200_000
_MAX_DEPTH = 60

Answer = bool | None


class Instances:
    """Judges values by subschemas of one document; after MAX_STEPS steps nothing is certain."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._num_steps = 0

    def fits(self, schema: Json, place: Place, value: Json, depth: int = 0) -> Answer:
        """Whether `value` is an instance of the subschema at `place`."""
        spend(4)
        self._num_steps += 1
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, Mapping) or depth > _MAX_DEPTH or self._num_steps > MAX_STEPS:
            return None
        try:
            self._document.check(schema, place)
            place = self._document.enter(schema, place)
            if self._document.draft <= 7 and "$ref" in schema:
                schema = {"$ref": schema["$ref"]}
            return _all(
                rule(_Question(self, schema, place, value, depth))
                for keyword, rule in _RULES.items()
                if keyword in schema
            )
        except (InvalidGuide, RegexError):  # a part of the schema that is refused elsewhere
            return None

    def resolve(self, reference: str, place: Place) -> tuple[Json, Place]:
        """The subschema that a reference at `place` means, and its place."""
        return self._document.resolve(reference, place)

    @property
    def draft(self) -> int:
        """Of the document."""
        return self._document.draft


class _Question:
    """One subschema and one value."""

    def __init__(
        self,
        instances: Instances,
        schema: Mapping[str, Json],
        place: Place,
        value: Json,
        depth: int,
    ) -> None:
        self.instances, self.schema, self.place, self.value, self.depth = (
            instances,
            schema,
            place,
            value,
            depth,
        )
        self.kind = json_type(value)

    def asks(self, schema: Json, *steps: str | int, value: Json = ...) -> Answer:
        """Whether the value, or another one, fits a subschema of this one."""
        place = self.place
        for step in steps:
            place = place / step
        return self.instances.fits(
            schema, place, self.value if value is ... else value, self.depth + 1
        )


def _matches(pattern: str, text: str) -> Answer:
    """Whether a pattern matches in every dialect; None where that is for some to say."""
    if pattern_matches(pattern, text):
        return True
    return False if is_exact(whole(parse(pattern), search=True), EVERYTHING) else None


def _all(answers: Iterable[Answer]) -> Answer:
    found: Answer = True
    for answer in answers:
        if answer is False:
            return False
        found = None if answer is None else found
    return found


def _any(answers: Iterable[Answer]) -> Answer:
    negated = _all(map(_not, answers))
    return _not(negated)


def _not(answer: Answer) -> Answer:
    return None if answer is None else not answer


def _count(answers: list[Answer], least: int, most: float) -> Answer:
    """Whether from `least` to `most` of the answers are True."""
    sure, maybe = answers.count(True), answers.count(None)
    if sure > most or sure + maybe < least:
        return False
    return True if least <= sure and sure + maybe <= most else None


def _ref(question: _Question) -> Answer:
    schema, place = question.instances.resolve(question.schema["$ref"], question.place)
    return question.instances.fits(schema, place, question.value, question.depth + 1)


def _values(question: _Question) -> Answer:
    schema, key = question.schema, value_key(question.value)
    return ("const" not in schema or key == value_key(schema["const"])) and (
        "enum" not in schema or key in keys_by_type(schema["enum"]).get(question.kind, ())
    )


def _number(question: _Question) -> Answer:
    if question.kind != "number":
        return True
    schema, value = question.schema, exact(question.value)
    for keyword, sign in (("minimum", 1), ("maximum", -1)):
        exclusive = schema.get(f"exclusive{keyword.capitalize()}")
        bounds = [(schema[keyword], exclusive is True)] if keyword in schema else []
        if exclusive is not None and not isinstance(exclusive, bool):
            bounds.append((exclusive, True))
        for bound, is_open in bounds:
            beyond = sign * (value - exact(bound))
            if beyond < 0 or (is_open and beyond == 0):
                return False
    return "multipleOf" not in schema or value % exact(schema["multipleOf"]) == 0


def _string(question: _Question) -> Answer:
    if question.kind != "string":
        return True
    schema, value = question.schema, question.value
    if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)):
        return False
    found = [_matches(schema["pattern"], value)] if "pattern" in schema else []
    name = schema.get("format")
    if name in FORMATS and not all(
        pattern_matches(f"^(?:{table[name]})$", value)
        for table in (FORMATS, FORMATS_ALSO)
        if name in table
    ):
        found.append(None if name in TOLD_IN_PART else False)
    return _all(found)


def _array(question: _Question) -> Answer:
    if question.kind != "array":
        return True
    schema, value = question.schema, question.value
    if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
        return False
    if schema.get("uniqueItems") and len(set(map(value_key, value))) < len(value):
        return False
    return _all(
        [_items(question), _contains(question), None if "unevaluatedItems" in schema else True]
    )


def _items(question: _Question) -> Answer:
    schema, value = question.schema, question.value
    items = schema.get("items", True)
    if isinstance(items, list):
        prefix, rest, step = items, schema.get("additionalItems", True), "additionalItems"
    else:
        prefix, rest, step = schema.get("prefixItems", []), items, "items"
        prefix = prefix if question.instances.draft >= 2020 else []
    first = [
        question.asks(child, step, i, value=item)
        for i, (child, item) in enumerate(zip(prefix, value, strict=False))
    ]
    return _all([*first, *(question.asks(rest, step, value=item) for item in value[len(prefix) :])])


def _contains(question: _Question) -> Answer:
    schema = question.schema
    if "contains" not in schema or question.instances.draft == 4:
        return True
    found = [question.asks(schema["contains"], "contains", value=item) for item in question.value]
    return _count(found, schema.get("minContains", 1), schema.get("maxContains", len(found)))


def _object(question: _Question) -> Answer:
    if question.kind != "object":
        return True
    schema, value = question.schema, question.value
    if not schema.get("minProperties", 0) <= len(value) <= schema.get(
        "maxProperties", len(value)
    ) or not all(name in value for name in schema.get("required", ())):
        return False
    names = (
        [question.asks(schema["propertyNames"], "propertyNames", value=name) for name in value]
        if "propertyNames" in schema
        else []
    )
    return _all(
        [
            *(_property(question, name) for name in value),
            *names,
            None if "unevaluatedProperties" in schema else True,
        ]
    )


def _property(question: _Question, name: str) -> Answer:
    schema, value = question.schema, question.value[name]
    found = (
        [question.asks(schema["properties"][name], "properties", name, value=value)]
        if name in schema.get("properties", {})
        else []
    )
    for pattern, child in schema.get("patternProperties", {}).items():
        is_named = _matches(pattern, name)
        if is_named is not False:
            found.append(
                is_named and question.asks(child, "patternProperties", pattern, value=value)
            )
    return _all(
        found
        or [
            question.asks(
                schema.get("additionalProperties", True), "additionalProperties", value=value
            )
        ]
    )


def _dependencies(question: _Question) -> Answer:
    if question.kind != "object":
        return True
    found: list[Answer] = []
    for keyword in ("dependentRequired", "dependentSchemas", "dependencies"):
        for name, asked in question.schema.get(keyword, {}).items():
            if name in question.value:
                found.append(
                    all(other in question.value for other in asked)
                    if isinstance(asked, list)
                    else question.asks(asked, keyword, name)
                )
    return _all(found)


def _options(question: _Question, keyword: str) -> Iterable[Answer]:
    return (question.asks(child, keyword, i) for i, child in enumerate(question.schema[keyword]))


def _if(question: _Question) -> Answer:
    condition = question.asks(question.schema["if"], "if")
    met, unmet = (
        question.asks(question.schema.get(keyword, True), keyword) for keyword in ("then", "else")
    )
    return _any([_all([condition, met]), _all([_not(condition), unmet])])


_Rule = Callable[[_Question], Answer]
_RULES: dict[str, _Rule] = {
    "$ref": _ref,
    "type": lambda question: has_type(question.value, named_types(question.schema)),
    **dict.fromkeys(("const", "enum"), _values),
    **dict.fromkeys(
        ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), _number
    ),
    **dict.fromkeys(("minLength", "maxLength", "pattern", "format"), _string),
    **dict.fromkeys(
        (
            "items",
            "prefixItems",
            "minItems",
            "maxItems",
            "uniqueItems",
            "contains",
            "unevaluatedItems",
        ),
        _array,
    ),
    **dict.fromkeys(
        (
            "properties",
            "patternProperties",
            "additionalProperties",
            "required",
            "minProperties",
            "maxProperties",
            "propertyNames",
            "unevaluatedProperties",
        ),
        _object,
    ),
    **dict.fromkeys(("dependentRequired", "dependentSchemas", "dependencies"), _dependencies),
    "allOf": lambda question: _all(_options(question, "allOf")),
    "anyOf": lambda question: _any(_options(question, "anyOf")),
    "oneOf": lambda question: _count(list(_options(question, "oneOf")), 1, 1),
    "not": lambda question: _not(question.asks(question.schema["not"], "not")),
    "if": _if,
    **dict.fromkeys(("$dynamicRef", "$recursiveRef"), lambda question: None),
}
