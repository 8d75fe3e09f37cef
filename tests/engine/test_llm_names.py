"""LLM with names that other engines have, or that belong elsewhere: taken where they change
nothing, or refused with what to do."""

from __future__ import annotations

import asyncio
import pickle
from functools import partial

import pytest

from specguide import LLM, Guide, SamplingParams
from specguide.config import EngineConfig
from specguide.engine import AsyncEngine, Engine
from specguide.errors import InvalidParams

SHORT = SamplingParams(max_tokens=3, ignore_eos=True)


def test_settings_of_the_cache_are_named_like_the_others(folders):
    llm = LLM(folders[0], num_pages=40, page_size=8)
    assert llm.stats().num_pages == 40
    llm.close()
    with pytest.raises(TypeError, match="LLM has no parameter 'num_page'"):
        LLM(folders[0], num_page=40)


def test_options_of_other_engines_are_taken_where_they_change_nothing(folders):
    options = {"trust_remote_code": True, "enable_prefix_caching": True, "swap_space": 4}
    options |= {"served_model_name": "a", "disable_cuda_graph": False}
    llm = LLM(folders[0], dtype="auto", device="auto", seed=None, task="generate", **options)
    (out,) = llm.generate("ab", SamplingParams(max_tokens=2), use_tqdm=False, lora_request=None)
    assert out.error is None
    with pytest.raises(InvalidParams, match="sampling_params is not an option here: use params"):
        llm.generate("ab", sampling_params=SamplingParams())
    with pytest.raises(TypeError, match="LLM has no parameter 'parms' of a call"):
        llm.generate("ab", parms=None)
    with pytest.raises(InvalidParams, match="messages is not an option here: use conversations"):
        llm.chat(messages=[{"role": "user", "content": "ab"}])
    with pytest.raises(InvalidParams, match=r"give it to the engine: LLM\(chat_template=…\)"):
        llm.chat([{"role": "user", "content": "ab"}], chat_template="x")
    with pytest.raises(InvalidParams, match="give them as prompts"):
        llm.generate(prompt_token_ids=[[3, 4]])
    with pytest.raises(TypeError, match=r"use params=SamplingParams\(top_k=…\)"):
        llm.generate("ab", top_k=3)
    llm.close()


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ({"max_num_seqs": 4}, "max_num_seqs is not an option here: use max_batch_size"),
        ({"enable_prefix_caching": False}, "it is always on"),
        ({"speculative_config": {"method": "ngram"}}, r"use spec=SpecConfig"),
        ({"seed": 0}, "each request has its own seed"),
        ({"guided_decoding_disable_any_whitespace": True}, r"GuideConfig\(max_whitespace=0"),
        ({"structured_outputs_config": {"backend": "xgrammar"}}, "use guide_backend or guide="),
        ({"tp_size": 2}, "tp_size is not an option here: use tensor_parallel_size"),
        ({"tool_call_parser": "hermes"}, "use `specguide serve --tool-format`"),
        ({"head": "h"}, r"use spec=SpecConfig\(model="),
        ({"worker_cls": "w"}, r"use LLM.around\(Engine\("),
        ({"ngram_prompt_lookup_max": 4}, r"use spec=SpecConfig\(prompt_lookup_max=…\)"),
        ({"num_page": 4}, "LLM has no parameter 'num_page'; similar names: num_pages"),
        ({"temperature": 0}, r"give it with each request: SamplingParams\(temperature=…\)"),
        ({"max_whitespace": 0}, r"use guide=GuideConfig\(max_whitespace=…\)"),
        ({"num_draft_tokens": 2}, r"use spec=SpecConfig\(num_draft_tokens=…\)"),
    ],
    ids=str,
)
def test_and_refused_with_what_to_do_where_they_would(folders, option, told):
    with pytest.raises((InvalidParams, TypeError), match=told):
        LLM(folders[0], **option)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"json": {}}, "json is not an option here: use json_schema"),
        ({"choices": ["a"]}, "use choice"),
        ({"ebnf": "root ::= [a]"}, "use grammar"),
        ({"json_schema": {}, "whitespace_pattern": " "}, r"GuideConfig\(max_whitespace=…\)"),
        ({"json_scheme": {}}, "Guide has no parameter 'json_scheme'; similar names: json_schema"),
    ],
    ids=str,
)
def test_a_guide_has_names_of_its_own(options, told):
    with pytest.raises((InvalidParams, TypeError), match=told):
        Guide(**options)
    assert Guide(regex="a", disable_fallback=True, strict=True) == Guide(regex="a")


def test_streams_have_names_of_their_own(folders):
    async def calls():
        async with AsyncEngine(Engine(EngineConfig(model=folders[0]))) as engine:
            for arguments, options, told in (
                (("ab",), {"sampling_params": SHORT}, "use params"),
                (("ab", SHORT, "job-1"), {}, "leave the loop over a stream"),
                (("ab",), {"request_id": "job-1"}, "its request is cancelled"),
                (("ab",), {"top_k": 3}, r"AsyncEngine has no parameter 'top_k' of a call: use pa"),
            ):
                with pytest.raises((InvalidParams, TypeError), match=told):
                    engine.generate(*arguments, **options)
            for name, told in (("abort", "aclose"), ("shutdown", "close"), ("odd", "attribute")):
                with pytest.raises(AttributeError, match=told):
                    getattr(engine, name)
            stream = engine.generate("ab", SHORT, lora_request=None, trace_headers={})
            return [delta async for delta in stream][-1].finish_reason

    assert asyncio.run(calls()) == "length"


def test_what_others_have_is_named_with_what_to_do(llm):
    (out,) = llm.generate("ab", SHORT)
    for owner, name, told in (
        (llm, "encode", "prompt_logprobs"),
        (llm, "beam_search", "ask for samples"),
        (llm, "get_tokenizer", "use tokenizer"),
        (llm, "nothing", "LLM has no attribute 'nothing'$"),
        (llm.tokenizer, "eos_token_id", "use eos_token_ids"),
        (llm.tokenizer, "vocab_size", r"use len\(tokenizer\)"),
        (out, "outputs", "use samples"),
        (out, "prompt_token_ids", "in the order of the prompts"),
    ):
        assert not hasattr(owner, name)
        with pytest.raises(AttributeError, match=told):
            getattr(owner, name)
    assert pickle.loads(pickle.dumps(out)) == out


def test_names_that_others_export_are_refused_with_what_to_do():
    with pytest.raises(
        ImportError, match=r"no AsyncLLM: from specguide\.engine import AsyncEngine"
    ):
        from specguide import AsyncLLM  # noqa: F401
    with pytest.raises(ImportError, match=r"cannot import name 'Nothing'"):
        from specguide import Nothing  # noqa: F401


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ({"tokenize": False}, "token ids are returned, which are a prompt for generate"),
        ({"return_tensors": "pt"}, "a list of all token ids is returned"),
        ({"enable_thinking": False}, r"as variables=\{'enable_thinking': …\}"),
    ],
    ids=str,
)
def test_a_chat_template_is_applied_as_with_transformers_or_not(llm, option, told):
    apply = partial(llm.tokenizer.apply_chat_template, [{"role": "user", "content": "ab"}])
    assert apply(tokenize=True, return_dict=False, padding=False) == apply()
    with pytest.raises((InvalidParams, TypeError), match=told):
        apply(**option)
