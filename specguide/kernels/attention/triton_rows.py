"""Owns which rows and which keys a program of paged attention takes, and which of these keys a row
sees."""

# mypy: allow-untyped-defs

from __future__ import annotations

from typing import Any, NamedTuple

import triton
import triton.language as tl


class Sequences(NamedTuple):
    """Pointers to the tensors of ForwardContext that describe the sequences."""

    query_start_loc: Any
    seq_lens: Any
    position_ids: Any


class Tree(NamedTuple):
    """Pointers to the ancestor masks of all sequences, [Q, nodes] each, and to the positions of
    their nodes."""

    ancestor_mask: Any
    positions: Any


class Sequence(NamedTuple):
    """A sequence and its last keys: those of its tokens in this pass, or of its tree.

    first:          its first query
    num_last:       number of these last keys
    num_earlier:    number of the keys before them
    last_positions: pointer to the positions of the last keys
    mask:           offset of its ancestor mask from that of the first sequence
    """

    first: Any
    query_len: Any
    seq_len: Any
    num_last: Any
    num_earlier: Any
    last_positions: Any
    mask: Any


class Rows(NamedTuple):
    """The rows of a tile, [rows].

    query_id, head: token and head of their queries
    token:          the same token, counted from the first one that the sequence has in this pass
    position:       positions of their tokens
    """

    query_id: Any
    head: Any
    token: Any
    exists: Any
    position: Any


@triton.jit
def find_tile(sequences, num_seqs, num_blocks, TOKENS: tl.constexpr, MOST_SEQS: tl.constexpr):
    """The sequence of a program, and which of the sequence's blocks of TOKENS it takes.

    MOST_SEQS: 0: each sequence has `num_blocks`, some of them empty. Else tiles are packed: only
               those behind the last sequence are empty, and get a sequence of num_seqs or more

    The last tiles are started first: they see the most keys, and should not be the ones that finish
    last.
    """
    tile = tl.num_programs(1) - 1 - tl.program_id(1)
    index, block = tile // num_blocks, tile % num_blocks
    if MOST_SEQS:
        seq = tl.arange(0, MOST_SEQS)
        exists = seq < num_seqs
        first = tl.load(sequences.query_start_loc + seq, mask=exists, other=0)
        last = tl.load(sequences.query_start_loc + seq + 1, mask=exists, other=0)
        ends = tl.cumsum(tl.cdiv(last - first, TOKENS), 0)
        is_before = ends <= tile
        index = tl.sum(is_before.to(tl.int32), 0)
        block = tile - tl.max(tl.where(is_before, ends, 0), 0)
    return index, block


@triton.jit
def load_sequence(sequences, tree, seq, num_tree_keys):
    first = tl.load(sequences.query_start_loc + seq)
    query_len = tl.load(sequences.query_start_loc + seq + 1) - first
    seq_len = tl.load(sequences.seq_lens + seq)
    num_last, last_positions = query_len, sequences.position_ids + first
    if tree is not None:
        num_last, last_positions = num_tree_keys, tree.positions + seq * num_tree_keys
    mask = seq * query_len * num_last
    return Sequence(first, query_len, seq_len, num_last, seq_len - num_last, last_positions, mask)


@triton.jit
def load_rows(position_ids, seq, block, group, GROUP: tl.constexpr, ROWS: tl.constexpr):
    """The rows of some tokens of a sequence and a group of heads, which share a key head."""
    TOKENS: tl.constexpr = ROWS // GROUP
    row = tl.arange(0, ROWS)
    token = block * TOKENS + row // GROUP
    exists = (row < TOKENS * GROUP) & (token < seq.query_len)
    position = tl.load(position_ids + seq.first + token, mask=exists, other=2**31 - 1)
    position = position.to(tl.int32)
    return Rows(seq.first + token, group * GROUP + row % GROUP, token, exists, position)


@triton.jit
def key_range(
    tree,
    seq,
    rows,
    block,
    split,
    num_splits,
    window,
    IS_SPLIT: tl.constexpr,
    TOKENS: tl.constexpr,
    KEYS: tl.constexpr,
):
    """The first key that a program reads, and the one behind its last. TOKENS: tokens per block"""
    begin, end = 0, seq.seq_len
    if tree is None:
        num_own = tl.minimum((block + 1) * TOKENS, seq.query_len)
        end = tl.minimum(seq.seq_len, seq.num_earlier + num_own)
    if window is not None:
        begin = tl.minimum(seq.num_earlier, tl.min(rows.position, 0) - window + 1)
        begin = tl.maximum(0, begin) // KEYS * KEYS
    if IS_SPLIT:
        share = tl.cdiv(tl.cdiv(end - begin, KEYS), num_splits) * KEYS
        begin += split * share
        end = tl.minimum(end, begin + share)
    return begin, end


@triton.jit
def seen_by_all(seq, block, begin, end, TOKENS: tl.constexpr, KEYS: tl.constexpr):
    """The end of the first steps of a program whose keys every row of a block sees, as far as the
    order of the tokens alone tells it."""
    num_seen = (seq.num_earlier + block * TOKENS + 1) // KEYS * KEYS
    return tl.maximum(begin, tl.minimum(end, num_seen))


@triton.jit
def visible_keys(tree, seq, rows, key_id, exists, window):
    """Which keys a row sees, [rows, keys]: by the tree or by order, and within the window if there
    is one."""
    own = key_id - seq.num_earlier
    if tree is None:
        visible = exists[None, :] & (own[None, :] <= rows.token[:, None])
    else:
        is_own = rows.exists[:, None] & (exists & (own >= 0))[None, :]
        mask = tree.ancestor_mask + seq.mask
        seen = mask + rows.token[:, None] * seq.num_last + own[None, :]
        visible = exists[None, :] & (tl.load(seen, mask=is_own, other=1) != 0)
    if window is not None:
        own_position = tl.load(seq.last_positions + own, mask=exists & (own >= 0), other=0)
        key_position = tl.where(own < 0, key_id, own_position.to(tl.int32))
        visible = visible & (rows.position[:, None] - key_position[None, :] < window)
    return visible
