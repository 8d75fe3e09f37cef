"""Files of requests: each line is answered as it would be over HTTP, or says why not."""

from __future__ import annotations

import io
import json
import multiprocessing
import signal
import subprocess
from typing import Any

import pytest
from command_line import COMMAND, in_a_process
from live_server import until

from specguide.config import EngineConfig
from specguide.errors import EngineError, InvalidParams
from specguide.server.batches.lines import UnreadableLine, request_of
from specguide.server.batches.run import run_batch
from specguide.server.config import ServerConfig
from specguide.server.processes.plans import ServicePlan

SCHEMA = {"type": "object", "properties": {"year": {"type": "integer"}}, "required": ["year"]}
FORMAT = {"type": "json_schema", "json_schema": {"name": "year", "schema": SCHEMA}}
PLAN = ServicePlan(EngineConfig(max_batch_size=4), ServerConfig("small"))


def line(custom_id: str, body: Any, url: str = "/v1/completions", **more: Any) -> bytes:
    return json.dumps({"custom_id": custom_id, "url": url, "body": body, **more}).encode() + b"\n"


def prompted(custom_id: str, **fields: Any) -> bytes:
    return line(custom_id, {"prompt": "Hello", "max_tokens": 4, **fields}, method="POST")


def endless(custom_id: str) -> bytes:
    return prompted(custom_id, max_tokens=2000, ignore_eos=True)


def chat(custom_id: str, **fields: Any) -> bytes:
    messages = [{"role": "user", "content": "The bridge in Riga was opened in 1932."}]
    return line(custom_id, {"messages": messages, **fields}, "/v1/chat/completions")


def answers_to(lines: list[bytes], done: Any = lambda: None) -> tuple[Any, list[dict[str, Any]]]:
    answers, told = io.BytesIO(), list[str]()
    try:
        found = run_batch(PLAN, io.BytesIO(b"".join(lines)), answers, tell=told.append, done=done)
    except EngineError as error:
        found = error
    return found, [json.loads(each) for each in answers.getvalue().splitlines()]


def test_each_line_has_an_answer_of_its_own():
    counts, answers = answers_to(
        [
            chat("guided", response_format=FORMAT, max_tokens=40),
            prompted("several", n=2),
            b"\n",
            prompted("several"),
            prompted("streamed", stream=True),
            prompted("wrong", max_tokens="x"),
            prompted("elsewhere", model="another"),
            line("no API", {}, "/v1/models"),
            b"\xef\xbb\xbf" + prompted("marked"),
            *(prompted(f"one of many {i}") for i in range(12)),
            b'{"custom_id": "cut off"',
        ]
    )
    assert (counts.num_answered, counts.num_refused) == (15, 6)
    assert len({one["id"] for one in answers}) == 21
    bodies = {one["custom_id"]: one["response"] for one in answers if one["response"]}
    assert all(one["request_id"] for one in bodies.values())
    (choice,) = bodies["guided"]["body"]["choices"]
    assert set(json.loads(choice["message"]["content"])) == {"year"}
    assert len(bodies["several"]["body"]["choices"]) == 2
    assert bodies["wrong"]["status_code"] == 400
    assert bodies["wrong"]["body"]["error"]["param"] == "max_tokens"
    assert bodies["elsewhere"]["status_code"] == 404
    errors = {(one["custom_id"], one["error"]["message"]) for one in answers if one["error"]}
    assert errors == {
        ("several", "line 4: an earlier line has the same custom_id; give each line its own"),
        (
            "streamed",
            "line 5: answers of a batch cannot be streamed: leave stream out of the body",
        ),
        (
            "no API",
            "line 8: url must be /v1/chat/completions or /v1/responses or /v1/completions or "
            "/v1/messages, found '/v1/models'",
        ),
        (None, "line 22: the line is not a batch request: Input data was truncated"),
    }


def test_an_engine_that_ends_is_told_and_what_was_answered_stays():
    def end() -> None:
        for child in multiprocessing.active_children():
            child.kill()

    lines = [prompted("first"), *(endless(f"{i}") for i in range(12))]
    found, answers = answers_to(lines, done=end)
    assert isinstance(found, EngineError) and "SIGKILL" in str(found)
    first, *others = answers
    assert first["custom_id"] == "first" and first["response"]["status_code"] == 200
    assert others and all(one["response"]["status_code"] == 503 for one in others)


def test_ctrl_c_ends_it_and_what_was_answered_stays(tmp_path):
    requests, answers = tmp_path / "requests.jsonl", tmp_path / "answers.jsonl"
    lines = [prompted("first"), *(endless(f"{i}") for i in range(40))]
    requests.write_bytes(b"".join(lines))
    command = [*COMMAND, "run-batch", "-i", str(requests), "-o", str(answers)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            until(lambda: answers.exists() and b"\n" in answers.read_bytes(), timeout_s=60)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode != 0 and "Traceback" not in errors
    first, *_ = map(json.loads, answers.read_text().splitlines())
    assert first["custom_id"] == "first" and first["response"]["status_code"] == 200


def test_an_engine_that_cannot_start_says_why(tmp_path):
    plan = ServicePlan(EngineConfig(tmp_path), ServerConfig("small"))
    with pytest.raises(InvalidParams, match=r"config\.json"):
        run_batch(plan, io.BytesIO(), io.BytesIO(), tell=print, done=print)


@pytest.mark.parametrize(
    "text, message, custom_id",
    [
        (b"[]", "Expected `object`", None),
        (b'{"custom_id": 1, "url": "/v1/completions", "body": {}}', "Expected `str`", None),
        (b'{"custom_id": "a", "body": {}}', "missing required field `url`", "a"),
        (b'\xef\xbb\xbf{"custom_id": "a"}', "missing required field `url`", "a"),
        (b'{"custom_id": "a", "url": "/", "body": {}, "method": "GET"}', "must be POST", "a"),
        (b"\xff", "invalid", None),
        (b'{"custom_id": "a", "url": "/", "body": ' + b"[" * 100_000, "not a batch request", None),
    ],
)
def test_lines_that_are_no_requests(text, message, custom_id):
    with pytest.raises(UnreadableLine, match=message) as caught:
        request_of(text)
    assert caught.value.custom_id == custom_id


def test_answers_are_not_written_over_the_requests(tmp_path):
    file = tmp_path / "requests.jsonl"
    file.write_bytes(prompted("a"))
    done = in_a_process("run-batch", "-i", str(file), "-o", str(file))
    assert done.returncode == 2 and "another file" in done.stderr
    assert file.read_bytes() == prompted("a")
