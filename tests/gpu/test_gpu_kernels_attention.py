"""Triton paged attention and the kernels that write the cache, against their plain-torch twins on a
CPU."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from gpu_case import IS_INTERPRETED, captured, to_device
from paging import pass_context, scattered_pages
from small_cases import crossed, small
from torch import Tensor

from specguide.cache import slot_mapping
from specguide.drafts.tree import DraftTree
from specguide.kernels import ProductScales, pointwise, rms_norm, rope_and_store, rotate, scaled
from specguide.kernels.attention import (
    AttentionBackend,
    AttentionForm,
    ForwardContext,
    JoinedContext,
    TorchAttention,
    attention_backend,
)
from specguide.kernels.float8 import FLOAT8, Float8Rows, Float8Scaling, to_float8
from specguide.kernels.kv_scales import UNSCALED, KVScales
from specguide.kernels.rotary_layout import RotaryLayout

pytestmark = pytest.mark.gpu

TREE = DraftTree((-1, 0, 0, 1, 1, 2, 4))
TOLERANCE = {torch.float32: 2e-5, torch.bfloat16: 2e-2, torch.float16: 3e-3}


@dataclass(frozen=True)
class Case:
    """One pass over a paged cache in which all that belongs to no sequence is NaN."""

    query: Tensor
    key_cache: Tensor
    value_cache: Tensor
    context: ForwardContext
    window: int | None
    sinks: Tensor | None = None
    scales: KVScales = UNSCALED
    rounding: Float8Scaling | None = None
    softcap: float | None = None

    def run(self, backend: AttentionBackend | None = None) -> Any:
        backend = backend or attention_backend(self.query.device)
        return backend.plan(self.context).run(
            self.query,
            self.key_cache,
            self.value_cache,
            AttentionForm(0.1, self.window, self.sinks, self.scales, self.rounding, self.softcap),
        )

    def expected(self) -> Tensor:
        """The twin's answer in float32."""
        wide = replace(
            self,
            query=self.query.float(),
            key_cache=self.key_cache.float(),
            value_cache=self.value_cache.float(),
            sinks=None if self.sinks is None else self.sinks.float(),
        )
        return wide.run(TorchAttention())


def make_case(
    earlier_lens: Sequence[int],
    query_lens: Sequence[int],
    *,
    heads: tuple[int, int] = (8, 2),
    head_dim: int = 64,
    page_size: int = 16,
    dtype: torch.dtype = torch.float32,
    window: int | None = None,
    tree: DraftTree | None = None,
    seed: int = 0,
    spare_pages: int = 2,
    cache_dtype: torch.dtype | None = None,
    scales: KVScales = UNSCALED,
) -> Case:
    random = torch.Generator().manual_seed(seed)
    lens = [earlier + query for earlier, query in zip(earlier_lens, query_lens, strict=True)]
    table, num_pages = scattered_pages(lens, page_size, spare_pages, random)
    shape = num_pages, page_size, heads[1], head_dim
    caches = [torch.full(shape, math.nan, dtype=cache_dtype or dtype) for _ in range(2)]
    for seq, length in enumerate(lens):
        slots = slot_mapping(table, torch.full((length,), seq), torch.arange(length), page_size)
        keys, values = (torch.randn(length, heads[1], head_dim, generator=random) for _ in range(2))
        pointwise.store_kv(keys * 3, values, *caches, slots, scales)
    context = pass_context(table, lens, query_lens, page_size, tree)
    fused = torch.randn(sum(query_lens), heads[0] + 3, head_dim, generator=random).to(dtype)
    return Case(fused[:, : heads[0]], *caches, context, window, scales=scales)


