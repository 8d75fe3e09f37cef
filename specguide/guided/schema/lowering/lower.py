"""Owns the second pass: the lowering of JSON Schemas to the core that grammar backends enforce.

Every instance of the core schema is an instance of the original. Where the core cannot express a
keyword in full it allows less: rare strings of a format are left out, an array with `contains`
begins with the items that meet it. What it cannot express at all is refused, with keyword and path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from specguide.errors import GuideLimitExceeded, InvalidGuide, UnsupportedGuide
from specguide.guided.budget import at_work, spend
from specguide.guided.schema.core.capabilities import Capabilities
from specguide.guided.schema.core.conjoined import conjoined
from specguide.guided.schema.core.nodes import Core, CoreSchema, Node, any_of, refuse
from specguide.guided.schema.document.cycles import check_cycles
from specguide.guided.schema.document.document import Place
from specguide.guided.schema.json_values import TYPES, Json
from specguide.guided.schema.judging.disjoint import Comparison
from specguide.guided.schema.judging.instance import Instances
from specguide.guided.schema.lowering.arrays import lower_array
from specguide.guided.schema.lowering.lower_forms import lower_form
from specguide.guided.schema.lowering.lowering import Lowering, Rule
from specguide.guided.schema.lowering.objects import lower_dependencies, lower_object
from specguide.guided.schema.lowering.plain import plain_node
from specguide.guided.schema.lowering.scalars import (
    listed_values,
    lower_number,
    lower_string,
    lower_type,
    lower_values,
)
from specguide.guided.schema.negation.forms import Conditional, FailedReference
from specguide.guided.schema.negation.positive import PositiveSchema
from specguide.guided.schema.pruning.prune import NONE_FITS, NoInstance
from specguide.guided.schema.topics import DYNAMIC, TOPIC_OF, allowed_types

MAX_DEFINITIONS = 4000
MAX_NEGATED = 50
_STEPS_A_SUBSCHEMA = 20


def lower(
    schema: PositiveSchema, capabilities: Capabilities, *, short_formats: bool = False
) -> CoreSchema:
    """Returns the core schema for a backend of these capabilities.

    short_formats: use the shorter expressions of formats, which libraries can combine with others

    Raises InvalidGuide for a schema that is not valid, and UnsupportedGuide, with keyword and path,
    for what the core cannot express.
    """
    lowering = _Lowering(schema, capabilities, short_formats)
    document = schema.document
    root = lowering.lower(document.root, document.start)
    lowering.finish()
    check_cycles(root, lowering.definitions)
    if root is False and not capabilities.has_open_objects:  # others may enforce what this cannot
        raise NoInstance(NONE_FITS)
    if root is False:
        raise InvalidGuide(
            "the schema allows no value at all; look for a `false` and for keywords that exclude "
            "each other",
            param="json_schema",
        )
    return CoreSchema(root, {} if root is True else lowering.definitions)


class _Lowering:
    """The lowering of one schema, with the definitions made so far."""

    def __init__(
        self, schema: PositiveSchema, capabilities: Capabilities, short_formats: bool
    ) -> None:
        self.document = schema.document
        self.capabilities = capabilities
        self.short_formats = short_formats
        self.instances = Instances(self.document)
        self.comparison = Comparison(self.document, self.instances)
        self._schema = schema
        self.definitions: dict[str, Core] = {}
        self._names: dict[tuple[str, str], str] = {}
        self._refused: dict[tuple[str, str], UnsupportedGuide] = {}
        self._to_define: list[tuple[str, Json, Place]] = []
        # Negated references around the current one.
        self._num_negated = 0
        # Cores of reference targets that replace their references; None: under way.
        self._targets: dict[tuple[str, str], Core | None] = {}
        self._has_references = True

    def lower(self, schema: Json, place: Place) -> Core:
        """Returns the core of a subschema: all its instances, or some of them."""
        if isinstance(schema, bool):
            return schema
        plain = self._plain(schema, place)
        if plain is not None:
            return plain
        spend(_STEPS_A_SUBSCHEMA)
        schema, place = self.document.read(schema, place)
        listed = listed_values(self, schema, place)
        if listed is not None:
            return listed
        return conjoined(place.path, self._parts(schema, place))

    @contextmanager
    def without_references(self) -> Iterator[None]:
        """In its block, the core of a reference's target replaces the reference."""
        had_references, self._has_references = self._has_references, False
        try:
            yield
        finally:
            self._has_references = had_references

    def _plain(self, schema: Json, place: Place) -> Core | None:
        def child(inside: Json, path: str) -> Core:
            return self.lower(inside, Place(path, place.base))

        return plain_node(schema, place.path, self.capabilities.has_open_objects, child)

    def instead_of(self, keyword: str, place: Place) -> Iterator[Core]:
        """Yields the cores whose conjunction stands for a keyword with a negation, of the subschema
        at `place`."""
        for form in self._schema.forms[place.path, keyword]:
            yield lower_form(self, form)

    def failed_condition(self, place: Place) -> Core:
        """Returns the core of the values that fail the `if` of the subschema at `place`."""
        (form,) = self._schema.forms[place.path, "if"]
        return lower_form(self, form.failed if isinstance(form, Conditional) else form)

    def reference(self, reference: str, place: Place) -> Core:
        """Returns the core of a `$ref` at `place`: a reference to a definition, which `finish`
        writes."""
        schema, found = self.document.resolve(reference, place)
        if isinstance(schema, bool):
            return schema
        if not self._has_references:
            key = ("lower", found.path)
            return self._target(key, place.path, lambda: self.lower(schema, found))
        if ("lower", found.path) not in self._names:
            self._to_define.append((self._name("lower", found.path), schema, found))
        return Node(place.path, ref=self._names["lower", found.path])

    def failed_reference(self, form: FailedReference) -> Core:
        """Returns the core of the values that fail a referenced subschema. The definition is made
        at once, since it may be refused."""
        key = ("negate", form.target)
        if not self._has_references:
            failure = self._schema.failures[form.target]
            return self._target(key, form.path, lambda: lower_form(self, failure))
        if key in self._refused:
            raise self._refused[key]
        if key not in self._names:
            self._define_failure(form)
        known = self.definitions.get(self._names[key])
        return known if isinstance(known, bool) else Node(form.path, ref=self._names[key])

    def _target(self, key: tuple[str, str], path: str, lower_it: Callable[[], Core]) -> Core:
        """The core of a reference's target, made once. path: that of the reference"""
        if key not in self._targets:
            self._targets[key] = None
            try:
                self._targets[key] = lower_it()
            finally:
                if self._targets[key] is None:
                    del self._targets[key]
        core = self._targets[key]
        if core is None:
            why = "it leads back to itself inside propertyNames; write out the names there"
            raise refuse("$ref", path, why)
        return core

    def _define_failure(self, form: FailedReference) -> None:
        if self._num_negated >= MAX_NEGATED:
            raise refuse(
                "$ref",
                form.path,
                f"it is negated through a chain of more than {MAX_NEGATED} references; shorten it",
            )
        name = self._name("negate", form.target)
        self._num_negated += 1
        try:
            self.definitions[name] = lower_form(self, self._schema.failures[form.target])
        except UnsupportedGuide as error:
            self._refused["negate", form.target] = error
            self.definitions[name] = False
            raise
        finally:
            self._num_negated -= 1

    def finish(self) -> None:
        """Writes the definitions that were referenced."""
        while self._to_define:
            name, schema, place = self._to_define.pop()
            self.definitions[name] = self.lower(schema, place)

    def _name(self, how: str, path: str) -> str:
        if len(self._names) >= MAX_DEFINITIONS:  # libraries follow a chain of them recursively
            raise GuideLimitExceeded(
                f"the schema refers to more than {MAX_DEFINITIONS} definitions; make it smaller",
                limit="max_source_bytes",
            )
        return self._names.setdefault((how, path), f"d{len(self._names)}")

    def _parts(self, schema: Mapping[str, Json], place: Place) -> Iterator[Core]:
        """The cores of a subschema's keywords in the schema's order; keywords of one topic
        together."""
        types = allowed_types(schema)
        done = set()
        for keyword in schema:
            topic = TOPIC_OF.get(keyword)
            if topic is None or topic in done or (topic in TYPES and topic not in types):
                continue
            done.add(topic)
            with at_work(keyword, place.path):
                yield from _LOWERINGS[topic](self, schema, place)


