"""Owns the reason why a schema has no instance: which keywords contradict each other, and where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import combinations, product

from specguide.errors import UnsupportedGuide
from specguide.guided.budget import at_most, spend
from specguide.guided.schema.core.evaluate import schemas_of_property
from specguide.guided.schema.core.nodes import Core, CoreSchema, Node, all_of
from specguide.guided.schema.json_values import Json, JsonSchema
from specguide.guided.schema.merging.merge import merge
from specguide.guided.schema.merging.merge_types import allowed
from specguide.guided.schema.pointers import step_into
from specguide.guided.schema.pruning.prune import NONE_FITS, NoInstance, prune

_MOST_STEPS = 100_000
_DEEPEST = 20
_BOUNDS = {
    "number": ("numbers", ("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")),
    "string": ("strings", ("minLength",), ("maxLength",)),
    "array": ("arrays", ("minItems",), ("maxItems",)),
    "object": ("objects", ("minProperties",), ("maxProperties",)),
}
"""Type → its field of Kinds, the keywords of lower bounds and those of upper bounds."""
_KEYWORDS = {
    "number": ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf"),
    "string": ("format", "pattern", "minLength", "maxLength"),
}


def no_instance(core: CoreSchema, schema: JsonSchema) -> NoInstance:
    """Returns the error for a schema without instances; it names the keywords that contradict each
    other, if they are found.

    core: the schema's core
    """
    why = None
    with suppress(UnsupportedGuide, RecursionError), at_most(_MOST_STEPS):
        why = _Search(core.definitions, schema).found([core.root], 0)
    return NoInstance(NONE_FITS if why is None else f"{NONE_FITS}: {why}")


class _Search:
    """Searches conjunctions for a contradiction, from the root to items and properties that an
    instance must have."""

    def __init__(self, definitions: Mapping[str, Core], schema: JsonSchema) -> None:
        self._definitions, self._schema = definitions, schema

    def found(self, cores: list[Core], depth: int) -> str | None:
        """Returns the contradiction in a conjunction without an instance; None for none found."""
        atoms = list(self._atoms(cores))
        types = allowed(atoms)
        for one, other in combinations([atom for atom in atoms if atom.kinds.types], 2):
            if one.path != other.path and not allowed([one, other]):
                return self._listed([("type", one), ("type", other)], "", " exclude each other")
        if len(types) != 1 or any(atom.values is not None for atom in atoms):
            return None
        (name,) = types
        name = "number" if name == "integer" else name
        return self._of_bounds(name, atoms) or self._inside(name, atoms, depth)

    def _atoms(self, cores: list[Core]) -> Iterator[Node]:
        """All nodes of a conjunction, except the options of choices."""
        seen: set[int] = set()
        todo = list(cores)[::-1]
        while todo:
            core = todo.pop()
            spend()
            if isinstance(core, bool) or id(core) in seen:
                continue
            seen.add(id(core))
            yield core
            todo += core.all_of[::-1]
            if core.ref is not None:
                todo.append(self._definitions[core.ref])

    def _of_bounds(self, name: str, atoms: list[Node]) -> str | None:
        """A lower bound that exceeds an upper bound."""
        if name not in _BOUNDS:
            return None
        kind, lower, upper = _BOUNDS[name]
        for (low, one), (high, other) in product(product(lower, atoms), product(upper, atoms)):
            least = getattr(getattr(one.kinds, kind), _field(low))
            most = getattr(getattr(other.kinds, kind), _field(high))
            if least is None or most is None or least < most:
                continue
            if least > most or "exclusive" in low + high:
                verb = "is greater than" if least > most else "equals"
                bounds = [(low, one), (high, other)]
                return self._listed(bounds, "", f" ({most})", f" ({least}) {verb} ")
        return None

    def _inside(self, name: str, atoms: list[Node], depth: int) -> str | None:
        """The keywords that no string or number meets; or the contradiction in an item or a
        property that an instance must have."""
        if name in _KEYWORDS:
            keywords = [(keyword, atom) for keyword in _KEYWORDS[name] for atom in atoms]
            keywords = [one for one in keywords if self._is_written(*one)]
            return self._listed(keywords, f"no {name} fits ") if len(keywords) > 1 else None
        if depth >= _DEEPEST:
            return None
        for what, child in self._required(name, atoms):
            if self._has_none(child):
                return self.found([child], depth + 1) or f"{what} has no value"
        return None

    def _required(self, name: str, atoms: list[Node]) -> Iterator[tuple[str, Core]]:
        """Each item or property that an instance must have, and its subschema."""
        if name == "array":
            arrays = [atom.kinds.arrays for atom in atoms]
            least = max(one.min_items or 0 for one in arrays)
            places = max(len(one.prefix) for one in arrays) + 1
            for i in range(min(least, places)):
                yield f"the item at place {i}", all_of("", [one.item(i) for one in arrays])
        elif name == "object":
            objects = [atom.kinds.objects for atom in atoms]
            for key in dict.fromkeys(key for one in objects for key in one.required):
                conjuncts = [part for one in objects for part in schemas_of_property(one, key)]
                yield f"the required property {key!r}", all_of("", conjuncts)

    def _has_none(self, core: Core) -> bool:
        try:
            prune(merge(CoreSchema(core, self._definitions)))
        except NoInstance:
            return True
        return False

    def _listed(
        self,
        keywords: list[tuple[str, Node]],
        before: str = "",
        behind: str = "",
        between: str = " and ",
    ) -> str | None:
        """Keywords with their pointers; None where the schema lacks one of them."""
        if not all(self._is_written(keyword, node) for keyword, node in keywords):
            return None
        places = dict.fromkeys(f"{keyword} at {node.path}/{keyword}" for keyword, node in keywords)
        return f"{before}{between.join(places)}{behind}"

    def _is_written(self, keyword: str, node: Node) -> bool:
        value: Json = self._schema
        with suppress(LookupError):
            for step in f"{node.path}/{keyword}".split("/")[1:]:
                value = step_into(value, step)
            return True
        return False


def _field(keyword: str) -> str:
    """The field of a node for a keyword."""
    return "".join(f"_{char.lower()}" if char.isupper() else char for char in keyword)
