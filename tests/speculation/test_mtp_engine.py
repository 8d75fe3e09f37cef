"""An MTP head in the engine: it changes no token, as one model and as two, guided and free."""

from __future__ import annotations

import json

import pytest
import tiny
from baseline_llm import baseline_llm
from mtp_heads import PREFIX, in_deepseeks_style, random_mtp, save_head
from random_requests import cases
from safetensors.torch import load_file
from tiny_engine import generate, told

from specguide import LLM, Guide, SamplingParams, SpecConfig
from specguide.engine.setup.target_folder import SHIPPED_MODEL
from specguide.errors import CheckpointError

K = 3


@pytest.mark.parametrize(
    "params", [dict(), dict(temperature=0.8, top_k=20, top_p=0.95)], ids=["greedy", "sampled"]
)
def test_speculation_changes_no_token(folders, mtp_head, params):
    target, _ = folders
    prompts, all_params = cases(7, 18, **params)
    plain = LLM(target, spec=None, max_batch_size=8).generate(prompts, all_params)
    for options in (
        dict(lag=0, max_prefill_tokens=16),
        dict(lag=2),
        dict(lag=0, baseline="two models"),
    ):
        llm = baseline_llm(target, spec=SpecConfig("mtp", mtp_head, K), max_batch_size=8, **options)
        outputs = generate(llm, prompts, all_params)
        assert told(outputs) == told(plain)
        assert any(out.metrics.acceptance_length > 1.3 for out in outputs)


def test_a_head_in_deepseeks_style_changes_no_token(folders, mtp_head, tmp_path):
    target, _ = folders
    config = json.loads((mtp_head / "config.json").read_text())
    weights = load_file(mtp_head / "model.safetensors")
    save_head(tmp_path, config, in_deepseeks_style(weights, config["num_hidden_layers"]))
    prompts, all_params = cases(7, 6, temperature=0.0)
    plain, drafted = (
        LLM(target, spec=spec).generate(prompts, all_params)
        for spec in (None, SpecConfig("mtp", tmp_path, K))
    )
    assert told(drafted) == told(plain)


def test_a_head_in_its_targets_folder(tmp_path):
    folder = tiny.save_target(tmp_path)
    with pytest.raises(CheckpointError, match="holds no MTP head"):
        LLM(folder, spec="mtp")
    config = json.loads((folder / "config.json").read_text()) | {"num_nextn_predict_layers": 1}
    save_head(folder, config, load_file(folder / "model.safetensors") | random_mtp(config))
    plain, speculative = (
        LLM(folder, spec=spec).generate("ab", SamplingParams(max_tokens=20, ignore_eos=True))[0]
        for spec in (None, "mtp")
    )
    assert plain.token_ids == speculative.token_ids
    assert any(PREFIX in name for name in load_file(folder / "model.safetensors"))


@pytest.mark.skipif(not (SHIPPED_MODEL / "mtp").is_dir(), reason="needs the shipped MTP head")
def test_the_shipped_head():
    properties = {"city": {"type": "string"}, "year": {"type": "integer"}}
    guide = Guide(
        json_schema={"type": "object", "properties": properties, "required": ["city", "year"]}
    )
    message = [{"role": "user", "content": "The bridge in Riga was opened in 1932."}]
    params = [SamplingParams(max_tokens=64, guide=guide), SamplingParams(max_tokens=40)]
    plain, speculative = (LLM(spec=spec).chat([message] * 2, params) for spec in (None, "mtp"))
    assert [out.token_ids for out in plain] == [out.token_ids for out in speculative]
    assert speculative[0].metrics.acceptance_length > 2.5
