"""Owns the first pass: the rewriting of JSON Schemas into the core that grammar backends enforce.

Every instance of the core schema is one of the original. Where the core cannot say the same it says
less: a format's rare spellings are left out, an array with `contains` begins with what it must
contain. What it cannot say even so is refused by keyword and place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations

from specguide.errors import GuideLimitExceeded, InvalidGuide, UnsupportedGuide
from specguide.guided.budget import at_work, spend
from specguide.guided.schema.arrays import lower_array
from specguide.guided.schema.capabilities import Capabilities
from specguide.guided.schema.disjoint import Comparison
from specguide.guided.schema.document import Document, Place
from specguide.guided.schema.instance import Instances
from specguide.guided.schema.json_values import TYPES, Json, JsonSchema, named_types
from specguide.guided.schema.lowering import Lowering, Rule
from specguide.guided.schema.negate import negate
from specguide.guided.schema.nodes import (
    Core,
    CoreSchema,
    Node,
    all_of,
    any_of,
    conjoined,
    refuse,
    typed,
)
from specguide.guided.schema.objects import lower_dependencies, lower_object
from specguide.guided.schema.scalars import (
    ARRAY,
    NUMBER,
    OBJECT,
    STRING,
    allowed_types,
    listed_values,
    lower_number,
    lower_string,
    lower_type,
    lower_values,
)
from specguide.guided.schema.shapes import check_shapes

MAX_DEFINITIONS = 4000
MAX_NEGATED = 50
_STEPS_A_SUBSCHEMA = 20


def lower(
    schema: JsonSchema, capabilities: Capabilities, *, short_formats: bool = False
) -> CoreSchema:
    """The core schema for a backend of these capabilities.

    short_formats: less of some formats, which libraries can put together with other patterns

    Raises InvalidGuide where the schema is none, and UnsupportedGuide naming keyword and place
    where the core cannot express it.
    """
    lowering = _Lowering(Document(schema), capabilities, short_formats)
    root = lowering.lower(schema, lowering.document.start)
    lowering.finish()
    _check_cycles(root, lowering.definitions)
    if root is False and not capabilities.has_open_objects:  # it may allow what the backend cannot
        raise UnsupportedGuide("no value that can be generated fits the schema")
    if root is False:
        raise InvalidGuide("the schema allows no value at all", param="json_schema")
    return CoreSchema(root, {} if root is True else lowering.definitions)


class _Lowering:
    """One schema on its way into the core; keeps the definitions made on the way."""

    def __init__(self, document: Document, capabilities: Capabilities, short_formats: bool) -> None:
        self.document = document
        self.capabilities = capabilities
        self.short_formats = short_formats
        self.instances = Instances(document)
        self.comparison = Comparison(document, self.instances)
        self.definitions: dict[str, Core] = {}
        self._names: dict[tuple[str, str], str] = {}
        self._refused: dict[tuple[str, str], UnsupportedGuide] = {}
        self._to_define: list[tuple[str, Json, Place]] = []
        # References on the way here, each inside the negation of the one before.
        self._num_negated = 0

    def lower(self, schema: Json, place: Place) -> Core:
        """The core of a subschema: its instances, or some of them."""
        self._visit(schema, place)
        if isinstance(schema, bool):
            return schema
        place = self.document.enter(schema, place)
        if self.document.draft <= 7 and "$ref" in schema:
            schema = {"$ref": schema["$ref"]}
        listed = listed_values(self, schema, place)
        if listed is not None:
            return listed
        return conjoined(place.path, self._parts(schema, place))

    def negate(self, schema: Json, place: Place) -> Core:
        """The core of what is no instance of a subschema, or some of it."""
        self._visit(schema, place)
        return negate(self, schema, self.document.enter(schema, place))

    def reference(self, reference: str, place: Place) -> Core:
        """The core of what a `$ref` at `place` points to: a root definition, written by
        `finish`."""
        schema, found = self.document.resolve(reference, place)
        if isinstance(schema, bool):
            return schema
        if ("lower", found.path) not in self._names:
            self._to_define.append((self._name("lower", found), schema, found))
        return Node(place.path, ref=self._names["lower", found.path])

    def negated_reference(self, reference: str, place: Place) -> Core:
        """As `reference`, for what is no instance of it; defined at once, since that may be
        refused."""
        schema, found = self.document.resolve(reference, place)
        key = ("negate", found.path)
        if key in self._refused:
            raise self._refused[key]
        if key not in self._names:
            if self._num_negated >= MAX_NEGATED:
                raise refuse(
                    "$ref",
                    place.path,
                    f"it is negated through a chain of more than {MAX_NEGATED} references",
                )
            name = self._name("negate", found)
            self._num_negated += 1
            try:
                self.definitions[name] = self.negate(schema, found)
            except UnsupportedGuide as error:
                self._refused[key], self.definitions[name] = error, False
                raise
            finally:
                self._num_negated -= 1
        known = self.definitions.get(self._names[key])
        return known if isinstance(known, bool) else Node(place.path, ref=self._names[key])

    def finish(self) -> None:
        """Writes the definitions that were referred to."""
        while self._to_define:
            name, schema, place = self._to_define.pop()
            self.definitions[name] = self.lower(schema, place)

    def _name(self, how: str, place: Place) -> str:
        if len(self._names) >= MAX_DEFINITIONS:  # the libraries follow a chain of them on the stack
            raise GuideLimitExceeded(
                f"the schema refers to more than {MAX_DEFINITIONS} definitions; make it smaller",
                limit="max_source_bytes",
            )
        return self._names.setdefault((how, place.path), f"d{len(self._names)}")

    def _visit(self, schema: Json, place: Place) -> None:
        """Checks a subschema's shape."""
        spend(_STEPS_A_SUBSCHEMA)
        check_shapes(schema, place.path)

    def _parts(self, schema: Mapping[str, Json], place: Place) -> Iterator[Core]:
        """What holds of an instance, keyword by keyword in the schema's order, those that belong
        together at once."""
        types = allowed_types(schema)
        done = set()
        for keyword in schema:
            topic = _TOPIC_OF.get(keyword)
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


