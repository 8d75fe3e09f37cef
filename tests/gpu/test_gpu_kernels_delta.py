"""The Triton kernels of linear attention by the gated delta rule against their plain-torch twins on
a CPU."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from delta_passes import DeltaSequences, DeltaSizes, PassCase, run_pass
from gpu_case import to_device
from small_cases import crossed, small
from torch import Tensor

from specguide.drafts.tree import DraftTree
from specguide.kernels import (
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
        found, output = run_pass(delta_heads, gated_delta_rule, live, live_weights, live_state)
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
        (16, 33, 64),
        where=lambda dtype, num: dtype == torch.float32 and num == 33,
    ),
)
def test_many_nodes(dtype: torch.dtype, num: int) -> None:
    sequences = DeltaSequences([150, 150], DeltaSizes(places=num), dtype)
    cases = [
        sequences.nodes(num, [num, 3]),
        sequences.nodes(num - 3, [5, num - 3]),
        sequences.nodes(5, [1, 2], unused=1),
    ]
    check(sequences, cases)


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
