"""A small model as the drafter: it changes no token, and what it drafts is what it would say
itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import tiny
import torch
from baseline_llm import baseline_llm
from checkpoint_files import changed_json, changed_weights
from draft_models import PROMPTS
from misfits import HOLDING, check_a_sleeping_matcher
from random_requests import cases
from tiny_engine import generate, told
from transformers import LlamaForCausalLM

from specguide import LLM, CacheConfig, Guide, GuideConfig, SamplingParams, SpecConfig
from specguide.errors import CheckpointError, InvalidParams
from specguide.models import Decoder

K = 3


def make(folders, drafter, *, guided_drafts=True, **options) -> LLM:
    spec = SpecConfig("draft_model", drafter, K, guided_drafts=guided_drafts)
    return baseline_llm(folders[0], spec=spec, **options)


@pytest.mark.parametrize(
    "params", [dict(), dict(temperature=0.8, top_k=20, top_p=0.95)], ids=["greedy", "sampled"]
)
def test_speculation_changes_no_token(folders, drafter, params):
    prompts, all_params = cases(8, 18, **params)
    plain = LLM(folders[0], spec=None, max_batch_size=8).generate(prompts, all_params)
    for options in (
        dict(lag=0, max_prefill_tokens=16),
        dict(lag=2),
        dict(lag=0, baseline="two models"),
        dict(guided_drafts=False),
    ):
        llm = make(folders, drafter, max_batch_size=8, **options)
        outputs = generate(llm, prompts, all_params)
        assert told(outputs) == told(plain)
        assert any(out.metrics.acceptance_length > 1.3 for out in outputs)


@pytest.mark.parametrize("baseline", [None, "two models"])
@pytest.mark.parametrize("guide", [None, Guide(regex="[a-f0-9]{60}")], ids=["free", "guided"])
def test_the_target_as_its_own_drafter_is_always_right(folders, baseline, guide):
    """That holds through chunked prefills, shared prefixes and whole windows accepted: no key of a
    verified token is missing."""
    llm = make(
        folders,
        folders[0],
        baseline=baseline,
        max_prefill_tokens=16,
        guide=GuideConfig(deadline_us=60_000_000),
    )
    params = SamplingParams(
        max_tokens=1 + 8 * (K + 1), ignore_eos=guide is None, guide=guide, allow_truncation=True
    )
    first = llm.generate(PROMPTS, params)
    for outputs in (
        first,
        llm.generate(
            [prompt + out.text[:24] for prompt, out in zip(PROMPTS, first, strict=True)], params
        ),
    ):
        assert [out.metrics.accepted_histogram for out in outputs] == [[0] * K + [8]] * len(PROMPTS)
    assert all(out.metrics.num_cached > 0 for out in outputs[5:])
    llm.close()


def test_a_prompt_that_is_cached_but_for_its_last_token(folders):
    """The prompt starts in a decode iteration, and no pass computes any of it before."""
    llm = make(folders, folders[0], max_batch_size=2)
    long, prompt = SamplingParams(max_tokens=90, ignore_eos=True), list(range(5, 38))
    llm.generate([prompt], replace(long, max_tokens=2))
    engine = llm._engine
    engine.add([1, 2, 3], long)
    engine.step()
    request = engine.add(prompt, replace(long, max_tokens=1 + 8 * (K + 1)))
    while engine.num_unfinished:
        engine.step()
    assert request.metrics.num_cached == len(prompt) - 1
    assert request.metrics.accepted_histogram == [0] * K + [8]
    llm.close()


def test_keys_survive_preemption(folders):
    """A request that waits again finds the keys that the drafter needs, or computes them."""
    llm = make(folders, folders[0], cache=CacheConfig(num_pages=16), max_batch_size=6)
    prompts = [f"{number} abc" * 5 for number in range(6)]
    outputs = generate(llm, prompts, SamplingParams(max_tokens=80, ignore_eos=True))
    assert sum(out.metrics.num_preemptions for out in outputs) > 0
    for out in outputs:  # only the end may cut a window short
        assert sum(out.metrics.accepted_histogram[:-1]) <= 1


def test_a_held_slot_goes_on_with_right_keys(folders):
    """What a held slot's pass wrote, for tokens that the target has not said, is written again
    before it is read."""
    _, misfit = check_a_sleeping_matcher(make(folders, folders[0], guide=HOLDING))
    assert sum(misfit.metrics.accepted_histogram[K:]) >= 7


@torch.inference_mode()
def test_drafts_are_what_the_model_would_say_itself(folders, drafter):
    """Each draft is transformers' greedy token after the verified text and the drafts before it."""
    model = LlamaForCausalLM.from_pretrained(drafter).eval()
    llm = make(folders, drafter, max_batch_size=1, lag=0)
    request = llm._engine.add(
        list(PROMPTS[3].encode()), SamplingParams(max_tokens=40, ignore_eos=True)
    )
    tokens = llm._engine._executor.step._state.nodes.tokens
    num_checked = 0
    while llm._engine.num_unfinished:
        llm._engine.step()
        text = [*request.prompt_ids, *request.output_ids]
        if request.finish_reason is None and request.output_ids:
            assert int(tokens[0, 0]) == text[-1]
            for draft in tokens[0, 1:].tolist():
                text.append(int(model(torch.tensor([text])).logits[0, -1].argmax()))
                assert draft == text[-1]
                num_checked += 1
    assert num_checked > 3 * K
    llm.close()


