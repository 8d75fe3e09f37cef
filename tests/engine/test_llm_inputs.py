"""LLM with what callers give it by mistake or by habit of another engine: served as they mean it,
or refused in words; and what is left of an LLM that nobody holds."""

from __future__ import annotations

import gc
import json
import multiprocessing
import pickle
import re
import threading
from pathlib import Path

import numpy as np
import pytest
from tiny_engine import make
from tokenizer_subjects import SHIPPED

from specguide import LLM, Guide, SamplingParams
from specguide.config import CacheConfig, EngineConfig, GuideConfig
from specguide.errors import CheckpointError, EngineClosed, EngineError, InvalidGuide, InvalidParams

SHORT = SamplingParams(max_tokens=3, ignore_eos=True)


@pytest.mark.parametrize("prompts", [None, 5, b"ab"], ids=str)
def test_what_is_no_prompt_is_refused(llm, prompts):
    with pytest.raises(InvalidParams, match="a prompt must be a text or a list of token ids"):
        llm.generate(prompts, SHORT)


def test_a_prompt_may_be_in_a_dict(llm):
    expected = [out.token_ids for out in llm.generate(["ab", [3, 4]], SHORT)]
    both = {"prompt": "not read", "prompt_token_ids": [3, 4]}
    found = llm.generate([{"prompt": "ab", "prompt_token_ids": None}, both], SHORT)
    assert [out.token_ids for out in found] == expected
    assert llm.generate({"prompt": "ab"}, SHORT)[0].token_ids == expected[0]


def test_another_dict_among_prompts_is_its_own_error(llm):
    dicts = [{}, {"text": "ab"}, {"prompt": "ab", "mm_processor_kwargs": {}}, {"prompt": {}}]
    *refused, served = llm.generate([*dicts, "ab"], SHORT)
    assert served.error is None
    assert "no field but 'prompt_token_ids' and 'prompt' and 'multi_modal_data'" in str(
        refused[2].error
    )
    for out in refused[0], refused[1], refused[3]:
        assert "a text or a list of token ids, found dict" in str(out.error)
    message = {"role": "user", "content": "ab"}
    for given in (message, [message]):
        (refused,) = llm.generate([given], SHORT)
        assert "a conversation is for chat(messages)" in str(refused.error)


@pytest.mark.parametrize("ids", [[3, 4, 5], (3, 4, 5), np.array([3, 4, 5])], ids=repr)
def test_token_ids_alone_are_one_prompt(llm, ids):
    (out,), (same,) = llm.generate(ids, SHORT), llm.generate([[3, 4, 5]], SHORT)
    assert out.error is None and out.token_ids == same.token_ids
    assert llm.generate([], SHORT) == []


def test_prompts_and_parameters_come_from_any_iterable(llm):
    expected = llm.generate(["ab", "cd"], [SHORT, SHORT])
    outputs = llm.generate((text for text in ("ab", "cd")), (SHORT for _ in range(2)))
    assert [one.token_ids for one in outputs] == [one.token_ids for one in expected]


@pytest.mark.parametrize("params", [{"max_tokens": 3}, [SHORT, None], [SHORT, {}], 5], ids=str)
def test_parameters_of_another_kind_are_refused(llm, params):
    with pytest.raises(InvalidParams, match="params must be a SamplingParams"):
        llm.generate(["ab", "cd"], params)


@pytest.mark.parametrize("given", ["hi", {"role": "user", "content": "hi"}, 5, None], ids=str)
def test_what_is_no_conversation_is_refused(llm, given):
    with pytest.raises(InvalidParams, match="chat takes a list of messages"):
        llm.chat(given, SHORT)


def test_contents_are_texts_or_text_parts(llm):
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": None}, "b"]
    texts, plain, number, word = llm.chat(
        [
            [{"role": "user", "content": parts}],
            [{"role": "user", "content": "a\nb"}],
            [{"role": "user", "content": 5}],
            ["hi"],
        ],
        SHORT,
    )
    assert texts.error is None and texts.token_ids == plain.token_ids
    assert "messages[0].content: content must be a text" in str(number.error)
    assert "messages[0] must be a dict like" in str(word.error)
    (nobody,) = llm.chat([{"content": "a"}], SHORT)
    assert "messages[0] has no role" in str(nobody.error)


