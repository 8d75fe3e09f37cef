"""Paged attention and the KV store against dense attention written key by key."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from paging import pass_context, scattered_pages
from torch import Tensor

from specguide.cache import slot_mapping
from specguide.drafts.tree import DraftTree
from specguide.kernels.attention import (
    AttentionBackend,
    AttentionForm,
    CpuAttention,
    ForwardContext,
    JoinedContext,
    TorchAttention,
    cpu_backend,
)
from specguide.kernels.kv_scales import UNSCALED, KVScales, cached
from specguide.kernels.pointwise import store_kv

HEAD_DIM, NUM_KV_HEADS = 8, 2
TREE = DraftTree((-1, 0, 0, 1, 1, 2, 4))

BACKENDS: list[AttentionBackend] = [TorchAttention(), CpuAttention()]


@pytest.fixture(autouse=True)
def without_gradients() -> Iterator[None]:
    """Run without gradients, as an engine does: the native attention keeps none."""
    with torch.inference_mode():
        yield


# Says whether token i of a pass sees key j of its sequence; both count from the pass's first token,
# j may be < 0.
Sees = Callable[[int, int], bool]


@dataclass(frozen=True)
class Case:
    """A paged cache with the keys of some sequences, and one pass over it."""

    query: Tensor
    keys: list[Tensor]
    values: list[Tensor]
    key_cache: Tensor
    value_cache: Tensor
    context: ForwardContext


def make_case(
    earlier_lens: Sequence[int],
    query_lens: Sequence[int],
    *,
    group: int = 2,
    page_size: int = 4,
    tree: DraftTree | None = None,
    seed: int = 0,
    spare: float = math.nan,
) -> Case:
    """Sequences with `earlier_lens` keys before the pass; what no token wrote is `spare` everywhere
    in the cache."""
    random = torch.Generator().manual_seed(seed)
    lens = [earlier + query for earlier, query in zip(earlier_lens, query_lens, strict=True)]
    table, num_pages = scattered_pages(lens, page_size, 2, random)
    caches = [torch.full((num_pages, page_size, NUM_KV_HEADS, HEAD_DIM), spare) for _ in range(2)]
    keys, values = (
        [torch.randn(n, NUM_KV_HEADS, HEAD_DIM, generator=random) for n in lens] for _ in range(2)
    )
    for seq, length in enumerate(lens):
        slots = slot_mapping(table, torch.full((length,), seq), torch.arange(length), page_size)
        store_kv(keys[seq], values[seq], caches[0], caches[1], slots)
    context = pass_context(table, lens, query_lens, page_size, tree)
    query = torch.randn(sum(query_lens), NUM_KV_HEADS * group, HEAD_DIM, generator=random)
    return Case(query, keys, values, *caches, context)


def attention(
    case: Case,
    backend: AttentionBackend,
    window: int | None = None,
    sinks: Tensor | None = None,
    softcap: float | None = None,
) -> Tensor:
    form = AttentionForm(0.3, window, sinks, softcap=softcap)
    return backend.plan(case.context).run(case.query, case.key_cache, case.value_cache, form)


def dense_attention(
    case: Case,
    sees: Sees,
    scale: float,
    sinks: Tensor | None = None,
    softcap: float | None = None,
) -> Tensor:
    """Attention of one head of one token at a time, in float64."""
    group = case.query.shape[1] // NUM_KV_HEADS
    starts = case.context.query_start_loc.tolist()
    output = torch.zeros(case.query.shape, dtype=torch.float64)
    for seq, (keys, values) in enumerate(zip(case.keys, case.values, strict=True)):
        earlier = len(keys) - (starts[seq + 1] - starts[seq])
        for token in range(starts[seq], starts[seq + 1]):
            seen = [s for s in range(len(keys)) if sees(token - starts[seq], s - earlier)]
            for head in range(case.query.shape[1]):
                scores = [
                    scale
                    * float(keys[s, head // group].double() @ case.query[token, head].double())
                    for s in seen
                ]
                if softcap is not None:
                    scores = [softcap * math.tanh(score / softcap) for score in scores]
                weights = [math.exp(score - max(scores)) for score in scores]
                total = sum(weights)
                if sinks is not None:
                    total += math.exp(float(sinks[head]) - max(scores))
                for weight, s in zip(weights, seen, strict=True):
                    output[token, head] += weight / total * values[s, head // group].double()
    return output


def sees_tree(tree: DraftTree, window: int | None, num_earlier: int = 0) -> Sees:
    """num_earlier: nodes whose keys were there before the pass"""

    def sees(i: int, j: int) -> bool:
        i, j = i + num_earlier, j + num_earlier
        if j >= 0 and j not in tree.path(i):
            return False
        distance = tree.depths[i] - (tree.depths[j] if j >= 0 else j)
        return window is None or distance < window

    return sees


def sees_chain(window: int | None) -> Sees:
    return lambda i, j: j <= i and (window is None or i - j < window)


def check(
    case: Case,
    sees: Sees,
    window: int | None = None,
    sinks: Tensor | None = None,
    softcap: float | None = None,
) -> None:
    expected = dense_attention(case, sees, 0.3, sinks, softcap)
    for backend in BACKENDS:
        output = attention(case, backend, window, sinks, softcap)
        assert output.shape == case.query.shape and output.dtype == case.query.dtype
        torch.testing.assert_close(output.double(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("window", [None, 1, 3, 6])
@pytest.mark.parametrize("query_len", [1, 4])
def test_decode(query_len: int, window: int | None) -> None:
    check(make_case([5, 0, 12, 3, 40, 1, 7, 2, 9], [query_len] * 9), sees_chain(window), window)


@pytest.mark.parametrize("window", [None, 1, 2, 4])
def test_tree(window: int | None) -> None:
    check(
        make_case([5, 0, 13, 2, 30, 1], [TREE.num_nodes] * 6, tree=TREE),
        sees_tree(TREE, window),
        window,
    )


@pytest.mark.parametrize("window", [None, 1, 3])
@pytest.mark.parametrize("num_own", [1, 2, 3])
def test_last_nodes_of_a_tree(num_own: int, window: int | None) -> None:
    num_earlier = TREE.num_nodes - num_own
    check(
        make_case([num_earlier + 5, num_earlier, num_earlier + 13], [num_own] * 3, tree=TREE),
        sees_tree(TREE, window, num_earlier),
        window,
    )


def test_tree_that_is_a_chain_equals_the_chain() -> None:
    check(make_case([5, 2], [4, 4], tree=DraftTree.chain(3)), sees_chain(None))


@pytest.mark.parametrize("window", [None, 3])
def test_ragged_prefill(window: int | None) -> None:
    check(make_case([0, 0, 6, 0], [5, 1, 9, 2]), sees_chain(window), window)


@pytest.mark.parametrize("window", [None, 20])
def test_prefill_longer_than_is_batched(window: int | None) -> None:
    check(make_case([0, 3], [70, 70], page_size=16), sees_chain(window), window)


@pytest.mark.parametrize("window", [None, 3])
def test_sinks_take_their_share(window: int | None) -> None:
    sinks = torch.tensor([2.0, -1.0, 0.5, 8.0])
    check(make_case([5, 0, 12], [4] * 3), sees_chain(window), window, sinks)
    check(make_case([0, 0, 6, 0], [5, 1, 9, 2]), sees_chain(window), window, sinks)
    tree = make_case([5, 0, 13], [TREE.num_nodes] * 3, tree=TREE)
    check(tree, sees_tree(TREE, window), window, sinks)


@pytest.mark.parametrize("window", [None, 3])
@pytest.mark.parametrize("sinks", [None, torch.tensor([2.0, -1.0, 0.5, 8.0])])
def test_scores_with_a_limit(window: int | None, sinks: Tensor | None) -> None:
    for earlier, queries in (([5, 0, 12], [4] * 3), ([0, 0, 6, 0], [5, 1, 9, 2]), ([0], [300])):
        check(make_case(earlier, queries), sees_chain(window), window, sinks, 0.5)
    tree = make_case([5, 0, 13], [TREE.num_nodes] * 3, tree=TREE)
    check(tree, sees_tree(TREE, window), window, sinks, 0.5)


def test_sequence_without_tokens_in_a_ragged_pass() -> None:
    check(make_case([3, 4, 0], [2, 0, 3]), sees_chain(None))


@pytest.mark.parametrize("group", [1, 4])
def test_query_heads_share_key_heads(group: int) -> None:
    check(make_case([5, 2], [3, 3], group=group), sees_chain(None))
    check(make_case([5, 2], [3, 1], group=group), sees_chain(None))


@settings(max_examples=40)
@given(
    sequences=st.lists(st.tuples(st.integers(0, 9), st.integers(1, 5)), min_size=1, max_size=9),
    page_size=st.sampled_from([1, 3, 16]),
    window=st.sampled_from([None, 1, 2, 7]),
    seed=st.integers(0, 99),
)
def test_any_batch(
    sequences: list[tuple[int, int]], page_size: int, window: int | None, seed: int
) -> None:
    case = make_case(
        [e for e, _ in sequences], [q for _, q in sequences], page_size=page_size, seed=seed
    )
    check(case, sees_chain(window), window)


@settings(max_examples=40)
@given(
    parents=st.integers(1, 8).flatmap(
        lambda n: st.tuples(*(st.integers(0, max(0, j - 1)) for j in range(n)))
    ),
    earlier_lens=st.lists(st.integers(0, 9), min_size=1, max_size=6),
    window=st.sampled_from([None, 1, 2, 4]),
)
def test_any_tree(parents: tuple[int, ...], earlier_lens: list[int], window: int | None) -> None:
    tree = DraftTree((-1, *parents[1:]))
    case = make_case(earlier_lens, [tree.num_nodes] * len(earlier_lens), tree=tree, page_size=3)
    check(case, sees_tree(tree, window), window)


@pytest.mark.parametrize("backend", BACKENDS)
def test_sequence_alone_equals_sequence_in_a_batch(backend: AttentionBackend) -> None:
    batch, alone = (make_case(earlier, [4] * len(earlier), seed=7) for earlier in ([6, 11], [6]))
    batch.query[:4] = alone.query
    first = int(batch.context.block_table[0, 0]), int(alone.context.block_table[0, 0])
    for seq_pages in range(3):
        source, sink = (int(c.context.block_table[0, seq_pages]) for c in (alone, batch))
        batch.key_cache[sink], batch.value_cache[sink] = (
            alone.key_cache[source],
            alone.value_cache[source],
        )
    assert first[0] >= 0 and first[1] >= 0
    outputs = [attention(case, backend) for case in (batch, alone)]
    torch.testing.assert_close(outputs[0][:4], outputs[1])


@pytest.mark.parametrize("backend", BACKENDS)
def test_neighbour_that_is_nan_is_not_noticed(backend: AttentionBackend) -> None:
    """A request whose keys are NaN spoils its own tokens alone, also where a table still names its
    pages."""
    case = make_case([5, 5], [2, 2])
    own = case.context.block_table[1, :2]
    case.key_cache[own.long()] = case.value_cache[own.long()] = math.nan
    case.context.block_table[0, 2:4] = own
    output = attention(case, backend)
    assert output[:2].isfinite().all() and output[2:].isnan().all()
    expected = dense_attention(case, sees_chain(None), 0.3)[:2]
    torch.testing.assert_close(output[:2].double(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("softcap", [None, 2.0])
def test_padding_sequence_without_keys_gives_zeros(
    backend: AttentionBackend, softcap: float | None
) -> None:
    case = make_case([5, 0], [1, 1])
    case.context.seq_lens[1] = 0
    case.context.block_table[1] = -1
    case.key_cache.nan_to_num_(), case.value_cache.nan_to_num_()
    output = attention(case, backend, softcap=softcap)
    assert output[1].count_nonzero() == 0 and output[0].count_nonzero() > 0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(dtype: torch.dtype) -> None:
    for query_lens in ([3, 3], [3, 1]):
        case = make_case([9, 4], query_lens)
        half = [t.to(dtype) for t in (case.query, case.key_cache, case.value_cache)]
        output = case.context.plan.run(*half, AttentionForm(0.3))
        assert output.dtype == dtype
        reference = dense_attention(case, sees_chain(None), 0.3)
        torch.testing.assert_close(output.double(), reference, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("cache_dtype", [torch.float8_e4m3fn, torch.bfloat16])
@pytest.mark.parametrize(
    ("earlier", "queries", "tree"),
    [
        ([5, 0, 12], [1] * 3, None),
        ([5, 0, 12], [4] * 3, None),
        ([0, 0, 6], [5, 1, 9], None),
        ([5, 0, 13], [TREE.num_nodes] * 3, TREE),
    ],
)
def test_caches_of_another_dtype(
    earlier: list[int], queries: list[int], tree: DraftTree | None, cache_dtype: torch.dtype
) -> None:
    """Exact attention over what the cache's numbers stand for."""
    scales = KVScales(0.02, 0.3) if cache_dtype == torch.float8_e4m3fn else UNSCALED
    case = make_case(earlier, queries, tree=tree)
    held = [
        cached(case.key_cache, scales.key, cache_dtype),
        cached(case.value_cache, scales.value, cache_dtype),
    ]
    for numbers, scale in ((case.keys, scales.key), (case.values, scales.value)):
        for some in numbers:
            some.copy_(cached(some, scale, cache_dtype).float() * scale)
    sinks = torch.tensor([2.0, -1.0, 0.5, 8.0])
    output = case.context.plan.run(case.query, *held, AttentionForm(0.3, 6, sinks, scales))
    sees = sees_tree(tree, 6) if tree else sees_chain(6)
    expected = dense_attention(case, sees, 0.3, sinks)
    torch.testing.assert_close(output.double(), expected, rtol=1e-5, atol=1e-5)


