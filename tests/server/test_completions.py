"""What completions tell of their prompts: echo, scores, nothing generated, and the best of several
samples."""

from __future__ import annotations

import asyncio
import json
import math
from types import SimpleNamespace

import pytest

from specguide.engine import RequestDelta, RequestStream
from specguide.engine.serving.stream import Mailbox
from specguide.errors import QueueFull
from specguide.params import SamplingParams
from specguide.server.apis.api import rendered, stream_objects
from specguide.server.apis.completion_choices import Choice, TextScores
from specguide.server.apis.completions import CompletionRenderer
from specguide.server.bodies.requests import CompletionRequest
from specguide.server.http.errors import ApiError
from specguide.server.running.run import run
from specguide.server.tasks.events import End, PromptScores, Score, Text, Tokens
from specguide.server.tasks.task import Task

PROMPT = "One, two, three, four"


def ask(http, **fields):
    body = {"prompt": PROMPT, "max_tokens": 3, "temperature": 0} | fields
    answer = http.post("/v1/completions", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def tokens_of(http, text=PROMPT):
    return http.post("/tokenize", json={"prompt": text}).json()["tokens"]


def streamed(http, **fields):
    """The text and the scores of each choice, put together."""
    body = {"prompt": PROMPT, "max_tokens": 3, "temperature": 0, "stream": True} | fields
    lines = http.post("/v1/completions", json=body).text.split("\n\n")[:-2]
    found = {}
    for line in lines:
        for choice in json.loads(line.removeprefix("data: "))["choices"]:
            text, scores = found.setdefault(choice["index"], ["", []])
            found[choice["index"]][0] = text + choice["text"]
            scores += (choice["logprobs"] or {}).get("token_logprobs", [])
    return found


@pytest.mark.parametrize("max_tokens", [0, 1, 3])
def test_the_likelihood_of_a_text(http, max_tokens):
    """Evaluations of multiple choices ask for it so: the scores of prompt and output in a row."""
    done = ask(http, echo=True, logprobs=1, max_tokens=max_tokens, prompt=tokens_of(http))
    [choice] = done["choices"]
    scores, num_prompt = choice["logprobs"], len(tokens_of(http))
    assert done["usage"]["prompt_tokens"] == num_prompt
    num_output = done["usage"]["completion_tokens"]
    assert num_output <= max_tokens and (max_tokens != 0 or choice["finish_reason"] == "length")
    assert {len(values) for values in scores.values()} == {num_prompt + num_output}
    assert scores["token_logprobs"][0] is None is scores["top_logprobs"][0]
    for own, top in zip(scores["token_logprobs"][1:], scores["top_logprobs"][1:], strict=True):
        assert own in top.values() and max(top.values()) <= 0 and math.isfinite(own)
    assert choice["text"].startswith(PROMPT)
    assert scores["tokens"][0] == "<|begin|>"  # which is no text
    assert "".join(scores["tokens"][1:]) == choice["text"]


def test_offsets_are_places_in_the_text(http):
    """They are so also behind tokens that are no text, and in the middle of a character."""
    prompt = "One, <|user|>日本 two"
    asked = dict(prompt=prompt, echo=True, logprobs=0, max_tokens=8, ignore_eos=True)
    [choice] = ask(http, **asked)["choices"]
    offsets, tokens = choice["logprobs"]["text_offset"], choice["logprobs"]["tokens"]
    assert tokens[0] == "<|begin|>" and offsets[:2] == [0, 0] and offsets == sorted(offsets)
    whole = [one for one in zip(offsets, tokens, strict=True) if "\ufffd" not in one[1]]
    named = [one for one in whole if one[1].startswith("<|")]
    assert (5, "<|user|>") in named
    for offset, token in whole:
        assert choice["text"].startswith(token, offset) or (offset, token) in named


@pytest.mark.parametrize("size", [1, 2, 5])
def test_offsets_do_not_depend_on_how_tokens_come(size):
    spelled = [b"a", "é".encode()[:1], "é".encode()[1:], b"<|x|>", b"\xe2", b" b", b"c"]
    scores = [Score(i, one, -1.0, 1, (), one == b"<|x|>") for i, one in enumerate(spelled)]
    choice = Choice(0, scores=TextScores())
    choice.echo("<|x|>", (scores[3],))
    for begin in range(0, len(scores), size):
        choice.add("", scores[begin : begin + size])
    assert choice.scores.columns["text_offset"] == [0, 5, 6, 6, 7, 7, 8, 10]


def test_scores_of_the_prompt_are_those_of_an_output(http, server):
    """What the model itself went on with is scored alike as a prompt."""
    said = ask(http, logprobs=0, max_tokens=6)["choices"][0]
    spelled = server.engine.tokenizer.vocabulary(server.engine.vocab_size).token_bytes
    output = [spelled.index(token.encode()) for token in said["logprobs"]["tokens"]]
    again = ask(http, prompt=tokens_of(http) + output, echo=True, logprobs=0, max_tokens=0)
    found = again["choices"][0]["logprobs"]["token_logprobs"]
    expected = said["logprobs"]["token_logprobs"]
    assert found[-len(expected) :] == pytest.approx(expected, abs=1e-3)


def test_prompt_logprobs(http):
    [choice] = ask(http, prompt_logprobs=2)["choices"]
    first, *others = choice["prompt_logprobs"]
    assert first is None and len(others) == len(tokens_of(http)) - 1
    assert not choice["text"].startswith(PROMPT) and choice["logprobs"] is None
    for token, entry in zip(tokens_of(http)[1:], others, strict=True):
        assert set(entry[str(token)]) == {"logprob", "rank", "decoded_token"}
        assert 2 <= len(entry) <= 3 and {1, 2} <= {one["rank"] for one in entry.values()}


@pytest.mark.parametrize(("logprobs", "asked"), [(3, 0), (0, 3)])
def test_an_echo_and_prompt_logprobs_tell_as_many_as_each_is_asked_for(http, logprobs, asked):
    fields = dict(echo=True, logprobs=logprobs, prompt_logprobs=asked, max_tokens=0)
    [choice] = ask(http, **fields)["choices"]
    echoed, told = choice["logprobs"]["top_logprobs"][1:], choice["prompt_logprobs"][1:]
    for num, entries in ((logprobs, echoed), (asked, told)):
        assert all(max(num, 1) <= len(entry) <= num + 1 for entry in entries)


@pytest.mark.parametrize("logprobs", [None, 0])
def test_echo_of_several_prompts_and_samples(http, logprobs):
    asked = dict(prompt=[PROMPT, "A B"], n=2, echo=True, logprobs=logprobs, max_tokens=2)
    done = ask(http, **asked)
    for index, choice in enumerate(done["choices"]):
        assert choice["index"] == index
        assert choice["text"].startswith(asked["prompt"][index // 2])
    found = streamed(http, **asked)
    assert {index: text for index, (text, _) in found.items()} == {
        choice["index"]: choice["text"] for choice in done["choices"]
    }
    if logprobs is not None:
        assert [scores for _, scores in found.values()] == [
            choice["logprobs"]["token_logprobs"] for choice in done["choices"]
        ]


def test_the_best_of_several_samples(http):
    asked = dict(temperature=2.0, seed=5, max_tokens=6, best_of=6, ignore_eos=True)
    everyone = ask(http, **asked | {"best_of": None, "n": 6, "logprobs": 0})["choices"]
    means = {one["text"]: sum(one["logprobs"]["token_logprobs"]) / 6 for one in everyone}
    done = ask(http, **asked, n=2)
    best = sorted(means, key=lambda text: -means[text])[:2]
    assert [choice["text"] for choice in done["choices"]] == best
    assert [choice["index"] for choice in done["choices"]] == [0, 1]
    assert done["choices"][0]["logprobs"] is None
    assert done["usage"]["completion_tokens"] == 36  # all that was generated


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"best_of": 1, "n": 2}, "best_of"),
        ({"best_of": 200}, "best_of"),
        ({"best_of": 2, "stream": True}, "best_of"),
        ({"prompt_logprobs": 1, "stream": True}, "prompt_logprobs"),
        ({"prompt_logprobs": 21}, "prompt_logprobs"),
        ({"prompt_logprobs": -1, "echo": True, "logprobs": 1}, "prompt_logprobs"),
        ({"prompt": [10**6], "echo": True}, "prompt"),
        ({"prompt": ["a"] * 10, "n": 100.0}, "prompt"),
        ({"max_tokens": -1}, "max_tokens"),
    ],
)
def test_what_is_refused(http, fields, param):
    answer = http.post("/v1/completions", json={"prompt": PROMPT} | fields)
    assert answer.status_code == 400 and answer.json()["error"]["param"] == param