def test_a_closed_llm_says_so(folders):
    llm = make(folders)
    llm.close()
    llm.close()
    with pytest.raises(EngineClosed, match="build another one"):
        llm.generate("ab", SHORT)


def test_with_closes_it(folders):
    with make(folders) as llm:
        assert llm.generate("ab", SHORT)[0].error is None
    with pytest.raises(EngineClosed):
        llm.generate("ab", SHORT)


def test_an_llm_is_neither_pickled_nor_used_in_a_fork(llm):
    with pytest.raises(TypeError, match="build one in each process"):
        pickle.dumps(llm)
    ours, theirs = multiprocessing.Pipe()
    child = multiprocessing.get_context("fork").Process(target=_use_in_fork, args=(llm, theirs))
    child.start()
    assert ours.poll(30) and "before the process forked" in ours.recv()
    child.join(30)
    assert child.exitcode == 0
    assert llm.generate("ab", SHORT)[0].error is None


def _use_in_fork(llm, pipe):
    try:
        llm.generate("ab", SHORT)
    except EngineError as error:
        pipe.send(str(error))
    llm.close()


def test_a_dropped_llm_leaves_no_threads(folders):
    gc.collect()
    before = set(threading.enumerate())
    llm = make(folders)
    llm.generate("ab", SamplingParams(max_tokens=9, guide=Guide(regex="[a-z]{3}")))
    assert set(threading.enumerate()) > before
    del llm
    gc.collect()
    assert set(threading.enumerate()) <= before


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (dict(model=5), "model must be a text or a Path or None, found 5"),
        (dict(max_model_len="64"), "max_model_len must be an integer or None, found '64'"),
        (dict(max_batch_size=2.5), "max_batch_size must be an integer, found 2.5"),
        (dict(max_batch_size=True), "max_batch_size must be an integer, found True"),
        (dict(spec={"method": "ngram"}), "spec must be a SpecConfig or None"),
        (dict(cache=5), "cache must be a CacheConfig, found 5"),
        (dict(trace="x"), "trace must be True or False, found 'x'"),
    ],
    ids=str,
)
def test_settings_of_another_type_are_refused(given, words):
    with pytest.raises(InvalidParams) as caught:
        EngineConfig(**given)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("config", "given"),
    [
        (EngineConfig, {"max_batch_size": 10**30}),
        (GuideConfig, {"num_threads": 10**5}),
        (GuideConfig, {"deadline_us": 10**30}),
        (GuideConfig, {"target_wait_us": 10**30}),
    ],
    ids=str,
)
def test_settings_beyond_all_measure_are_refused(config, given):
    (name,) = given
    with pytest.raises(InvalidParams, match=f"{name} must be .*, found 10") as caught:
        config(**given)
    assert caught.value.param == name


def test_a_cache_of_another_type_is_refused():
    with pytest.raises(InvalidParams, match="cache must be a CacheConfig"):
        LLM(cache={"page_size": 8})


def test_settings_may_be_numbers_of_numpy():
    assert EngineConfig(max_batch_size=np.int64(4), max_step_ms=5).max_batch_size == 4
    assert CacheConfig(gpu_memory_utilization=np.float32(0.5)).num_pages is None


def test_guides_of_another_type_are_refused():
    with pytest.raises(InvalidGuide, match=r"choice must be a non-empty list .*, found \{'a'\}"):
        Guide(choice={"a"})
    with pytest.raises(InvalidGuide, match=r"non-empty string, found re.compile\('a'\)"):
        Guide(regex=re.compile("a"))
    with pytest.raises(InvalidGuide, match="give only what its 'schema' is"):
        Guide(json_schema={"name": "one", "schema": {"type": "integer"}, "strict": True})

    class Model:
        model_json_schema = dict

    for model in (Model, Model()):
        with pytest.raises(InvalidGuide, match=r"give Model.model_json_schema\(\)"):
            Guide(json_schema=model)


def test_a_schema_is_what_json_writes_of_it(llm):
    """A schema's texts may be numbers, and its lists tuples; and it stays what it was when it was
    read."""
    schema = {"type": "object", "properties": {1: {"enum": (5,)}}, "required": ("1",)}
    params = SamplingParams(guide=Guide(json_schema=schema))
    for _ in range(2):
        (out,) = llm.generate("ab", params)
        assert out.error is None and json.loads(out.text) == {"1": 5}