def test_parts_of_a_pass_read_one_cache() -> None:
    scales = KVScales(0.02, 0.3)
    case = make_case([5, 9, 0, 3], [2, 2, 5, 1], spare=0.0)
    held = [cached(it, 1.0, torch.float8_e4m3fn) for it in (case.key_cache, case.value_cache)]
    joined = JoinedContext(part(case.context, slice(0, 2)), part(case.context, slice(2, 4)))
    found = joined.plan.run(case.query, *held, AttentionForm(0.3, scales=scales))
    expected = case.context.plan.run(case.query, *held, AttentionForm(0.3, scales=scales))
    torch.testing.assert_close(found, expected)


def part(context: ForwardContext, seqs: slice) -> ForwardContext:
    """The context of some sequences of a pass."""
    bounds = context.query_start_loc[seqs.start : seqs.stop + 1]
    tokens = slice(int(bounds[0]), int(bounds[-1]))
    return replace(
        context,
        position_ids=context.position_ids[tokens],
        slot_mapping=context.slot_mapping[tokens],
        block_table=context.block_table[seqs],
        query_start_loc=bounds - bounds[0],
        seq_lens=context.seq_lens[seqs],
    )


def test_much_is_done_by_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = make_case([5, 0], [3, 3]), make_case([0, 3], [200, 200], page_size=16)
    outputs = [attention(case, TorchAttention()) for case in (few, many)]
    monkeypatch.setattr(cpu_backend, "_TORCH", None)
    torch.testing.assert_close(attention(few, CpuAttention()), outputs[0])
    with pytest.raises(AttributeError, match="plan"):
        attention(many, CpuAttention())


