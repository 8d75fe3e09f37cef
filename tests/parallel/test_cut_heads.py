"""Each rank has a part of a draft head, where the head can be cut."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from specguide.cache import CacheShape, KeyShape
from specguide.layers.feed_forward import GatedMlp
from specguide.layers.placement import Placement
from specguide.models import Decoder, Eagle3Head
from specguide.parallel import ONE_RANK, Ranks
from specguide.speculation.drafters import DraftNeeds


def test_a_rank_holds_half_of_a_head(folders: tuple[Path, Path]) -> None:
    target, folder = folders
    whole = Eagle3Head.load(folder, Decoder.load(target))
    half = Eagle3Head.load(folder, Decoder.load(target, ranks=Ranks(1, 2)))
    for one, two in (
        (whole.first.attention.qkv, half.first.attention.qkv),
        (whole.first.feed_forward.down, half.first.feed_forward.down),
        (whole.lm_head, half.lm_head),
    ):
        assert two.num_bytes * 2 == one.num_bytes
    assert half.fusion.fc.num_bytes == whole.fusion.fc.num_bytes
    config = whole.config
    keys = KeyShape(config.num_layers, config.num_kv_heads, config.head_dim, has_values=True)
    assert DraftNeeds.of(whole) == DraftNeeds(CacheShape.alike(keys))
    cut = keys._replace(num_heads=config.num_kv_heads // 2)
    assert DraftNeeds.of(half) == DraftNeeds(CacheShape.alike(cut), config.hidden_size)


def test_what_cannot_be_cut_each_rank_has_as_a_whole() -> None:
    place = Placement(torch.device("cpu"), torch.float32, ranks=Ranks(0, 2))
    assert place.cut_where_possible(lambda it: GatedMlp.create(it, 8, 6)) is place
    whole = place.cut_where_possible(lambda it: GatedMlp.create(it, 8, 7))
    assert whole == replace(place, ranks=ONE_RANK)
