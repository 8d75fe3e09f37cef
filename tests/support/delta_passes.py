"""Owns sequences for the tests of the gated delta rule, and the passes that compute them: prompts
in chunks, then nodes of which some are accepted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from specguide.drafts.tree import DraftTree
from specguide.kernels import (
    DeltaHeads,
    DeltaInputs,
    DeltaPass,
    DeltaState,
    DeltaWeights,
    OpenTokens,
)

Heads = Callable[[DeltaInputs, DeltaWeights, DeltaState, DeltaPass], DeltaHeads]
Rule = Callable[[DeltaHeads, DeltaState, DeltaPass], Tensor]


@dataclass(frozen=True)
class DeltaSizes:
    groups: int = 2
    each: int = 2
    key_dim: int = 16
    value_dim: int = 24
    window: int = 4
    places: int = 4
    rounds: int = 4
    slots: int = 5

    @property
    def heads(self) -> int:
        return self.groups * self.each

    @property
    def channels(self) -> int:
        return 2 * self.groups * self.key_dim + self.heads * self.value_dim

    def inputs(self, num: int, dtype: torch.dtype, random: torch.Generator) -> DeltaInputs:
        """Random projections, which are parts of one product."""
        widths = [self.groups * self.key_dim] * 2 + [self.heads * self.value_dim] + [self.heads] * 2
        product = torch.randn(num, sum(widths) + 5, generator=random).to(dtype)
        return self.split(product)

    def split(self, product: Tensor) -> DeltaInputs:
        keys, heads = self.groups * self.key_dim, self.heads
        sizes = [keys, keys, heads * self.value_dim, heads, heads, 5]
        query, key, value, strength, step, _ = product.split(sizes, 1)
        return DeltaInputs(
            query.unflatten(1, (self.groups, self.key_dim)),
            key.unflatten(1, (self.groups, self.key_dim)),
            value.unflatten(1, (self.groups, self.each, self.value_dim)),
            strength.unflatten(1, (self.groups, self.each)),
            step.unflatten(1, (self.groups, self.each)),
        )

    def weights(self, dtype: torch.dtype, random: torch.Generator) -> DeltaWeights:
        convolution = torch.randn(self.channels, self.window, generator=random) * 0.6
        rates = -torch.empty(self.heads).uniform_(-3, 1, generator=random).exp()
        bias = torch.randn(self.heads, generator=random)
        return DeltaWeights(convolution.to(dtype), rates, bias.to(dtype))

    def state(self, dtype: torch.dtype) -> DeltaState:
        """A state that no pass has written: NaN."""
        opened = self.slots, self.rounds * self.places

        def empty(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.full(shape, torch.nan, dtype=dtype)

        return DeltaState(
            empty(self.slots, self.heads, self.key_dim, self.value_dim),
            empty(2, self.slots, self.window - 1, self.channels, dtype=dtype),
            empty(2, self.slots, self.places, self.channels, dtype=dtype),
            empty(*opened, self.groups, self.key_dim, dtype=dtype),
            empty(*opened, self.heads, self.value_dim),
            empty(*opened, self.heads),
        )


class PassCase(NamedTuple):
    """A pass, its inputs, and of each of its tokens the place in the whole product; -1: it belongs
    to no sequence, or is not accepted."""

    inputs: DeltaInputs
    own: DeltaPass
    rows: Tensor


@dataclass
class _Slot:
    """A sequence: its slot, the rows of its tokens, how many of these were passed, those of the
    last pass that were accepted, the places of the others that are open, the pass's number among
    those with places of their own, and the number of passes since the matrix was stored."""

    slot: int
    rows: range
    passed: int = 0
    accepted: list[int] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)
    turn: int = 0
    age: int = 0
    has_begun: bool = False


class DeltaSequences:
    """Random sequences. Each call gives the next pass over all of them."""

    def __init__(
        self, lens: Sequence[int], sizes: DeltaSizes, dtype: torch.dtype, seed: int = 0
    ) -> None:
        self.sizes, self.dtype = sizes, dtype
        self.random = torch.Generator().manual_seed(seed)
        self.weights = sizes.weights(dtype, self.random)
        keys, heads = sizes.groups * sizes.key_dim, sizes.heads
        width = 2 * keys + heads * (sizes.value_dim + 2) + 5
        self._product = torch.randn(sum(lens), width, generator=self.random).to(dtype)
        slots = torch.randperm(sizes.slots, generator=self.random).tolist()
        starts = [sum(lens[:at]) for at in range(len(lens))]
        self._slots = [
            _Slot(slot, range(start, start + num))
            for slot, start, num in zip(slots, starts, lens, strict=False)
        ]

    def left(self) -> list[int]:
        """Tokens that are not passed yet."""
        return [len(slot.rows) - slot.passed for slot in self._slots]

    def whole(self) -> PassCase:
        """All tokens at once, as if no pass had been made."""
        lens = [len(slot.rows) for slot in self._slots]
        slots = [_Slot(slot.slot, slot.rows) for slot in self._slots]
        rows = [list(slot.rows) for slot in slots]
        return self._case(slots, rows, 1, max(lens), stores=[True] * len(slots))

    def prompts(self, lens: Sequence[int], *, num_open: int = 1, padding: int = 0) -> PassCase:
        """The next tokens of each sequence; the last one stays open. padding: rows behind all."""
        slots, rows = self._slots, []
        for slot, num in zip(slots, lens, strict=True):
            rows.append([slot.rows[slot.passed + step] for step in range(num)])
        case = self._case(
            slots, rows, num_open, max(*lens, 1), padding=padding, stores=[True] * len(slots)
        )
        for slot, num in zip(slots, lens, strict=True):
            if num:
                self._pass(slot, num, list(range(min(num, num_open))), True)
        return case

    def nodes(
        self, num: int, num_accepted: Sequence[int], *, unused: int = 0, padding: int = 0
    ) -> PassCase:
        """So many nodes of each sequence in a chain, the first of which are accepted; 0: held.
        unused: sequences without a slot behind them"""
        slots, rows = [*self._slots, *[_Slot(-1, range(0)) for _ in range(unused)]], []
        accepted = [*num_accepted, *[0] * unused]
        for slot, kept in zip(slots, accepted, strict=True):
            rows.append([slot.rows[slot.passed + at] if at < kept else -1 for at in range(num)])
        stores = self._stores(len(slots))
        case = self._case(slots, rows, num, num, padding=padding, stores=stores)
        for slot, kept, is_stored in zip(self._slots, num_accepted, stores, strict=False):
            self._pass(slot, kept, list(range(kept)), is_stored)
        return case

    def tree(self, tree: DraftTree, nodes: Sequence[Sequence[int]]) -> PassCase:
        """The nodes of a tree for each sequence. nodes: which ones are accepted, a path"""
        rows = []
        for slot, path in zip(self._slots, nodes, strict=True):
            own = [-1] * tree.num_nodes
            for step, node in enumerate(path):
                own[node] = slot.rows[slot.passed + step]
            rows.append(own)
        num, stores = tree.num_nodes, self._stores(len(nodes))
        case = self._case(self._slots, rows, num, num, tree=tree, stores=stores)
        for slot, path, is_stored in zip(self._slots, nodes, stores, strict=True):
            self._pass(slot, len(path), list(path), is_stored)
        return case

    def _stores(self, num: int) -> list[bool]:
        """Which sequences store their matrix: the last pass that may, or an earlier one."""
        drawn = torch.rand(num, generator=self.random).tolist()
        ages = [slot.age for slot in self._slots] + [0] * num
        most = self.sizes.rounds - 1
        return [age >= most or number < 0.2 for number, age in zip(drawn, ages, strict=False)]

    def _pass(self, slot: _Slot, num: int, places: list[int], stores: bool) -> None:
        slot.kept = [] if stores or not slot.has_begun else self._open(slot)
        slot.age = 1 if stores or not slot.has_begun else slot.age + 1
        slot.turn = (slot.turn + 1) % self.sizes.rounds
        slot.passed += num
        slot.accepted, slot.has_begun = places, True

    def _open(self, slot: _Slot) -> list[int]:
        """The places of all open tokens that were accepted."""
        return slot.kept + [slot.turn * self.sizes.places + place for place in slot.accepted]

    def _case(
        self,
        slots: Sequence[_Slot],
        rows: Sequence[Sequence[int]],
        num_open: int,
        max_len: int,
        *,
        stores: Sequence[bool],
        padding: int = 0,
        tree: DraftTree | None = None,
    ) -> PassCase:
        flat = torch.tensor([row for own in rows for row in own] + [-1] * padding)
        drawn = torch.randn(len(flat), self._product.shape[1], generator=self.random)
        product = torch.where(
            (flat >= 0)[:, None], self._product[flat.clamp(min=0)], drawn.to(self.dtype)
        )
        lens = torch.tensor([0] + [len(own) for own in rows])
        num_places, turns = self.sizes.places, [slot.turn for slot in slots]
        behind = [(turn + 1) % self.sizes.rounds * num_places for turn in turns]
        begins = [not slot.has_begun for slot in slots]
        most = (self.sizes.rounds - 1) * num_places
        paths = (None, None) if tree is None else tree_paths(tree, len(slots), self.sizes.window)
        own = DeltaPass(
            torch.tensor([slot.slot for slot in slots]),
            lens.cumsum(0).int(),
            torch.tensor(turns) % 2,
            _open_tokens([slot.accepted for slot in slots], begins, num_places),
            _open_tokens([self._open(slot) for slot in slots], begins, most),
            torch.tensor(behind),
            torch.tensor(stores) | torch.tensor(begins),
            num_open,
            max_len,
            *paths,
        )
        return PassCase(self.sizes.split(product), own, flat)


def _open_tokens(lists: Sequence[list[int]], begins: Sequence[bool], most: int) -> OpenTokens:
    nums = [-1 if begin else len(own) for own, begin in zip(lists, begins, strict=True)]
    padded = [own + [0] * (most - len(own)) for own in lists]
    return OpenTokens(
        torch.tensor(nums, dtype=torch.int32), torch.tensor(padded, dtype=torch.int32)
    )


def tree_paths(tree: DraftTree, num: int, window: int) -> tuple[Tensor, Tensor]:
    """A pass's `ancestors` and `before`, for the same tree in each of some sequences."""
    paths = []
    for node in range(tree.num_nodes):
        path = [node]
        while tree.parents[path[-1]] >= 0:
            path.append(tree.parents[path[-1]])
        paths.append(path)
    ancestors = torch.zeros(tree.num_nodes, tree.num_nodes, dtype=torch.bool)
    before = torch.zeros(tree.num_nodes, window - 1, dtype=torch.int32)
    for node, path in enumerate(paths):
        ancestors[node, path] = True
        line = [*path[1:], *range(-1, -window, -1)]
        before[node] = torch.tensor(line[: window - 1], dtype=torch.int32)
    return ancestors.expand(num, -1, -1).contiguous(), before.expand(num, -1, -1).contiguous()


