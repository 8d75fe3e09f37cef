"""`specguide bench serve` against a server that answers rightly, or is wrong as its model's name
says."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from itertools import count
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, StreamingResponse
from typer.testing import CliRunner

from specguide.bench.config import Load, RequestSizes, ServerAddress
from specguide.bench.samples import (
    KINDS,
    built_in,
    carries_marker,
    marked,
    read_schemas,
    read_tool_tasks,
)
from specguide.bench.serve import Target, fitted, measure
from specguide.bench.sized import SizedWorkload
from specguide.bench.validation import violation
from specguide.bench.workload import Workload
from specguide.cli import app as command_line
from specguide.errors import InvalidParams

WRONG = {
    "no done": ("lost", "no [DONE]"),
    "no reason": ("lost", "no finish_reason"),
    "breaks": ("lost", "RemoteProtocolError"),
    "hangs": ("lost", "timeout"),
    "fails": ("lost", "HTTP 500"),
    "says error": ("lost", "error event"),
    "garbage": ("lost", "malformed chunk"),
    "refuses": ("refused", "HTTP 429"),
    "other marker": ("crossed", "another request's marker"),
    "two ids": ("crossed", "chunks of several ids"),
    "one id": ("crossed", "an id of several answers"),
    "not JSON": ("invalid", "schema"),
    "wrong type": ("invalid", "schema"),
    "other tool": ("invalid", "unknown tool"),
    "no call": ("invalid", "no call"),
    "wrong arguments": ("invalid", "arguments"),
    "no usage": ("invalid", "no usage"),
    "miscounts": ("invalid", "usage"),
    "odd reason": ("invalid", "finish_reason"),
}
KIND_OF = {
    "not JSON": "json",
    "wrong type": "json",
    "other tool": "tools",
    "no call": "tools",
    "wrong arguments": "tools",
    "other marker": "json",
}
fake = FastAPI()
numbers = count()
markers: list[str] = []
asked: list[dict[str, Any]] = []


def instance(schema: dict[str, Any]) -> Any:
    """An instance of one of the built-in schemas."""
    if "enum" in schema:
        return schema["enum"][0]
    made = {
        "object": lambda: {name: instance(one) for name, one in schema["properties"].items()},
        "array": lambda: [instance(schema["items"])] * schema["minItems"],
        "integer": lambda: 1,
        "string": lambda: "a",
        "boolean": lambda: True,
    }
    return made[schema["type"]]()


def spoilt(schema: dict[str, Any], wrong: str) -> str:
    """An instance as text, with what is wrong about it."""
    value = instance(schema)
    if "request_id" not in value:
        return json.dumps(value)
    marker, other = value["request_id"], markers[0] if markers else ""
    markers.append(marker)
    if wrong == "other marker" and other:
        value["request_id"] = other
    if wrong in ("wrong type", "wrong arguments"):
        value[list(value)[-1]] = {}
    return json.dumps(value)[: -1 if wrong == "not JSON" else None]


def deltas(body: dict[str, Any], wrong: str) -> list[dict[str, Any]]:
    if "response_format" in body:
        text = spoilt(body["response_format"]["json_schema"]["schema"], wrong)
        return [{"content": text[:7]}, {"content": text[7:]}]
    if "tools" not in body or wrong == "no call":
        return [{"content": "It is "}, {"content": "so."}]
    function = body["tools"][0]["function"]
    name = "unheard_of" if wrong == "other tool" else function["name"]
    call = {
        "index": 0,
        "id": "call_1",
        "type": "function",
        "function": {"name": name, "arguments": ""},
    }
    return [
        {"tool_calls": [call]},
        {
            "tool_calls": [
                {"index": 0, "function": {"arguments": spoilt(function["parameters"], wrong)}}
            ]
        },
    ]


def counted(body: dict[str, Any], num_tokens: int) -> dict[str, int]:
    """Three tokens a word; a chat template says 7 more, and 50 of a schema."""
    messages = body.get("messages")
    words = body["prompt"] if messages is None else messages[-1]["content"]
    around = 0 if messages is None else 7 + 50 * ("response_format" in body)
    prompt = 3 * len(words.split()) + around
    return {
        "prompt_tokens": prompt,
        "completion_tokens": num_tokens,
        "total_tokens": prompt + num_tokens,
    }


async def events(body: dict[str, Any], wrong: str) -> AsyncIterator[str]:
    number, parts = next(numbers), deltas(body, wrong)
    scores = {"content": [{"token": "a", "logprob": 0.0}]} if body.get("logprobs") else None
    for index, delta in enumerate(parts):
        shown = {"two ids": number * 2 + index, "one id": 0}.get(wrong, f"{wrong} {number}")
        choice = {"index": 0, "delta": delta, "logprobs": scores}
        yield f"data: {json.dumps({'id': shown, 'choices': [choice]})}\n\n"
        if wrong in ("breaks", "hangs"):
            await asyncio.sleep(0 if wrong == "breaks" else 30)
            raise ConnectionError
    if wrong in ("says error", "garbage"):
        broken = json.dumps({"error": {"message": "it broke"}}) if wrong == "says error" else "{"
        yield f"data: {broken}\n\n"
    head = {
        "id": shown,
        "choices": [
            {
                "index": 0,
                "delta": {},
                "finish_reason": {"no reason": None, "odd reason": "abort"}.get(
                    wrong, "tool_calls" if "tools" in body else "stop"
                ),
            }
        ],
    }
    num_tokens = len(parts) - (wrong == "miscounts")
    usage = counted(body, num_tokens)
    yield f": a comment\n\ndata: {json.dumps(head)}\n\n"
    if wrong != "no usage":
        yield f"data: {json.dumps({'id': shown, 'choices': [], 'usage': usage})}\n\n"
    if wrong != "no done":
        yield "data: [DONE]\n\n"


@fake.get("/v1/models")
async def models() -> dict[str, Any]:
    return {"data": [{"id": name} for name in ("right", *WRONG)]}


@fake.post("/v1/completions")
async def texts(request: Request) -> Any:
    body = await request.json()
    asked.append(body)
    return StreamingResponse(text_events(body), media_type="text/event-stream")


async def text_events(body: dict[str, Any]) -> AsyncIterator[str]:
    head = {"id": f"text {next(numbers)}"}
    for text, reason in (('{"a', None), ("b\u2028\x85", None), ("", "length")):
        choice = {"index": 0, "text": text, "finish_reason": reason}
        yield f"data: {json.dumps({**head, 'choices': [choice]}, ensure_ascii=False)}\r\n\r\n"
    usage = counted(body, min(9, body["max_tokens"]))
    yield f"data: {json.dumps({**head, 'choices': [], 'usage': usage})}\n\ndata: [DONE]\n\n"


@fake.post("/v1/chat/completions")
async def completions(request: Request) -> Any:
    body = await request.json()
    asked.append(body)
    status = {"refuses": 429, "fails": 500}.get(body["model"])
    if status is not None:
        return JSONResponse({"error": {"message": "no"}}, status)
    return StreamingResponse(events(body, body["model"]), media_type="text/event-stream")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(fake, port=port, log_level="critical"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    yield f"http://127.0.0.1:{port}/v1"
    server.force_exit = server.should_exit = True
    thread.join(10)


def run(url: str, model: str, load: Load, **shares: float) -> tuple[dict[str, Any], list[Any]]:
    shares = {kind: shares.get(kind, 0.0 if shares else 1.0) for kind in KINDS}
    target = Target.reach(ServerAddress(url, model))
    measured = measure(target, Workload(built_in(), shares, model), load)
    json.dumps(measured.figures)
    return measured.figures, measured.faults


def test_right_answers_have_no_faults(url):
    result, faults = run(url, "right", Load(concurrency=8, requests=60))
    assert not faults and result["requests"] == result["whole"] == 60 and result["causes"] == {}
    assert result["output_tokens"] == 120 and result["tokens_per_s"] > 0
    assert set(result["latency"]) == {"all", *KINDS}
    ttft, whole = result["latency"]["all"]["ttft_ms"], result["latency"]["all"]["e2e_ms"]
    assert 0 < ttft["p50"] <= ttft["p90"] <= ttft["p99"] <= whole["p99"]


@pytest.mark.parametrize("wrong", WRONG)
def test_each_wrong_is_found_and_counted(url, wrong):
    markers.clear()
    shares = {KIND_OF[wrong]: 1.0} if wrong in KIND_OF else {"free": 1.0}
    result, faults = run(url, wrong, Load(concurrency=3, requests=4, timeout_s=1.0), **shares)
    kind, cause = WRONG[wrong]
    least = 3 if wrong == "other marker" else 4  # the first has no other to take
    assert {fault.cause for fault in faults} == {cause} and result[kind] >= least, faults
    assert result["causes"] == {f"{kind}: {cause}": len(faults)}
    assert sum(result[name] for name in ("refused", "lost", "crossed", "invalid")) == result[kind]
    assert result["whole"] == (0 if kind in ("lost", "refused") else 4)


def test_a_time_limit_and_random_arrivals(url):
    start = time.perf_counter()
    result, faults = run(url, "right", Load(concurrency=16, seconds=1.5, rate=40.0, seed=3))
    assert not faults and 25 <= result["requests"] <= 95 and time.perf_counter() - start < 20


def test_the_command_prints_a_table_and_one_json_line(url, tmp_path):
    args = [
        "bench",
        "serve",
        "--url",
        url,
        "--concurrency",
        "4",
        "--requests",
        "12",
        "--output",
        str(tmp_path / "a"),
    ]
    done = CliRunner().invoke(command_line, [*args, "--model", "right"])
    assert done.exit_code == 0, done.output
    record = json.loads(done.stdout.splitlines()[-1])
    assert record == json.loads((tmp_path / "a").read_text())
    (result,) = record["result"]
    assert result["whole"] == 12 and result["concurrency"] == 4
    assert "first token" in done.stdout and "0 lost, 0 crossed, 0 invalid" in done.stdout
    done = CliRunner().invoke(command_line, [*args, "--model", "no done"])
    assert (
        done.exit_code == 1
        and "12 × lost: no [DONE]" in done.stdout
        and "lost: no [DONE]" in done.stderr
    )
    assert CliRunner().invoke(command_line, [*args, "--model", "refuses"]).exit_code == 1, (
        "nothing was answered"
    )


@pytest.mark.parametrize("api", ["chat", "completions"])
def test_several_loads_of_one_size_by_two_processes(url, api):
    asked.clear()
    sizes = ["--api", api, "--prompt-len", "79", "--output-len", "9", "--guided-share", "0.5"]
    load = ["--concurrency", "2,4", "--rounds", "3", "--processes", "2"]
    args = ["bench", "serve", "--url", url, "--model", "right", *sizes, *load]
    done = CliRunner().invoke(command_line, args)
    assert done.exit_code == 0, done.output
    record = json.loads(done.stdout.splitlines()[-1])
    assert [(one["concurrency"], one["whole"]) for one in record["result"]] == [(2, 6), (4, 12)]
    rates = [one["busy_tokens_per_s"] for one in record["result"]]
    assert all(rate is None or rate >= 0 for rate in rates), "None: never busy at the same time"
    bodies = [body for body in asked if body["max_tokens"] == 9]  # others try what words come to
    prompts = [json.dumps(body.get("messages") or body["prompt"]) for body in bodies]
    assert len(set(prompts)) == len(bodies) == 18, "a prefix cache finds nothing"
    assert sum("response_format" in body for body in bodies) == 9
    assert all("ignore_eos" in body or "response_format" in body for body in bodies)
    assert {abs(counted(body, 9)["prompt_tokens"] - 79) for body in bodies} <= {0, 1}
    assert "requests of 79 tokens" in done.stdout or "requests of 78 tokens" in done.stdout


def test_fewer_requests_than_processes():
    parts = Load(concurrency=4, requests=3, processes=4).parts()
    assert [(part.concurrency, part.requests) for part in parts] == [(2, 1), (1, 1), (1, 1)]


def test_a_prompt_without_room_for_words_is_refused(url):
    args = ["--url", url, "--model", "right", "--prompt-len", "59", "--guided-share", "1"]
    done = CliRunner().invoke(command_line, ["bench", "serve", *args, "--requests", "1"])
    assert isinstance(done.exception, InvalidParams)
    assert "a guided request has at least 60 tokens" in str(done.exception)


def test_words_where_a_server_does_not_count_them(url):
    workload = fitted(Target(ServerAddress(url), "no usage"), RequestSizes(prompt_len=1), 0)
    assert workload.num_words(is_guided=False) == 1 and not workload.words


def test_prompts_of_token_ids():
    sizes = RequestSizes(prompt_len=32, api="completions", prompt_ids="1000:1010")
    request = SizedWorkload(sizes, "m").request(0)
    assert request.path == "completions" and len(request.body["prompt"]) == 32
    assert set(request.body["prompt"]) <= set(range(1000, 1010))
    assert request.body != SizedWorkload(sizes, "m", seed=1).request(0).body


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--processes", "0"], "processes"),
        (["--rounds", "0"], "rounds"),
        (["--prompt-len", "0"], "--prompt-len"),
        (["--api", "x"], "api must be chat or completions"),
        (["--guided-share", "2"], "--guided-share"),
        (["--prompt-ids", "5:5"], "must be LO:HI with"),
        (["--prompt-ids", "5:9", "--prompt-len", "9"], "--api completions"),
        (["--output-len", "9"], "--output-len changes nothing without --prompt-len"),
        (["--guided-share", "1"], "--guided-share changes nothing without --prompt-len"),
        (["--prompt-len", "9", "--temperature", "1"], "--temperature changes nothing beside"),
        (["--prompt-len", "9", "--schemas", __file__], "--schemas changes nothing beside"),
        (["--requests", "2", "--rounds", "2"], "exclude each other"),
        (["--prompt-ids", "x"], "LO:HI"),
        (["--url", "http://127.0.0.1:9/v1"], "check that it is running"),
        (["--model", "unheard of"], "has no model 'unheard of'"),
        (["--concurrency", "0"], "concurrency"),
        (["--rate", "-1"], "rate"),
        (["--max-tokens", "1"], "--max-tokens"),
        (["--free", "0", "--json", "0", "--tools", "0"], "shares"),
        (["--schemas", "/nowhere"], "cannot read"),
        (["--schemas", __file__], "JSON Lines"),
    ],
)
def test_a_mistake_is_named(url, options, words):
    done = CliRunner().invoke(
        command_line, ["bench", "serve", "--url", url, "--requests", "1", *options]
    )
    assert isinstance(done.exception, InvalidParams) and words in str(done.exception)


def test_the_same_seed_asks_the_same_with_other_markers():
    one, other = (
        Workload(built_in(), dict.fromkeys(KINDS, 1.0), "m", seed=seed) for seed in (1, 2)
    )
    assert [one.request(n).body for n in range(20)] == [one.request(n).body for n in range(20)]
    assert one.request(3).body != other.request(3).body
    assert len({one.request(n).marker for n in range(500)}) == 500


def test_records_of_files(tmp_path):
    plain = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/n"}},
        "$defs": {"n": {"type": "integer"}},
    }
    schema = marked(plain, "req-1-00ff")
    assert (
        carries_marker(plain) and violation(schema, '{"request_id": "req-1-00ff", "a": 1}') is None
    )
    assert violation(schema, '{"request_id": "req-2-00ff", "a": 1}')
    with pytest.raises(LookupError, match="RecursionError"):
        violation({}, "[" * 5000 + "]" * 5000)
    for other in (
        True,
        {"type": "array"},
        {**plain, "oneOf": []},
        {**plain, "maxProperties": 1},
        {"type": "object", "properties": {"a": {"$ref": "http://elsewhere/x"}}},
    ):
        assert not carries_marker(other)
    path = tmp_path / "records.jsonl"
    path.write_text(
        "".join(json.dumps({"schema": schema}) + "\n" for schema in (plain, {"type": "array"}))
    )
    assert [sample.schema for sample in read_schemas(path)] == [plain]
    tool = {"type": "function", "function": {"name": "f", "parameters": plain}}
    path.write_text(json.dumps({"question": [{"role": "user", "content": "x"}], "tools": [tool]}))
    assert [sample.tools for sample in read_tool_tasks(path)] == [[tool]]
    path.write_text('{"schema": {"type": "array"}}')
    with pytest.raises(InvalidParams, match="plain objects"):
        read_schemas(path)
    with pytest.raises(InvalidParams, match="line 1"):
        read_tool_tasks(path)
