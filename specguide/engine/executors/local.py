"""Owns what an iteration runs on in this process: the loaded models, the caches and the step."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from tqdm import tqdm

from specguide import env, native
from specguide.batch import Batch
from specguide.cache import CacheNeeds, KVCache, cache_size, page_num_bytes
from specguide.engine.executors.base import Capabilities
from specguide.engine.parts import EngineParts
from specguide.engine.target_folder import SHIPPED_MODEL, target_folder
from specguide.errors import InvalidParams
from specguide.guided.callbacks import GrammarCallbacks
from specguide.guided.executor import ExecutorFactory, Walked
from specguide.guided.no_grammar import NoGrammar
from specguide.guided.stream import GrammarStream
from specguide.kernels.compile_ahead import rehearsal
from specguide.kernels.float8 import FLOAT8, has_float8
from specguide.kernels.forward_stream import ForwardStream
from specguide.models import Decoder
from specguide.resolved_config import ResolvedConfig
from specguide.sampling import RequestProcessors
from specguide.slots import SlotSizes, SlotTable
from specguide.speculation import PendingOutput, Sampler, Step, StepOptions
from specguide.speculation.drafters import (
    NO_DRAFTER,
    DrafterSpec,
    DraftTarget,
    drafter_named,
    keys_of_config,
)
from specguide.speculation.passes import ForwardPasses
from specguide.speculation.shapes import shape_of
from specguide.speculation.synthetic import SyntheticAcceptance
from specguide.speculation.warm_up import WarmUp
from specguide.trace import HostRecorder, Recorder
from specguide.trace.cuda_recorder import CudaRecorder

_LOGGER = logging.getLogger(__name__)
_NUM_LOGIT_COPIES = 4
_LIBRARY_BYTES = 1 << 30
"""Of CUDA's context, cuBLAS's workspaces, loaded kernels and graphs."""


@dataclass(frozen=True)
class LocalExecutor:
    """Runs batches on one device, in the process of the loop.

    max_prefill_tokens: most tokens of prompts in a batch
    """

    step: Step
    grammar: GrammarStream
    capabilities: Capabilities
    max_prefill_tokens: int
    processors: dict[int, RequestProcessors] = field(default_factory=dict)

    @classmethod
    def load(cls, config: ResolvedConfig, parts: EngineParts | None = None) -> LocalExecutor:
        """Load target and drafter and allocate their caches; sets torch's number of CPU threads.

        Raises CheckpointError for a folder that does not fit, InvalidParams for a device or size
        that does not.
        """
        device, dtype = torch.device(config.device), getattr(torch, config.dtype)
        torch.set_num_threads(env.num_forward_threads())
        target = Decoder.load(
            target_folder(config.model),
            device,
            dtype,
            max_positions=config.max_model_len,
            quantization=config.quantization,
        )
        drafter, entry = None, _entry(config)
        if config.spec is not None and entry.load is not None:
            drafter = entry.load(config.spec, DraftTarget(target, config.model, SHIPPED_MODEL))
        if config.cache_dtype == "float8_e4m3fn" and not target.has_cache_scales():
            _LOGGER.warning(
                "the KV cache is in fp8 and the checkpoint has no scales for it (k_scale, "
                "v_scale): keys and values are rounded as they are"
            )
        return cls.of(config, target, drafter, parts)

    @classmethod
    def of(
        cls,
        config: ResolvedConfig,
        target: Decoder,
        drafter: Any,
        parts: EngineParts | None = None,
    ) -> LocalExecutor:
        """Allocate caches and buffers for models that are loaded already.

        drafter: as the method's entry loads it; None where the method has no model
        parts:   None: the usual ones
        """
        parts = parts or EngineParts()
        page_size = config.cache.page_size
        entry = _entry(config)
        layout = config.layout
        # A request that has ended runs along until the host knows, beyond its last token by two
        # windows at most; and the places of a span of forced tokens are looked up beyond its end.
        num_behind = layout.num_drafts + layout.num_positions + layout.num_forced + 1
        max_pages = -(-(config.max_model_len + num_behind) // page_size)
        keys = [keys_of_config(target), entry.keys(drafter) if drafter is not None else None]
        shapes = [
            (num_layers, page_size, num_heads, head_dim)
            for num_layers, num_heads, head_dim in filter(None, keys)
        ]
        dtype = _cache_dtype(config, target.device)
        page_bytes = sum(page_num_bytes(*shape, dtype) for shape in shapes)
        size = cache_size(
            config.cache,
            CacheNeeds(
                page_bytes,
                max_pages,
                config.max_model_len,
                config.max_batch_size,
                _activation_bytes(
                    target,
                    config.max_prefill_tokens,
                    config.max_batch_size * layout.num_nodes,
                ),
            ),
            target.device,
        )
        cache, *draft_cache = (
            KVCache.allocate(
                num_layers,
                size.num_pages,
                page_size,
                num_kv_heads,
                head_dim,
                dtype,
                target.device,
            )
            for num_layers, page_size, num_kv_heads, head_dim in shapes
        )
        sizes = SlotSizes(
            config.max_batch_size + 1, max_pages, page_size, target.config.vocab_size, layout
        )
        state = SlotTable(sizes, target.device, is_shared_with_host=config.guide is not None)
        recorder = _recorder(config.trace, target.device, config.lag)
        lookup = entry.lookup(config.spec) if config.spec and entry.lookup else None
        grammar = _grammar_stream(config, state, recorder, lookup, parts.executor)
        proposer = None
        if drafter is not None and entry.propose is not None:
            proposer = entry.propose(drafter, draft_cache[0] if draft_cache else None, state)
        passes = ForwardPasses(target, cache, state, proposer)
        sampler = _sampler(config, grammar, state, parts)
        options = StepOptions(
            config.lag,
            config.enforce_eager,
            config.is_adaptive,
            entry.drafting,
            config.mixed_iterations,
        )
        step = parts.step(passes, sampler, state, grammar, options)
        if (
            target.device.type == "cuda"
        ):  # what was filled on another stream than the step's is there
            torch.cuda.synchronize(target.device)
        capabilities = Capabilities(
            vocab_size=target.config.vocab_size,
            max_model_len=config.max_model_len,
            cache_size=size,
            layout=layout,
            guided_drafts=config.guided_drafts,
            lag=config.lag,
            piggyback=step.piggyback_limits,
        )
        return cls(step, grammar, capabilities, config.max_prefill_tokens)

    def execute(self, batch: Batch) -> PendingOutput:
        """As Executor's. On a CPU the batch has then run."""
        processed = {row: self.processors[batch.request_ids[row]] for row in batch.processed}
        return self.step.launch(batch, processed)

    def release(self, slots: Sequence[int]) -> None:
        """As Executor's."""
        for slot in slots:
            self.step.leave(slot)

    def warm_up(self) -> None:
        """Have all graphs captured and all kernels compiled, while no slot has a request."""
        warm_ups = self.step.warm_ups(self.max_prefill_tokens, self.capabilities.max_model_len)
        if warm_ups.rehearsals:
            with rehearsal(self.grammar.forward.device, env.num_compile_threads()):
                _run_all(warm_ups.rehearsals, "compiling kernels")
        _run_all(warm_ups.captures, "capturing CUDA graphs")


