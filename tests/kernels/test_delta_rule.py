"""What defines linear attention by the gated delta rule: transformers, token by token, and that it
does not matter into which passes a sequence is cut."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from delta_passes import DeltaSequences, DeltaSizes, random_passes, run_pass
from torch import Tensor

from specguide.drafts.tree import DraftTree
from specguide.kernels import DeltaState, delta_rule

TREE = DraftTree((-1, 0, 0, 1, 1, 2, 4))


def passed(sequences: DeltaSequences, cases: list, state: DeltaState) -> dict[int, Tensor]:
    """The output of each token."""
    outputs = {}
    for case in cases:
        _, output = run_pass(
            delta_rule.delta_heads, delta_rule.delta_rule, case, sequences.weights, state
        )
        outputs |= {row: line for row, line in zip(case.rows.tolist(), output, strict=True)}
    outputs.pop(-1, None)
    return outputs


@pytest.mark.parametrize("sizes", [DeltaSizes(), DeltaSizes(groups=1, each=3, key_dim=24)])
def test_a_prompt_gives_what_transformers_computes(sizes: DeltaSizes) -> None:
    pytest.importorskip("transformers.models.qwen3_5")
    from transformers.models.qwen3_5 import modeling_qwen3_5 as theirs

    lens = 1, 150
    sequences = DeltaSequences(lens, sizes, torch.float32)
    case, weights = sequences.whole(), sequences.weights
    state = sizes.state(torch.float32)
    _, output = run_pass(delta_rule.delta_heads, delta_rule.delta_rule, case, weights, state)
    inputs = torch.cat([part.flatten(1) for part in case.inputs[:3]], 1)
    for rows in (slice(0, 1), slice(1, 151)):
        num = rows.stop - rows.start
        mixed = theirs.causal_conv1d_fn(inputs[rows].T[None], weights.convolution, None, "silu")
        keys = sizes.groups * sizes.key_dim
        query, key, value = (
            mixed[:, :, :num].transpose(1, 2).split([keys, keys, sizes.heads * sizes.value_dim], 2)
        )
        step = case.inputs.step[rows].flatten(1) + weights.step_bias
        expected, _ = theirs.torch_recurrent_gated_delta_rule(
            query.unflatten(2, (sizes.groups, -1)),
            key.unflatten(2, (sizes.groups, -1)),
            value.unflatten(2, (sizes.heads, -1)),
            (weights.rates * F.softplus(step))[None],
            case.inputs.strength[rows].flatten(1).sigmoid()[None],
            output_final_state=True,
            use_qk_l2norm_in_kernel=True,
        )
        torch.testing.assert_close(output[rows], expected[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("tree", [None, TREE])
@pytest.mark.parametrize("seed", range(3))
def test_chunks_nodes_and_trees_give_the_same_as_the_whole(
    tree: DraftTree | None, seed: int
) -> None:
    sizes = DeltaSizes(places=7)
    sequences = DeltaSequences([140, 60, 100], sizes, torch.float32, seed)
    whole = passed(sequences, [sequences.whole()], sizes.state(torch.float32))
    state = sizes.state(torch.float32)
    parts = passed(sequences, random_passes(sequences, tree, seed), state)
    assert len(parts) > 150
    for row, line in parts.items():
        torch.testing.assert_close(line, whole[row], rtol=1e-4, atol=1e-5)


def test_a_slot_that_is_in_no_pass_is_left_alone() -> None:
    sizes = DeltaSizes()
    sequences = DeltaSequences([40], sizes, torch.float32)
    state = sizes.state(torch.float32)
    cases = [sequences.prompts([30]), sequences.nodes(4, [2], unused=1)]
    passed(sequences, cases, state)
    slot = int(cases[0].own.slots[0])
    others = [at for at in range(sizes.slots) if at != slot]
    assert state.matrices[others].isnan().all()
    assert all(part[:, others].isnan().all() for part in state[1:3])
    assert all(part[others].isnan().all() for part in state[3:])
    assert not state.matrices[slot].isnan().any()


def test_norms_and_gates() -> None:
    random = torch.Generator().manual_seed(0)
    x, gate = torch.randn(2, 5, 4, 24, generator=random)
    weight = torch.randn(24, generator=random)
    normed = F.rms_norm(x, (24,), weight, 1e-6) * F.silu(gate)
    found = delta_rule.gated_norm(x, gate.unflatten(1, (2, 2)), weight, 1e-6)
    torch.testing.assert_close(found, normed.flatten(1))
    found = delta_rule.sigmoid_mul(x, gate)
    torch.testing.assert_close(found, (x * gate.sigmoid()).flatten(1))


def test_a_node_whose_ancestors_are_arbitrary_changes_no_other() -> None:
    """A tree may have fewer nodes than a pass has room for; what the others are is anything."""
    heads = delta_rule.DeltaHeads(
        *(F.normalize(torch.randn(4, 1, 8), dim=-1) for _ in range(3)),
        torch.full((4, 1), -90.0),
        torch.ones(4, 1),
    )
    ancestors = torch.ones(4, 4, dtype=torch.bool).tril()
    ancestors[3, :2] = False  # the path to node 2, and so to node 3, leads through them
    found, places = [], torch.arange(4, dtype=torch.int32)[None]
    for mask in (torch.ones_like(ancestors).tril(), ancestors):
        own = delta_rule.DeltaPass(
            torch.tensor([0]),
            torch.tensor([0, 4], dtype=torch.int32),
            torch.tensor([0]),
            *[delta_rule.OpenTokens(torch.tensor([-1], dtype=torch.int32), places)] * 2,
            torch.tensor([0]),
            torch.tensor([True]),
            4,
            4,
            mask[None],
        )
        state = DeltaSizes(groups=1, each=1, key_dim=8, value_dim=8).state(torch.float32)
        found.append(delta_rule.delta_rule(heads, state, own))
    assert torch.equal(found[0][:3], found[1][:3])
