"""Drafters that are added from here alone: one that makes a pass for each draft, and a third shape
of drafts, the block, all of whose positions come from one pass; and a tree of a shape of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from random_requests import cases
from tiny_engine import generate, make, told
from torch import Tensor
from torch.nn.functional import one_hot

from specguide import LLM, SamplingParams, SpecConfig, Speculation
from specguide.drafts import methods as draft_methods
from specguide.drafts.methods import DraftMethod
from specguide.drafts.tree import TreeShape
from specguide.drafts.tree_layout import TreeExpansion
from specguide.errors import InvalidParams
from specguide.speculation.blocks import Blocks
from specguide.speculation.drafters import DrafterSpec, DraftNeeds, base, drafter_named, register
from specguide.speculation.forward_input import ForwardInput

K = 4
PLAIN_PARAMS = [dict(), dict(temperature=0.8, top_k=20, top_p=0.95)]


@dataclass(frozen=True)
class Successors:
    """Proposes what has followed a token before: `table` int64 [vocab_size]."""

    table: Tensor
    aux_layers: tuple[int, ...] = ()
    target_ids: None = None
    position_offset: int = 0

    def refresh(
        self, inputs: ForwardInput, aux_hidden_states, target_tokens, num_accepted
    ) -> tuple[Tensor, Tensor]:
        last = num_accepted.clamp(min=0)[:, None].long()
        golden = inputs.tokens_after(target_tokens).long().gather(1, last)[:, 0]
        return golden, golden

    def step(self, inputs: ForwardInput, features) -> tuple[Tensor, Tensor]:
        return inputs.input_ids, inputs.input_ids

    def draft_logits(self, normed: Tensor) -> Tensor:
        return one_hot(self.table[normed], len(self.table)).float()


class BlockOfSuccessors(Successors):
    """Proposes all K positions at once: behind each token the one that has followed it."""

    def propose(
        self, inputs: ForwardInput, aux_hidden_states, target_tokens, num_accepted, num_drafts
    ) -> Tensor:
        golden, _ = self.refresh(inputs, aux_hidden_states, target_tokens, num_accepted)
        tokens = [golden]
        for _ in range(num_drafts - 1):
            tokens.append(self.table[tokens[-1]])
        return torch.stack(tokens)[..., None]

    def draft_logits(self, normed: Tensor) -> Tensor:
        return super().draft_logits(normed[:, 0])


def load(spec: SpecConfig, target) -> Tensor:
    return torch.load(spec.model)


DRAFTERS = [
    DrafterSpec(
        DraftMethod("successors", "model"),
        load=load,
        propose=lambda table, cache, slots: Successors(table),
        needs=lambda table: DraftNeeds(),
    ),
    DrafterSpec(
        DraftMethod("block", "model", in_one_pass=True),
        load=load,
        propose=lambda table, cache, slots: BlockOfSuccessors(table),
        needs=lambda table: DraftNeeds(),
        drafting=Blocks,
    ),
]


@pytest.fixture(autouse=True)
def registered():
    for drafter in DRAFTERS:
        register(drafter)
    yield
    for drafter in DRAFTERS:
        del base._DRAFTERS[drafter.method.name]
        del draft_methods._METHODS[drafter.method.name]


@pytest.fixture(scope="module")
def plain(folders):
    """Outputs without drafts, by the sampling parameters, and a table of what follows a token in
    them."""
    llm = make(folders, spec=False, max_batch_size=8)
    vocab_size = llm._engine.vocab_size
    found, counts = [], torch.zeros(vocab_size, vocab_size)
    for params in PLAIN_PARAMS:
        outputs = llm.generate(*cases(9, 18, **params))
        found.append(told(outputs))
        for out in outputs:
            for token, following in zip(out.token_ids, out.token_ids[1:], strict=False):
                counts[token, following] += 1
    llm.close()
    return found, counts.argmax(1)


@pytest.fixture
def table(plain, tmp_path: Path) -> Path:
    torch.save(plain[1], tmp_path / "table")
    return tmp_path / "table"


@pytest.mark.parametrize("guided_drafts", [True, False], ids=["guided", "unguided"])
@pytest.mark.parametrize("number", [0, 1], ids=["greedy", "sampled"])
@pytest.mark.parametrize("method", ["successors", "block"])
def test_they_change_no_token(folders, plain, table, method, number, guided_drafts):
    prompts, params = cases(9, 18, **PLAIN_PARAMS[number])
    spec = SpecConfig(method, table, K, guided_drafts=guided_drafts)
    for lag in (0, 2):
        llm = LLM(folders[0], spec=spec, max_batch_size=8, lag=lag)
        outs = generate(llm, prompts, params)
        assert told(outs) == plain[0][number]
    for guided in (True, False):  # some of both kinds are right
        assert any(
            out.metrics.acceptance_length > 1.3
            for out, one in zip(outs, params, strict=True)
            if (one.guide is not None) == guided
        )


@pytest.mark.parametrize("method", ["successors", "block"])
def test_they_are_adaptive_and_a_request_may_take_fewer(folders, plain, table, method):
    prompts, params = cases(9, 18)
    llm = LLM(folders[0], spec=SpecConfig(method, table, K, adaptive=True), max_batch_size=8)
    outs = llm.generate(prompts, params)
    assert told(outs) == plain[0][0]
    few = SamplingParams(max_tokens=30, speculation=Speculation(1), return_drafts=True)
    (out,) = llm.generate("ab", few)
    assert max(len(iteration.drafts) for iteration in out.iterations) <= 1
    llm.close()


def test_both_propose_the_same(folders, table):
    prompts, params = cases(9, 18)
    histograms = []
    for method in ("successors", "block"):
        llm = LLM(folders[0], spec=SpecConfig(method, table, K), max_batch_size=8)
        outs = zip(generate(llm, prompts, params), params, strict=True)
        histograms.append([out.metrics.accepted_histogram for out, one in outs if not one.guide])
    assert histograms[0] == histograms[1]


@dataclass(frozen=True)
class Pyramid(TreeShape):
    """A tree that is expanded less and less widely."""

    widths: tuple[int, ...]
    num_nodes: int

    @property
    def expansion(self) -> TreeExpansion:
        return TreeExpansion(self.widths[0], self.widths, self.num_nodes, None)


@pytest.mark.parametrize("number", [0, 1], ids=["greedy", "sampled"])
def test_a_tree_of_another_shape_changes_no_token(folders, plain, number):
    prompts, params = cases(9, 18, **PLAIN_PARAMS[number])
    spec = SpecConfig("eagle3", folders[1], tree=Pyramid((4, 2, 1), 12))
    outs = generate(LLM(folders[0], spec=spec, max_batch_size=8), prompts, params)
    assert told(outs) == plain[0][number]
    assert any(out.metrics.acceptance_length > 1.3 for out in outs)


@pytest.mark.parametrize(
    ("widths", "num_nodes", "words"),
    [
        ((1,) * 17, 12, "may have at most 16 levels, found 18"),
        ((2, 5), 6, "has only 4 drafts at level 2, so it cannot expand 5"),
        ((2,), 8, "with 6 drafts cannot have 8 nodes"),
    ],
)
def test_a_tree_that_there_cannot_be_is_refused(widths, num_nodes, words):
    with pytest.raises(InvalidParams, match=words):
        SpecConfig("eagle3", tree=Pyramid(widths, num_nodes))


def test_an_unknown_method_is_refused():
    with pytest.raises(InvalidParams, match=r"known: eagle3.*, block"):
        SpecConfig("medusa")
    with pytest.raises(InvalidParams, match="has no drafter"):
        drafter_named("medusa")
