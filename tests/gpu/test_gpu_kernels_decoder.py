"""The decoder on a GPU, eager and captured, against the same decoder on a CPU."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from gpu_case import DEVICE, captured, to_device
from paging import Sequences
from random_models import CASES, random_model, tokens
from torch import Tensor

from specguide.cache import KVCache
from specguide.drafts.tree import DraftTree
from specguide.kernels.attention import attention_backend
from specguide.models import Decoder

pytestmark = pytest.mark.gpu

TREE = DraftTree((-1, 0, 0, 1, 1))


def remembered(cache: KVCache) -> list[Tensor]:
    """What a second run of a pass would find changed: keys are written once more, but a state goes
    on."""
    states = cache.states
    if states is None:
        return []
    counts = states.lengths, states.turns, states.ages, *states.kept
    return [*states.memory, *counts, states.paths]


@pytest.mark.parametrize("name", CASES)
@torch.inference_mode()
def test_decoder_equals_the_decoder_on_a_cpu(name: str, tmp_path: Path) -> None:
    family, settings = CASES[name]
    random_model(family, **settings).save_pretrained(tmp_path)
    cpu, gpu = Decoder.load(tmp_path), Decoder.load(tmp_path, DEVICE)
    sequences = Sequences(3, 40)
    caches = sequences.cache(cpu.config), sequences.cache(cpu.config)
    live = to_device(caches[1])
    passes = [sequences.extend(counts) for counts in ([12, 1, 5], [1] * 3, [4] * 3)]
    passes.append(sequences.tree(TREE))
    for context in passes:
        ids = tokens(len(context.position_ids))
        expected, aux_hidden_states = cpu.forward(ids, context, caches[0], (0, 2))
        on_gpu = replace(to_device(context), attention=attention_backend(DEVICE))
        live_ids = to_device(ids)
        before = [tensor.clone() for tensor in remembered(live)]
        hidden, live_aux_hidden_states = gpu.forward(live_ids, on_gpu, live, (0, 2))
        torch.testing.assert_close(
            gpu.logits(hidden).cpu(), cpu.logits(expected), atol=2e-4, rtol=2e-4
        )
        assert aux_hidden_states is not None and live_aux_hidden_states is not None
        torch.testing.assert_close(
            live_aux_hidden_states.cpu(), aux_hidden_states, atol=2e-4, rtol=2e-4
        )
        if DEVICE.type == "cuda":
            graph, (replayed, _) = captured(
                lambda ids=live_ids, context=on_gpu: gpu.forward(ids, context, live)
            )
            replayed.zero_()
            for tensor, stored in zip(remembered(live), before, strict=True):
                tensor.copy_(stored)
            graph.replay()
            torch.testing.assert_close(replayed, hidden, atol=1e-4, rtol=1e-4)