@pytest.mark.parametrize("tools", ["x", {"type": "function"}, [5], 5], ids=str)
def test_tools_of_another_type_are_refused(llm, tools):
    with pytest.raises(InvalidParams, match="tools is a list of definitions") as caught:
        llm.chat([{"role": "user", "content": "ab"}], tools=tools)
    assert caught.value.param == "tools"


def test_a_guide_of_tools_binds_how_they_are_called(llm):
    parameters = {"type": "object", "properties": {"n": {"enum": [1, 22]}}, "required": ["n"]}
    tools = [{"type": "function", "function": {"name": "f", "parameters": parameters}}]
    guide = llm.tool_guide(tools, must_call=True, is_parallel=False, tool_format="hermes")
    params = SamplingParams(guide=guide, return_spans=True)
    for given in (tools, [tools[0]["function"]]):
        assert (
            llm.tool_guide(given, must_call=True, is_parallel=False, tool_format="hermes") == guide
        )
    (out,) = llm.chat([{"role": "user", "content": "ab"}], params, tools=tools)
    written = out.text.removeprefix("<tool_call>").removesuffix("</tool_call>")
    call = json.loads(written)
    assert call["name"] == "f" and call["arguments"]["n"] in (1, 22)
    assert {span.tool for span in out.spans if span.role == "value"} == {"f"}
    for wrong, words in (
        ("x", "tools is a list"),
        ([], "there is no tool"),
        ([{}], "a function's name must be 1 to 128 letters"),
        ([{"name": "f"}, {"name": "f"}], "two tools are named 'f'"),
        ([{"name": "f", "parameters": {"type": "array"}}], "a JSON schema of type object"),
    ):
        with pytest.raises(InvalidParams, match=words):
            llm.tool_guide(wrong, tool_format="hermes")
    with pytest.raises(InvalidParams, match="does not say how tool calls are written; name one"):
        llm.tool_guide(tools)


def test_an_answer_that_is_begun_goes_on(llm):
    asked = [{"role": "user", "content": "ab"}]
    begun = [*asked, {"role": "assistant", "content": "c"}]
    named = {"add_generation_prompt": False, "continue_final_message": True}
    prompt = [*llm.tokenizer.apply_chat_template(asked), *llm.tokenizer.encode("c")]
    (out,), (same,) = llm.chat(begun, SHORT, **named), llm.generate([prompt], SHORT)
    assert out.error is None and out.token_ids == same.token_ids
    assert out.metrics.prompt_tokens == len(prompt)
    guided = SamplingParams(guide=Guide(regex="a+"))
    for refused, params, words in ((asked, SHORT, "last message"), (begun, guided, "a guide")):
        (out,) = llm.chat(refused, params, continue_final_message=True)
        assert words in str(out.error) and out.error.param == "continue_final_message"


def test_variables_of_the_chat_template(llm, monkeypatch):
    asked = [{"role": "user", "content": "ab"}]
    given = []
    whole = llm.tokenizer.apply_chat_template

    def noted(*args, **named):
        given.append(named["variables"])
        return whole(*args, **named)

    monkeypatch.setattr(llm.tokenizer, "apply_chat_template", noted)
    (out,) = llm.chat(asked, SHORT, chat_template_kwargs={"enable_thinking": False})
    assert out.error is None and given == [{"enable_thinking": False}]
    (out,) = llm.chat(asked, SHORT, chat_template_kwargs={"messages": []})
    assert "must not set messages" in str(out.error)
    with pytest.raises(InvalidParams, match="dict of the template's variables"):
        llm.chat(asked, SHORT, chat_template_kwargs="x")


def test_a_name_of_the_hub_is_told_from_a_folder():
    with pytest.raises(CheckpointError, match="is not a folder; `hf download org/name"):
        LLM("org/name")
    for name in ("/no/such", "../such"):
        with pytest.raises(CheckpointError, match=r"is not a folder$"):
            LLM(name)
    with pytest.raises(CheckpointError, match=rf"a ~ is not read here: give {Path.home()}/such"):
        LLM("~/such")


def test_a_folder_around_models_names_them():
    with pytest.raises(CheckpointError, match=r"give one of its folders: eagle3, mtp, target$"):
        LLM(SHIPPED.parent)
    with pytest.raises(CheckpointError, match="is a draft head's, and no model's: give"):
        LLM(SHIPPED.parent / "eagle3")
