"""Owns the plain-torch kernels over logits and bitmask rows: the readable twins of the fast ones,
which also run on a CPU."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor
from torch.nn.functional import pad

from specguide.kernels.bitmask_rows import BitmaskRows
from specguide.kernels.noise import exponential_noise
from specguide.kernels.sampling_tensors import GREEDY_TEMPERATURE, SamplingTensors


def apply_bitmask(logits: Tensor, rows: BitmaskRows) -> None:
    """Write -inf in place where a guided row forbids a token; free rows are left unchanged.

    logits: [n, V], floating
    """
    forbidden = _bias(rows, torch.float32)[:, : logits.shape[1]] < 0
    logits.masked_fill_(forbidden, float("-inf"))


def masked_argmax(
    logits: Tensor,
    rows: BitmaskRows | None,
    target_ids: Tensor | None = None,
) -> Tensor:
    """The most likely allowed token of each row, as a target id; among equals the first one.

    logits:     [n, Vd] over the draft vocabulary, floating; a NaN or -inf is never chosen
    rows:       over the target vocabulary; bits past its end are 0. None: all are free
    target_ids: int32 or int64 [Vd], target id of each draft id; None if both vocabularies are the
                same
    Returns int32 [n]. If a row allows no token of a pruned draft vocabulary, its only allowed
    target token, if there is exactly one; otherwise -1: there is nothing to choose.
    """
    best, place, is_reached = best_of_rows(logits, rows, target_ids)
    return chosen_tokens(best, place, is_reached, rows, target_ids)


def best_of_rows(
    logits: Tensor, rows: BitmaskRows | None, target_ids: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """The greatest logit that may be chosen (-inf if there is none), its column, int64, and whether
    any token is allowed; each [n]."""
    bias = None if rows is None else _draft_bias(rows, logits, target_ids, logits.dtype)
    best, place = _choosable(logits, bias).max(dim=-1)
    return best, place, torch.ones_like(place).bool() if bias is None else bias.amax(dim=-1) == 0


def chosen_tokens(
    best: Tensor,
    place: Tensor,
    is_reached: Tensor,
    rows: BitmaskRows | None,
    target_ids: Tensor | None,
) -> Tensor:
    """The tokens, int32 [n], that the results of `best_of_rows` stand for."""
    token = place if target_ids is None else target_ids[place]
    token = token.masked_fill(best == float("-inf"), -1)
    if rows is not None and target_ids is not None:
        token = torch.where(is_reached, token, _only_token(rows.bitmask[rows.ids]))
    return token.to(torch.int32)


def masked_top_k(
    logits: Tensor,
    rows: BitmaskRows | None,
    target_ids: Tensor | None,
    k: int,
) -> tuple[Tensor, Tensor]:
    """The k most likely allowed tokens of each row, as target ids, and their probabilities among
    the allowed tokens.

    Parameters are those of masked_argmax, which returns the same token as the first one here,
    except among equals.
    Returns int32 [n, k], most likely first, -1 where there are fewer than k, and float32 [n, k]
    log-probabilities, -inf there. If a pruned vocabulary has no allowed token, the row's only
    allowed token has probability 1.
    """
    bias = None if rows is None else _draft_bias(rows, logits, target_ids, torch.float32)
    allowed = _choosable(logits.float(), bias)
    values, places = allowed.topk(min(k, allowed.shape[1]), dim=-1)
    missing = values == float("-inf")
    tokens = (
        (places if target_ids is None else target_ids[places])
        .masked_fill(missing, -1)
        .to(torch.int32)
    )
    greatest = values[:, :1]
    shift = greatest.where(greatest.isfinite(), 0)  # else huge logits would swallow log_total
    log_total = (allowed - shift).logsumexp(dim=-1, keepdim=True)
    # An infinite logit gives infinity - infinity here: it takes the whole probability, and all
    # other logits none.
    logprobs = (values - shift - log_total).nan_to_num_(nan=0.0, neginf=float("-inf"))
    logprobs = logprobs.masked_fill(missing, float("-inf"))
    if rows is not None and bias is not None and target_ids is not None:
        is_only = (bias.amax(dim=-1) < 0)[:, None] & (
            torch.arange(tokens.shape[1], device=tokens.device) == 0
        )
        only = _only_token(rows.bitmask[rows.ids])[:, None].to(torch.int32)
        tokens = torch.where(is_only, only, tokens)
        logprobs = torch.where(is_only & (only >= 0), 0.0, logprobs)
    padding = 0, k - tokens.shape[1]
    return pad(tokens, padding, value=-1), pad(logprobs, padding, value=float("-inf"))


def masked_sample(
    logits: Tensor,
    rows: BitmaskRows | None,
    params: SamplingTensors,
    positions: Tensor,
) -> Tensor:
    """One token of each row, drawn from its masked, filtered and renormalised distribution.

    The filters come in vLLM's order: mask, temperature, min-p, top-k (with all equals of the k-th),
    top-p (among equals the lowest ids first; the mass is that of the tokens that top-k kept). The
    draw is a race of exponential clocks: the token with the least noise / probability wins. Greedy
    rows take their most likely token, among equals the lowest id.

    logits:    [n, V], floating; a NaN or -inf is never chosen
    rows:      None: all are free
    params:    one entry per row
    positions: int64 [n], position in the sequence of the token to be drawn; seed and position alone
               determine the noise
    Returns int32 [n]; -1 where there is nothing to choose.
    """
    if params.temperature is None:
        return masked_argmax(logits, rows)
    bias = None if rows is None else _draft_bias(rows, logits, None, torch.float32)
    logits = _choosable(logits.float(), bias)
    best, greedy = logits.max(dim=-1, keepdim=True)
    temperature = params.temperature[:, None]
    is_greedy = temperature < GREEDY_TEMPERATURE
    # Infinity - infinity: a row whose best logit is ±infinity must not become NaN.
    scaled = (
        logits.sub(best)
        .nan_to_num_(nan=0.0, neginf=float("-inf"))
        .div_(temperature.masked_fill(is_greedy, 1.0))
    )
    noise = exponential_noise(params.seed, positions, logits.shape[1])
    drawn = _filter(scaled, params).exp().div_(noise).argmax(dim=-1, keepdim=True)
    token = torch.where(is_greedy, greedy, drawn).masked_fill(best == float("-inf"), -1)
    return token[:, 0].to(torch.int32)


def _filter(scaled: Tensor, params: SamplingTensors) -> Tensor:
    """Log-weights [n, V], the greatest is 0; -inf for tokens that min-p, top-k and top-p drop."""
    if params.min_p is not None:
        scaled = scaled.masked_fill(scaled.exp() < params.min_p[:, None], float("-inf"))
    if params.top_k is None and params.top_p is None:
        return scaled
    values, tokens = scaled.sort(dim=-1, descending=True, stable=True)
    if params.top_k is not None:
        num_kept = params.top_k.masked_fill(params.top_k <= 0, scaled.shape[1]).clamp(
            max=scaled.shape[1]
        )
        values = values.masked_fill(values < values.gather(1, num_kept[:, None] - 1), float("-inf"))
    if params.top_p is not None:
        mass = values.softmax(dim=-1, dtype=torch.float64)
        before = mass.cumsum(dim=-1) - mass
        top_p = params.top_p[:, None]
        values = values.masked_fill((before >= top_p) & (top_p < 1), float("-inf"))
    return torch.empty_like(scaled).scatter_(1, tokens, values)


def _choosable(logits: Tensor, bias: Tensor | None) -> Tensor:
    """Logits in which a token that cannot be chosen is -inf. That includes NaN, and a forbidden
    +inf, which the bias turns into NaN."""
    if bias is None:
        return logits.nan_to_num(nan=float("-inf"), posinf=float("inf"), neginf=float("-inf"))
    return (logits + bias).nan_to_num_(nan=float("-inf"), posinf=float("inf"), neginf=float("-inf"))


def _draft_bias(
    rows: BitmaskRows, logits: Tensor, target_ids: Tensor | None, dtype: torch.dtype
) -> Tensor:
    """The `_bias` of the rows, mapped to the vocabulary of the logits, [n, Vd]."""
    bias = _bias(rows, dtype)
    return bias[:, : logits.shape[1]] if target_ids is None else bias.index_select(1, target_ids)


def _bias(rows: BitmaskRows, dtype: torch.dtype) -> Tensor:
    """The bias of each row, [n, 32 · words]: 0 for an allowed token, -inf for a forbidden one; free
    rows allow all."""
    free_words = (rows.guided[rows.ids] == 0).to(torch.int32).neg_()[:, None]
    words = rows.bitmask[rows.ids] | free_words
    bytes_ = words.view(torch.uint8).flatten().to(torch.int32)
    return (
        _byte_bias(dtype, words.device)
        .index_select(0, bytes_)
        .view(words.shape[0], 32 * words.shape[1])
    )


@lru_cache(maxsize=16)
def _byte_bias(dtype: torch.dtype, device: torch.device) -> Tensor:
    """The bias of the eight tokens of each byte value, [256, 8]; a table lookup is far quicker than
    shifting bits."""
    bits = torch.arange(256)[:, None] >> torch.arange(8) & 1
    return torch.zeros(256, 8, dtype=dtype).masked_fill_(bits == 0, float("-inf")).to(device)


def _only_token(rows: Tensor) -> Tensor:
    """The token of each row of int32 words that allows exactly one, else -1; int64 [n]."""
    in_use = rows != 0
    index = in_use.int().argmax(dim=-1)
    word = rows.gather(1, index[:, None])[:, 0]
    is_single = (in_use.sum(dim=-1) == 1) & ((word & (word - 1)) == 0)
    bit = torch.log2((word.to(torch.int64) & 0xFFFFFFFF).double()).to(torch.int64)
    return torch.where(is_single, index * 32 + bit, -1)
