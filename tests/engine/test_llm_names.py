"""LLM with names that other engines have, or that belong elsewhere: taken where they change
nothing, or refused with what to do."""

from __future__ import annotations

import pickle

import pytest
from tiny_engine import make

from specguide import LLM, SamplingParams
from specguide.errors import InvalidParams

SHORT = SamplingParams(max_tokens=3, ignore_eos=True)


@pytest.fixture(scope="module")
def llm(folders):
    llm = make(folders)
    yield llm
    llm.close()


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
    with pytest.raises(InvalidParams, match="sampling_params is not an option here: take params"):
        llm.generate("ab", sampling_params=SamplingParams())
    with pytest.raises(TypeError, match="LLM has no parameter 'parms' of a call"):
        llm.generate("ab", parms=None)
    with pytest.raises(InvalidParams, match="messages is not an option here: take conversations"):
        llm.chat(messages=[{"role": "user", "content": "ab"}])
    with pytest.raises(InvalidParams, match="give them as prompts"):
        llm.generate(prompt_token_ids=[[3, 4]])
    with pytest.raises(TypeError, match=r"take params=SamplingParams\(top_k=…\)"):
        llm.generate("ab", top_k=3)
    llm.close()


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ({"max_num_seqs": 4}, "max_num_seqs is not an option here: take max_batch_size"),
        ({"enable_prefix_caching": False}, "it is always on"),
        ({"speculative_config": {"method": "ngram"}}, r"take spec=SpecConfig"),
        ({"seed": 0}, "requests have a seed each"),
        ({"guided_decoding_disable_any_whitespace": True}, r"GuideConfig\(max_whitespace=0"),
        ({"structured_outputs_config": {"backend": "xgrammar"}}, "take guide_backend or guide="),
        ({"tp_size": 2}, "tp_size is not an option here: take tensor_parallel_size"),
        ({"tool_call_parser": "hermes"}, "take `specguide serve --tool-format`"),
        ({"head": "h"}, r"take spec=SpecConfig\(model="),
        ({"worker_cls": "w"}, r"take LLM.around\(Engine\("),
        ({"ngram_prompt_lookup_max": 4}, r"take spec=SpecConfig\(prompt_lookup_max=…\)"),
        ({"num_page": 4}, "LLM has no parameter 'num_page'; similar names: num_pages"),
        ({"temperature": 0}, r"a request says it: SamplingParams\(temperature=…\)"),
        ({"max_whitespace": 0}, r"take guide=GuideConfig\(max_whitespace=…\)"),
        ({"num_draft_tokens": 2}, r"take spec=SpecConfig\(num_draft_tokens=…\)"),
    ],
    ids=str,
)
def test_and_refused_with_what_to_do_where_they_would(folders, option, told):
    with pytest.raises((InvalidParams, TypeError), match=told):
        LLM(folders[0], **option)


def test_what_others_have_is_named_with_what_to_do(llm):
    (out,) = llm.generate("ab", SHORT)
    for owner, name, told in (
        (llm, "encode", "prompt_logprobs"),
        (llm, "beam_search", "ask for samples"),
        (llm, "get_tokenizer", "take tokenizer"),
        (llm, "nothing", "LLM has no attribute 'nothing'$"),
        (out, "outputs", "take samples"),
        (out, "prompt_token_ids", "in the order of the prompts"),
    ):
        assert not hasattr(owner, name)
        with pytest.raises(AttributeError, match=told):
            getattr(owner, name)
    assert pickle.loads(pickle.dumps(out)) == out
