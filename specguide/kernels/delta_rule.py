"""Owns the plain-torch twins of the kernels of linear attention by the gated delta rule (Gated
DeltaNet, Yang et al. 2024, arXiv 2412.06464), and their inputs: DeltaInputs, DeltaPass and
DeltaState.

A layer's memory is one matrix a head and slot. Tokens that may still be rejected, the nodes of a
verification, are *open*: their keys and changes are kept beside the matrix, and the next pass of
the slot first settles those that were accepted. So nothing is ever undone. A matrix is large, so
only every few passes store it: the accepted tokens of the passes between stay open, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

_CHUNK = 64
"""Tokens that are computed together."""

NORM_EPS = 1e-6
"""Added to the squared length of queries and keys."""


class DeltaState(NamedTuple):
    """What a layer remembers. S slots, H value heads in G groups of one key head each, N open
    tokens of a pass at most, P places of open tokens, C = 2 · G · key_dim + H · value_dim channels
    of the convolution, which reads W tokens. The inputs have two copies: a pass reads one and
    writes the other.

    matrices:     float32 [S, H, key_dim, value_dim], behind the tokens before the open ones
    inputs:       [2, S, W - 1, C], the convolution's inputs of the tokens before those of the last
                  pass
    open_inputs:  [2, S, N, C], the same of the open tokens of the last pass
    open_keys:    [S, P, G, key_dim]
    open_changes: float32 [S, P, H, value_dim], what each key adds to the matrix
    open_decays:  float32 [S, P, H], log of the matrix's decay along the path to each open token
    """

    matrices: Tensor
    inputs: Tensor
    open_inputs: Tensor
    open_keys: Tensor
    open_changes: Tensor
    open_decays: Tensor


class OpenTokens(NamedTuple):
    """Some open tokens of each of B sequences.

    num:    int32 [B]; -1: the sequence begins, its state is empty
    places: int32 [B, most], in the order of the text
    """

    num: Tensor
    places: Tensor


class DeltaPass(NamedTuple):
    """Which tokens of a pass are whose. B sequences, T tokens, N open tokens at most.

    slots:       int64 [B]; a sequence with -1 neither reads nor writes its state
    bounds:      int32 [B + 1], the tokens of sequence b are bounds[b] … bounds[b + 1] - 1
    turns:       int64 [B], the copy of the inputs that is read, 0 or 1; the other one is written
    accepted:    of the open tokens of the last pass, those that were accepted
    settled:     places of all open tokens that are settled first
    opened:      int64 [B], the place of this pass's first open token; the others are behind it
    stores:      bool [B], whether the matrix behind the settled tokens is stored; else they stay
                 open. A sequence that begins, or has tokens that do not stay open, stores it
    num_open:    how many of a sequence's last tokens stay open
    max_len:     no sequence has more tokens
    ancestors:   bool [B, N, N], entry [b, i, j] says whether token j is on the path to token i, i
                 included; then all tokens are open, and each sequence has N. None: each token
                 follows the one before
    before:      int32 [B, N, W - 1], the place of the token that is 1, 2, … steps before each one;
                 -1 is the last token before the sequence's, -2 the one before it. None without
                 ancestors
    """

    slots: Tensor
    bounds: Tensor
    turns: Tensor
    accepted: OpenTokens
    settled: OpenTokens
    opened: Tensor
    stores: Tensor
    num_open: int
    max_len: int
    ancestors: Tensor | None = None
    before: Tensor | None = None

    @property
    def device(self) -> torch.device:
        return self.slots.device


class DeltaInputs(NamedTuple):
    """The projections of a pass, which may be strided; the last dimension is contiguous.

    query, key: [T, G, key_dim]
    value:      [T, G, H / G, value_dim]
    strength:   [T, G, H / G], logit of the share of a value that is written
    step:       [T, G, H / G], how far the matrix decays, before its bias and softplus
    """

    query: Tensor
    key: Tensor
    value: Tensor
    strength: Tensor
    step: Tensor

    @property
    def device(self) -> torch.device:
        return self.query.device


class DeltaWeights(NamedTuple):
    """convolution: [C, W], channels of queries, then keys, then values
    rates:     float32 [H], decay per step; all below 0
    step_bias: [H]
    """

    convolution: Tensor
    rates: Tensor
    step_bias: Tensor


class DeltaHeads(NamedTuple):
    """What the delta rule reads; rows of tokens that belong to no slot are arbitrary.

    query, key: [T, G, key_dim], of length 1; queries are divided by √key_dim, too
    value:      [T, H, value_dim]
    decay:      float32 [T, H], log of the factor on the matrix
    strength:   float32 [T, H], share of a value that is written
    """

    query: Tensor
    key: Tensor
    value: Tensor
    decay: Tensor
    strength: Tensor

    @property
    def device(self) -> torch.device:
        return self.query.device


def delta_heads(
    inputs: DeltaInputs, weights: DeltaWeights, state: DeltaState, own: DeltaPass
) -> DeltaHeads:
    """A convolution over each channel's last W tokens with SiLU behind it, the norms of queries and
    keys, and both gates. Writes the state's `inputs`, `open_inputs` and `open_keys`."""
    tokens = torch.cat([part.flatten(1) for part in inputs[:3]], 1)
    num_tokens, num_groups, key_dim = inputs.query.shape
    num_before = weights.convolution.shape[1] - 1
    mixed = torch.empty_like(tokens)
    turns = own.turns.tolist()
    for rows, index, slot, places in _sequences(own, own.accepted):
        turn = turns[index]
        past = tokens.new_zeros(num_before, tokens.shape[1])
        if places is not None:
            opened = state.open_inputs[turn, slot, places]
            past = torch.cat([state.inputs[turn, slot], opened])[-num_before:]
        line = torch.cat([past, tokens[rows]])
        steps = _steps_back(own, index, len(line) - num_before, num_before, line.device)
        taken = line[steps + num_before].transpose(1, 2)  # [L, C, W]
        mixed[rows] = F.silu((taken * weights.convolution).sum(2))
        num_open = min(own.num_open, len(steps))
        num_final = len(steps) - num_open
        state.inputs[1 - turn, slot] = line[num_final : num_final + num_before]
        state.open_inputs[1 - turn, slot, :num_open] = line[num_before + num_final :]
    sizes = [num_groups * key_dim, num_groups * key_dim]
    query, key, value = mixed.split([*sizes, mixed.shape[1] - sum(sizes)], 1)
    query = (_unit(query.view(num_tokens, num_groups, -1)) * key_dim**-0.5).to(tokens.dtype)
    key = _unit(key.view(num_tokens, num_groups, -1)).to(tokens.dtype)
    for rows, index, slot, _ in _sequences(own, own.accepted):
        opened = key[rows][-own.num_open :]
        state.open_keys[slot, own.opened[index] :][: len(opened)] = opened
    return DeltaHeads(
        query,
        key,
        value.unflatten(1, (-1, inputs.value.shape[-1])),
        weights.rates * F.softplus(inputs.step.flatten(1).float() + weights.step_bias.float()),
        inputs.strength.flatten(1).float().sigmoid(),
    )


