"""The seam between the loop and whoever runs its batches: batches are plain data, and an executor
can be anything that answers them."""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import pytest
import torch
from tiny import save_target

from specguide import Guide, SamplingParams, SpecConfig
from specguide.batch import Batch, StepOutput
from specguide.cache import CacheSize
from specguide.config import CacheConfig, EngineConfig, GuideConfig
from specguide.drafts.layout import DraftLayout
from specguide.drafts.tree import DynamicTree
from specguide.engine import Engine
from specguide.engine.executors import Capabilities, LocalExecutor, PendingOutput
from specguide.engine.setup.facts import resolved
from specguide.guided.grammar_stream.no_grammar import NoGrammar
from specguide.kernels.forward_stream import ForwardStream
from specguide.params import Speculation
from specguide.request import Request
from specguide.sampling import RequestProcessors
from specguide.trace import Recorder

EOS = 256  # of the byte tokenizer
PATIENT = GuideConfig(deadline_us=5_000_000, target_wait_us=5_000_000, draft_wait_us=5_000_000)
"""Waits with which no row is ever late."""


class ByPost:
    """Another executor, to which every batch goes as bytes."""

    def __init__(self, inner: LocalExecutor) -> None:
        self._inner, self.num_bytes = inner, 0
        self.capabilities, self.processors = inner.capabilities, inner.processors
        self.grammar, self.release, self.warm_up = inner.grammar, inner.release, inner.warm_up
        self.close = inner.close

    def execute(self, batch: Batch) -> PendingOutput:
        letter = pickle.dumps(batch)
        self.num_bytes += len(letter)
        return self._inner.execute(pickle.loads(letter))


def halved(output_ids: list[int], logits: torch.Tensor) -> torch.Tensor:
    return logits / (1 + len(output_ids) % 2)


def all_params() -> list[SamplingParams]:
    """Parameters of every kind that a batch tells the step of, logits processors last."""
    make = partial(SamplingParams, max_tokens=24)
    adjusted = dict(bad_words=["e"], frequency_penalty=0.5, logit_bias={101: 3.0}, min_tokens=4)
    guide = Guide(json_schema={"type": "object", "properties": {"age": {"type": "integer"}}})
    return [
        make(),
        make(guide=guide),
        make(guide=Guide(regex="[a-z]{3,9}( [0-9]+)?"), temperature=0.9, seed=3),
        make(temperature=0.8, top_k=20, top_p=0.9, min_p=0.01, seed=4, n=2),
        make(logprobs=2, prompt_logprobs=1, return_drafts=True),
        make(**adjusted, temperature=0.7, seed=5),
        make(stop=["the"], ignore_eos=True),
        make(stop_token_ids=[101, 32]),
        make(speculation=Speculation(num_draft_tokens=0, guided_drafts=False)),
        make(max_tokens=9, logits_processors=[halved]),
    ]


PROMPTS = ["A person named ", "Numbers: 1 2 3 4 ", "the cat and the cat and", "x"]
MODES = {
    "plain": None,
    "eagle3": SpecConfig(),
    "adaptive": SpecConfig(adaptive=True),
    "tree": SpecConfig(tree=DynamicTree(3, 2, 8)),
    "forced": SpecConfig(num_forced_tokens=4),
    "mtp": SpecConfig("mtp"),
    "ngram": SpecConfig("ngram"),
}


def run(engine: Engine, asked: Sequence[SamplingParams]) -> list[Request]:
    requests = [
        engine.add(engine.prompt_ids(PROMPTS[number % len(PROMPTS)] * 3), params, sample=sample)
        for number, params in enumerate(asked)
        for sample in range(params.n)
    ]
    while engine.num_unfinished:
        engine.step()
    engine.check_integrity()
    return requests


def told(request: Request) -> tuple:
    """The parts of a request that a caller reads, but for times."""
    logprobs = [{token: one.rank for token, one in entry.items()} for entry in request.logprobs]
    return (
        request.output_ids,
        request.text.text,
        request.finish_reason,
        request.stop_reason,
        str(request.error),
        logprobs,
        len(request.prompt_logprobs),
    )