def check(case: Case) -> None:
    output = to_device(case).run()
    assert output.shape == case.query.shape and output.dtype == case.query.dtype
    tolerance = TOLERANCE[case.query.dtype]
    torch.testing.assert_close(
        output.float().cpu(), case.expected(), rtol=tolerance, atol=tolerance
    )


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(
    ("heads", "head_dim"),
    [
        ((8, 2), 64),
        small((7, 1), 80),
        ((4, 4), 96),
        ((32, 8), 128),
        ((6, 2), 8),
        ((16, 8), 256),
        small((8, 1), 512),
    ],
)
def test_shapes(dtype: torch.dtype, heads: tuple[int, int], head_dim: int) -> None:
    for earlier, queries in (
        ([5, 0, 300, 63], [1] * 4),
        ([5, 64, 700], [4] * 3),
        ([0, 9, 31], [5, 1, 40]),
    ):
        check(make_case(earlier, queries, heads=heads, head_dim=head_dim, dtype=dtype))


@pytest.mark.parametrize("window", [None, 1, 3, 70])
@pytest.mark.parametrize("page_size", [1, 3, 16, 64])
def test_windows_and_pages(window: int | None, page_size: int) -> None:
    check(make_case([5, 0, 200], [1] * 3, window=window, page_size=page_size))
    check(make_case([5, 0, 200], [4] * 3, window=window, page_size=page_size))
    check(make_case([5, 0, 100], [7, 90, 33], window=window, page_size=page_size))


@pytest.mark.parametrize(
    ("dtype", "window"),
    crossed(
        TOLERANCE,
        (None, 3),
        where=lambda dtype, window: dtype != torch.float16 and window is not None,
    ),
)
def test_sinks(dtype: torch.dtype, window: int | None) -> None:
    sinks = torch.linspace(-2, 12, 8).to(dtype)
    for earlier, queries, tree in (
        ([5, 0, 300, 4000], [1] * 4, None),
        ([5, 64, 700], [4] * 3, None),
        ([0, 9, 31], [5, 1, 40], None),
        ([5, 0, 130], [TREE.num_nodes] * 3, TREE),
    ):
        case = make_case(earlier, queries, dtype=dtype, window=window, tree=tree)
        check(replace(case, sinks=sinks))


@pytest.mark.parametrize(
    ("dtype", "cache_dtype"),
    [(torch.float32, torch.float32), small(torch.bfloat16, FLOAT8)],
)
def test_scores_with_a_limit(dtype: torch.dtype, cache_dtype: torch.dtype) -> None:
    scales = KVScales(0.05, 0.3) if cache_dtype == FLOAT8 else UNSCALED
    held = dict(dtype=dtype, cache_dtype=cache_dtype, scales=scales)
    sinks = torch.linspace(-2, 12, 8).to(dtype)
    for earlier, queries, window, tree in (
        ([5, 0, 300, 63], [1] * 4, None, None),
        ([5, 64, 700], [4] * 3, 70, None),
        ([0, 9, 31], [5, 1, 40], None, None),
        ([5, 0, 130], [TREE.num_nodes] * 3, 4, TREE),
    ):
        case = make_case(earlier, queries, window=window, tree=tree, **held)
        check(replace(case, softcap=1.5))
    check(replace(case, softcap=50.0, sinks=sinks))


@pytest.mark.parametrize(
    ("dtype", "cache_dtype"),
    crossed(
        TOLERANCE,
        (FLOAT8, torch.bfloat16),
        where=lambda dtype, cached: dtype != torch.float16 and cached == FLOAT8,
    ),
)
def test_caches_of_another_dtype(dtype: torch.dtype, cache_dtype: torch.dtype) -> None:
    scales = KVScales(0.05, 0.3) if cache_dtype == FLOAT8 else UNSCALED
    held = dict(dtype=dtype, cache_dtype=cache_dtype, scales=scales)
    check(make_case([5, 0, 300, 63], [1] * 4, head_dim=80, **held))
    check(make_case([5, 64, 700], [4] * 3, window=70, **held))
    check(make_case([0, 9, 31], [5, 1, 40], head_dim=128, **held))
    tree = make_case([5, 0, 130], [TREE.num_nodes] * 3, tree=TREE, window=4, **held)
    check(replace(tree, sinks=torch.linspace(-2, 12, 8).to(dtype)))


