"""The models whose shapes benchmarks take, by name."""

from __future__ import annotations

from benchmarks.models.deepseek_v2_lite import DEEPSEEK_V2_LITE, TINY_LATENT
from benchmarks.models.llama_8b import SHAPES_8B, SHAPES_70B, TINY_SHAPES
from benchmarks.models.qwen3_5_9b import QWEN3_5_9B, TINY_LINEAR
from benchmarks.models.qwen3_30b import QWEN3_30B, TINY_EXPERTS

MODELS = {
    "llama-8b": (SHAPES_8B, TINY_SHAPES),
    "llama-70b": (SHAPES_70B, TINY_SHAPES),
    "qwen3-30b-a3b": (QWEN3_30B, TINY_EXPERTS),
    "deepseek-v2-lite": (DEEPSEEK_V2_LITE, TINY_LATENT),
    "qwen3.5-9b": (QWEN3_5_9B, TINY_LINEAR),
}
"""Full shapes, and tiny ones with which a benchmark can be tried."""
