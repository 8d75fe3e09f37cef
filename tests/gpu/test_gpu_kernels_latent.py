"""The Triton kernels of latent attention against their plain-torch twins on a CPU."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
import torch
from gpu_case import IS_INTERPRETED, captured, to_device
from paging import pass_context, scattered_pages
from small_cases import crossed
from torch import Tensor

from specguide.cache import slot_mapping
from specguide.drafts.tree import DraftTree
from specguide.kernels import LatentNorm, LatentQueries, latent, rope_and_store_latents
from specguide.kernels.attention import (
    AttentionBackend,
    AttentionForm,
    ForwardContext,
    TorchAttention,
    attention_backend,
)
from specguide.kernels.rotary_layout import HALVES, RotaryLayout

pytestmark = pytest.mark.gpu

TREE = DraftTree((-1, 0, 0, 1, 1, 2, 4))
TOLERANCE = {torch.float32: 2e-5, torch.bfloat16: 2e-2, torch.float16: 3e-3}


@dataclass(frozen=True)
class Case:
    """One pass over a cache of latents in which all that belongs to no sequence is NaN."""

    query: Tensor
    key_cache: Tensor
    context: ForwardContext
    value_dim: int

    def run(self, backend: AttentionBackend) -> Tensor:
        values = self.key_cache[..., : self.value_dim]
        output = backend.plan(self.context).run(
            self.query, self.key_cache, values, AttentionForm(0.1)
        )
        assert isinstance(output, Tensor)
        return output

    def check(self) -> None:
        live = to_device(self)
        output = live.run(attention_backend(live.query.device))
        self.check_output(output)

    def check_output(self, output: Tensor) -> None:
        wide = replace(self, query=self.query.float(), key_cache=self.key_cache.float())
        expected = wide.run(TorchAttention())
        assert output.shape == (*self.query.shape[:2], self.value_dim)
        assert output.dtype == self.query.dtype
        tolerance = TOLERANCE[output.dtype]
        torch.testing.assert_close(output.float().cpu(), expected, rtol=tolerance, atol=tolerance)


def make_case(
    earlier_lens: Sequence[int],
    query_lens: Sequence[int],
    *,
    num_heads: int = 8,
    dims: tuple[int, int] = (64, 32),
    dtype: torch.dtype = torch.float32,
    tree: DraftTree | None = None,
    seed: int = 0,
) -> Case:
    """dims: of values, and of the rest of a key"""
    random = torch.Generator().manual_seed(seed)
    lens = [earlier + query for earlier, query in zip(earlier_lens, query_lens, strict=True)]
    table, num_pages = scattered_pages(lens, 16, 2, random)
    cache = torch.full((num_pages, 16, 1, sum(dims)), math.nan, dtype=dtype)
    for seq, length in enumerate(lens):
        slots = slot_mapping(table, torch.full((length,), seq), torch.arange(length), 16)
        keys = torch.randn(length, 1, sum(dims), generator=random)
        cache.flatten(0, 1)[slots] = keys.to(dtype)
    query = torch.randn(sum(query_lens), num_heads, sum(dims), generator=random).to(dtype)
    return Case(query, cache, pass_context(table, lens, query_lens, 16, tree), dims[0])


@pytest.mark.parametrize(
    ("dtype", "num_heads", "dims"),
    crossed(
        TOLERANCE,
        (5, 16, 128),
        ((40, 12), (512, 64)),
        where=lambda dtype, heads, dims: (dtype, heads, dims[0]) == (torch.bfloat16, 5, 40),
    ),
)
def test_shapes(dtype: torch.dtype, num_heads: int, dims: tuple[int, int]) -> None:
    for earlier, queries in (
        ([5, 0, 300, 63], [1] * 4),
        ([5, 64, 700], [4] * 3),
        ([0, 9, 31], [5, 1, 40]),
    ):
        make_case(earlier, queries, num_heads=num_heads, dims=dims, dtype=dtype).check()


@pytest.mark.parametrize(
    ("dtype", "num_heads"),
    crossed(TOLERANCE, (7, 20), where=lambda dtype, heads: dtype == torch.bfloat16 and heads == 7),
)
def test_tree(dtype: torch.dtype, num_heads: int) -> None:
    for num_own in (TREE.num_nodes, 3):  # the keys of the other nodes are there already
        earlier = [TREE.num_nodes - num_own + length for length in (5, 0, 130)]
        make_case(earlier, [num_own] * 3, tree=TREE, dtype=dtype, num_heads=num_heads).check()


@pytest.mark.small
def test_a_cache_of_another_dtype() -> None:
    case = make_case([5, 40], [3, 2], dtype=torch.bfloat16)
    replace(case, query=case.query.float()).check()


@pytest.mark.small
def test_more_heads_than_a_tile_has_rows() -> None:
    make_case([5, 0], [3, 2], num_heads=40, dims=(32, 16)).check()


@pytest.mark.parametrize("queries", [[90, 1, 40], [130, 0, 0, 0]])
def test_prompts(queries: list[int]) -> None:
    case = make_case([7 * at for at in range(len(queries))], queries, dtype=torch.bfloat16)
    case.check()


@pytest.mark.skipif(IS_INTERPRETED, reason="graphs are CUDA's")
@pytest.mark.parametrize("query_len", [1, 4])
def test_captured_attention_reads_lengths_on_the_device(query_len: int) -> None:
    settings = dict(num_heads=16, dims=(512, 64), dtype=torch.bfloat16)
    longest = make_case([1500] * 3, [query_len] * 3, **settings)
    live = to_device(longest)
    graph, output = captured(lambda: live.run(attention_backend(live.query.device)))
    for earlier in ([0, 3, 1200], [1, 64, 63]):
        lens = torch.tensor(earlier, dtype=torch.int32) + query_len
        positions = torch.cat([torch.arange(length, length + query_len) for length in earlier])
        live.context.seq_lens.copy_(lens)
        live.context.position_ids.copy_(positions)
        graph.replay()
        context = replace(longest.context, seq_lens=lens, position_ids=positions)
        replace(longest, context=context).check_output(output)


@pytest.mark.parametrize(
    ("dtype", "layout", "num_heads", "rank", "rope_dim"),
    crossed(
        TOLERANCE,
        (HALVES, RotaryLayout(None, True)),
        (5, 128),
        (40, 512),
        (12, 64),
        where=lambda dtype, layout, *sizes: dtype == torch.float32 and sizes == (5, 40, 12),
    ),
)
def test_latents_are_stored_and_queries_put_together(
    dtype: torch.dtype, layout: RotaryLayout, num_heads: int, rank: int, rope_dim: int
) -> None:
    random = torch.Generator().manual_seed(rank)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=random).to(dtype)

    num_tokens = 6
    keys = draw(num_tokens, 3 + rank + rope_dim)[:, 3:]
    heads = draw(num_tokens, num_heads, 20 + rope_dim)
    queries = LatentQueries(draw(num_heads, num_tokens, rank).transpose(0, 1), heads[:, :, 20:])
    norm = LatentNorm(draw(rank), 1e-6)
    rotary, slots = draw(num_tokens, 2, 1, rope_dim), torch.tensor([3, -1, 40, 0, -1, 63])
    cache = torch.full((4, 16, 1, rank + rope_dim), 7.0, dtype=dtype)
    live = [to_device(each) for each in (keys, queries, norm, rotary, cache, slots)]
    found = rope_and_store_latents(*live, layout)
    expected = latent.rope_and_store_latents(keys, queries, norm, rotary, cache, slots, layout)
    tolerance = 3e-2 if dtype != torch.float32 else 1e-5
    for one, other in ((found, expected), (live[4], cache)):
        torch.testing.assert_close(one.cpu(), other, rtol=tolerance, atol=tolerance)