def _run_all(warm_ups: Sequence[WarmUp], what: str) -> None:
    for warm_up in tqdm(warm_ups, desc=what, unit="iteration", disable=not warm_ups):
        warm_up()


def _entry(config: ResolvedConfig) -> DrafterSpec:
    return drafter_named(config.spec.method) if config.spec else NO_DRAFTER


def _cache_dtype(config: ResolvedConfig, device: torch.device) -> torch.dtype:
    """Raises InvalidParams where the GPU has none such."""
    dtype: torch.dtype = getattr(torch, config.cache_dtype)
    if dtype == FLOAT8 and not has_float8(device):
        raise InvalidParams(
            "kv_cache_dtype 'fp8' needs a GPU of compute capability 8.9 (Ada, Hopper) or later: "
            "take 'bfloat16'",
            param="kv_cache_dtype",
        )
    return dtype


def _sampler(
    config: ResolvedConfig, grammar: GrammarStream, state: SlotTable, parts: EngineParts
) -> Sampler:
    own = parts.sampler(grammar, state, guided_drafts=config.guided_drafts)
    spec = config.spec
    if spec is None or spec.synthetic_acceptance is None:
        return own
    _LOGGER.warning(
        "SYNTHETIC ACCEPTANCE: drafts are accepted at random, %s tokens an iteration. Outputs are "
        "not the model's and are good for measuring alone",
        spec.synthetic_acceptance,
    )
    return SyntheticAcceptance(
        own, grammar, state, spec.synthetic_acceptance, spec.num_draft_tokens
    )


def _grammar_stream(
    config: ResolvedConfig,
    state: SlotTable,
    recorder: Recorder,
    lookup: native.LookupSource | None,
    executor: ExecutorFactory,
) -> GrammarStream:
    """One that does nothing where the engine has no guides."""
    forward, sizes = ForwardStream(state.ids.device), state.sizes
    if config.callbacks is None:
        return NoGrammar(sizes.num_slots, sizes.layout, forward, recorder)
    walked = Walked(
        state.host_nodes, shape_of(sizes.layout).walks(sizes.layout), sizes.vocab_size, lookup
    )
    return GrammarCallbacks(walked, config.callbacks, forward, recorder, executor)


def _recorder(trace: bool, device: torch.device, lag: int) -> Recorder:
    if not trace:
        return Recorder()
    return CudaRecorder(device, num_under_way=lag + 1) if device.type == "cuda" else HostRecorder()


def _activation_bytes(target: Decoder, max_prefill_tokens: int, num_nodes: int) -> int:
    """Upper bound of what iterations hold at once beside weights and cache, bytes.

    max_prefill_tokens, num_nodes: most tokens of prompts in an iteration, and nodes of all slots

    Eager iterations and captured graphs have pools of their own. Each holds, of a layer, the
    residual stream twice, the products before and after the activation, and queries, keys and
    values; and, of the logits, themselves and what adjusting and scoring them takes in float32.
    """
    config = target.config
    widths = (
        4 * config.hidden_size
        + 3 * config.intermediate_size
        + 2 * (config.num_heads + 2 * config.num_kv_heads) * config.head_dim
    )
    layer_bytes = (max_prefill_tokens + num_nodes) * widths * target.dtype.itemsize
    logits_bytes = num_nodes * config.vocab_size * (target.dtype.itemsize + _NUM_LOGIT_COPIES * 4)
    return 2 * (layer_bytes + logits_bytes) + _LIBRARY_BYTES
