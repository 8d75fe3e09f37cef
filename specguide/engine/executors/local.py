"""Owns LocalExecutor: the loaded models, caches, grammar stream and step of this process."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from specguide import native
from specguide.batch import Batch
from specguide.cache import KVCache, free_unused
from specguide.config.resolved import ResolvedConfig
from specguide.engine.executors.base import Capabilities
from specguide.engine.executors.memory import Memory
from specguide.engine.setup.parts import EngineParts
from specguide.engine.setup.target_folder import SHIPPED_MODEL, target_folder
from specguide.errors import CheckpointError, InvalidParams
from specguide.guided.grammar_stream.callbacks import GrammarCallbacks
from specguide.guided.grammar_stream.executor import ExecutorFactory, Walked
from specguide.guided.grammar_stream.no_grammar import NoGrammar
from specguide.guided.grammar_stream.shared_rows import ReceivedRows, SharingCallbacks
from specguide.guided.grammar_stream.stream import GrammarStream
from specguide.host import env
from specguide.inputs.json_fields import naming
from specguide.kernels.compile_ahead import rehearsal
from specguide.kernels.forward_stream import ForwardStream
from specguide.kernels.shares import NUM_WORDS
from specguide.models import Decoder, load_decoder
from specguide.models.encoders import ImageEncoder, ImageVectors
from specguide.parallel import ONE_RANK, ONE_STAGE, Ranks, Stage
from specguide.sampling import RequestProcessors
from specguide.slots import SlotTable
from specguide.speculation import PendingOutput, Sampler, Step, StepOptions
from specguide.speculation.drafters import (
    NO_DRAFTER,
    DrafterSpec,
    DraftNeeds,
    DraftTarget,
    drafter_named,
)
from specguide.speculation.passes import ForwardPasses
from specguide.speculation.shapes import shape_of
from specguide.speculation.synthetic import SyntheticAcceptance
from specguide.speculation.warm_up import WarmUp
from specguide.tokenizer.images import ImageReader, image_token_id, white_square
from specguide.tokenizer.transformers_tokenizer import transformers_tokenizer
from specguide.trace import HostRecorder, Recorder
from specguide.trace.cuda_recorder import CudaRecorder

_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True)
class LocalExecutor:
    """Runs batches on one device, in the process of the loop.

    max_prefill_tokens: most prompt tokens in a batch
    caches: the KV caches of the target and, where it has one, of the drafter
    """

    step: Step
    grammar: GrammarStream
    capabilities: Capabilities
    max_prefill_tokens: int
    caches: tuple[KVCache, ...]
    processors: dict[int, RequestProcessors] = field(default_factory=dict)

    @classmethod
    def load(cls, config: ResolvedConfig, parts: EngineParts | None = None) -> LocalExecutor:
        """Load target and drafter and allocate their caches; sets torch's number of CPU threads.

        Raises CheckpointError for a folder that does not fit, InvalidParams for a device or size
        that does not.
        """
        return cls.build(config, *load_models(config), parts)

    @classmethod
    def build(
        cls,
        config: ResolvedConfig,
        target: Decoder,
        drafter: Any,
        parts: EngineParts | None = None,
    ) -> LocalExecutor:
        """Allocate caches and buffers for models that are loaded already.

        drafter: the model that the method's entry has loaded; None where the method has none
        parts:   the parts to build it of; None: the default ones
        """
        parts = parts or EngineParts()
        needs = DraftNeeds() if drafter is None else _entry(config).needs(drafter)
        _share_memory(target, needs)
        memory = Memory.allocate(config, target, needs.keys)
        grammar = _grammar_stream(config, target, memory.slots, parts.executor)
        step = _step(config, target, drafter, memory, grammar, parts)
        if target.device.type == "cuda":
            # Wait for buffers that were filled on another stream than the step's.
            torch.cuda.synchronize(target.device)
        capabilities = Capabilities(
            vocab_size=target.config.vocab_size,
            max_model_len=memory.size.max_model_len,
            cache_size=memory.size,
            layout=config.layout,
            guided_drafts=config.guided_drafts,
            lag=config.lag,
            piggyback=step.piggyback_limits,
            state_rows=memory.state_rows,
            image_rows=config.max_image_tokens,
        )
        return cls(step, grammar, capabilities, config.max_prefill_tokens, memory.caches)

    def execute(self, batch: Batch) -> PendingOutput:
        """See Executor. On a CPU, the batch has run when this returns."""
        processed = {row: self.processors[batch.request_ids[row]] for row in batch.processed}
        return self.step.launch(batch, processed)

    def release(self, slots: Sequence[int]) -> None:
        """See Executor."""
        self.step.leave(slots)

    def close(self) -> None:
        """See Executor. Frees the KV caches in a GPU's memory."""
        with suppress(RuntimeError):  # a device that has failed gives nothing back
            self.grammar.forward.synchronize()
            for cache in self.caches:
                cache.free()

    def warm_up(self) -> None:
        """See Executor."""
        warm_ups = self.step.warm_ups(self.max_prefill_tokens, self.capabilities.max_model_len)
        if warm_ups.rehearsals:
            with rehearsal(self.grammar.forward.device, env.num_compile_threads()):
                _run_all(warm_ups.rehearsals, "compiling kernels")
        _run_all(warm_ups.captures, "capturing CUDA graphs")


