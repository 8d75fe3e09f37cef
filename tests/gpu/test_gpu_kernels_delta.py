"""The Triton kernels of linear attention by the gated delta rule against their plain-torch twins on
a CPU."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from delta_passes import DeltaSequences, DeltaSizes, PassCase, random_passes, run_pass
from gpu_case import IS_INTERPRETED, captured, seeds, to_device
from small_cases import crossed, small
from torch import Tensor

from specguide.drafts.tree import DraftTree
from specguide.kernels import (
    DeltaPass,
    DeltaState,
    delta_heads,
    delta_rule,
    gated_delta_rule,
    gated_norm,
    sigmoid_mul,
)

pytestmark = pytest.mark.gpu

TREE = DraftTree((-1, 0, 0, 1, 1, 2, 4))
TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 2e-2, torch.float16: 4e-3}
QWEN = DeltaSizes(groups=4, each=2, key_dim=128, value_dim=128)


def assert_close(found: Tensor, expected: Tensor, dtype: torch.dtype) -> None:
    tolerance = TOLERANCE[dtype]
    torch.testing.assert_close(
        found.float().cpu(), expected.float(), rtol=tolerance, atol=tolerance, equal_nan=True
    )


def check(sequences: DeltaSequences, cases: Sequence[PassCase]) -> None:
    """Passes one after another: heads, outputs and the whole state after each."""
    dtype = sequences.dtype
    state = sequences.sizes.state(dtype)
    live_state, live_weights = to_device(state), to_device(sequences.weights)
    for case in cases:
        has_slot = rows_with_slots(case)
        live = to_device(case)
        found = delta_heads(live.inputs, live_weights, live_state, live.own)
        output = gated_delta_rule(found, live_state, live.own)
        expected, expected_output = run_pass(
            delta_rule.delta_heads, delta_rule.delta_rule, case, sequences.weights, state
        )
        for one, other in zip(found, expected, strict=True):
            assert (one.shape, one.dtype) == (other.shape, other.dtype)
            assert_close(one[has_slot.to(one.device)], other[has_slot], dtype)
        assert output.dtype == dtype
        assert_close(output, expected_output, dtype)
        for one, other in zip(live_state, state, strict=True):
            assert_close(one, other, dtype)


def rows_with_slots(case: PassCase) -> Tensor:
    has_slot = torch.zeros(len(case.rows), dtype=torch.bool)
    for slot, start, end in zip(
        case.own.slots.tolist(),
        case.own.bounds[:-1].tolist(),
        case.own.bounds[1:].tolist(),
        strict=True,
    ):
        has_slot[start:end] = slot >= 0
    return has_slot


@pytest.mark.parametrize(
    ("dtype", "sizes"),
    crossed(
        TOLERANCE,
        (DeltaSizes(), DeltaSizes(groups=1, each=3, key_dim=24, value_dim=16, window=3), QWEN),
        where=lambda dtype, sizes: (dtype, sizes.each) == (torch.bfloat16, 3),
    ),
)
def test_nodes_in_a_chain(dtype: torch.dtype, sizes: DeltaSizes) -> None:
    sequences = DeltaSequences([30, 20, 20], sizes, dtype)
    cases = [
        sequences.nodes(4, [1, 4, 2]),  # they begin
        sequences.nodes(4, [2, 0, 1], unused=2),
        sequences.nodes(1, [1, 1, 0], padding=3),
        sequences.nodes(3, [3, 2, 0], unused=1, padding=1),
        sequences.nodes(2, [2, 2, 2]),
    ]
    check(sequences, cases)


@pytest.mark.parametrize(
    ("dtype", "num"),
    crossed(
        (torch.float32, torch.bfloat16),
        (16, 33, 64, 100),
        where=lambda dtype, num: dtype == torch.float32 and num == 33,
    ),
)
def test_many_nodes(dtype: torch.dtype, num: int) -> None:
    sequences = DeltaSequences([2 * num + 20] * 2, DeltaSizes(places=num), dtype)
    cases = [
        sequences.nodes(num, [num, 3]),
        sequences.nodes(num - 3, [5, num - 3]),
        sequences.nodes(5, [1, 2], unused=1),
    ]
    check(sequences, cases)


@pytest.mark.small
def test_more_nodes_than_a_program_holds() -> None:
    sequences = DeltaSequences([300], DeltaSizes(places=140), torch.float32)
    for case in (sequences.nodes(140, [1]), sequences.prompts([90], num_open=70)):
        with pytest.raises(ValueError, match="draft fewer tokens"):
            check(sequences, [case])


@pytest.mark.parametrize(
    ("dtype", "places"), [(torch.float32, 7), small(torch.bfloat16, 7), (torch.float16, 9)]
)
def test_trees(dtype: torch.dtype, places: int) -> None:
    sequences = DeltaSequences([30, 30], DeltaSizes(places=places), dtype)
    cases = [
        sequences.tree(TREE, [[0, 1, 4, 6], [0, 2]]),
        sequences.tree(TREE, [[0, 2, 5], []]),  # places are skipped
        sequences.tree(TREE, [[0], [0, 1, 3]]),
        sequences.nodes(2, [1, 2]),
    ]
    check(sequences, cases)


@pytest.mark.parametrize("num_nodes", [small(4), 20])
def test_trees_of_other_sizes(num_nodes: int) -> None:
    tree = DraftTree(tuple((node - 1) // 2 if node else -1 for node in range(num_nodes)))
    sequences = DeltaSequences([30, 30], DeltaSizes(places=num_nodes), torch.float32)
    cases = [sequences.tree(tree, [[0, 2], [0, 1, 3]]) for _ in range(3)]
    check(sequences, cases)


@pytest.mark.parametrize(
    ("dtype", "sizes"),
    crossed(
        TOLERANCE,
        (DeltaSizes(slots=8), DeltaSizes(1, 3, 24, 20, 3, slots=8), QWEN),
        where=lambda dtype, sizes: (dtype, sizes.each) == (torch.bfloat16, 3),
    ),
)
def test_prompts(dtype: torch.dtype, sizes: DeltaSizes) -> None:
    lens = [200, 64, 66, 65] if sizes is not QWEN else [200, 64, 66]
    sequences = DeltaSequences([num + 130 for num in lens], sizes, dtype)
    cases = [
        sequences.prompts(lens, padding=7),
        sequences.prompts([1, 0, 63, 64][: len(lens)]),
        sequences.nodes(3, [1, 3, 2, 0][: len(lens)]),
        sequences.prompts([2, 65, 1, 0][: len(lens)]),
    ]
    check(sequences, cases)


@pytest.mark.parametrize("num_open", [small(4), 30])
def test_prompts_of_which_several_tokens_stay_open(num_open: int) -> None:
    sequences = DeltaSequences([90, 3, 200], DeltaSizes(places=num_open), torch.float32)
    check(
        sequences,
        [sequences.prompts([66, 2, 130], num_open=num_open), sequences.prompts([5, 1, 70])],
    )


@pytest.mark.parametrize("tree", [None, small(TREE)])
def test_passes_give_the_same_as_the_whole(tree: DraftTree | None) -> None:
    for seed in seeds(3):
        sizes = DeltaSizes(places=7)
        sequences = DeltaSequences([90, 50, 64], sizes, torch.float32, seed)
        whole = sequences.whole()
        _, expected = run_pass(
            *(delta_rule.delta_heads, delta_rule.delta_rule, whole, sequences.weights),
            sizes.state(torch.float32),
        )
        live_state = to_device(sizes.state(torch.float32))
        live_weights = to_device(sequences.weights)
        for case in random_passes(sequences, tree, seed):
            live = to_device(case)
            _, output = run_pass(delta_heads, gated_delta_rule, live, live_weights, live_state)
            is_kept = case.rows >= 0
            assert_close(output.cpu()[is_kept], expected[case.rows[is_kept]], torch.float32)


@pytest.mark.small
def test_keys_that_are_all_the_same() -> None:
    """The inverse of the triangular matrix must not be a sum of its powers, which are large."""
    sizes = DeltaSizes()
    sequences = DeltaSequences([128], sizes, torch.float32)
    weights = sequences.weights
    sequences.weights = weights._replace(
        convolution=weights.convolution.abs() * 0 + 0.25, rates=weights.rates * 1e-4
    )
    case = sequences.prompts([128])
    case.inputs.key.copy_(case.inputs.key[:1].expand_as(case.inputs.key).clone())
    case.inputs.strength.fill_(8)
    check(sequences, [case])


@pytest.mark.skipif(IS_INTERPRETED, reason="graphs are CUDA's")
def test_captured_passes_read_slots_and_lengths_on_the_device() -> None:
    sequences = DeltaSequences([400, 300, 300], DeltaSizes(slots=6), torch.bfloat16)
    passes = [sequences.prompts(lens) for lens in ([200, 1, 64], [3, 200, 62], [80, 60, 125])]
    passes = [case._replace(own=case.own._replace(max_len=200)) for case in passes]
    check_captured(sequences, passes)
    nodes = [sequences.nodes(4, accepted) for accepted in ([4, 0, 1], [2, 3, 0], [1, 4, 2])]
    check_captured(sequences, nodes)


def of_sequences(own: DeltaPass) -> list[torch.Tensor]:
    """What differs between passes of one shape."""
    return [own.slots, own.bounds, own.turns, *own.accepted, *own.settled, own.opened, own.stores]


def check_captured(sequences: DeltaSequences, cases: Sequence[PassCase]) -> None:
    """Replays of the first pass's graph over all passes, from a state of zeros."""
    state = DeltaState(*(part.nan_to_num() for part in sequences.sizes.state(sequences.dtype)))
    live_state, live = to_device(state), to_device(cases[0])
    live_weights = to_device(sequences.weights)
    graph, (_, output) = captured(
        lambda: run_pass(delta_heads, gated_delta_rule, live, live_weights, live_state)
    )
    for one, other in zip(live_state, state, strict=True):
        one.copy_(other)
    for case in cases:
        for one, other in zip(live.inputs, case.inputs, strict=True):
            one.copy_(other)
        for one, other in zip(of_sequences(live.own), of_sequences(case.own), strict=True):
            one.copy_(other)
        graph.replay()
        _, expected = run_pass(
            delta_rule.delta_heads, delta_rule.delta_rule, case, sequences.weights, state
        )
        assert_close(output, expected, sequences.dtype)
        for one, other in zip(live_state, state, strict=True):
            assert_close(one, other, sequences.dtype)


@pytest.mark.parametrize(
    ("dtype", "dim"),
    crossed(TOLERANCE, (24, 128), where=lambda dtype, dim: (dtype, dim) == (torch.bfloat16, 24)),
)
def test_gates(dtype: torch.dtype, dim: int) -> None:
    random = torch.Generator().manual_seed(dim)
    product = torch.randn(5, 6 * 2 * dim + 3, generator=random).to(dtype)
    x = torch.randn(5, 6, dim, generator=random).to(dtype)
    gate = product[:, 3:].unflatten(1, (6, 2 * dim))[:, :, dim:]
    for weight in (
        torch.randn(dim, generator=random),
        torch.randn(dim, generator=random).to(dtype),
    ):
        grouped = gate.unflatten(1, (2, 3))
        found = gated_norm(*map(to_device, (x, grouped, weight)), 1e-6)
        assert found.dtype == dtype
        assert_close(found, delta_rule.gated_norm(x, grouped, weight, 1e-6), dtype)
    found = sigmoid_mul(to_device(x), to_device(gate))
    assert_close(found, delta_rule.sigmoid_mul(x, gate), dtype)