def delta_rule(heads: DeltaHeads, state: DeltaState, own: DeltaPass) -> Tensor:
    """Settle open tokens; then each token's matrix M is that of the token
    before it, decayed, plus key ⊗ strength · (value - key · M), and its output is query · M.

    Writes the state's `matrices`, `open_changes` and `open_decays`. Returns [T, H, value_dim];
    zeros for tokens of no slot.
    """
    output = torch.zeros_like(heads.value)
    group = heads.value.shape[1] // heads.key.shape[1]
    for rows, index, slot, places in _sequences(own, own.settled):
        matrix = torch.zeros_like(state.matrices[slot])
        before: Tensor | float = 0.0
        if places is not None:
            matrix, before = _settled(state, slot, places)
        part = [tensor[rows].float().transpose(0, 1) for tensor in heads]
        part[:2] = [tensor.repeat_interleave(group, 0) for tensor in part[:2]]
        num_final = max(0, part[0].shape[1] - own.num_open)
        results = []
        for start in range(0, num_final, _CHUNK):
            chunk = _Chunk(*(it[:, start : min(start + _CHUNK, num_final)] for it in part))
            result, change, decays = chunk.run(matrix, None)
            results.append(result)
            matrix = chunk.matrix_behind(matrix, change, decays)
        last = _Chunk(*(it[:, num_final:] for it in part))
        result, change, decays = last.run(
            matrix, None if own.ancestors is None else own.ancestors[index]
        )
        output[rows] = torch.cat([*results, result], 1).transpose(0, 1).to(output.dtype)
        if own.stores[index]:
            state.matrices[slot], before = matrix, 0.0
        opened = slice(own.opened[index], own.opened[index] + change.shape[1])
        state.open_changes[slot, opened] = change.transpose(0, 1)
        state.open_decays[slot, opened] = decays.transpose(0, 1) + before
    return output