@pytest.mark.parametrize("field", ["logprobs", "prompt_logprobs"])
def test_why_the_whole_vocabulary_is_not_scored(http, field):
    answer = http.post("/v1/completions", json={"prompt": PROMPT, field: -1})
    assert answer.status_code == 400 and "the whole vocabulary" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "given",
    [
        {"response_format": {"type": "json_schema", "json_schema": {"schema": {"enum": ["ab"]}}}},
        {"regex": '"ab"'},
        {"ebnf": 'root ::= "\\"ab\\""'},
        {"json_schema": '{"enum": ["ab"]}'},
    ],
)
def test_guides_of_completions(http, given):
    [choice] = ask(http, **given, max_tokens=10)["choices"]
    assert choice["text"] == '"ab"' and choice["finish_reason"] == "stop"


def test_a_sample_that_comes_before_the_scores_of_its_prompt_waits_for_them():
    body = CompletionRequest(prompt="ab", echo=True, logprobs=0, n=2)
    task = Task("m", ([1, 2],), SamplingParams(n=2), echoed=("ab",))
    scores = Score(1, b"a", None, 0), Score(2, b"b", -1.0, 1)
    late = [
        Tokens(1, 1),
        Text("y", 1, (Score(3, b"y", -2.0, 1),)),
        PromptScores(scores, 0),
        Text("x", 0, (Score(4, b"x", -3.0, 1),)),
        End("length", sample=0),
        End("length", sample=1),
    ]

    async def come(events):
        for event in events:
            yield event

    async def chunks(events):
        return [one async for one in stream_objects(CompletionRenderer(body, task), come(events))]

    whole = asyncio.run(rendered(CompletionRenderer(body, task), come(late)))
    assert [choice["text"] for choice in whole["choices"]] == ["abx", "aby"]
    assert whole["choices"][1]["logprobs"]["token_logprobs"] == [None, -1.0, -2.0]
    found = [chunk["choices"][0] for chunk in asyncio.run(chunks(late))]
    assert [choice["text"] for choice in found if choice["index"] == 1] == ["ab", "y", ""]
    without = [event for event in late if not isinstance(event, PromptScores)]
    assert asyncio.run(chunks(without))[-1]["choices"][0]["finish_reason"] == "length"