def run_pass(
    heads: Heads, rule: Rule, case: PassCase, weights: DeltaWeights, state: DeltaState
) -> tuple[DeltaHeads, Tensor]:
    found = heads(case.inputs, weights, state, case.own)
    return found, rule(found, state, case.own)


def random_passes(
    sequences: DeltaSequences, tree: DraftTree | None = None, seed: int = 0
) -> list[PassCase]:
    """All tokens of the sequences: half of each in chunks, then nodes of which a random number is
    accepted, until some sequence has too few tokens left."""
    random = torch.Generator().manual_seed(seed)
    num_nodes = sequences.sizes.places if tree is None else tree.num_nodes

    def draw(least: int, most: int) -> int:
        return int(torch.randint(least, most + 1, (), generator=random))

    halves = [num // 2 for num in sequences.left()]
    firsts = [draw(1, half) for half in halves]
    passes = [
        sequences.prompts(firsts, padding=3),
        sequences.prompts([half - first for half, first in zip(halves, firsts, strict=True)]),
    ]
    while min(sequences.left()) >= num_nodes:
        if tree is None or len(passes) % 3 == 0:
            num = draw(1, num_nodes)
            accepted = [draw(0, num) for _ in halves]
            passes.append(sequences.nodes(num, accepted, unused=2, padding=draw(0, 1)))
        else:
            paths = [_random_path(tree, draw) for _ in halves]
            passes.append(sequences.tree(tree, paths))
    return passes


def _random_path(tree: DraftTree, draw: Callable[[int, int], int]) -> list[int]:
    path: list[int] = []
    last = -1
    while children := [node for node, up in enumerate(tree.parents) if up == last]:
        if draw(0, 4) == 0:
            break
        last = children[draw(0, len(children) - 1)]
        path.append(last)
    return path
