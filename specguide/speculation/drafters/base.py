"""Owns what a way to draft is made of, and the registry of all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from specguide import native
from specguide.cache import KVCache
from specguide.config import SpecConfig
from specguide.drafts.methods import DraftMethod, add_method
from specguide.errors import InvalidParams
from specguide.layers.attention import kv_heads_of_rank
from specguide.models import Decoder
from specguide.models.config import ModelConfig
from specguide.parallel import Ranks
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


KeyShape = tuple[int, int, int]
"""Number of layers, number of key heads that this rank has, size of a head."""


class CutModel(Protocol):
    """A model that ranks may have cut: the target, or a drafter's.

    ranks: among which; ONE_RANK: each has it as a whole
    """

    @property
    def config(self) -> ModelConfig: ...

    @property
    def ranks(self) -> Ranks: ...


def keys_of(model: CutModel) -> KeyShape:
    """The shape of the keys that a model stores for each token."""
    config = model.config
    num_kv_heads = kv_heads_of_rank(config.num_kv_heads, model.ranks)
    return config.num_layers, num_kv_heads, config.head_dim


@dataclass(frozen=True)
class DraftNeeds:
    """What an engine has for a drafter's loaded model.

    keys:       shape of the keys that it stores for each token; None: it stores none
    summed_dim: features of the rows that its ranks sum; None: each has the whole model
    """

    keys: KeyShape | None = None
    summed_dim: int | None = None

    @classmethod
    def of(cls, model: CutModel) -> DraftNeeds:
        """What a model with the usual configuration needs."""
        return cls(keys_of(model), model.config.hidden_size if model.ranks.size > 1 else None)


@dataclass(frozen=True, eq=False)
class DrafterSpec:
    """One way to draft.

    method:   its name and budget: what drafts a configuration of it may have
    load:     the model of a configuration for a target; None: there is none. Raises CheckpointError
              where the two do not fit, and InvalidParams where a folder must be named and is not
    propose:  runs a loaded model over the slots; the cache is there where `keys` says so
    needs:    what the engine has for a loaded model
    lookup:   finds drafts on the host; None: nothing is looked up
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
    """Register a drafter: from now on a SpecConfig may name it; of one name the last one counts."""
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