async def test_where_one_prompt_is_refused_nobody_waits_for_the_others():
    """The others would hold their places until they began, and the client its connection."""
    cancelled: list[int] = []
    waiting, full = Mailbox(1), Mailbox(1)
    error = QueueFull("full", retry_after_s=3)
    full.put(RequestDelta("", (), finish_reason="error", error=error))
    streams = [RequestStream(waiting, lambda: cancelled.append(0)), RequestStream(full, print)]
    engine = SimpleNamespace(generate=lambda *args, **fields: streams.pop(0))
    task = Task("m", ([1], [2]), SamplingParams())
    with pytest.raises(ApiError, match="full") as caught:
        await asyncio.wait_for(run(SimpleNamespace(engine=engine), task), 5)
    assert caught.value.status == 429
    await asyncio.sleep(0)
    assert cancelled == [0]


def test_of_rivals_with_equal_texts_the_likeliest_is_told():
    """By the greatest of a place evaluations tell whether its token is what the model would say."""
    rivals = Score(1, b"\xa8", -0.5, 1), Score(2, b"e", -1.5, 2)
    choice = Choice(0, scores=TextScores())
    choice.echo("", [Score(3, b"\xa9", -4.0, 7, rivals)])
    assert choice.whole(0)["logprobs"]["top_logprobs"] == [{"\ufffd": -0.5, "e": -1.5}]
