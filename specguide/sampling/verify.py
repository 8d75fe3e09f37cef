"""Owns the acceptance rule of speculative decoding.

Theorem. Let p(· | prefix) be the target's distribution after masking and filtering, and let the
draft d that follows a prefix be fixed by that prefix (greedy drafting is). Draw x ~ p(· | prefix)
and accept d exactly when x = d, otherwise output x in its place. Then the output has distribution
p, and this is the speculative sampling rule (Leviathan et al. 2023, Chen et al. 2023) for the
proposal q that puts all its mass on d.

Proof. The rule accepts d with probability min(1, p(d) / q(d)) = p(d), which is the probability that
x = d. When it rejects, it draws from the residual max(0, p - q) normalised, that is p(y) / (1 -
p(d)) for y ≠ d, which is the distribution of x given x ≠ d. Node by node along a path, each x drawn
with noise of its own position, the outputs are a sample of the target; the draws under rejected
nodes are never output, so their values do not matter. ∎

The target chooses x in the same way with or without a draft. So one seed gives the same tokens with
speculation or without, and with greedy decoding the theorem is plain equality. In a tree the same
holds for each path: at most one child of a node carries x, or several with the same token, of which
any may stand for x.
"""

from __future__ import annotations

import torch
from torch import Tensor


def verify_chain(target_tokens: Tensor, drafts: Tensor, held: Tensor) -> tuple[Tensor, Tensor]:
    """Accepts the longest matching prefix of each chain.

    target_tokens: int32 [B, K + 1], the token that the target chooses after the golden token and
                   after each draft; -1: none
    drafts:        int32 [B, K]; -1: no draft
    held:          uint8 or bool [B], slots that accept nothing this time
    Returns (num_accepted, golden): int32 [B] number of accepted drafts, -1 where held; int32 [B]
    the target's token after the last accepted draft, -1 where held or where the target chose none.
    """
    matches = (target_tokens[:, :-1] == drafts) & (drafts >= 0)
    num_accepted = (
        matches.to(torch.int32).cumprod(dim=1, dtype=torch.int32).sum(dim=1, dtype=torch.int32)
    )
    golden = target_tokens.gather(1, num_accepted[:, None].to(torch.int64))[:, 0]
    is_held = held != 0
    return num_accepted.masked_fill(is_held, -1), golden.masked_fill(is_held, -1)


def verify_tree(
    target_tokens: Tensor, draft_tokens: Tensor, parents: Tensor, depth: int
) -> tuple[Tensor, Tensor]:
    """Goes down each tree to the child that has the target's token; of several, to the first.

    target_tokens: int32 [B, N], the token that the target chooses after each node; -1: none
    draft_tokens:  int32 [B, N], each node's token, -1: no draft; node 0 is the golden token, which
                   counts as accepted
    parents:       int64 [B, N], each node's parent, which comes before it; not read for node 0
    depth:         D, most drafts on a path
    Returns (num_accepted, path): int32 [B] number of accepted drafts, and int64 [B, D + 1] the
    accepted nodes from node 0 on, -1 past the last one. The new golden token is the target's token
    after the last one.
    """
    path = torch.full((len(parents), depth + 1), -1, dtype=torch.int64, device=parents.device)
    path[:, 0] = 0
    last = path[:, :1].clone()
    is_draft = draft_tokens >= 0
    is_draft[:, 0] = False
    for step in range(1, depth + 1):
        is_next = (parents == last) & (draft_tokens == target_tokens.gather(1, last)) & is_draft
        found = is_next.any(dim=1, keepdim=True) & (path[:, step - 1 : step] >= 0)
        last = torch.where(found, is_next.int().argmax(dim=1, keepdim=True), last)
        path[:, step : step + 1] = last.masked_fill(~found, -1)
    return (path > 0).sum(dim=1, dtype=torch.int32), path
