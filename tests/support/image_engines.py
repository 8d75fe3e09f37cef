"""Engines whose images have embeddings of tokens as their vectors, so that a prompt with images
counts as one of tokens."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any

import numpy as np
from torch import Tensor

from specguide.config import EngineConfig
from specguide.engine import Engine
from specguide.engine.executors.local import LocalExecutor, load_models
from specguide.engine.setup.facts import resolved
from specguide.images import PreparedImage, PromptIds, PromptImage
from specguide.models.encoders import ImageVectors
from specguide.params import SamplingParams

PLACEHOLDER, BETWEEN = 5, 6


class EmbeddingEncoder:
    """Encodes an image of the token ids in `ids` as their embeddings, and counts the images."""

    num_deep = 0

    def __init__(self, weight: Tensor) -> None:
        self.weight, self.num_encoded = weight, 0

    def encode(self, images: Sequence[PreparedImage]) -> list[Tensor]:
        self.num_encoded += len(images)
        return [self.weight[list(image.arrays["ids"])] for image in images]


def image_of(ids: Sequence[int]) -> PreparedImage:
    """An image of these tokens, in rows of four with another token between the rows."""
    rows = [[PLACEHOLDER] * len(ids[start : start + 4]) for start in range(0, len(ids), 4)]
    token_ids = [token for row in rows for token in (*row, BETWEEN)]
    places = [place for place, token in enumerate(token_ids) if token == PLACEHOLDER]
    arrays = {"ids": np.array(ids)}
    digest = blake2b(arrays["ids"].tobytes(), digest_size=16).digest()
    return PreparedImage(digest, arrays, tuple(token_ids), tuple(places))


def prompt_of(parts: Sequence[Sequence[int] | PreparedImage]) -> tuple[PromptIds, list[int]]:
    """A prompt of texts and images, and the prompt of tokens that it stands for."""
    ids: list[int] = []
    plain: list[int] = []
    images = []
    for part in parts:
        if not isinstance(part, PreparedImage):
            ids += part
            plain += part
            continue
        images.append(PromptImage(len(ids), part))
        shown = list(part.token_ids)
        for place, token in zip(part.places, part.arrays["ids"], strict=True):
            shown[place] = int(token)
        ids += part.token_ids
        plain += shown
    return PromptIds(ids, tuple(images)), plain


def engine_with(num_rows: int, **fields: Any) -> tuple[Engine, EmbeddingEncoder]:
    config = EngineConfig(**{"max_model_len": 256, **fields})
    made = resolved(config)
    target, drafter = load_models(made)
    weight = target.embedding.weight
    encoder = EmbeddingEncoder(weight)
    target.images = ImageVectors(
        encoder,
        PLACEHOLDER,
        num_rows,
        target.config.hidden_size,
        dtype=weight.dtype,
        device=weight.device,
    )
    made = replace(made, max_image_tokens=num_rows)
    return Engine(config, executor=LocalExecutor.build(made, target, drafter)), encoder


def outputs(engine: Engine, prompts: Sequence[Sequence[int]], params: SamplingParams) -> Any:
    requests = [engine.add(prompt, params) for prompt in prompts]
    while engine.num_unfinished:
        engine.step()
    assert all(request.finish_reason in ("stop", "length") for request in requests)
    return [request.output_ids for request in requests]


def some_prompts(seed: int, num: int) -> list[tuple[PromptIds, list[int]]]:
    """Prompts of up to three of a few images each, that share beginnings."""
    draw = random.Random(seed)
    images = [image_of(draw.choices(range(20, 200), k=draw.randint(1, 17))) for _ in range(4)]
    texts = [draw.choices(range(20, 200), k=draw.randint(1, 30)) for _ in range(3)]
    return [
        prompt_of([*draw.choices([*texts, *images], k=draw.randint(1, 5)), draw.choice(texts)])
        for _ in range(num)
    ]
