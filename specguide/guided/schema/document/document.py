"""Owns a JSON Schema as a document: its draft, the places of its subschemas, its references.

Sources: JSON Schema drafts 4, 6, 7, 2019-09 and 2020-12; RFC 6901 for JSON pointers.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from urllib.parse import unquote, urldefrag, urljoin

from specguide.errors import InvalidGuide, UnsupportedGuide
from specguide.guided.budget import spend
from specguide.guided.quick import quick
from specguide.guided.schema.core.nodes import refuse
from specguide.guided.schema.document.metaschemas import MEND as METASCHEMA_MEND
from specguide.guided.schema.document.metaschemas import is_metaschema, metaschema
from specguide.guided.schema.document.shapes import check_shapes
from specguide.guided.schema.json_values import Json, JsonSchema, is_object
from specguide.guided.schema.pointers import escaped, step_into, unescaped
from specguide.guided.schema.subschemas import subschemas

LATEST = 2020
_DRAFTS = {
    "draft-03": 3,
    "draft-04": 4,
    "draft-06": 6,
    "draft-07": 7,
    "2019-09": 2019,
    "2020-12": 2020,
}
_DYNAMIC_IN = {"$dynamicRef": "2020-12", "$recursiveRef": "2019-09"}
"""Keyword → the only draft that has it."""
_REFERENCES = frozenset({"$ref", *_DYNAMIC_IN})
_MEND = "write '#/$defs/NAME' for a subschema under $defs"
_ANCHORS = frozenset({"$anchor", "$dynamicAnchor", "$recursiveAnchor"})


@dataclass(frozen=True)
class Reading:
    """How schemas are read.

    documents:       other documents that schemas may refer to, by their URIs
    asserts_formats: whether `format` constrains strings; False: it is an annotation
    """

    documents: Mapping[str, JsonSchema] | None = None
    asserts_formats: bool = True


AS_USUAL = Reading()


@quick
@dataclass(frozen=True)
class Place:
    """The place of a subschema: its JSON pointer, and the base URI of the references in it."""

    path: str
    base: str

    def __truediv__(self, step: str | int) -> Place:
        spend(1 + len(self.path) // 64)
        return Place(f"{self.path}/{escaped(str(step))}", self.base)


def _named_draft(schema: Json) -> int | None:
    named = str(schema.get("$schema", "")) if isinstance(schema, Mapping) else ""
    return next((draft for name, draft in _DRAFTS.items() if name in named), None)


class Document:
    """A JSON Schema with all its subschemas, and the other documents that it refers to.

    draft: 4, 6, 7, 2019 or 2020, by its `$schema`; the latest where it names none

    Raises UnsupportedGuide for draft 3, and for a document in another draft.
    """

    def __init__(self, schema: JsonSchema, reading: Reading = AS_USUAL) -> None:
        self.root = schema
        self.asserts_formats = reading.asserts_formats
        self.draft = _named_draft(schema) or LATEST
        if self.draft == 3:
            raise UnsupportedGuide(
                "$schema at /$schema names draft 3 of JSON Schema; write it in draft 4 or later",
                keyword="$schema",
                path="/$schema",
            )
        self.start = Place("", "")
        self._well_shaped: set[str] = set()
        self._resources: dict[str, tuple[Json, Place]] = {"": (schema, self.start)}
        # Name of a dynamic anchor → the base URIs that have it; "": a recursive anchor.
        self._dynamic: dict[str, set[str]] = {}
        self._first: dict[str, str | None] = {}  # by name of an anchor, see _first_of
        self._documents = reading.documents or {}
        self._targets: dict[tuple[str, str], tuple[Json, Place]] = {}  # by base and reference
        self._referred: list[str] = []
        # Each subschema, its place with its own base URI, and its parent schema.
        self.indexed: list[tuple[Mapping[str, Json], Place, Json]] = []
        self._index(schema, self.start, None)
        while self._referred:
            self._add_document(self._referred.pop())

    def check(self, schema: Json, place: Place) -> None:
        """Raises InvalidGuide for a keyword of the subschema with a value of the wrong shape."""
        if not isinstance(schema, bool) and place.path not in self._well_shaped:
            check_shapes(schema, place.path)
            self._well_shaped.add(place.path)

    def enter(self, schema: Json, place: Place) -> Place:
        """Returns the place of a subschema with its own base URI, if it sets one."""
        return _entered(place, self._identifier(schema))

    def read(self, schema: Json, place: Place) -> tuple[Json, Place]:
        """Returns a subschema and its place with its own base URI. Up to draft 7 keywords beside a
        `$ref` are dropped, as these drafts ignore them. Raises InvalidGuide as `check`."""
        self.check(schema, place)
        place = self.enter(schema, place)
        if self.draft <= 7 and is_object(schema) and "$ref" in schema:
            return {"$ref": schema["$ref"]}, place
        return schema, place

    def asserted_format(self, schema: Mapping[str, Json]) -> str | None:
        """Returns the format that constrains a subschema's strings; None for none."""
        return schema.get("format") if self.asserts_formats else None

    def num_contained(self, schema: Mapping[str, Json]) -> tuple[int, float]:
        """Returns how many items of an array must and may fit a subschema's `contains`. Drafts
        before 2019-09 have no `minContains` and `maxContains`."""
        counts = schema if self.draft >= 2019 else {}
        return int(counts.get("minContains", 1)), counts.get("maxContains", inf)

    def resolve(self, reference: str, place: Place) -> tuple[Json, Place]:
        """Returns the subschema that a `$ref` at `place` points to, and its place, not yet entered.

        Raises UnsupportedGuide for an unknown document, InvalidGuide where there is no such
        subschema.
        """
        known = self._targets.get((place.base, reference))
        if known is None:
            known = self._targets[place.base, reference] = self._resolved(reference, place)
        return known

    def _resolved(self, reference: str, place: Place) -> tuple[Json, Place]:
        uri, fragment = _joined(place.base, reference)
        if f"{uri}#{fragment}" in self._resources:
            return self._resources[f"{uri}#{fragment}"]
        if uri not in self._resources:
            here = reference.startswith("/") and self._pointed_to(reference, self.root, self.start)
            mend = "put that under $defs, or give it in schema_documents"
            if here or is_metaschema(uri):
                mend = f"'#{reference}' is in this one" if here else METASCHEMA_MEND
            raise UnsupportedGuide(
                f"$ref {reference!r} at {place.path}/$ref points to another document; {mend}",
                keyword="$ref",
                path=f"{place.path}/$ref",
            )
        target = self._pointed_to(fragment, *self._resources[uri])
        if target is None:
            mend = "'#' is the whole document" if fragment == "/" else _MEND
            raise InvalidGuide(
                f"$ref {reference!r} at {place.path}/$ref points to nothing; {mend}",
                param="json_schema",
            )
        return target

    def static_reference(self, keyword: str, reference: str, place: Place) -> tuple[str, Place]:
        """Returns the `$ref`, and its place, to which a `$dynamicRef` or `$recursiveRef` at `place`
        resolves in every dynamic scope.

        There is one if it points to no dynamic anchor, if no other anchor has that name, or if
        every dynamic scope begins with the same one. Raises UnsupportedGuide where the target
        depends on the scope, or the keyword belongs to another draft; InvalidGuide for a reference
        that is no URI reference. Source: JSON Schema Core 2020-12, 8.2.3.2; 2019-09, 8.2.4.2.
        """
        draft = _DYNAMIC_IN[keyword]
        if _DRAFTS[draft] != self.draft:
            why = f"it is a keyword of draft {draft} alone; name that in $schema, or write $ref"
            raise refuse(keyword, place.path, why)
        uri, name = _joined(place.base, reference)
        anchored = self._dynamic.get(name, set())
        if uri not in anchored or len(anchored) == 1:
            return reference, place
        if name not in self._first:
            self._first[name] = self._first_of(anchored)
        first = self._first[name]
        if first is None:
            why = "its target depends on the references that lead to it; write $ref"
            raise refuse(keyword, place.path, why)
        return f"#{name}", Place(place.path, first)

    def _first_of(self, uris: set[str]) -> str | None:
        """The URI that every path from the root reaches before the others; None where that depends
        on the path."""
        root = self.enter(self.root, self.start).base
        if root in uris:
            return root
        bases = {id(schema): place.base for schema, place, _ in self.indexed}
        first = set()
        for schema, place, holder in self.indexed:
            spend()
            if holder is not None and bases[id(holder)] not in uris:
                first.add(place.base)
            for keyword in _REFERENCES & schema.keys() if place.base not in uris else ():
                if isinstance(schema[keyword], str):
                    with suppress(InvalidGuide):  # lowering raises it
                        first.add(self.enter(*self.resolve(schema[keyword], place)).base)
        first &= uris
        return first.pop() if len(first) == 1 else None

    def _add_document(self, uri: str) -> None:
        """Indexes the document of a URI that the schema refers to, if it is known."""
        if uri in self._resources:
            return
        schema = self._documents[uri] if uri in self._documents else metaschema(uri)
        if schema is None:
            return
        draft = _named_draft(schema)
        if draft not in (None, self.draft):
            raise UnsupportedGuide(
                f"$schema of the document {uri} names another draft of JSON Schema than the schema "
                "that refers to it (2020-12 where it names none); write both in one",
                keyword="$schema",
                path=f"{uri}#/$schema",
            )
        start = Place(f"{uri}#", uri)
        self._resources[uri] = (schema, start)
        self._index(schema, start, None)

    def _pointed_to(self, fragment: str, schema: Json, place: Place) -> tuple[Json, Place] | None:
        """The subschema at a JSON pointer, relative to `schema`, and its place; None for none."""
        if fragment and not fragment.startswith("/"):
            return None
        with suppress(LookupError):
            for step in unquote(fragment).split("/")[1:]:
                inside = step_into(schema, step)
                place = self.enter(schema, place) / unescaped(step)
                schema = inside
            return schema, place
        return None

    def _identifier(self, schema: Json) -> str | None:
        if not is_object(schema) or (self.draft <= 7 and "$ref" in schema):
            return None
        uri = schema.get("id" if self.draft == 4 else "$id")
        return uri if isinstance(uri, str) else None

    def _index(self, schema: Json, place: Place, holder: Json) -> None:
        if not is_object(schema):
            return
        spend(4 + len(place.path) // 64)
        uri = self._identifier(schema)
        inside = _entered(place, uri)
        if uri is not None:
            known = inside.base + (uri if uri.startswith("#") else "")
            self._resources.setdefault(known, (schema, place))
        if not _ANCHORS.isdisjoint(schema):
            self._index_anchors(schema, inside, (schema, place))
        for keyword in _REFERENCES & schema.keys():
            if isinstance(schema[keyword], str) and not schema[keyword].startswith("#"):
                self._referred.append(_joined(inside.base, schema[keyword])[0])
        self.indexed.append((schema, inside, holder))
        for _, step, child in subschemas(schema):
            self._index(child, Place(inside.path + step, inside.base), schema)

    def _index_anchors(
        self, schema: Mapping[str, Json], place: Place, found: tuple[Json, Place]
    ) -> None:
        for keyword in ("$anchor", "$dynamicAnchor"):
            if isinstance(schema.get(keyword), str):
                self._resources.setdefault(f"{place.base}#{schema[keyword]}", found)
        if isinstance(schema.get("$dynamicAnchor"), str):
            self._dynamic.setdefault(schema["$dynamicAnchor"], set()).add(place.base)
        if schema.get("$recursiveAnchor") is True:
            self._dynamic.setdefault("", set()).add(place.base)


def _entered(place: Place, uri: str | None) -> Place:
    """The place of a subschema that sets a URI, or None."""
    if uri is None or uri.startswith("#"):
        return place
    return Place(place.path, _joined(place.base, uri)[0])


def _joined(base: str, reference: str) -> tuple[str, str]:
    """The URI and the fragment of a reference. Raises InvalidGuide where it is no URI reference."""
    spend(4 + (len(base) + len(reference)) // 16)
    try:
        whole = (
            urldefrag(base)[0] + reference
            if reference.startswith("#")
            else urljoin(base, reference)
        )
        uri, fragment = urldefrag(whole)
        return uri, fragment
    except ValueError as error:
        raise InvalidGuide(
            f"{reference!r} in the schema is no URI reference: {error}; write a URI, or '#' and a "
            "JSON pointer",
            param="json_schema",
        ) from error