def _ref(lowering: Lowering, schema: Mapping[str, Json], place: Place) -> Iterator[Core]:
    yield lowering.reference(schema["$ref"], place)


def _all_of(lowering: Lowering, schema: Mapping[str, Json], place: Place) -> Iterator[Core]:
    yield from (
        lowering.lower(child, place / "allOf" / i) for i, child in enumerate(schema["allOf"])
    )


def _any_of(lowering: Lowering, schema: Mapping[str, Json], place: Place) -> Iterator[Core]:
    yield any_of(
        place.path,
        [lowering.lower(child, place / "anyOf" / i) for i, child in enumerate(schema["anyOf"])],
    )


def _instead_of(keyword: str) -> Rule:
    """The rule for a keyword with a negation."""

    def rule(lowering: Lowering, schema: Mapping[str, Json], place: Place) -> Iterator[Core]:
        return lowering.instead_of(keyword, place)

    return rule


def _dynamic(lowering: Lowering, schema: Mapping[str, Json], place: Place) -> Iterator[Core]:
    for keyword in schema.keys() & DYNAMIC:
        there = lowering.document.static_reference(keyword, schema[keyword], place)
        yield lowering.reference(*there)


_LOWERINGS: dict[str, Rule] = {
    "type": lower_type,
    "values": lower_values,
    "number": lower_number,
    "string": lower_string,
    "array": lower_array,
    "object": lower_object,
    "dependencies": lower_dependencies,
    "$ref": _ref,
    "allOf": _all_of,
    "anyOf": _any_of,
    **{keyword: _instead_of(keyword) for keyword in ("oneOf", "not", "if")},
    "dynamic": _dynamic,
}
