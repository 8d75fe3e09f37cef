"""The acceptance rule: against loops over paths, and end to end on a random tiny language model."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import pytest
import torch
from chi_square import chi_square_p
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from specguide.drafts.tree import DraftTree
from specguide.kernels import BitmaskRows, SamplingTensors, masked_argmax, masked_sample
from specguide.params import SamplingParams
from specguide.sampling import verify_chain, verify_tree

TOKEN = st.integers(-1, 2)


def longest_path(target: list[int], drafts: list[int], tree: DraftTree) -> tuple[int, ...]:
    """The longest of all paths on which every draft is what the target said, by the definition."""
    matching = []
    for node in range(tree.num_nodes):
        path = tree.path(node)
        if all(drafts[j] >= 0 and drafts[j] == target[tree.parents[j]] for j in path[1:]):
            matching.append(path)
    return min(matching, key=lambda path: (-len(path), path[-1]))


@given(st.data())
def test_chain(data: st.DataObject) -> None:
    num_drafts, batch_size = data.draw(st.integers(0, 4)), data.draw(st.integers(0, 4))
    rows = [
        (
            data.draw(st.lists(TOKEN, min_size=num_drafts + 1, max_size=num_drafts + 1)),
            data.draw(st.lists(TOKEN, min_size=num_drafts, max_size=num_drafts)),
            data.draw(st.booleans()),
        )
        for _ in range(batch_size)
    ]
    target = torch.tensor([row[0] for row in rows], dtype=torch.int32).view(
        batch_size, num_drafts + 1
    )
    drafts = torch.tensor([row[1] for row in rows], dtype=torch.int32).view(batch_size, num_drafts)
    held = torch.tensor(
        [row[2] for row in rows], dtype=data.draw(st.sampled_from([torch.bool, torch.uint8]))
    )
    num_accepted, golden = verify_chain(target, drafts, held)
    assert num_accepted.dtype == golden.dtype == torch.int32
    for i, (said, proposed, is_held) in enumerate(rows):
        path = longest_path(said, [0, *proposed], DraftTree.chain(num_drafts))
        expected = (-1, -1) if is_held else (len(path) - 1, said[path[-1]])
        assert (num_accepted[i], golden[i]) == expected


def path_down(target: list[int], drafts: list[int], tree: DraftTree) -> list[int]:
    """The path of first children that are what the target said, by the definition."""
    path = [0]
    while children := [
        node
        for node in range(1, tree.num_nodes)
        if tree.parents[node] == path[-1] and drafts[node] >= 0 and drafts[node] == target[path[-1]]
    ]:
        path.append(children[0])
    return path


@given(st.data())
def test_tree(data: st.DataObject) -> None:
    num_nodes, batch_size = data.draw(st.integers(1, 9)), data.draw(st.integers(0, 4))
    trees = [
        DraftTree((-1, *(data.draw(st.integers(0, node - 1)) for node in range(1, num_nodes))))
        for _ in range(batch_size)
    ]
    tokens = st.lists(TOKEN, min_size=num_nodes, max_size=num_nodes)
    rows = [(data.draw(tokens), data.draw(tokens)) for _ in trees]
    target, drafts = (
        torch.tensor([row[k] for row in rows], dtype=torch.int32).view(-1, num_nodes)
        for k in (0, 1)
    )
    parents = torch.tensor([(0, *tree.parents[1:]) for tree in trees]).view(-1, num_nodes)
    depth = max((max(tree.depths) for tree in trees), default=0) + data.draw(st.integers(0, 1))
    num_accepted, path = verify_tree(target, drafts, parents, depth)
    assert (
        num_accepted.dtype == torch.int32
        and path.dtype == torch.int64
        and path.shape == (batch_size, depth + 1)
    )
    for i, ((said, proposed), tree) in enumerate(zip(rows, trees, strict=True)):
        expected = path_down(said, proposed, tree)
        assert num_accepted[i] == len(expected) - 1
        assert path[i].tolist() == [*expected, *[-1] * (depth + 1 - len(expected))]


@given(st.data())
def test_chain_is_a_tree(data: st.DataObject) -> None:
    num_drafts = data.draw(st.integers(1, 4))
    target, drafts = (
        torch.tensor(
            [data.draw(st.lists(TOKEN, min_size=num_drafts + 1, max_size=num_drafts + 1))],
            dtype=torch.int32,
        )
        for _ in range(2)
    )
    chain, golden = verify_chain(target, drafts[:, 1:], torch.zeros(1, dtype=torch.uint8))
    num_accepted, path = verify_tree(
        target, drafts, torch.arange(-1, num_drafts).clamp(min=0)[None], num_drafts
    )
    assert torch.equal(chain, num_accepted)
    assert golden == target[0, path[0, num_accepted]]


VOCAB_SIZE, LENGTH, PROMPT_LEN = 5, 7, 9
NUM_REQUESTS = 40_000
"""Enough for their distribution to be seen."""
NUM_COMPARED = 5_000
"""Far more than there are sequences of three tokens, where each must be the same."""


@dataclass(frozen=True)
class Markov:
    """A language model whose logits depend on the last token alone, with a grammar that does so
    too."""

    logits: Tensor
    bitmask: Tensor

    @classmethod
    def random(cls, seed: int) -> Markov:
        generator = torch.Generator().manual_seed(seed)
        allowed = torch.rand(VOCAB_SIZE, VOCAB_SIZE, generator=generator) < 0.7
        allowed.fill_diagonal_(True)
        allowed[0] = torch.eye(VOCAB_SIZE)[3].bool()  # after token 0 the grammar forces token 3
        words = (allowed.int() << torch.arange(VOCAB_SIZE)).sum(dim=1, keepdim=True)
        return cls(
            torch.randn(VOCAB_SIZE, VOCAB_SIZE, generator=generator) * 1.5, words.to(torch.int32)
        )

    def rows(self, last: Tensor) -> BitmaskRows:
        """The rows of what may follow each token of `last`."""
        return BitmaskRows(self.bitmask, torch.ones(VOCAB_SIZE, dtype=torch.uint8), last)

    def say(self, last: Tensor, positions: Tensor, params: SamplingTensors) -> Tensor:
        """The tokens that follow each token of `last`; positions are those of the tokens said."""
        return masked_sample(self.logits[last], self.rows(last), params, positions)

    def draft(self, last: Tensor, model: Tensor) -> Tensor:
        """Greedy under another model's logits, over a draft vocabulary without token 1."""
        target_ids = torch.tensor([0, 2, 3, 4])
        return masked_argmax(model[last][:, target_ids], self.rows(last), target_ids)

    def transition(self, params: SamplingParams) -> Tensor:
        """float64 [V, V]: by brute force, the distribution after each token."""
        rows = []
        for last in range(VOCAB_SIZE):
            allowed = [t for t in range(VOCAB_SIZE) if int(self.bitmask[last, 0]) >> t & 1]
            likeliest = sorted(allowed, key=lambda t: -float(self.logits[last, t]))[
                : params.top_k or None
            ]
            weights = torch.zeros(VOCAB_SIZE, dtype=torch.float64)
            weights[likeliest] = (self.logits[last, likeliest].double() / params.temperature).exp()
            rows.append(weights / weights.sum())
        return torch.stack(rows)


