"""Owns what a way to draft is made of, and the registry of all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specguide import native
from specguide.cache import KVCache
from specguide.config import SpecConfig
from specguide.draft_methods import DraftMethod, add_method
from specguide.errors import InvalidParams
from specguide.models import Decoder
from specguide.parallel import ONE_RANK
from specguide.slots import SlotTable
from specguide.speculation.drafter import Drafter
from specguide.speculation.drafting import DraftingFactory


@dataclass(frozen=True, eq=False)
class DraftTarget:
    """What a drafter is loaded for.

    model:   the loaded target
    folder:  its folder; None for the shipped model
    shipped: folder of the shipped model, with its heads
    """

    model: Decoder
    folder: str | Path | None
    shipped: Path


def keys_of_config(model: Any) -> tuple[int, int, int]:
    """Layers, heads of keys that this rank has, and their size, of a model with the usual
    configuration."""
    config, ranks = model.config, getattr(model, "ranks", ONE_RANK)
    return config.num_layers, config.num_kv_heads // ranks.size, config.head_dim


@dataclass(frozen=True, eq=False)
class DrafterSpec:
    """One way to draft.

    method:   its name and budget: what drafts a configuration of it may have
    load:     the model of a configuration for a target; None: there is none. Raises CheckpointError
              where the two do not fit, and InvalidParams where a folder must be named and is not
    propose:  runs a loaded model over the slots; the cache is there where `keys` says so
    keys:     layers, heads of keys and their size, of the keys that a loaded model stores for each
              token; None: it stores none
    lookup:   finds drafts on the host; None: nothing is looked up
    drafting: how drafts are made and verified; None: as their layout says
    """

    method: DraftMethod
    load: Callable[[SpecConfig, DraftTarget], Any] | None = None
    propose: Callable[[Any, KVCache | None, SlotTable], Drafter] | None = None
    keys: Callable[[Any], tuple[int, int, int] | None] = keys_of_config
    lookup: Callable[[SpecConfig], native.LookupSource] | None = None
    drafting: DraftingFactory | None = None


NO_DRAFTER = DrafterSpec(DraftMethod("none", "nobody"))
"""Plain decoding."""

_DRAFTERS: dict[str, DrafterSpec] = {}


def register(drafter: DrafterSpec) -> None:
    """From now on a SpecConfig may name it; of one name the last one counts."""
    _DRAFTERS[drafter.method.name] = drafter
    add_method(drafter.method)


def drafter_named(name: str) -> DrafterSpec:
    """Raises InvalidParams for a method that has no entry."""
    if name not in _DRAFTERS:
        raise InvalidParams(
            f"speculation method {name!r} has no drafter; known: {', '.join(_DRAFTERS)}",
            param="spec",
        )
    return _DRAFTERS[name]
