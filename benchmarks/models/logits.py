"""Owns the logits of a whole sequence, for comparison with those of another model."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from specguide.cache import KVCache
from specguide.kernels.attention import ForwardContext, StateRows, attention_backend
from specguide.models import Decoder
from specguide.speculation.drafters import keys_of


def logits_of(
    decoder: Decoder,
    token_ids: list[int],
    cache_dtype: torch.dtype | None = None,
    page_size: int = 16,
) -> Tensor:
    """[T, vocab_size], float32, of one sequence in one pass. cache_dtype: None: the decoder's"""
    device = decoder.device
    num_tokens = len(token_ids)
    num_pages = -(-num_tokens // page_size)
    cache_dtype = cache_dtype or decoder.dtype
    cache = KVCache.allocate(keys_of(decoder), num_pages, page_size, cache_dtype, device)
    cache = replace(cache, states=decoder.new_states(num_rows=1, num_open=1))
    positions = torch.arange(num_tokens, device=device)
    context = ForwardContext(
        position_ids=positions,
        slot_mapping=positions,
        block_table=torch.arange(num_pages, device=device, dtype=torch.int32)[None],
        query_start_loc=torch.tensor([0, num_tokens], device=device, dtype=torch.int32),
        seq_lens=torch.tensor([num_tokens], device=device, dtype=torch.int32),
        max_query_len=num_tokens,
        page_size=page_size,
        attention=attention_backend(device),
        states=StateRows(positions[:1], positions[:1], num_open=1),
    )
    with torch.inference_mode():
        hidden, _ = decoder.forward(torch.tensor(token_ids, device=device), context, cache)
        return decoder.logits(hidden).float()
