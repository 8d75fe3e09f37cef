"""Owns how a pass is cut into micro-batches of whole sequences."""

from __future__ import annotations

from dataclasses import replace

from specguide.kernels.attention.interface import ForwardContext, PassContext
from specguide.kernels.attention.joined import JoinedContext


def micro_batches(context: PassContext, num: int) -> list[tuple[PassContext, slice]]:
    """At most `num` parts of a pass, in order, each with the slice of the pass's tokens that it
    holds. A sequence is never cut. The sequences' bounds are read back from the device."""
    num_tokens = len(context.position_ids)
    if num == 1:
        return [(context, slice(0, num_tokens))]
    if isinstance(context, JoinedContext):
        first = micro_batches(context.first, num - num // 2)
        second = micro_batches(context.second, num // 2)
        shift = len(context.first.position_ids)
        return first + [
            (part, slice(tokens.start + shift, tokens.stop + shift)) for part, tokens in second
        ]
    assert isinstance(context, ForwardContext)
    return _of_sequences(context, num, num_tokens)


def _of_sequences(
    context: ForwardContext, num: int, num_tokens: int
) -> list[tuple[PassContext, slice]]:
    """Parts with about equally many sequences; the padding at the end belongs to the last part."""
    starts = context.query_start_loc.tolist()
    num_seqs = len(starts) - 1
    num = max(1, min(num, num_seqs))
    edges = [num_seqs * part // num for part in range(num + 1)]
    with_tokens = [edge for edge in edges[1:-1] if 0 < starts[edge] < starts[-1]]
    distinct = list({starts[edge]: edge for edge in with_tokens}.values())
    parts: list[tuple[PassContext, slice]] = []
    for first, last in zip([0, *distinct], [*distinct, num_seqs], strict=True):
        stop = num_tokens if last == num_seqs else starts[last]
        tokens = slice(starts[first], stop)
        parts.append((_part(context, slice(first, last), tokens), tokens))
    return parts


def _part(context: ForwardContext, seqs: slice, tokens: slice) -> ForwardContext:
    bounds = context.query_start_loc[seqs.start : seqs.stop + 1]
    rotary = context.rotary_positions
    return replace(
        context,
        position_ids=context.position_ids[tokens],
        slot_mapping=context.slot_mapping[tokens],
        block_table=context.block_table[seqs],
        query_start_loc=bounds - bounds[0],
        seq_lens=context.seq_lens[seqs],
        mask=context.mask.select(seqs),
        adapter_ids=None if context.adapter_ids is None else context.adapter_ids[tokens],
        image_rows=None if context.image_rows is None else context.image_rows[tokens],
        rotary_positions=rotary if rotary is None else rotary[..., tokens],
        states=None if context.states is None else context.states.select(seqs),
    )
