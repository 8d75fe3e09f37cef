"""Prompts with images, whose vectors are embeddings of tokens: outputs are those of the tokens."""

from __future__ import annotations

from typing import Any

import pytest
from image_engines import engine_with, image_of, outputs, prompt_of, some_prompts

from specguide.config import CacheConfig, EngineConfig, SpecConfig
from specguide.drafts.tree import DynamicTree
from specguide.engine import Engine
from specguide.errors import InvalidParams
from specguide.guide import Guide
from specguide.images import PromptIds
from specguide.params import SamplingParams

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


def test_faithful_samples_score_the_images_of_their_own_prompt():
    engine, _ = engine_with(64)
    words = ["yes", "no", "may be"]
    params = SamplingParams(guide=Guide(choice=words), faithful=True, temperature=0, logprobs=0)
    prompts = [prompt_of([[20, 21], image_of(ids), [9]]) for ids in (range(30, 39), range(50, 59))]
    engine_of_text = Engine(EngineConfig(max_model_len=256))
    scores = []
    for one, index in ((engine, 0), (engine_of_text, 1)):
        requests = [one.add(prompt[index], params) for prompt in prompts]
        while one.num_unfinished:
            one.step()
        scores.append(
            [
                [
                    entry[token].logprob
                    for token, entry in zip(r.output_ids, r.logprobs, strict=True)
                ]
                for r in requests
            ]
        )
    assert scores[0] == [pytest.approx(wanted, abs=1e-4) for wanted in scores[1]]
    assert scores[0][0] != scores[0][1]


def test_prompts_with_other_images_are_not_equal():
    (first, plain), (second, _) = (
        prompt_of([[20], image_of(ids)]) for ids in (range(30, 34), range(40, 44))
    )
    assert first != second and first == PromptIds(first, first.images)
    assert first != tuple(first) and tuple(first) != first and len({first, second}) == 2
    assert PromptIds(plain) == tuple(plain)