def plain(lm: Markov, params: SamplingTensors) -> Tensor:
    """[requests, LENGTH] by plain sampling, one token a step."""
    num = len(params.seed)
    tokens = [torch.full((num,), 2)]
    for i in range(LENGTH):
        tokens.append(lm.say(tokens[-1], torch.full((num,), PROMPT_LEN + i), params).long())
    return torch.stack(tokens[1:], dim=1)


def speculate(
    lm: Markov, draft_model: Tensor, params: SamplingTensors, tree: DraftTree
) -> tuple[Tensor, Tensor]:
    """[requests, LENGTH] by speculation with held slots among them, and how many drafts each
    iteration took."""
    num, num_nodes, generator = len(params.seed), tree.num_nodes, torch.Generator().manual_seed(0)
    output = torch.full((num, LENGTH + max(tree.depths) + 1), -1)
    lengths, golden = torch.zeros(num, dtype=torch.int64), torch.full((num,), 2)
    taken = []
    node_params = params.select(torch.arange(len(params.seed)).repeat_interleave(num_nodes), params)
    while int(lengths.min()) < LENGTH:
        nodes = draft_nodes(lm, draft_model, golden, tree)
        positions = PROMPT_LEN + lengths[:, None] + torch.tensor(tree.depths)
        said = lm.say(nodes.clamp(min=0).flatten(), positions.flatten(), node_params).view(
            -1, num_nodes
        )
        held = (torch.rand(num, generator=generator) < 0.1) | (lengths >= LENGTH)
        if tree == DraftTree.chain(num_nodes - 1):
            num_accepted, new_golden = verify_chain(said, nodes[:, 1:].int(), held)
            path = torch.arange(num_nodes).expand(num, -1)
        else:
            parents = torch.tensor(tree.parents).clamp(min=0).expand(num, -1)
            num_accepted, path = verify_tree(said, nodes.int(), parents, max(tree.depths))
            new_golden = said.gather(1, path.gather(1, num_accepted[:, None].long()))[:, 0]
            num_accepted = num_accepted.masked_fill(held, -1)
        said_on_path = said.gather(1, path.clamp(min=0))
        for i in range(said_on_path.shape[1]):
            live = num_accepted >= i
            output[live, lengths[live] + i] = said_on_path[live, i].long()
        taken.append(num_accepted[~held])
        lengths += num_accepted + 1
        golden = torch.where(held, golden, new_golden.long())
    return output[:, :LENGTH], torch.cat(taken)


