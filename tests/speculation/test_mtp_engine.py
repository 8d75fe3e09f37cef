"""An MTP head in the engine: it changes no token, as one model and as two, guided and free."""

from __future__ import annotations

import pytest
import tiny
from baseline_llm import baseline_llm
from checkpoint_files import config_in, save_checkpoint, weights_in
from mtp_heads import PREFIX, in_deepseeks_style, random_mtp
from random_requests import cases
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
    config, weights = config_in(mtp_head), weights_in(mtp_head)
    save_checkpoint(tmp_path, config, in_deepseeks_style(weights, config["num_hidden_layers"]))
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
    config = config_in(folder) | {"num_nextn_predict_layers": 1}
    save_checkpoint(folder, config, weights_in(folder) | random_mtp(config))
    plain, speculative = (
        LLM(folder, spec=spec).generate("ab", SamplingParams(max_tokens=20, ignore_eos=True))[0]
        for spec in (None, "mtp")
    )
    assert plain.token_ids == speculative.token_ids
    assert any(PREFIX in name for name in weights_in(folder))


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
