"""Owns DrafterSpec, the description of a drafting method, and the registry of all methods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from specguide import native
from specguide.cache import CacheShape, KVCache
from specguide.config import SpecConfig
from specguide.drafts.methods import DraftMethod, add_method
from specguide.errors import InvalidParams
from specguide.models import Decoder
from specguide.models.cache_shape import cache_shape
from specguide.models.config import ModelConfig
from specguide.parallel import Ranks
from specguide.slots import SlotTable
from specguide.speculation.drafter import Drafter
from specguide.speculation.drafting import DraftingFactory


@dataclass(frozen=True, eq=False)
class DraftTarget:
    """The target for which a drafter is loaded.

    model:   the loaded target
    folder:  its folder; None for the shipped model
    shipped: folder of the shipped model, with its heads
    """

    model: Decoder
    folder: str | Path | None
    shipped: Path


class CutModel(Protocol):
    """A model that may be divided among ranks: the target, or a drafter's model.

    ranks: the ranks that divide it; ONE_RANK: each rank has the whole
    """

    @property
    def config(self) -> ModelConfig: ...

    @property
    def ranks(self) -> Ranks: ...


def keys_of(model: CutModel) -> CacheShape:
    """The shape of the keys that a model stores for each token; a model that stores none has pages
    of one layer."""
    return cache_shape(model.config, model.ranks)


@dataclass(frozen=True)
class DraftNeeds:
    """What the engine must allocate for a drafter's loaded model.

    keys:       shape of the keys that it stores for each token; None: it stores none
    summed_dim: size of the rows that its ranks sum; None: each rank has the whole model
    """

    keys: CacheShape | None = None
    summed_dim: int | None = None

    @classmethod
    def of(cls, model: CutModel) -> DraftNeeds:
        """The needs of a model with the usual configuration."""
        return cls(keys_of(model), model.config.hidden_size if model.ranks.size > 1 else None)


@dataclass(frozen=True, eq=False)
class DrafterSpec:
    """A drafting method.

    method:   its name, and which drafts a configuration may ask for
    load:     loads the model of a configuration for a target; None: it has no model. Raises
              CheckpointError where the two do not fit, and InvalidParams where a folder must be
              named and is not
    propose:  makes the Drafter of a loaded model; it gets a cache if `needs` asks for keys
    needs:    what the engine must allocate for a loaded model
    lookup:   makes the source that looks drafts up on the host; None: nothing is looked up
    drafting: how drafts are made and verified; None: as their layout says
    """

    method: DraftMethod
    load: Callable[[SpecConfig, DraftTarget], Any] | None = None
    propose: Callable[[Any, KVCache | None, SlotTable], Drafter] | None = None
    needs: Callable[[Any], DraftNeeds] = DraftNeeds.of
    lookup: Callable[[SpecConfig], native.LookupSource] | None = None
    drafting: DraftingFactory | None = None


NO_DRAFTER = DrafterSpec(DraftMethod("none", "nobody"))
"""Plain decoding."""

_DRAFTERS: dict[str, DrafterSpec] = {}


def register(drafter: DrafterSpec) -> None:
    """Register a drafter, so that a SpecConfig may name it. It replaces one of the same name."""
    _DRAFTERS[drafter.method.name] = drafter
    add_method(drafter.method)


def drafter_named(name: str) -> DrafterSpec:
    """The drafter of this name. Raises InvalidParams for a method that has no entry."""
    if name not in _DRAFTERS:
        raise InvalidParams(
            f"speculation method {name!r} has no drafter; known: {', '.join(_DRAFTERS)}",
            param="spec",
        )
    return _DRAFTERS[name]
