"""Owns attention over the paged cache on a CPU: native code for small passes, torch's attention for
the others."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from specguide.kernels.attention.interface import AttentionForm, AttentionPlan, ForwardContext
from specguide.kernels.attention.torch_backend import TorchAttention
from specguide.kernels.float8 import Float8Rows
from specguide.kernels.kv_scales import UNSCALED, KVScales
from specguide.native import AttentionPass

_MOST_WORK = 1 << 19
_WORK_OF_A_PAIR = 24
"""The fixed cost of a pair of query head and key, counted in numbers that are read. Passes with
more work in all than _MOST_WORK go to torch: its threads and wide vectors then make up for the cost
of its calls."""

_TORCH = TorchAttention()


class CpuAttention:
    """Attention on a CPU. The native pass reads float32 keys and values in place."""

    def plan(self, context: ForwardContext) -> AttentionPlan:
        return _CpuPlan(context)

    def pair(
        self, leader: ForwardContext, follower: ForwardContext
    ) -> tuple[AttentionPlan, AttentionPlan]:
        return self.plan(leader), self.plan(follower)


@dataclass(frozen=True, eq=False)
class _CpuPlan:
    """The plan of a pass. The native and the torch plan are each built when a layer first needs
    it."""

    context: ForwardContext

    @cached_property
    def _of_torch(self) -> AttentionPlan:
        return _TORCH.plan(self.context)

    @cached_property
    def _held(self) -> tuple[Tensor | None, ...]:
        """The tensors that the native pass reads. They are kept alive here, since the native pass
        only has their addresses."""
        context = self.context
        ancestors, node_positions, _ = context.mask.kernel_mask()
        return (
            context.position_ids.to(torch.int64).contiguous(),
            context.block_table.to(torch.int32),
            context.query_start_loc.to(torch.int32).contiguous(),
            context.seq_lens.to(torch.int32).contiguous(),
            ancestors,
            node_positions,
        )

    @cached_property
    def _native(self) -> AttentionPass:
        context = self.context
        table = self._held[1]
        assert table is not None and (table.shape[1] < 2 or table.stride(1) == 1)
        addresses = [0 if tensor is None else tensor.data_ptr() for tensor in self._held]
        position_ids, block_table, query_start_loc, seq_lens, ancestors, node_positions = addresses
        return AttentionPass(
            position_ids=position_ids,
            block_table=block_table,
            query_start_loc=query_start_loc,
            seq_lens=seq_lens,
            ancestors=ancestors,
            node_positions=node_positions,
            num_seqs=len(context.seq_lens),
            max_pages=table.shape[1],
            table_stride=table.stride(0),
            page_size=context.page_size,
            num_nodes=context.mask.kernel_mask()[2],
        )

    @cached_property
    def _num_pairs(self) -> int:
        return self._native.num_pairs

    def _is_native(self, query: Tensor, key_cache: Tensor, scales: KVScales) -> bool:
        if query.dtype is not torch.float32 or key_cache.dtype is not torch.float32:
            return False
        if torch.is_grad_enabled() or scales != UNSCALED:
            return False
        num_heads, head_dim = query.shape[1:]
        return self._num_pairs * num_heads * (head_dim + _WORK_OF_A_PAIR) <= _MOST_WORK

    def run(
        self,
        query: Tensor,
        key_cache: Tensor,
        value_cache: Tensor,
        form: AttentionForm,
        output: Tensor | None = None,
    ) -> Tensor | Float8Rows:
        is_latent = value_cache.shape[-1] != key_cache.shape[-1]
        if is_latent or not self._is_native(query, key_cache, form.scales):
            return self._of_torch.run(query, key_cache, value_cache, form, output)
        query = query.contiguous()
        if output is None:
            output = torch.empty_like(query)
        self._native.run(
            query=query.data_ptr(),
            key_cache=key_cache.data_ptr(),
            value_cache=value_cache.data_ptr(),
            sinks=0 if form.sinks is None else form.sinks.data_ptr(),
            output=output.data_ptr(),
            num_heads=query.shape[1],
            num_kv_heads=key_cache.shape[2],
            head_dim=query.shape[2],
            window=form.sliding_window or 0,
            scale=form.scale,
            softcap=form.softcap or 0.0,
        )
        return output
