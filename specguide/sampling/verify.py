"""Owns the acceptance rule of speculative decoding.

Theorem. Let p(· | prefix) be the target's distribution after masking and filtering, and let the draft d that follows
a prefix be fixed by that prefix (greedy drafting is). Draw x ~ p(· | prefix) and accept d exactly when x = d,
otherwise output x in its place. Then the output has distribution p, and this is the speculative sampling rule
(Leviathan et al. 2023, Chen et al. 2023) for the proposal q that puts all its mass on d.

Proof. The rule accepts d with probability min(1, p(d) / q(d)) = p(d), which is the probability that x = d. When it
rejects, it draws from the residual max(0, p - q) normalised, that is p(y) / (1 - p(d)) for y ≠ d, which is the
distribution of x given x ≠ d. Node by node along a path, each x drawn with noise of its own position, the outputs are
a sample of the target; the draws under rejected nodes are never output, so what they are does not matter. ∎

Since x is what the target says with or without a draft, one seed gives the same tokens with speculation or without,
and with greedy decoding the theorem is plain equality. In a tree the same holds for each path: at most one child of a
node carries x, up to children of equal tokens, of which any may stand for x.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from specguide.draft_tree import DraftTree


def verify_chain(target_tokens: Tensor, drafts: Tensor, held: Tensor) -> tuple[Tensor, Tensor]:
    """Accepts the longest matching prefix of each chain.

    target_tokens: int32 [B, K + 1], what the target says after the golden token and after each draft; -1: nothing
    drafts:        int32 [B, K]; -1: no draft
    held:          uint8 or bool [B], slots that accept nothing this time
    Returns (num_accepted, golden): int32 [B] drafts accepted, -1 where held; int32 [B] the target's token after the
    last accepted draft, -1 where held or where the target said nothing.
    """
    matches = (target_tokens[:, :-1] == drafts) & (drafts >= 0)
    num_accepted = matches.to(torch.int32).cumprod(dim=1, dtype=torch.int32).sum(dim=1, dtype=torch.int32)
    golden = target_tokens.gather(1, num_accepted[:, None].to(torch.int64))[:, 0]
    is_held = held != 0
    return num_accepted.masked_fill(is_held, -1), golden.masked_fill(is_held, -1)


def verify_tree(
    target_tokens: Tensor, draft_tokens: Tensor, tree: DraftTree, held: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Accepts the longest matching path of each tree; of equally long ones that of the lowest node.

    target_tokens: int32 [B, N], what the target says after each node; -1: nothing
    draft_tokens:  int32 [B, N], each node's token; node 0 is the golden token, taken as accepted; -1: no draft
    tree:          the shape, N nodes
    held:          uint8 or bool [B], slots that accept nothing this time
    Returns (num_accepted, golden, path): as verify_chain, and int32 [B, depth + 1] the accepted nodes from node 0
    on, -1 past the last one and where held.
    """
    parents, depths, paths = _tree_tensors(tree, target_tokens.device)
    matches = (target_tokens[:, parents] == draft_tokens) & (draft_tokens >= 0)
    matches[:, 0] = True
    accepted = matches
    for _ in range(paths.shape[1] - 1):
        accepted = matches & accepted[:, parents]
    last = torch.where(accepted, depths, -1).argmax(dim=1)
    is_held = held != 0
    golden = target_tokens.gather(1, last[:, None])[:, 0]
    return (
        depths[last].masked_fill(is_held, -1),
        golden.masked_fill(is_held, -1),
        paths[last].masked_fill(is_held[:, None], -1),
    )


@lru_cache(maxsize=64)
def _tree_tensors(tree: DraftTree, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """parents int64 [N] with 0 for the root, depths int32 [N], and each node's path int32 [N, depth + 1] with -1."""
    length = max(tree.depths) + 1
    paths = [[*tree.path(node), *[-1] * length][:length] for node in range(tree.num_nodes)]
    return (
        torch.tensor((0, *tree.parents[1:]), dtype=torch.int64, device=device),
        torch.tensor(tree.depths, dtype=torch.int32, device=device),
        torch.tensor(paths, dtype=torch.int32, device=device),
    )
