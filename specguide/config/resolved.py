"""Owns ResolvedConfig: every choice that the configuration leaves open is made here, once, from the
facts about model and device."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from specguide.config.adapters import adapter_folders
from specguide.config.engine import CacheConfig, EngineConfig, TransferConfig
from specguide.config.guide import GuideConfig
from specguide.config.spec import SpecConfig
from specguide.drafts.layout import NO_DRAFTS, DraftLayout
from specguide.drafts.methods import AUTO
from specguide.drafts.tree import DynamicTree
from specguide.errors import InvalidParams
from specguide.host import env

_AUTO_LEN = -1
_NUM_FORCED_BY_AUTO = 8
# Within this bound, an 8B model computes a burst of prompts at nearly its full rate, while decoding
# requests still get tokens thirty times a second. Where decoding alone takes longer, the bound
# grows with it, so that prompts keep up.
_GPU_MAX_STEP_S = 0.025
_GPU_MIN_SLOWDOWN = 3.5
# On a GPU, a wait for one slot's row delays the whole batch for the sake of one draft.
_GPU_DRAFT_WAIT_US = 20


@dataclass(frozen=True)
class Facts:
    """The facts about device and model that a configuration cannot know.

    device:        "cpu" or "cuda:INDEX"
    dtype:         torch's name of the dtype that the models compute in
    max_positions: the target's context length, tokens
    own_head:      method of the draft head that belongs to the target; None: it has none
    has_fp8_cache: the target's checkpoint asks for keys and values in 8-bit floats
    reads_images:  the target's folder has an encoder of images that can be read
    """

    device: str
    dtype: str
    max_positions: int
    own_head: str | None = None
    has_fp8_cache: bool = False
    reads_images: bool = False

    @property
    def is_gpu(self) -> bool:
        return self.device.startswith("cuda")


@dataclass(frozen=True)
class CallbackConfig:
    """How the callbacks of the grammar stream are called, and how long they wait.

    polls:          a thread polls for calls; else CUDA calls host functions
    num_threads:    worker threads of the grammar executor
    deadline_us:    longest wait for any row, microseconds
    draft_wait_us:  longest wait for the drafter's rows once its step needs them, microseconds
    target_wait_us: the same for the target's rows. None: the time of an iteration divided by its
                    requests, which the executor measures
    """

    polls: bool
    num_threads: int
    deadline_us: int
    draft_wait_us: int
    target_wait_us: int | None


@dataclass(frozen=True)
class ResolvedConfig:
    """An EngineConfig in which every choice is made. EngineConfig describes the fields that are not
    named here.

    chat_template: the text of a chat template in place of the model's own; None: its own
    spec:          its method is never "auto"; for a tree, num_draft_tokens is the depth. None: no
                   drafts
    layout:        the draft layout: all drafts that there may be
    guide:         how grammars are compiled; None: there are no guides
    callbacks:     how grammars run; None: there are no guides
    max_image_tokens: 0 where the engine reads text only
    adapters:      the folders of the LoRA adapters by their names; requests know them by their
                   places, from 1 on
    device, dtype: as in Facts
    cache_dtype:   torch's name of the dtype of keys and values
    max_model_len: longest prompt plus output, tokens
    may_shorten:   the engine may lower max_model_len to what the KV cache has room for
    max_step_s:    longest time that an iteration is to take, seconds; infinite: there is no bound
    min_slowdown:  how many times as long as without prompts an iteration may take, whatever
                   max_step_s says
    lag:           iterations that are launched before the results of an earlier one are read
    enforce_eager: run iterations kernel by kernel, as on a CPU and with several stages
    """

    model: str | Path | None
    chat_template: str | None
    spec: SpecConfig | None
    layout: DraftLayout
    guide: GuideConfig | None
    callbacks: CallbackConfig | None
    cache: CacheConfig
    transfer: TransferConfig
    max_batch_size: int
    max_model_len: int
    may_shorten: bool
    max_prefill_tokens: int
    mixed_iterations: bool
    max_step_s: float
    min_slowdown: float
    quantization: str | None
    max_image_tokens: int
    limit_images_per_prompt: int
    adapters: Mapping[str, Path]
    model_impl: str
    device: str
    dtype: str
    cache_dtype: str
    tensor_parallel_size: int
    pipeline_parallel_size: int
    num_micro_batches: int
    enable_expert_parallel: bool
    rank_timeout_s: float
    rank_address: str | None
    lag: int
    enforce_eager: bool
    trace: bool

    @property
    def num_ranks(self) -> int:
        """Ranks of all stages together."""
        return self.tensor_parallel_size * self.pipeline_parallel_size

    @property
    def is_adaptive(self) -> bool:
        """Whether each iteration drafts as much of the layout as gains most tokens a second."""
        return self.spec is not None and self.spec.adaptive

    @property
    def guided_drafts(self) -> bool:
        """Whether drafts are chosen among the tokens that the grammar allows."""
        return self.spec is None or self.spec.guided_drafts


def resolve(config: EngineConfig, facts: Facts) -> ResolvedConfig:
    """Make the choices that were left open. Raises InvalidParams for a setting that does not fit
    the model or device."""
    if config.spec is not None:
        config = replace(config, spec=_resolved_spec(config.spec, facts.own_head))
    return ResolvedConfig(
        model=config.model,
        chat_template=config.chat_template,
        spec=config.spec,
        layout=config.spec.layout if config.spec else NO_DRAFTS,
        guide=config.guide,
        callbacks=_callback_config(config.guide, is_gpu=facts.is_gpu) if config.guide else None,
        cache=config.cache,
        transfer=config.transfer,
        max_batch_size=config.max_batch_size,
        max_model_len=_max_model_len(config.max_model_len, facts.max_positions),
        may_shorten=config.max_model_len == _AUTO_LEN,
        max_prefill_tokens=config.max_prefill_tokens,
        mixed_iterations=config.mixed_iterations,
        **_step_bounds(config.max_step_ms, is_gpu=facts.is_gpu),
        quantization=config.quantization,
        max_image_tokens=_max_image_tokens(config, facts),
        limit_images_per_prompt=config.limit_images_per_prompt,
        adapters=adapter_folders(config.lora_modules),
        model_impl=config.model_impl,
        device=facts.device,
        dtype=facts.dtype,
        cache_dtype=_cache_dtype(config.cache.kv_cache_dtype, facts),
        tensor_parallel_size=config.tensor_parallel_size,
        pipeline_parallel_size=config.pipeline_parallel_size,
        num_micro_batches=config.num_micro_batches or config.pipeline_parallel_size,
        enable_expert_parallel=config.enable_expert_parallel,
        rank_timeout_s=config.rank_timeout_s,
        rank_address=config.rank_address,
        lag=int(facts.is_gpu) if config.lag is None else config.lag,
        enforce_eager=(
            config.enforce_eager or not facts.is_gpu or config.pipeline_parallel_size > 1
        ),
        trace=config.trace,
    )


def _max_image_tokens(config: EngineConfig, facts: Facts) -> int:
    """0 where no images are read: by stages of a pipeline, and by engines that send keys to one
    another, either."""
    is_whole = config.pipeline_parallel_size == 1 and config.transfer.role == "both"
    return config.max_image_tokens if facts.reads_images and is_whole else 0


def _cache_dtype(wanted: str, facts: Facts) -> str:
    if wanted == "auto":
        wanted = "fp8" if facts.has_fp8_cache else facts.dtype
    return "float8_e4m3fn" if wanted in ("fp8", "fp8_e4m3") else wanted


def _step_bounds(max_step_ms: float | None, *, is_gpu: bool) -> dict[str, float]:
    if max_step_ms is not None:
        return {"max_step_s": max_step_ms * 1e-3, "min_slowdown": 0.0}
    if is_gpu:
        return {"max_step_s": _GPU_MAX_STEP_S, "min_slowdown": _GPU_MIN_SLOWDOWN}
    return {"max_step_s": math.inf, "min_slowdown": 0.0}


def _callback_config(guide: GuideConfig, *, is_gpu: bool) -> CallbackConfig:
    """How grammar callbacks run on a device, with the choices made that `guide` leaves open."""
    target_wait_us = None if is_gpu else guide.deadline_us
    draft_wait_us = _GPU_DRAFT_WAIT_US if is_gpu else guide.deadline_us
    return CallbackConfig(
        polls=is_gpu if guide.callbacks is None else guide.callbacks == "polling",
        num_threads=guide.num_threads or env.num_grammar_threads(),
        deadline_us=guide.deadline_us,
        draft_wait_us=draft_wait_us if guide.draft_wait_us is None else guide.draft_wait_us,
        target_wait_us=target_wait_us if guide.target_wait_us is None else guide.target_wait_us,
    )


def _resolved_spec(spec: SpecConfig, own_head: str | None) -> SpecConfig:
    if spec.method == AUTO:
        spec = _chosen_method(replace(spec, adaptive=True), own_head)
    return replace(spec, num_draft_tokens=spec.shape.num_draft_tokens(spec.num_draft_tokens))


def _chosen_method(spec: SpecConfig, own_head: str | None) -> SpecConfig:
    """The settings that "auto" stands for: the target's own head, else suffix drafts."""
    if own_head is None:
        num_forced = spec.num_forced_tokens or _NUM_FORCED_BY_AUTO
        return replace(spec, method="suffix", num_forced_tokens=num_forced)
    return replace(spec, method=own_head, tree=None if spec.num_forced_tokens else DynamicTree())


def _max_model_len(wanted: int | None, limit: int) -> int:
    if wanted in (None, _AUTO_LEN):
        return limit
    if not 2 <= wanted <= limit:
        raise InvalidParams(
            f"max_model_len must be 2 to {limit} (the model's context), or -1 (as many tokens as "
            f"the KV cache has room for); found {wanted}",
            param="max_model_len",
        )
    return wanted