def draft_nodes(lm: Markov, draft_model: Tensor, golden: Tensor, tree: DraftTree) -> Tensor:
    """A token for each node: a first child is the drafter's choice, its siblings are the ids after
    it."""
    nodes = [golden]
    for node in range(1, tree.num_nodes):
        parent = tree.parents[node]
        rank = tree.parents[:node].count(parent)
        best = lm.draft(nodes[parent].clamp(min=0), draft_model).long()
        nodes.append(torch.where((best < 0) | (nodes[parent] < 0), -1, (best + rank) % VOCAB_SIZE))
    return torch.stack(nodes, dim=1)


@pytest.mark.parametrize(
    "tree",
    [DraftTree.chain(3), DraftTree.chain(1), DraftTree((-1, 0, 0, 1, 1, 2, 3))],
    ids=["K=3", "K=1", "tree"],
)
@pytest.mark.parametrize(
    "given", [{"temperature": 1.0}, {"temperature": 0.6, "top_k": 2}, {"temperature": 0.0}], ids=str
)
def test_speculation_changes_nothing(given: dict[str, float], tree: DraftTree) -> None:
    """Token for token what plain sampling gives with the same seeds, whether the drafter is good or
    bad."""
    lm = Markov.random(3)
    params = SamplingTensors.from_params(
        [SamplingParams(**given)] * NUM_COMPARED, range(NUM_COMPARED), "cpu"
    )  # type: ignore[arg-type]
    expected = plain(lm, params)
    for draft_model, least in ((lm.logits, 0.4), (Markov.random(4).logits, 0.0)):
        output, taken = speculate(lm, draft_model, params, tree)
        assert torch.equal(output, expected)
        assert least <= float(taken.float().mean()) <= max(tree.depths)


@pytest.mark.parametrize("given", [{"temperature": 1.0}, {"temperature": 0.6, "top_k": 3}], ids=str)
def test_speculated_sequences_have_the_target_distribution(given: dict[str, float]) -> None:
    """The joint distribution of the first tokens is the product of the target's masked
    conditionals."""
    lm, sampling = Markov.random(5), SamplingParams(**given)  # type: ignore[arg-type]
    seeds = range(10**6, 10**6 + NUM_REQUESTS)
    output, _ = speculate(
        lm,
        Markov.random(6).logits,
        SamplingTensors.from_params([sampling] * NUM_REQUESTS, seeds, "cpu"),
        DraftTree.chain(3),
    )
    transition, first = lm.transition(sampling), 4
    cells = list(itertools.product(range(VOCAB_SIZE), repeat=first))
    probabilities = torch.tensor(
        [
            float(torch.stack([transition[a, b] for a, b in itertools.pairwise((2, *cell))]).prod())
            for cell in cells
        ]
    )
    code = (output[:, :first] * VOCAB_SIZE ** torch.arange(first - 1, -1, -1)).sum(dim=1)
    assert chi_square_p(torch.bincount(code, minlength=len(cells)), probabilities) > 1e-3
