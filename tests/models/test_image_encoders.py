"""What lets an encoder's passes have few shapes changes none of its vectors."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from vision_folders import picture, save_vision, tokenizer

from specguide.models.encoders import ImageEncoder, captured_blocks
from specguide.models.encoders.packed_modules import rounded_bounds
from specguide.tokenizer.images import ImageReader

PACKED = ["Qwen2VL", "Qwen2_5_VL", "Qwen3VL", "Qwen3_5"]


@pytest.fixture(params=PACKED)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    save_vision(request.param, tmp_path)
    return tmp_path


def loaded(folder: Path) -> ImageEncoder:
    return ImageEncoder.load(folder, torch.device("cpu"), torch.float32)


def test_an_empty_image_that_fills_up_a_pass(folder: Path) -> None:
    encoder = loaded(folder)
    reader = ImageReader.load(folder, tokenizer(), 1)
    assert reader is not None
    images = [reader.prepare(picture(seed, 30 + 9 * seed, 40), "image") for seed in range(3)]
    expected = encoder.encode(images)
    assert sum(map(len, expected)) * 4 % 64
    encoder._is_captured = True
    for found, own in zip(encoder.encode(images), expected, strict=True):
        torch.testing.assert_close(found, own)


def test_bounds_that_are_rounded_up(folder: Path) -> None:
    block = loaded(folder)._model.visual.blocks[0]
    num_tokens = 24
    hidden = torch.randn(num_tokens, block.attn.dim)
    angles = torch.randn(num_tokens, block.attn.head_dim // 2).repeat(1, 2)
    arguments = {
        "cu_seqlens": torch.tensor([0, 8, 12, num_tokens], dtype=torch.int32),
        "max_seqlen": 12,
        "position_embeddings": (angles.cos(), angles.sin()),
    }
    rounded = rounded_bounds(arguments)
    assert len(rounded["cu_seqlens"]) == 5 and rounded["max_seqlen"] == 16
    assert rounded_bounds({**arguments, "max_seqlen": None})["max_seqlen"] == 16
    with torch.inference_mode():
        torch.testing.assert_close(block(hidden, **rounded), block(hidden, **arguments))


def test_blocks_are_captured_when_a_shape_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each graph reads the inputs of its own shape; shapes that were used longest ago give way."""
    captured = []

    def graph(self, forward, hidden):
        captured.append(hidden.shape)
        return SimpleNamespace(replay=lambda: hidden.copy_(forward()))

    monkeypatch.setattr(torch.cuda, "Stream", lambda device: None)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: None)
    monkeypatch.setattr(captured_blocks.CapturedBlocks, "_captured", graph)
    monkeypatch.setattr(captured_blocks, "_MAX_SHAPES", 2)
    blocks = [nn.Bilinear(4, 4, 4) for _ in range(2)]
    plain = [block.forward for block in blocks]
    captured_blocks.CapturedBlocks(blocks, torch.device("cpu"))

    @torch.inference_mode()
    def check(num_tokens: int) -> int:
        hidden, other = torch.randn(2, num_tokens, 4)
        own = hidden
        for block, forward in zip(blocks, plain, strict=True):
            hidden, own = block(hidden, other), forward(own, other)
        torch.testing.assert_close(hidden, own)
        return len(captured)

    assert [check(num) for num in (3, 3, 3, 5, 5, 3)] == [0, 2, 2, 2, 4, 4]
    assert [check(num) for num in (7, 5, 5)] == [4, 4, 6]