@pytest.mark.parametrize("scale", [1.0, 0.25])
def test_store_into_float8_saturates(scale: float) -> None:
    """What is too large becomes the largest, and NaN stays."""
    key = torch.tensor([1e4, -1e4, math.nan, 0.1, 3.3, 447.0]).view(3, 1, 2)
    caches = [torch.zeros(2, 4, 1, 2, dtype=torch.float8_e4m3fn) for _ in range(2)]
    store_kv(key, key, *caches, torch.tensor([1, -1, 6]), KVScales(scale, 1.0))
    stored = [cache.view(8, 2)[[1, 6]].float() for cache in caches]
    largest = 448 * scale
    expected = torch.tensor([[largest, -largest], [3.3, min(447.0, largest)]])
    torch.testing.assert_close(stored[0] * scale, expected, rtol=1 / 16, atol=0)
    assert stored[0][0].tolist() == [448, -448] == stored[1][0].tolist()
    nan = cached(key[1], scale, torch.float8_e4m3fn).float()
    assert nan.isnan().tolist() == [[True, False]]


def test_store_writes_only_the_named_slots() -> None:
    key_cache, value_cache = torch.zeros(3, 4, 2, 8), torch.zeros(3, 4, 2, 8)
    key, value = torch.randn(4, 2, 8), torch.randn(4, 2, 8)
    store_kv(key, value, key_cache, value_cache, torch.tensor([11, -1, 0, 5]))
    expected = torch.zeros(12, 2, 8)
    expected[[11, 0, 5]] = key[[0, 2, 3]]
    assert torch.equal(key_cache.view(12, 2, 8), expected)
    expected[[11, 0, 5]] = value[[0, 2, 3]]
    assert torch.equal(value_cache.view(12, 2, 8), expected)


def test_store_of_nothing_and_into_another_dtype() -> None:
    cache = torch.zeros(2, 4, 2, 8, dtype=torch.bfloat16)
    key = torch.randn(3, 2, 8)
    store_kv(key, key, cache, cache.clone(), torch.tensor([-1, -1, -1]))
    assert cache.count_nonzero() == 0
    store_kv(key[:, :, :], key, cache, cache.clone(), torch.tensor([1, 2, 3]))
    assert torch.equal(cache[0, 1:], key.bfloat16())