def gated_norm(x: Tensor, gate: Tensor, weight: Tensor, eps: float) -> Tensor:
    """x / √(mean(x²) + eps) · weight · SiLU(gate) over the last dimension.

    x:    [T, H, D]
    gate: [T, G, H / G, D], which may be strided
    weight: [D], of any dtype
    Returns [T, H · D] of x's dtype.
    """
    wide = x.float()
    normed = wide * (wide.square().mean(-1, keepdim=True) + eps).rsqrt()
    normed = weight * normed.to(x.dtype)
    return (normed * F.silu(gate.flatten(1, 2).float())).to(x.dtype).flatten(1)


def sigmoid_mul(x: Tensor, gate: Tensor) -> Tensor:
    """x · sigmoid(gate), both [T, H, D]; the gate may be strided. Returns [T, H · D]."""
    return (x * gate.sigmoid()).flatten(1)


class _Chunk(NamedTuple):
    """At most a few tens of tokens of one sequence, float32: [H, L, key_dim] or [H, L, value_dim],
    and [H, L]."""

    query: Tensor
    key: Tensor
    value: Tensor
    decay: Tensor
    strength: Tensor

    def run(self, matrix: Tensor, ancestors: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Outputs [H, L, value_dim], changes of the same shape and the decays along each path [H,
        L], behind `matrix` [H, key_dim, value_dim]. A change depends on those of the token's
        ancestors, that is, on a triangular system."""
        num = self.query.shape[1]
        if ancestors is None:
            ancestors = torch.ones(num, num, dtype=torch.bool, device=matrix.device).tril()
        decays = self.decay @ ancestors.float().T
        between = decays[:, :, None] - decays[:, None, :]
        # What a tree does not use may have any ancestors.
        factors = between.clamp(max=0.0).masked_fill(~ancestors, -torch.inf).exp()
        start = decays.exp()[..., None]
        strength = self.strength[..., None]
        lower = strength * factors * (self.key @ self.key.mT)
        wanted = strength * (self.value - start * (self.key @ matrix))
        change = torch.linalg.solve_triangular(lower, wanted, upper=False, unitriangular=True)
        result = start * (self.query @ matrix) + (factors * (self.query @ self.key.mT)) @ change
        return result, change, decays

    def matrix_behind(self, matrix: Tensor, change: Tensor, decays: Tensor) -> Tensor:
        """The matrix behind the last token."""
        return _behind(matrix, self.key, change, decays)


def _behind(matrix: Tensor, key: Tensor, change: Tensor, decays: Tensor) -> Tensor:
    """A matrix behind L further tokens, of which the decays are known: key [H, L, key_dim], change
    [H, L, value_dim], decays [H, L]."""
    end = decays[:, -1:]
    weighted = key * (end - decays).exp()[..., None]
    return end[..., None].exp() * matrix + weighted.mT @ change


def _settled(state: DeltaState, slot: int, places: Tensor) -> tuple[Tensor, Tensor | float]:
    """A slot's matrices behind some of its open tokens, and their decays since they were
    stored [H]."""
    matrix = state.matrices[slot]
    if not len(places):
        return matrix, 0.0
    key = state.open_keys[slot, places].float().transpose(0, 1)
    change = state.open_changes[slot, places].transpose(0, 1)
    decays = state.open_decays[slot, places].transpose(0, 1)
    key = key.repeat_interleave(len(matrix) // len(key), 0)
    return _behind(matrix, key, change, decays), decays[:, -1]


def _steps_back(
    own: DeltaPass, index: int, num: int, num_before: int, device: torch.device
) -> Tensor:
    """The places of the tokens that the convolution reads for each of L tokens, [L, W], oldest
    first, the token itself last."""
    at = torch.arange(num, device=device)[:, None]
    if own.before is None:
        return at - torch.arange(num_before, -1, -1, device=device)
    return torch.cat([own.before[index].flip(1).long(), at], 1)


def _unit(heads: Tensor) -> Tensor:
    """Heads of length 1, float32."""
    heads = heads.float()
    return heads * (heads.square().sum(-1, keepdim=True) + NORM_EPS).rsqrt()


def _sequences(
    own: DeltaPass, opened: OpenTokens
) -> Iterator[tuple[slice, int, int, Tensor | None]]:
    """Of each sequence that has a slot and tokens: the rows of its tokens, its number, slot, and
    the places of its tokens among `opened`; None where it begins."""
    bounds, slots = own.bounds.tolist(), own.slots.tolist()
    for index, num in enumerate(opened.num.tolist()):
        if slots[index] >= 0 and bounds[index + 1] > bounds[index]:
            places = None if num < 0 else opened.places[index, :num].long()
            yield slice(bounds[index], bounds[index + 1]), index, slots[index], places
