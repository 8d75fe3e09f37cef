"""Owns what a configuration comes to with a model on a device: every choice that was left open is
made here, once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from specguide.config import CacheConfig, EngineConfig, GuideConfig, SpecConfig
from specguide.draft_layout import NO_DRAFTS, DraftLayout
from specguide.draft_methods import AUTO
from specguide.draft_tree import DynamicTree
from specguide.errors import InvalidParams

_NUM_FORCED_BY_AUTO = 8


@dataclass(frozen=True)
class Facts:
    """What a configuration cannot know.

    device:        "cpu" or "cuda:INDEX"
    dtype:         torch's name of what the models compute in
    max_positions: the target's context, tokens
    own_head:      method of the draft head that belongs to the target; None: it has none
    """

    device: str
    dtype: str
    max_positions: int
    own_head: str | None = None

    @property
    def is_gpu(self) -> bool:
        return self.device.startswith("cuda")


@dataclass(frozen=True)
class ResolvedConfig:
    """An EngineConfig whose every choice is made; what is not named here is as there.

    spec:          never by the method "auto"; num_draft_tokens is a tree's depth. None: no drafts
    layout:        the drafts that there may be
    guide:         None: there are no guides
    device, dtype: as in Facts
    max_model_len: longest prompt plus output, tokens
    lag:           iterations that are launched before the results of an earlier one are read
    enforce_eager: run iterations kernel by kernel, as a CPU always does
    """

    model: str | Path | None
    spec: SpecConfig | None
    layout: DraftLayout
    guide: GuideConfig | None
    cache: CacheConfig
    max_batch_size: int
    max_model_len: int
    max_prefill_tokens: int
    device: str
    dtype: str
    lag: int
    enforce_eager: bool
    trace: bool

    @property
    def is_adaptive(self) -> bool:
        """Each iteration drafts as much as gains most."""
        return self.spec is not None and self.spec.adaptive

    @property
    def guided_drafts(self) -> bool:
        """Drafts are chosen among what the grammar allows."""
        return self.spec is None or self.spec.guided_drafts


def resolve(config: EngineConfig, facts: Facts) -> ResolvedConfig:
    """Make the choices that were left open. Raises InvalidParams for what does not fit."""
    if config.spec is not None:
        config = replace(config, spec=_resolved_spec(config.spec, facts.own_head))
    return ResolvedConfig(
        model=config.model,
        spec=config.spec,
        layout=config.spec.layout if config.spec else NO_DRAFTS,
        guide=config.guide,
        cache=config.cache,
        max_batch_size=config.max_batch_size,
        max_model_len=_max_model_len(config.max_model_len, facts.max_positions),
        max_prefill_tokens=config.max_prefill_tokens,
        device=facts.device,
        dtype=facts.dtype,
        lag=int(facts.is_gpu) if config.lag is None else config.lag,
        enforce_eager=config.enforce_eager or not facts.is_gpu,
        trace=config.trace,
    )


def _resolved_spec(spec: SpecConfig, own_head: str | None) -> SpecConfig:
    if spec.method == AUTO:
        spec = _chosen_method(replace(spec, adaptive=True), own_head)
    return replace(spec, num_draft_tokens=spec.tree.expansion.depth) if spec.tree else spec


def _chosen_method(spec: SpecConfig, own_head: str | None) -> SpecConfig:
    """What "auto" comes to."""
    if own_head is None:
        num_forced = spec.num_forced_tokens or _NUM_FORCED_BY_AUTO
        return replace(spec, method="suffix", num_forced_tokens=num_forced)
    return replace(spec, method=own_head, tree=None if spec.num_forced_tokens else DynamicTree())


def _max_model_len(wanted: int | None, limit: int) -> int:
    if wanted is not None and not 2 <= wanted <= limit:
        raise InvalidParams(
            f"max_model_len must be 2 to {limit}, the model's context; found {wanted}",
            param="max_model_len",
        )
    return wanted or limit
