"""Integers of numpy and torch are token ids, seeds and counts, numpy's floats temperatures and
penalties; truth values and numbers with a dimension are none."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from specguide import Guide, Reasoning, SamplingParams
from specguide.errors import InvalidParams
from specguide.inputs.integers import as_int, as_ints
from specguide.params import Speculation

KINDS = (
    np.int64,
    np.uint8,
    np.int32,
    torch.tensor,
    lambda value: torch.tensor(value, dtype=torch.int32),
)


@pytest.mark.parametrize("kind", KINDS)
def test_as_parameters(kind):
    params = SamplingParams(
        max_tokens=kind(7),
        top_k=kind(3),
        seed=kind(5),
        min_tokens=kind(1),
        logprobs=kind(2),
        prompt_logprobs=kind(1),
        n=kind(2),
        stop_token_ids=[kind(4)],
        allowed_token_ids=[kind(4), 5],
        logit_bias={kind(9): 1.5},
        speculation=Speculation(num_draft_tokens=kind(1), num_forced_tokens=kind(0)),
    )
    expected = SamplingParams(
        max_tokens=7,
        top_k=3,
        seed=5,
        min_tokens=1,
        logprobs=2,
        prompt_logprobs=1,
        n=2,
        stop_token_ids=(4,),
        allowed_token_ids=(4, 5),
        logit_bias={9: 1.5},
        speculation=Speculation(1, 0),
    )
    assert repr(params) == repr(expected)
    assert type(Reasoning(max_tokens=kind(8)).max_tokens) is int


@pytest.mark.parametrize(
    "ids", [np.array([4, 5]), torch.tensor([4, 5]), range(4, 6)], ids=["numpy", "torch", "range"]
)
def test_arrays_of_ids(llm, ids):
    (expected,) = llm.generate([[4, 5]], SamplingParams(max_tokens=3, allowed_token_ids=(4, 5)))
    for prompt in (ids, list(ids)):
        (out,) = llm.generate([prompt], SamplingParams(max_tokens=3, allowed_token_ids=ids))
        assert (out.error, out.token_ids) == (None, expected.token_ids)
    assert llm.tokenizer.decode(ids) == llm.tokenizer.decode([4, 5])


@pytest.mark.parametrize(
    "prompt",
    [
        [True],
        np.array([True]),
        torch.tensor([True]),
        [np.True_],
        [torch.tensor(True)],
        [1.0],
        np.array([1.0]),
        torch.tensor([[1, 2]]),
        [torch.tensor([1])],
        [torch.tensor(1.0)],
        None,
        ["a"],
        [None],
    ],
)
def test_what_is_no_prompt(llm, prompt):
    (out,) = llm.generate([prompt])
    assert isinstance(out.error, InvalidParams) and out.error.param == "prompt"


@pytest.mark.parametrize(
    "value",
    [
        True,
        np.True_,
        torch.tensor(True),
        torch.tensor([1]),
        np.array([1]),
        1.0,
        "1",
        torch.tensor(1.5),
    ],
)
@pytest.mark.parametrize(
    "name", ["seed", "n", "max_tokens", "stop_token_ids", "allowed_token_ids", "logit_bias"]
)
def test_what_is_no_integer(name, value):
    if name == "logit_bias" and value == "1":
        return  # as JSON has it
    if name == "logit_bias" and isinstance(value, np.ndarray):
        return  # cannot be a key
    given = [value] if name.endswith("ids") else {value: 1.0} if name == "logit_bias" else value
    with pytest.raises(InvalidParams) as error:
        SamplingParams(**{name: given})
    assert error.value.param == name


def test_what_integers_are():
    assert as_int(np.int64(2**40)) == 2**40 and type(as_int(np.int8(3))) is int
    assert as_ints(np.array([1, 2])) == as_ints(iter([1, np.int64(2)])) == [1, 2]
    assert (
        isinstance(as_int(np.array([1])), np.ndarray)
        and as_int("1") == "1"
        and as_int(None) is None
    )


@pytest.mark.parametrize("kind", [np.float32, np.float16, np.float64])
def test_numbers_of_numpy_as_parameters(kind):
    params = SamplingParams(
        temperature=kind(0.5),
        top_p=kind(0.75),
        min_p=kind(0.25),
        repetition_penalty=kind(1.5),
        frequency_penalty=kind(0.5),
        presence_penalty=np.int64(1),
        logit_bias={9: kind(1.5)},
        timeout_s=kind(2.5),
    )
    expected = SamplingParams(
        temperature=0.5,
        top_p=0.75,
        min_p=0.25,
        repetition_penalty=1.5,
        frequency_penalty=0.5,
        presence_penalty=1,
        logit_bias={9: 1.5},
        timeout_s=2.5,
    )
    assert repr(params) == repr(expected)
    for value in (np.True_, kind("nan")):
        with pytest.raises(InvalidParams, match="temperature"):
            SamplingParams(temperature=value)


def test_a_priority_and_a_guide(llm):
    engine = llm._engine
    request = engine.add(
        [1, 2], SamplingParams(max_tokens=3, guide=Guide(regex="a")), priority=np.int64(2)
    )
    while engine.num_unfinished:
        engine.step()
    assert type(request.spec.priority) is int and request.text.text == "a"
