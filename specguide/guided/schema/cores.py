"""Owns the passes that lead from a JSON Schema to the core schemas that a backend enforces."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from specguide.errors import GuideLimitExceeded, UnsupportedGuide
from specguide.guided.budget import at_most, spend
from specguide.guided.schema.core.capabilities import OF_KEYS, Capabilities
from specguide.guided.schema.core.enforce import unenforced
from specguide.guided.schema.core.enforced_ways import with_enforced_ways
from specguide.guided.schema.core.keywords import weight
from specguide.guided.schema.core.nodes import CoreSchema, refuse
from specguide.guided.schema.document.document import AS_USUAL, Reading
from specguide.guided.schema.json_values import JsonSchema
from specguide.guided.schema.lowering.lower import lower
from specguide.guided.schema.lowering.plain import plain_core
from specguide.guided.schema.merging.merge import merge
from specguide.guided.schema.negation.positive import PositiveSchema, without_negations
from specguide.guided.schema.pruning.contradiction import no_instance
from specguide.guided.schema.pruning.no_value import check_required
from specguide.guided.schema.pruning.prune import NoInstance, prune

_STEPS_TO_COUNT = 200_000
_TRIALS = ((None, 600_000), (2, 250_000), (1, 300_000))
"""Trials of merging, in order: how many ways to fail a subschema are used (None: all), and the most
steps."""


def core_schemas(
    schema: JsonSchema,
    able: Capabilities,
    reading: Reading = AS_USUAL,
    *,
    may_free_keys: bool = False,
) -> Iterator[CoreSchema]:
    """Yields, as far as the backend enforces them: the core; the merged core, with fewer and fewer
    ways to fail; the core with shorter expressions for some formats.

    may_free_keys: where only counted keys enforce all of it, cores with keys in any order come
                   first

    Raises GuideLimitExceeded for subschemas and references that nest too deep, UnsupportedGuide for
    a schema of which nothing can be enforced, NoInstance for one without an instance.
    """
    positive: PositiveSchema | None = None
    try:
        core = plain_core(schema, able.has_open_objects)
        if core is None:
            positive = without_negations(schema, reading)
            core = _lowered(positive, replace(able, leaves_counts=may_free_keys))
    except RecursionError:
        raise GuideLimitExceeded(
            "the schema's subschemas and references are nested too deeply; make it flatter",
            limit="max_depth",
        ) from None
    if able.has_open_objects:  # else the core may leave out instances of the schema
        check_required(core.root, schema)
    if may_free_keys and positive is not None and _are_counted(core, able):
        yield from _counted(core, able)
        core = _lowered(positive, able)
    yield from _enforced(core, able, schema)
    if positive is None:  # a plain core has no formats
        return
    shorter = lower(positive, able, short_formats=True)
    if shorter != core:
        yield from _enforced(shorter, able, schema)


def _lowered(positive: PositiveSchema, able: Capabilities) -> CoreSchema:
    """The core; with shorter expressions for some formats where the full ones cannot be written."""
    try:
        return lower(positive, able)
    except UnsupportedGuide as error:
        try:
            return lower(positive, able, short_formats=True)
        except UnsupportedGuide:
            raise error from None


def _are_counted(core: CoreSchema, able: Capabilities) -> bool:
    """Whether a schema has keys that are counted in a form that the backend does not enforce."""
    return any(doubt.keyword in OF_KEYS for doubt in unenforced(core, able))


def _counted(core: CoreSchema, able: Capabilities) -> list[CoreSchema]:
    """The merged core where the backend enforces it; else it and the core, with keys in any order,
    as far as the backend enforces them so."""
    forms = [core]
    with suppress(UnsupportedGuide, RecursionError), at_most(_STEPS_TO_COUNT):
        forms.append(prune(merge(core)))
        if next(unenforced(forms[-1], able), None) is None:
            return forms[1:]
    counting = able.with_free_keys()
    enforced = [form for form in forms if next(unenforced(form, counting), None) is None]
    return [replace(form, tracked={}) for form in enforced]


def _merged(core: CoreSchema, most_ways: int | None, able: Capabilities) -> CoreSchema:
    """The merged core. Where it has all ways to fail, and the backend does not enforce it, it is
    merged again without the ways that the backend does not enforce."""
    merged = prune(merge(core, most_ways))
    spend(weight(merged))
    if most_ways is None and next(unenforced(merged, able), None) is not None:
        narrower = with_enforced_ways(core, able)
        if narrower != core:
            merged = prune(merge(narrower))
            spend(weight(merged))
    return merged


def _enforced(core: CoreSchema, able: Capabilities, schema: JsonSchema) -> Iterator[CoreSchema]:
    """Yields those of the core and the merged cores, with fewer and fewer ways to fail, that the
    backend enforces. Raises UnsupportedGuide for none, NoInstance where there is no instance."""
    spend(weight(core))
    doubt = next(unenforced(core, able), None)
    if doubt is None:
        yield core
    merged: list[CoreSchema] = []
    for most_ways, num_steps in _TRIALS:
        try:
            with at_most(num_steps):
                other = _merged(core, most_ways, able)
            if other not in merged and next(unenforced(other, able), None) is None:
                merged.append(other)
                yield other
        except NoInstance:
            if most_ways is None and able.has_open_objects:
                raise no_instance(core, schema) from None
        except (UnsupportedGuide, RecursionError):
            pass  # the error about the core itself says more
    if doubt is not None and not merged:
        raise refuse(doubt.keyword, doubt.path, doubt.reason)