def _one_of(lowering: Lowering, schema: Mapping[str, Json], place: Place) -> Iterator[Core]:
    branches = [(child, place / "oneOf" / i) for i, child in enumerate(schema["oneOf"])]
    types = allowed_types(schema)
    beside = {
        keyword: value for keyword, value in schema.items() if keyword not in ("oneOf", "anyOf")
    }
    pairs = []
    for left, right in combinations(branches, 2):
        shared = lowering.comparison.shared_types(left, right, types, context=(beside, place))
        types -= {
            name for name in shared if _takes_all(left[0], name) and _takes_all(right[0], name)
        }
        if shared:
            pairs.append((left, right, shared))
    rivals: dict[str, list[tuple[Json, Place]]] = {at.path: [] for _, at in branches}
    for left, right, shared in pairs:
        if shared & types:
            rivals[left[1].path].append(right)
            rivals[right[1].path].append(left)
    options = []
    for branch in branches:
        others = [lowering.negate(*rival) for rival in rivals[branch[1].path]]
        options.append(all_of(branch[1].path, [lowering.lower(*branch), *others]))
    yield any_of(place.path, options)
    if types != allowed_types(schema):
        kept = typed(place.path, *sorted(types))
        yield Node(place.path, all_of=(kept,)) if types else False


def _takes_all(schema: Json, name: str) -> bool:
    """Whether the subschema plainly takes every value of a type."""
    if isinstance(schema, bool):
        return schema
    if name == "number" and "number" not in (named_types(schema) or TYPES):
        return False  # integers at most
    topics = {_TOPIC_OF.get(keyword) for keyword in schema} - {"type", None}
    if "dependencies" in topics:
        topics = topics - {"dependencies"} | {"object"}
    return name in allowed_types(schema) and topics <= set(TYPES) - {name}


def _not(lowering: Lowering, schema: Mapping[str, Json], place: Place) -> Iterator[Core]:
    yield lowering.negate(schema["not"], place / "not")


def _if(lowering: Lowering, schema: Mapping[str, Json], place: Place) -> Iterator[Core]:
    condition = lowering.lower(schema["if"], place / "if")
    then, otherwise = (
        lowering.lower(schema.get(keyword, True), place / keyword) for keyword in ("then", "else")
    )
    try:
        unmet = all_of(place.path, [lowering.negate(schema["if"], place / "if"), otherwise])
    except UnsupportedGuide:
        unmet = all_of(place.path, [then, otherwise])  # right whether or not the condition holds
    yield any_of(place.path, [all_of(place.path, [condition, then]), unmet])


def _refused(lowering: Lowering, schema: Mapping[str, Json], place: Place) -> Iterator[Core]:
    keyword = next(keyword for keyword in _REFUSED if keyword in schema)
    raise refuse(keyword, place.path, "references that depend on the way to them have no grammar")
    yield


def _check_cycles(core: Core, definitions: Mapping[str, Core]) -> None:
    """Raises UnsupportedGuide where a definition leads back to itself before it has asked for
    anything."""
    finished: set[str] = set()
    for root in (core, *definitions.values()):
        on_the_way: dict[str, None] = {}
        ways = [_leads_to(root)]  # of the root, and of each definition on the way
        while ways:
            name, reference = next(ways[-1], (None, None))
            if name is None or reference is None:
                ways.pop()
                if ways:
                    finished.add(on_the_way.popitem()[0])
            elif name in on_the_way:
                raise refuse("$ref", reference.path, "it leads back to itself")
            elif name not in finished:
                on_the_way[name] = None
                ways.append(_leads_to(definitions[name]))


def _leads_to(core: Core) -> Iterator[tuple[str, Node]]:
    """The definitions that must hold right where the core does, each with the reference to it."""
    spend()
    if isinstance(core, Node):
        if core.ref is not None:
            yield core.ref, core
        for child in (*core.any_of, *core.all_of):
            yield from _leads_to(child)


_REFUSED = ("$dynamicRef", "$recursiveRef")

_TOPICS: dict[str, tuple[str, ...]] = {
    "number": NUMBER,
    "string": STRING,
    "array": ARRAY,
    "object": OBJECT,
    "dependencies": ("dependencies", "dependentRequired", "dependentSchemas"),
    "values": ("const", "enum"),
    "refused": _REFUSED,
    **{keyword: (keyword,) for keyword in ("type", "$ref", "allOf", "anyOf", "oneOf", "not", "if")},
}
_TOPIC_OF = {keyword: topic for topic, keywords in _TOPICS.items() for keyword in keywords}
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
    "oneOf": _one_of,
    "not": _not,
    "if": _if,
    "refused": _refused,
}