def config_of(mode: str) -> EngineConfig:
    return EngineConfig(
        spec=MODES[mode],
        guide=PATIENT,
        max_batch_size=4,
        max_model_len=128,
        max_prefill_tokens=32,
        cache=CacheConfig(page_size=4, num_pages=80),  # too few for four: some lose theirs
    )


@pytest.fixture(scope="module")
def expected():
    """What is output without drafts, by batches that stay."""
    engine = Engine(config_of("plain"))
    outputs = [told(request) for request in run(engine, all_params())]
    engine.close()
    assert {error for *_, error, _, _ in outputs} == {"None"}
    return outputs


@pytest.mark.parametrize("mode", MODES)
def test_batches_may_go_to_another_process(expected, mode):
    config = config_of(mode)
    there = ByPost(LocalExecutor.load(resolved(config)))
    engine = Engine(config, executor=there)
    try:
        asked = all_params()[: -1 if mode == "tree" else None]  # it calls no processors
        outputs = [told(request) for request in run(engine, asked)]
        assert outputs == expected[: len(outputs)]
        assert there.num_bytes > 0 and not there.processors
    finally:
        engine.close()


@dataclass
class Parrot:
    """An executor without a model: it says each prompt again, a token an iteration, then the end
    token. No two prompts may begin alike: it does not hear what is in pages already."""

    capabilities: Capabilities
    grammar: NoGrammar
    processors: dict[int, RequestProcessors] = field(default_factory=dict)
    heard: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    num_said: dict[int, int] = field(default_factory=lambda: defaultdict(int))

    def execute(self, batch: Batch) -> PendingOutput:
        chunks = batch.chunks or (None,) * len(batch.slots)
        says = []
        for slot, table, chunk in zip(batch.slots, batch.block_tables, chunks, strict=True):
            if chunk is not None:
                self.heard[slot][chunk.start :] = chunk.token_ids
            num_tokens = len(self.heard[slot]) + self.num_said[slot]
            assert len(set(table)) * self.capabilities.cache_size.page_size >= num_tokens
            is_partial = chunk is not None and chunk.next_id is not None
            says.append([] if is_partial else self._next(slot))
        return Said(says)

    def _next(self, slot: int) -> list[int]:
        """The tokens that come next; none behind the end token, which the loop may not have read
        yet."""
        place = self.num_said[slot]
        self.num_said[slot] += 1
        return [*self.heard[slot], EOS][place : place + 1]

    def release(self, slots: Sequence[int]) -> None:
        for slot in slots:
            self.heard.pop(slot, None)
            self.num_said.pop(slot, None)

    def warm_up(self) -> None: ...

    def close(self) -> None: ...


@dataclass
class Said:
    """The answer of a parrot is there at once."""

    tokens: list[list[int]]

    def result(self) -> StepOutput:
        return StepOutput(
            tokens=torch.tensor([row or [-1] for row in self.tokens]),
            num_tokens=torch.tensor([len(row) for row in self.tokens]),
            drafts=torch.empty(len(self.tokens), 0),
            scores=None,
            prompt_scores=None,
            failures={},
        )


@pytest.mark.parametrize("lag", [0, 2])
def test_an_executor_of_ones_own(tmp_path, lag):
    save_target(tmp_path)
    capabilities = Capabilities(272, 64, CacheSize(40, 4, 0, 64, 17), DraftLayout(), True, lag)
    config = EngineConfig(
        model=tmp_path,
        max_batch_size=3,
        max_prefill_tokens=7,
        cache=CacheConfig(page_size=4),
    )
    forward = ForwardStream(torch.device("cpu"))
    parrot = Parrot(capabilities, NoGrammar(4, DraftLayout(), forward, Recorder()))
    engine = Engine(config, executor=parrot)
    prompts = [[40 * n + at for at in range(length)] for n, length in enumerate((3, 17, 8, 1, 12))]
    requests = [engine.add(prompt, SamplingParams(max_tokens=30)) for prompt in prompts]
    while engine.num_unfinished:
        engine.step()
    assert [request.output_ids for request in requests] == [[*prompt, EOS] for prompt in prompts]
    assert all(request.finish_reason == "stop" for request in requests)
    assert engine.stats().output_tokens == sum(len(request.output_ids) for request in requests)
    engine.check_integrity()
    engine.close()
