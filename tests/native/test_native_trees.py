"""Trees of drafts in the grammar executor, over both grammar libraries: each row is that of a fresh
matcher's."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from byte_vocabulary import EOS, OTHER_EOS, VOCABULARY, backend
from counting_language import allowed_in
from grammar_backends import WHOLE

from specguide import native
from specguide.config import GuideConfig
from specguide.guide import Guide
from specguide.guided.backends import CompiledGrammar

GUIDE = Guide(
    json_schema={
        "type": "object",
        "required": ["name", "abc"],
        "additionalProperties": False,
        "properties": {
            "name": {"type": "string", "minLength": 1, "maxLength": 12},
            "size": {"type": "number"},
            "abc": {
                "type": "array",
                "items": {"enum": ["abc", "a b", True, None, "é"]},
                "minItems": 2,
                "maxItems": 9,
            },
        },
    }
)
STAGES = (0, 1, 4, 8, 12, 14, 15, 16, 20, 27)  # of a tree that is eight deep


@dataclass
class Tree:
    """The drafts behind a verified text, by node; node 0 is the text itself."""

    grammar: CompiledGrammar
    text: list[int] = field(default_factory=list)
    tokens: dict[int, int] = field(default_factory=dict)
    parents: dict[int, int] = field(default_factory=dict)

    def path(self, node: int) -> list[int]:
        return [*self.path(self.parents[node]), node] if node else []

    def text_to(self, node: int) -> list[int]:
        return self.text + [self.tokens[step] for step in self.path(node)]

    def follows(self, node: int) -> bool:
        matcher = self.grammar.matcher()
        return all(matcher.accept(token) for token in self.text_to(node))

    def row(self, node: int) -> np.ndarray | None:
        """The row of what may follow a node; None where the grammar does not follow the path, or
        ends with it."""
        matcher = self.grammar.matcher()
        if not all(matcher.accept(token) for token in self.text_to(node)) or matcher.is_terminated:
            return None
        row = np.zeros(VOCABULARY.num_words, np.int32)
        matcher.fill(row)
        return row


class Rig:
    """An executor of one slot and its buffers, its callbacks called one by one on a stream."""

    def __init__(self, stages: tuple[int, ...] = STAGES) -> None:
        self.stages, num_nodes, depth = stages, stages[-1], len(stages) - 2
        self.rows = torch.zeros(num_nodes, 1, VOCABULARY.num_words, dtype=torch.int32)
        self.fill_ids = torch.full((num_nodes, 1), 9, dtype=torch.int64)
        self.held = torch.full((1,), 9, dtype=torch.uint8)
        self.tokens = torch.full((1, num_nodes), -1, dtype=torch.int32)
        self.parents = torch.full((1, num_nodes), -1, dtype=torch.int32)
        self.num_accepted = torch.zeros(1, dtype=torch.int32)
        self.accepted_path = torch.full((1, depth), -1, dtype=torch.int32)
        self.needed = torch.zeros(1, dtype=torch.int32)
        names = (
            "fill_ids",
            "held",
            "tokens",
            "num_accepted",
            "needed",
            "parents",
            "accepted_path",
        )
        buffers = {name: getattr(self, name) for name in names}
        self.executor = native.GrammarExecutor(
            native.GrammarBuffers(
                limits=native.DraftLimits(num_draft_tokens=depth),
                vocab_size=len(VOCABULARY),
                stage_begins=stages,
                bitmask=self.rows.numpy(),
                **{name: buffer.numpy() for name, buffer in buffers.items()},
            ),
            native.ExecutorOptions(num_threads=1, deadline_us=20_000_000),
        )
        self.callbacks = self.executor.callbacks()
        self.stream = native.HostStream("grammar")

    def begin(self, started: native.Matcher | None = None) -> None:
        self.executor.submit([(0, started)] if started else [], () if started else (0,))
        self.call(0)

    def call(self, index: int) -> None:
        self.stream.launch(self.callbacks[index])
        self.stream.synchronize()

    def verify(self, path: list[int], golden: int) -> None:
        self.num_accepted[0], self.tokens[0, 0] = len(path), golden
        self.accepted_path[0, : len(path)] = torch.tensor(path, dtype=torch.int32)
        self.call(1)

    def check(self, tree: Tree, nodes: range) -> None:
        for node in nodes:
            row = tree.row(node) if node == 0 or node in tree.tokens else None
            assert bool(self.fill_ids[node, 0]) == (row is not None), tree.text_to(node)
            assert row is None or np.array_equal(self.rows[node, 0].numpy(), row), tree.text_to(
                node
            )


def draft(rig: Rig, tree: Tree, stage: int, rng: random.Random) -> None:
    """Four drafts in five are what the grammar allows, of those words and ends rather than single
    bytes."""
    earlier = [0, *tree.tokens]
    deepest = [node for node in earlier if len(tree.path(node)) == stage - 1]
    for node in range(rig.stages[stage], rig.stages[stage + 1]):
        parent = rng.choice(earlier + 4 * deepest)
        row = tree.row(parent)
        if rng.random() < 0.1:
            rig.tokens[0, node], rig.parents[0, node] = -1, -1
            continue
        allowed = [] if row is None or rng.random() < 0.2 else allowed_in(row)
        tree.parents[node] = parent
        tree.tokens[node] = rng.choice(
            [token for token in allowed if token > 255] or allowed or range(len(VOCABULARY))
        )
        rig.tokens[0, node], rig.parents[0, node] = tree.tokens[node], parent


def write_text(rig: Rig, grammar: CompiledGrammar, rng: random.Random) -> list[int]:
    """Run iterations of random trees until the text has ended, and return it."""
    tree = Tree(grammar)
    rig.begin(grammar.matcher())
    while True:
        assert rig.held[0] == 0 and rig.executor.error(0) is None
        rig.check(tree, range(rig.stages[-1]))
        followed = [node for node in tree.tokens if tree.follows(node)]
        last = (
            max(rng.choices(followed, k=2), key=lambda node: len(tree.path(node)))
            if followed
            else 0
        )
        row, path = tree.row(last), tree.path(last)
        golden = 7 if row is None else rng.choice(allowed_in(row))
        tree = Tree(grammar, tree.text_to(last) + ([golden] if row is not None else []))
        rig.verify(path, golden)
        if tree.text[-1] in (EOS, OTHER_EOS):
            assert not rig.fill_ids[0, 0] and rig.executor.error(0) is None
            return tree.text
        rig.check(tree, range(1))
        for stage in range(1, len(rig.stages) - 1):
            draft(rig, tree, stage, rng)
            if stage + 2 < len(rig.stages):
                rig.call(stage + 1)
                rig.check(tree, range(rig.stages[stage], rig.stages[stage + 1]))
        rig.begin()


@pytest.mark.parametrize("name", WHOLE)
def test_rows_of_random_trees_are_those_of_a_fresh_matcher(name: str) -> None:
    grammar, rng, rig = backend(name, True).compile(GUIDE, GuideConfig()), random.Random(3), Rig()
    for _ in range(6):
        text = write_text(rig, grammar, rng)
        assert b"".join(VOCABULARY.token_bytes[token] for token in text).lstrip().startswith(b"{")
        rig.executor.detach(0)
        assert rig.executor.is_idle(0)
        rig.tokens.fill_(-1)
    counters = rig.executor.counters()
    assert counters.max_fills <= STAGES[-1] and counters.held == 0


@pytest.mark.parametrize("name", WHOLE)
def test_a_chain_of_a_tree_is_taken_back_and_walked_again_any_number_of_times(name: str) -> None:
    """Sixteen drafts deep, and at its far end siblings: each step back is as deep as a tree can
    have it."""
    depth = 16
    stages = (*range(depth + 1), depth + 4)
    grammar, rig = backend(name, True).compile(GUIDE, GuideConfig()), Rig(stages)
    tree = Tree(grammar)
    rig.begin(grammar.matcher())
    for token in b'{"name":"abcdefghij':
        rig.verify([], token)
        tree = Tree(grammar, [*tree.text, token])
        for node, draft_token in enumerate(b'", "abc":["abc"', start=1):
            tree.tokens[node], tree.parents[node] = draft_token, node - 1
        for node, draft_token in enumerate(b",] ", start=depth):
            tree.tokens[node], tree.parents[node] = draft_token, depth - 1
        for node, draft_token in tree.tokens.items():
            rig.tokens[0, node], rig.parents[0, node] = draft_token, tree.parents[node]
        for stage in range(1, depth):
            rig.call(stage + 1)
        rig.begin()
        rig.check(tree, range(stages[-1]))
    rig.verify([*range(1, depth + 1)], ord('"'))
    assert rig.executor.error(0) is None
    rig.check(Tree(grammar, [*tree.text_to(depth), ord('"')]), range(1))


@pytest.mark.parametrize(
    ("stages", "num_forced", "left_out", "message"),
    [
        ([0, 1, 2], 0, "", r"num_draft_tokens \+ 2"),
        ([0, 2, 3, 4], 0, "", "golden token"),
        ([0, 1, 3, 3], 0, "", "at least one node"),
        ([0, 1, 3, 5], 1, "", "needs chain_len"),
        ([0, 1, 3, 5], 0, "parents", "needs parents"),
        ([0, 1, 3, 5], 0, "accepted_path", "needs accepted_path"),
    ],
)
def test_what_the_executor_refuses(
    stages: list[int], num_forced: int, left_out: str, message: str
) -> None:
    num_nodes = stages[-1]
    arrays = {
        "bitmask": np.zeros((num_nodes, 1, 1), np.int32),
        "fill_ids": np.zeros((num_nodes, 1), np.int64),
        "held": np.zeros(1, np.uint8),
        "needed": np.zeros(1, np.int32),
        "tokens": np.zeros((1, num_nodes), np.int32),
        "num_accepted": np.zeros(1, np.int32),
        "parents": np.zeros((1, num_nodes), np.int32),
        "accepted_path": np.zeros((1, 2), np.int32),
    }
    arrays.pop(left_out, None)
    with pytest.raises(ValueError, match=message):
        native.GrammarExecutor(
            native.GrammarBuffers(
                limits=native.DraftLimits(num_draft_tokens=2, num_forced_tokens=num_forced),
                vocab_size=32,
                stage_begins=stages,
                **arrays,
            ),
            native.ExecutorOptions(num_threads=1, deadline_us=1000),
        )
