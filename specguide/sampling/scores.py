"""Owns the log-probabilities of chosen tokens, by the model's own logits."""

from __future__ import annotations

from torch import Tensor

from specguide.batch import TokenScores
from specguide.params.rules import MAX_LOGPROBS


def score_tokens(logits: Tensor, target_tokens: Tensor) -> TokenScores:
    """The log-probabilities of the chosen tokens, and of the likeliest tokens at the same nodes.

    logits:        [B · N, V], floating, as the model gives them
    target_tokens: int32 [B, N], the token chosen after each node; -1: none, and the scores there
                   are meaningless
    """
    logprobs = logits.float().log_softmax(dim=-1).view(*target_tokens.shape, -1)
    chosen = logprobs.gather(2, target_tokens.clamp(min=0).long()[:, :, None])
    top_logprobs, top_ids = logprobs.topk(min(MAX_LOGPROBS, logprobs.shape[2]), dim=2)
    return TokenScores(
        logprobs=chosen[:, :, 0],
        ranks=(logprobs >= chosen).sum(2).int(),
        top_ids=top_ids.int(),
        top_logprobs=top_logprobs,
    )