@pytest.mark.parametrize("window", [None, 1, small(2), 4])
def test_tree(window: int | None) -> None:
    for dtype in TOLERANCE:
        check(make_case([5, 0, 130], [TREE.num_nodes] * 3, tree=TREE, window=window, dtype=dtype))
        for num_own in (1, 3):  # the keys of the other nodes are there already
            earlier = [TREE.num_nodes - num_own + length for length in (5, 0, 130)]
            check(make_case(earlier, [num_own] * 3, tree=TREE, window=window, dtype=dtype))


@pytest.mark.parametrize("seed", crossed(range(12), where=lambda seed: seed == 1))
def test_any_batch(seed: int) -> None:
    random = torch.Generator().manual_seed(seed)

    def draw(low: int, high: int) -> int:
        return int(torch.randint(low, high, (1,), generator=random))

    num_seqs = draw(1, 6)
    case = make_case(
        [draw(0, 400) for _ in range(num_seqs)],
        [draw(1, 90) for _ in range(num_seqs)],
        page_size=draw(1, 20),
        window=draw(1, 200) if seed % 2 else None,
        seed=seed,
        heads=[(8, 2), (5, 1), (3, 3)][seed % 3],
        head_dim=[64, 128, 80][seed // 3 % 3],
        dtype=list(TOLERANCE)[seed % 3],
        spare_pages=draw(0, 300),
    )
    check(case)


def split(num_splits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have keys spread over `num_splits` programs."""
    from specguide.kernels.attention import triton_backend  # Triton is not there without a GPU

    choose = triton_backend.choose_launch

    def fixed(*arguments: object) -> Any:
        return replace(choose(*arguments), num_splits=num_splits)  # type: ignore[arg-type]

    monkeypatch.setattr(triton_backend, "choose_launch", fixed)


@pytest.mark.parametrize("num_splits", [1, 2, small(5), 64])
def test_number_of_splits_does_not_matter(num_splits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    split(num_splits, monkeypatch)
    for window, tree in ((None, None), (40, None), (None, TREE)):
        check(make_case([0, 17, 200], [TREE.num_nodes] * 3, window=window, tree=tree))


@pytest.mark.parametrize(
    ("dtype", "num_splits", "static_scale"),
    crossed(
        TOLERANCE,
        (2, 3, 4),
        (None, 0.02),
        where=lambda dtype, num_splits, scale: dtype == torch.bfloat16 and num_splits == 3,
    ),
)
def test_parts_are_put_together_and_rounded(
    dtype: torch.dtype,
    num_splits: int,
    static_scale: float | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A token without keys included, whose parts are never written."""
    split(num_splits, monkeypatch)
    case = make_case([0, 17, 200], [4] * 3, heads=(5, 1), head_dim=80, dtype=dtype)
    case.context.seq_lens[0] = 0
    device_case = to_device(case)
    device = device_case.query.device
    scale = None if static_scale is None else torch.full((1,), static_scale, device=device)
    rounding = Float8Scaling(scale)
    found = replace(device_case, rounding=rounding).run()
    expected = to_float8(device_case.run().flatten(1), rounding)
    assert isinstance(found, Float8Rows) and found.values.shape == (12, 400)
    torch.testing.assert_close(found.scale, expected.scale)
    assert (found.values.float() != expected.values.float()).float().mean() < 0.01
    torch.testing.assert_close(found.values.float(), expected.values.float(), rtol=0.13, atol=0)


def test_groups_of_features_are_left_to_be_rounded(monkeypatch: pytest.MonkeyPatch) -> None:
    split(2, monkeypatch)
    case = replace(make_case([17], [4]), rounding=Float8Scaling(is_grouped=True))
    assert isinstance(to_device(case).run(), Tensor)


def test_token_without_keys_gives_zeros() -> None:
    case = make_case([5, 0], [1, 1])
    case.context.seq_lens[1] = 0
    case.context.block_table[1] = -1
    output = to_device(case).run()
    assert (
        output[1].count_nonzero() == 0 and output[0].count_nonzero() > 0 and output.isfinite().all()
    )


def test_neighbour_that_is_nan_is_not_noticed() -> None:
    case = make_case([5, 20], [2, 2])
    expected = case.expected()
    own = case.context.block_table[1, :2].long()
    case.key_cache[own] = case.value_cache[own] = math.nan
    case.context.block_table[0, 1:3] = own
    output = to_device(case).run().cpu()
    torch.testing.assert_close(output[:2], expected[:2], rtol=2e-5, atol=2e-5)
    assert output[2:].isnan().all()


@pytest.mark.skipif(IS_INTERPRETED, reason="graphs are CUDA's")
@pytest.mark.parametrize("query_len", [1, 4])
def test_captured_attention_reads_lengths_on_the_device(query_len: int) -> None:
    longest = make_case([1500, 1500, 1500], [query_len] * 3, dtype=torch.bfloat16, head_dim=128)
    live = to_device(longest)
    graph, output = captured(live.run)
    for earlier in ([0, 3, 1200], [1, 64, 63], [1500, 0, 7]):
        case = make_case(
            earlier, [query_len] * 3, dtype=torch.bfloat16, head_dim=128, seed=sum(earlier)
        )
        table = torch.full_like(longest.context.block_table, -1)
        width = case.context.block_table.shape[1]
        table[:, :width] = case.context.block_table[:, : table.shape[1]]
        live.query.copy_(case.query)
        for sink, source in (
            (live.key_cache, case.key_cache),
            (live.value_cache, case.value_cache),
        ):
            sink.fill_(math.nan)
            sink[: len(source)].copy_(source[: len(sink)])
        live.context.block_table.copy_(table)
        live.context.seq_lens.copy_(case.context.seq_lens)
        live.context.position_ids.copy_(case.context.position_ids)
        output.fill_(math.nan)
        graph.replay()
        torch.testing.assert_close(output.float().cpu(), case.expected(), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(
    ("heads", "head_dim"), [((8, 2), 64), small((7, 1), 80), ((4, 4), 96), ((32, 8), 128)]
)
def test_rope_and_store(dtype: torch.dtype, heads: tuple[int, int], head_dim: int) -> None:
    random = torch.Generator().manual_seed(head_dim)
    num_tokens, num_rotated = 9, sum(heads)
    fused = torch.randn(num_tokens, num_rotated + heads[1], head_dim, generator=random).to(dtype)
    angle = torch.randn(num_tokens, head_dim // 2, generator=random)
    cos, sin = angle.cos(), angle.sin()
    rotary = torch.stack((torch.cat((cos, cos), 1), torch.cat((-sin, sin), 1)), 1)[:, :, None].to(
        dtype
    )
    slots = torch.tensor([3, -1, 40, 41, 0, -1, 17, 18, 63])
    caches = [torch.full((4, 16, heads[1], head_dim), 7.0, dtype=dtype) for _ in range(2)]
    live = [to_device(tensor) for tensor in (fused, rotary, *caches, slots)]
    query = rope_and_store(live[0][:, :num_rotated], live[0][:, num_rotated:], *live[1:])
    expected = pointwise.rope_and_store(
        fused[:, :num_rotated], fused[:, num_rotated:], rotary, *caches, slots
    )
    for found, wanted in ((query, expected), *zip(live[2:4], caches, strict=True)):
        tolerance = 2e-2 if dtype != torch.float32 else 1e-6
        torch.testing.assert_close(found.cpu(), wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.small
@pytest.mark.parametrize(
    "layout", [RotaryLayout(24), RotaryLayout(60), RotaryLayout(40, True), RotaryLayout(None, True)]
)
def test_rope_of_other_layouts(layout: RotaryLayout) -> None:
    random = torch.Generator().manual_seed(0)
    query_key, value = (torch.randn(5, heads, 80, generator=random) for heads in (6, 2))
    rotary = torch.randn(5, 2, 1, 80, generator=random)
    slots = torch.tensor([5, -1, 2, 0, 7])
    caches = [torch.zeros(2, 4, 2, 80) for _ in range(2)]
    live = [to_device(cache) for cache in caches]
    inputs = [to_device(tensor) for tensor in (query_key, value, rotary)]
    alone = rotate(inputs[0][:, 1:4], inputs[2], layout)
    query = rope_and_store(*inputs, *live, to_device(slots), layout=layout)
    expected = pointwise.rope_and_store(query_key, value, rotary, *caches, slots, layout=layout)
    torch.testing.assert_close(alone.cpu(), expected[:, 1:], rtol=1e-5, atol=1e-5)
    for found, wanted in ((query, expected), *zip(live, caches, strict=True)):
        torch.testing.assert_close(found.cpu(), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.small
@pytest.mark.parametrize("num_parts", [1, 3])
@pytest.mark.parametrize("layout", [RotaryLayout(80), RotaryLayout(24), RotaryLayout(40, True)])
def test_rope_of_heads_yet_to_be_summed_and_scaled(layout: RotaryLayout, num_parts: int) -> None:
    random = torch.Generator().manual_seed(0)
    parts = torch.randn(num_parts, 5, 8, 80, generator=random)
    rotary = torch.randn(5, 2, 1, 80, generator=random)
    by = ProductScales(*(torch.rand(shape, generator=random) for shape in ((5, 1), (640,))))
    slots = torch.tensor([5, -1, 2, 0, 7])
    for scales in (None, by):
        heads = scaled(parts.sum(0).flatten(1), scales).view(5, 8, 80)
        caches, live, others = ([torch.zeros(2, 4, 2, 80) for _ in range(2)] for _ in range(3))
        expected = pointwise.rope_and_store(
            heads[:, :6], heads[:, 6:], rotary, *caches, slots, layout=layout
        )
        live, there = [to_device(cache) for cache in live], to_device(parts)
        query = rope_and_store(
            *(there[:, :, :6], there[:, :, 6:], to_device(rotary), *live, to_device(slots)),
            layout=layout,
            product_scales=to_device(scales),
        )
        twin = pointwise.rope_and_store(
            *(parts[:, :, :6], parts[:, :, 6:], rotary, *others, slots),
            layout=layout,
            product_scales=scales,
        )
        wanted = expected, *caches
        for found in ((query, *live), (twin, *others)):
            for one, other in zip(found, wanted, strict=True):
                torch.testing.assert_close(one.cpu(), other, rtol=1e-5, atol=1e-5)


@pytest.mark.small
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_store_into_float8(dtype: torch.dtype) -> None:
    """Numbers that are too large become the largest, and NaN stays."""
    query_key, value = torch.randn(4, 6, 80).to(dtype) * 20, torch.randn(4, 2, 80).to(dtype)
    value[0, 0, :4] = torch.tensor([1e4, -1e4, math.nan, 0])
    rotary = torch.stack((torch.ones(4, 1, 80), torch.zeros(4, 1, 80)), 1).to(dtype)
    slots = torch.tensor([5, -1, 2, 0])
    scales = KVScales(0.11, 0.004)
    caches = [torch.zeros(2, 4, 2, 80, dtype=FLOAT8) for _ in range(2)]
    live = [to_device(cache) for cache in caches]
    rope_and_store(*map(to_device, (query_key, value, rotary)), *live, to_device(slots), scales)
    pointwise.rope_and_store(query_key, value, rotary, *caches, slots, scales)
    for found, wanted in zip(live, caches, strict=True):
        torch.testing.assert_close(
            found.cpu().float(), wanted.float(), rtol=0, atol=0, equal_nan=True
        )
    assert caches[0].float().abs().max() == caches[1].float()[:, :, :, 3:].abs().max() == 448


@pytest.mark.small
def test_store_into_another_dtype_and_of_nothing() -> None:
    query_key, value = torch.randn(3, 4, 8), torch.randn(3, 2, 8)
    rotary = torch.stack((torch.ones(3, 1, 8), torch.zeros(3, 1, 8)), 1)
    for slots in (torch.tensor([5, -1, 2]), torch.tensor([-1, -1, -1])):
        caches = [torch.zeros(2, 4, 2, 8, dtype=torch.bfloat16) for _ in range(2)]
        live = [to_device(cache) for cache in caches]
        rope_and_store(*map(to_device, (query_key, value, rotary)), *live, to_device(slots))
        pointwise.rope_and_store(query_key, value, rotary, *caches, slots)
        assert all(
            torch.equal(found.cpu(), wanted) for found, wanted in zip(live, caches, strict=True)
        )


@pytest.mark.parametrize(
    ("queries", "num_spare"),
    [([90, 1, 40], 0), small([33, 64, 32, 5, 0, 0], 30), ([130, 0, 0, 0], 7)],
)
def test_tiles_of_unequal_sequences_are_packed(queries: list[int], num_spare: int) -> None:
    """Empty sequences and tokens of nobody behind them cost no more than a program each."""
    case = make_case([7 * at for at in range(len(queries))], queries, dtype=torch.bfloat16)
    context, spare = case.context, torch.zeros(num_spare, dtype=torch.int64)
    position_ids = torch.cat([context.position_ids, spare])
    query = torch.cat([case.query, case.query[:1].expand(num_spare, -1, -1)])
    filled = replace(case, query=query, context=replace(context, position_ids=position_ids))
    output = to_device(filled).run()[: sum(queries)]
    torch.testing.assert_close(output.float().cpu(), case.expected(), rtol=3e-2, atol=3e-2)


def in_parts(case: Case, num_first: int) -> Case:
    """The case on the device, its first sequences and the others as parts of a joined pass."""
    live = to_device(case)
    context = replace(live.context, attention=attention_backend(live.query.device))
    num_tokens = int(context.query_start_loc[num_first])
    bounds = context.query_start_loc
    first, second = (
        replace(
            context,
            position_ids=context.position_ids[tokens],
            slot_mapping=context.slot_mapping[tokens],
            block_table=context.block_table[seqs],
            query_start_loc=bounds[seqs.start : seqs.start + num_seqs + 1] - bounds[seqs.start],
            seq_lens=context.seq_lens[seqs],
            max_query_len=most,
        )
        for seqs, num_seqs, tokens, most in (
            (slice(0, num_first), num_first, slice(0, num_tokens), 1),
            (
                slice(num_first, None),
                len(context.seq_lens) - num_first,
                slice(num_tokens, None),
                context.max_query_len,
            ),
        )
    )
    return replace(live, context=JoinedContext(first, second))


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("num_decoding", [small(3), 40])
def test_parts_of_a_pass_side_by_side(dtype: torch.dtype, num_decoding: int) -> None:
    """Requests that decode, and chunks of prompts beside."""
    earlier = [5 * at for at in range(num_decoding)] + [0, 70]
    case = make_case(earlier, [1] * num_decoding + [90, 40], dtype=dtype)
    parts = in_parts(case, num_decoding)
    output = parts.context.plan.run(
        parts.query, parts.key_cache, parts.value_cache, AttentionForm(0.1)
    )
    tolerance = TOLERANCE[dtype]
    torch.testing.assert_close(
        output.float().cpu(), case.expected(), rtol=tolerance, atol=tolerance
    )


@pytest.mark.skipif(IS_INTERPRETED, reason="graphs are CUDA's")
@pytest.mark.parametrize("num_decoding", [2, 64])
def test_captured_parts_wait_for_one_another(num_decoding: int) -> None:
    """Layer behind layer, each of which reads all that the one before has written."""
    queries = [1] * num_decoding + [400, 90]
    earlier = [700] * num_decoding + [0, 130]
    case = make_case(earlier, queries, dtype=torch.bfloat16, heads=(32, 8), head_dim=128)
    parts = in_parts(case, num_decoding)
    context, (key_cache, value_cache) = parts.context, (parts.key_cache, parts.value_cache)

    weight = parts.query.new_ones(128)  # norms read their weights before what they wait for

    def layers() -> Tensor:
        query = parts.query.contiguous()
        for _ in range(8):
            query = rms_norm(
                context.plan.run(query, key_cache, value_cache, AttentionForm(0.1)),
                weight,
                0,
            )
        return query

    graph, output = captured(layers)
    expected = layers().clone()
    for _ in range(20):
        graph.replay()
        torch.testing.assert_close(output, expected, rtol=0, atol=0)
