"""Prompts with images, whose vectors are embeddings of tokens: outputs are those of the tokens."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any

import numpy as np
import pytest
from torch import Tensor

from specguide.config import CacheConfig, EngineConfig, SpecConfig
from specguide.drafts.tree import DynamicTree
from specguide.engine import Engine
from specguide.engine.executors.local import LocalExecutor, load_models
from specguide.engine.setup.facts import resolved
from specguide.errors import InvalidParams
from specguide.guide import Guide
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


KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "chunks": {"max_prefill_tokens": 7},
    "chunks of their own": {"max_prefill_tokens": 7, "mixed_iterations": False},
    "head": {"spec": SpecConfig(), "max_prefill_tokens": 16},
    "tree": {"spec": SpecConfig(tree=DynamicTree(top_k=2, depth=2, num_nodes=5))},
    "mtp": {"spec": SpecConfig("mtp")},
    "suffix": {"spec": SpecConfig("suffix")},
    "few pages": {"cache": CacheConfig(page_size=4, num_pages=60), "max_prefill_tokens": 16},
}


@pytest.mark.parametrize("kind", KINDS)
def test_images_count_as_the_embeddings_that_they_stand_for(kind):
    fields = {"max_batch_size": 4, "cache": CacheConfig(page_size=4), **KINDS[kind]}
    params = SamplingParams(max_tokens=12, ignore_eos=True)
    cases = some_prompts(len(kind), 16)
    engine, _ = engine_with(56, **fields)
    engine_of_text = Engine(EngineConfig(max_model_len=256, max_batch_size=4))
    expected = outputs(engine_of_text, [plain for _, plain in cases], params)
    assert outputs(engine, [prompt for prompt, _ in cases], params) == expected
    engine.check_integrity()


def test_an_image_is_encoded_once_and_found_in_the_prefix_cache_by_its_content():
    engine, encoder = engine_with(64, cache=CacheConfig(page_size=4))
    params = SamplingParams(max_tokens=4, ignore_eos=True)
    first, other = image_of(range(30, 46)), image_of(range(50, 66))
    for image, num_encoded, num_cached in ((first, 1, 0), (first, 1, 20), (other, 2, 8)):
        prompt, _ = prompt_of([range(20, 29), image, [9]])
        request = engine.add(prompt, params)
        while engine.num_unfinished:
            engine.step()
        assert encoder.num_encoded == num_encoded
        assert request.metrics.num_cached >= num_cached
    assert request.metrics.num_cached == 8  # another image does not count as the first one


def test_more_images_than_rows_are_refused_and_others_are_served():
    engine, _ = engine_with(8)
    prompt, _ = prompt_of([[20], image_of(range(30, 39)), [21]])
    request = engine.add(prompt, SamplingParams(max_tokens=4))
    while engine.num_unfinished:
        engine.step()
    assert isinstance(request.error, InvalidParams)
    assert "9 vectors" in str(request.error) and "max_image_tokens" in str(request.error)
    fits, _ = prompt_of([[20], image_of(range(30, 38)), [21]])
    assert outputs(engine, [fits], SamplingParams(max_tokens=4))


def test_a_guide_and_penalties_beside_images():
    engine, _ = engine_with(64, spec=SpecConfig())
    prompt, _ = prompt_of([[20], image_of(range(30, 39)), [21, 22]])
    params = SamplingParams(
        max_tokens=30, repetition_penalty=1.2, guide=Guide(regex="[a-c]{5}[0-9]")
    )
    request = engine.add(prompt, params)
    while engine.num_unfinished:
        engine.step()
    assert request.finish_reason == "stop" and len(request.text.text) == 6
