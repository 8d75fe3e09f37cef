"""Owns the question which definitions have an instance at all, and the taking out of those that
have none.

Backends call a whole schema malformed when a part of it that matters has no instance.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from specguide.guided.budget import spend
from specguide.guided.schema.core import Core, CoreSchema, any_of
from specguide.guided.schema.document import TYPES


class Inhabited:
    """The definitions of merged schemas that have an instance: `names`, the least set that bears
    itself out."""

    def __init__(self, definitions: Mapping[str, CoreSchema]) -> None:
        self.names: set[str] = set()
        left = list(definitions)[::-1]  # a definition mostly asks for later ones
        num_left = len(left) + 1
        while len(left) < num_left:
            num_left = len(left)
            left = [name for name in left if not self._add(name, definitions[name])]

    def _add(self, name: str, schema: CoreSchema) -> bool:
        """Whether the definition has an instance; it is known then."""
        has_instance = self._has_instance(schema)
        if has_instance:
            self.names.add(name)
        return has_instance

    def _has_instance(self, schema: CoreSchema) -> bool:
        spend(2)
        if isinstance(schema, bool):
            return schema
        if "$ref" in schema:
            return schema["$ref"].rpartition("/")[2] in self.names
        if "anyOf" in schema:
            return any(map(self._has_instance, schema["anyOf"]))
        if "enum" in schema:
            return True
        return any(self._has_instance_of(name, schema) for name in _types(schema))

    def _has_instance_of(self, name: str, schema: Core) -> bool:
        if name == "array":
            num_items = schema.get("minItems", 0)
            prefix = schema.get("prefixItems", [])[:num_items]
            return all(map(self._has_instance, prefix)) and (
                len(prefix) == num_items or self._has_instance(schema.get("items", True))
            )
        if name == "object":
            properties = schema.get("properties", {})
            spend(len(schema.get("required", ())) // 8)
            return all(
                self._has_instance(properties[name])
                for name in schema.get("required", ())
                if name in properties
            )
        return True

    def pruned(self, schema: CoreSchema) -> CoreSchema:
        """The same without parts that have no instance."""
        spend(4)
        if not self._has_instance(schema) or isinstance(schema, bool):
            return schema if schema is True else False
        if "anyOf" in schema:
            return any_of(schema.path, map(self.pruned, schema["anyOf"]))
        core = Core(schema.path, schema)
        if "enum" not in schema and "$ref" not in schema:
            kept = [name for name in _types(schema) if self._has_instance_of(name, schema)]
            if len(kept) < len(list(_types(schema))):
                core["type"] = kept
            self._prune_items(core)
            self._prune_properties(core)
        return core

    def _prune_items(self, core: Core) -> None:
        if "items" in core:
            core["items"] = self.pruned(core["items"])
        prefix = [self.pruned(child) for child in core.get("prefixItems", ())]
        if False in prefix:  # the array ends before it
            prefix, core["items"] = prefix[: prefix.index(False)], False
        if prefix:
            core["prefixItems"] = prefix
        else:
            core.pop("prefixItems", None)

    def _prune_properties(self, core: Core) -> None:
        for keyword in ("properties", "patternProperties"):
            if keyword in core:
                core[keyword] = {name: self.pruned(child) for name, child in core[keyword].items()}
        if "additionalProperties" in core:
            core["additionalProperties"] = self.pruned(core["additionalProperties"])


def _types(schema: Core) -> Iterable[str]:
    named = schema.get("type", TYPES)
    return [named] if isinstance(named, str) else named