def load_models(
    config: ResolvedConfig, ranks: Ranks = ONE_RANK, stage: Stage = ONE_STAGE
) -> tuple[Decoder, Any]:
    """Load this rank's part of the target, and the drafter, which is None where the method has no
    model. Sets torch's number of CPU threads. Raises as `LocalExecutor.load` does."""
    device, dtype = torch.device(config.device), getattr(torch, config.dtype)
    torch.set_num_threads(env.num_forward_threads())
    free_unused(device)
    target = load_decoder(
        target_folder(config.model),
        device,
        dtype,
        max_positions=config.max_model_len,
        quantization=config.quantization,
        model_impl=config.model_impl,
        ranks=ranks,
        stage=stage,
        adapters=tuple(config.adapters.values()),
        reads_images=config.max_image_tokens > 0,
    )
    if config.max_image_tokens:
        target.images = _image_vectors(config, target)
    entry = _entry(config)
    if config.spec is None or entry.load is None:
        return target, None
    return target, entry.load(config.spec, DraftTarget(target, config.model, SHIPPED_MODEL))


def _image_vectors(config: ResolvedConfig, target: Decoder) -> ImageVectors:
    folder = target_folder(config.model)
    encoder = ImageEncoder.load(folder, target.device, target.dtype)
    _check_encoder(encoder, folder, config.dtype)
    return ImageVectors(
        encoder,
        image_token_id(folder),
        config.max_image_tokens,
        target.config.hidden_size,
        dtype=target.dtype,
        device=target.device,
    )


def _check_encoder(encoder: ImageEncoder, folder: Path, dtype: str) -> None:
    """Encode a small picture, so that the first one of a client waits for no library. Raises
    CheckpointError where the folder's processor makes another number of tokens of it than the
    encoder makes vectors."""
    reader = ImageReader.load(folder, transformers_tokenizer(folder), 1, dtype)
    assert reader is not None
    with naming(folder):
        try:
            image = reader.prepare(white_square(), "image")
        except InvalidParams as error:
            raise CheckpointError(f"{error}; or set max_image_tokens to 0 for text alone") from None
        encoder.encode([image])


def _share_memory(target: Decoder, needs: DraftNeeds) -> None:
    """Allocate the memory in which ranks sum, while all ranks are known to be present, and before
    the KV cache takes the memory that is left."""
    peers = target.ranks.collectives.peers
    own_dim = target.config.hidden_size
    for dim in {own_dim, needs.summed_dim or own_dim}:
        peers(1, dim, target.dtype)
    peers(1, NUM_WORDS, torch.float32)


def _run_all(warm_ups: Sequence[WarmUp], what: str) -> None:
    for warm_up in tqdm(warm_ups, desc=what, unit="iteration", disable=not warm_ups):
        warm_up()


def _entry(config: ResolvedConfig) -> DrafterSpec:
    return drafter_named(config.spec.method) if config.spec else NO_DRAFTER


def _step(
    config: ResolvedConfig,
    target: Decoder,
    drafter: Any,
    memory: Memory,
    grammar: GrammarStream,
    parts: EngineParts,
) -> Step:
    entry = _entry(config)
    slots = memory.slots
    proposer = None
    if drafter is not None and entry.propose is not None:
        proposer = entry.propose(drafter, memory.draft_cache, slots)
    passes = ForwardPasses(target, memory.cache, slots, proposer)
    sampler = _sampler(config, grammar, slots, parts)
    return parts.step(passes, sampler, slots, grammar, _step_options(config, target.ranks))


def _step_options(config: ResolvedConfig, ranks: Ranks) -> StepOptions:
    return StepOptions(
        config.lag,
        config.enforce_eager,
        config.is_adaptive,
        _entry(config).drafting,
        config.mixed_iterations,
        ranks.collectives.gather if ranks.size > 1 else None,
    )


def _sampler(
    config: ResolvedConfig, grammar: GrammarStream, slots: SlotTable, parts: EngineParts
) -> Sampler:
    own = parts.sampler(grammar, slots, guided_drafts=config.guided_drafts)
    spec = config.spec
    if spec is None or spec.synthetic_acceptance is None:
        return own
    _LOGGER.warning(
        "SYNTHETIC ACCEPTANCE: drafts are accepted at random, so that an iteration gives %s tokens "
        "on average. The outputs are not those of the model: use this only to measure speed",
        spec.synthetic_acceptance,
    )
    return SyntheticAcceptance(
        own, grammar, slots, spec.synthetic_acceptance, spec.num_draft_tokens
    )


def _grammar_stream(
    config: ResolvedConfig, target: Decoder, slots: SlotTable, executor: ExecutorFactory
) -> GrammarStream:
    """The grammar stream; one that does nothing where the engine has no guides."""
    recorder = _recorder(config.trace, target.device, config.lag)
    forward = ForwardStream(slots.ids.device)
    sizes = slots.sizes
    if config.callbacks is None:
        return NoGrammar(sizes.num_slots, sizes.layout, forward, recorder)
    walks = shape_of(sizes.layout).walks(sizes.layout)
    walked = Walked(slots.host_nodes, walks, sizes.vocab_size, _lookup(config))
    ranks = target.stage.world
    if ranks.size == 1:
        return GrammarCallbacks(walked, config.callbacks, forward, recorder, executor)
    tokens = slots.nodes.tokens
    if ranks.rank:
        return ReceivedRows(walked, config.callbacks, forward, recorder, ranks, tokens)
    return SharingCallbacks(walked, config.callbacks, forward, recorder, executor, ranks, tokens)


def _lookup(config: ResolvedConfig) -> native.LookupSource | None:
    """The source in which the method looks its drafts up; None where it has none."""
    lookup = _entry(config).lookup
    return lookup(config.spec) if config.spec and lookup else None


def _recorder(trace: bool, device: torch.device, lag: int) -> Recorder:
    if not trace:
        return Recorder()
    return CudaRecorder(device, num_under_way=lag + 1) if device.type == "cuda" else HostRecorder()
