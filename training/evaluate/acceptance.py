"""Owns how well a draft head predicts its target: matches by depth, and acceptance length of
simulated chains.

On a text that the target itself chose greedily, a chain of drafts is accepted up to its first token
that differs from the text, and until then the drafted tokens *are* the text. So one unroll over the
text gives every chain exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from transformers import PreTrainedModel
from transformers.masking_utils import create_masks_for_generate

from training.data.draft_data import Example, PackPlan, collate, pack_rows
from training.heads.unroll import PackedBatch, TrainedHead, take, unroll


@dataclass(frozen=True)
class Acceptance:
    """Figures over the answers of some examples.

    match_by_depth:    share of answer positions whose draft of depth 1 … K equals the target's
                       token, golden and earlier tokens being the target's
    chain_by_depth:    share of iterations of the simulated chain whose drafts 1 … k were all
                       accepted, among those with k tokens left to draft
    acceptance_length: tokens an iteration, golden token included, of the simulated chain of K
                       drafts
    """

    match_by_depth: list[float]
    chain_by_depth: list[float]
    acceptance_length: float
    num_tokens: int


@torch.no_grad()
def tap(
    target: PreTrainedModel, batch: PackedBatch, aux_layers: Sequence[int]
) -> tuple[torch.Tensor, torch.Tensor]:
    """The target over packed rows: tapped states [B, L, 3H] and logits [B, L, V]."""
    embeds = target.get_input_embeddings().weight[batch.input_ids]
    # Documents begin where positions do; each kind of layer has a mask, with its window.
    masks = create_masks_for_generate(target.config, embeds, None, None, batch.position_ids)
    aux_hidden_states: dict[int, torch.Tensor] = {}
    layers = target.model.layers
    hooks = [
        layers[i].register_forward_pre_hook(
            lambda _, args, i=i: aux_hidden_states.__setitem__(i, args[0])
        )
        for i in set(aux_layers)
        if i < len(layers)
    ]
    if len(layers) in aux_layers:
        hooks.append(
            target.model.norm.register_forward_pre_hook(
                lambda _, args: aux_hidden_states.__setitem__(len(layers), args[0])
            )
        )
    try:
        logits = target(
            input_ids=batch.input_ids,
            position_ids=batch.position_ids,
            attention_mask=masks,
            use_cache=False,
        ).logits
    finally:
        for hook in hooks:
            hook.remove()
    return torch.cat([aux_hidden_states[i] for i in aux_layers], dim=-1), logits


@torch.no_grad()
def matches(
    head: TrainedHead,
    target: PreTrainedModel,
    examples: Sequence[Example],
    num_drafts: int,
    row_len: int,
    num_rows: int = 16,
) -> list[np.ndarray]:
    """For each example [T, K] bool: T answer positions (from the first golden token on), does draft
    k match the text? A depth beyond the end of the text does not match."""
    plan = PackPlan(row_len, num_rows, prompt_rate=0.0)
    rows = list(pack_rows(examples, row_len, np.arange(len(examples))))
    found: list[np.ndarray] = []
    for begin in range(0, len(rows), num_rows):
        chunk = rows[begin : begin + num_rows]
        batch = collate(chunk, plan, np.random.default_rng(0)).to(target.device)
        aux, _ = tap(target, batch, head.config.aux_layers)
        logits = unroll(head, aux, target.get_input_embeddings().weight, batch, num_drafts)
        flags = []
        for step, scores in enumerate(logits):
            index, inside = batch.ahead(2 + step)
            drafted = head.draft_ids[scores.argmax(-1)]
            flags.append((drafted == take(batch.input_ids[..., None], index)[..., 0]) & inside)
        table = torch.stack(flags, dim=-1).cpu().numpy()
        for row, row_flags in zip(chunk, table, strict=True):
            lengths = [max(len(x.ids) - 1 - x.prompt_len, 0) for x in row]
            found += np.split(row_flags[: sum(lengths)], np.cumsum(lengths)[:-1])
    return found


def simulate_chain(matched: np.ndarray) -> list[tuple[int, int]]:
    """(accepted drafts, drafts that the text had room for) of each iteration over one text.

    matched: [T, K] bool as from `matches`. An iteration at row t gains its m accepted drafts and a
             golden token; the
    text's last token ends it."""
    iterations = []
    t = 0
    while t < len(matched):
        m = int(np.cumprod(matched[t]).sum())
        iterations.append((m, min(matched.shape[1], len(matched) - t)))
        t += m + 1
    return iterations


def measure(
    head: TrainedHead,
    target: PreTrainedModel,
    examples: Sequence[Example],
    num_drafts: int,
    row_len: int,
) -> Acceptance:
    """Acceptance figures over examples whose answers are the target's own greedy ones."""
    tables = [x for x in matches(head, target, examples, num_drafts, row_len) if len(x)]
    by_depth = [
        np.concatenate([x[: max(len(x) - k, 0), k] for x in tables]).mean()
        for k in range(num_drafts)
    ]
    accepted, room = np.array([pair for x in tables for pair in simulate_chain(x)]).T
    chain = [(accepted[room > k] > k).mean() for k in range(num_drafts)]
    tokens = sum(len(x) for x in tables)
    return Acceptance(
        [round(float(x), 4) for x in by_depth],
        [round(float(x), 4) for x in chain],
        round(tokens / len(accepted), 3),
        tokens,
    )