def test_a_vocabulary_padded_otherwise(folders, tmp_path):
    """Published families have such: the same tokens, another multiple of 64."""
    for size in (256 + 8, 256 + 64):
        folder = tiny.save_target(tmp_path / str(size))
        with changed_weights(folder) as weights:
            for name in ("model.embed_tokens.weight", "lm_head.weight"):
                weights[name] = torch.nn.functional.pad(weights[name], (0, 0, 0, 64))[:size]
        with changed_json(folder) as config:
            config["vocab_size"] = size
        llm = make(folders, folder)
        params = SamplingParams(max_tokens=33, ignore_eos=True, logit_bias={270: 100.0})
        plain = LLM(folders[0], spec=None)
        assert (
            llm.generate("abc", params)[0].token_ids == generate(plain, "abc", params)[0].token_ids
        )
        assert (
            llm.generate(PROMPTS[4], SamplingParams(max_tokens=33))[0].metrics.acceptance_length > 2
        )
        llm.close()


def test_a_vocabulary_is_fitted_both_ways(folders):
    for size in (tiny.VOCAB_SIZE - 8, tiny.VOCAB_SIZE + 8):
        model = Decoder.load(folders[0])
        model.fit_vocabulary(size)
        assert len(model.embedding.weight) >= size
        assert model.logits(torch.zeros(1, tiny.HIDDEN)).shape[1] == min(size, tiny.VOCAB_SIZE)


def test_what_does_not_fit(folders, tmp_path):
    target, head = folders
    with pytest.raises(
        InvalidParams, match=r"needs the folder of a small model.*SpecConfig\('draft_model', model="
    ):
        LLM(target, spec="draft_model")
    with pytest.raises(CheckpointError, match="nowhere: is not a folder"):
        make(folders, tmp_path / "nowhere")
    other = tiny.save_target(tmp_path / "other")
    with changed_json(other, "tokenizer.json") as tokenizer:
        vocab = tokenizer["model"]["vocab"]
        vocab["!"], vocab["#"] = vocab["#"], vocab["!"]
    with pytest.raises(
        CheckpointError,
        match=r"needs the tokenizer of its target; 2 ids differ, the first is \d+: ",
    ):
        make(folders, other)
    short = tiny.save_target(tmp_path / "short")
    with changed_json(short) as config:
        config["max_position_embeddings"] = 128
    with pytest.raises(
        CheckpointError,
        match="has 128 positions and the engine serves 512; set max_model_len to 128",
    ):
        make(folders, short)
    make(folders, short, max_model_len=128).close()
    with pytest.raises(CheckpointError, match="is a draft head's, and no model's"):
        make(folders, _with_tokenizer(target, head, tmp_path / "head"))


def _with_tokenizer(target: Path, head: Path, folder: Path) -> Path:
    """The draft head's files beside the target's tokenizer."""
    folder.mkdir()
    for source in (target, head):
        for file in source.iterdir():
            (folder / file.name).write_bytes(file.read_bytes())
    return folder
