"""Owns how requests to an API server are written and sent, and the hostile ones that it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx

USER = [{"role": "user", "content": "Hi"}]
JSON = {"Content-Type": "application/json"}
ENDLESS: dict[str, Any] = {"max_tokens": 1500, "ignore_eos": True}
ENDLESS_TEMPLATE = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"


def post(url: str, body: bytes, **headers: str) -> httpx.Response:
    """The request that sends a body unchanged to the endpoint to which its fields belong."""
    path = "/v1/completions" if b'"prompt"' in body[:100] else "/v1/chat/completions"
    return httpx.post(url + path, content=body, headers={**JSON, **headers}, timeout=60)


def head(body: bytes) -> bytes:
    """The bytes of a chat request with this body."""
    return (
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
    )


def chat(**values: Any) -> bytes:
    """A chat body, whose answer may be cut off."""
    asked = {"model": "small", "messages": USER, "max_tokens": 4, "allow_truncation": True}
    return json.dumps(asked | values).encode()


def prompted(prompt: Any, **values: Any) -> bytes:
    """A body for /v1/completions."""
    return json.dumps({"model": "small", "prompt": prompt, **values}).encode()


def _deep(depth: int) -> bytes:
    return chat(guided_json="SCHEMA").replace(
        b'"SCHEMA"', b'{"items": ' * depth + b"true" + b"}" * depth
    )


def _definitions(num: int) -> dict[str, Any]:
    return {
        "$ref": "#/$defs/d0",
        "$defs": {
            f"d{num}": {"type": "null"},
            **{
                f"d{i}": {"type": "array", "items": {"$ref": f"#/$defs/d{i + 1}"}}
                for i in range(num)
            },
        },
    }


def _chain(first: str, num: int, means: str) -> str:
    rules = [f'r{i} {means} r{i + 1} "b"' for i in range(num)]
    return "\n".join([f"{first} {means} r0", *rules, f'r{num} {means} "a"'])


TOO_MUCH: dict[str, Callable[[], bytes]] = {
    "100,000 enum values": lambda: chat(guided_json={"enum": list(range(100_000))}),
    "100,000 choices": lambda: chat(guided_choice=[str(i) for i in range(100_000)]),
    "40,000 properties": lambda: chat(
        guided_json={"properties": {f"p{i}": {} for i in range(40_000)}}
    ),
    "2,000 branches of oneOf": lambda: chat(
        guided_json={"oneOf": [{"pattern": f"^a{i}.*b$"} for i in range(2000)]}
    ),
    "schema of 50,000 levels": lambda: _deep(50_000),
    "schema of 200 levels": lambda: _deep(200),
    "10,000 tools": lambda: chat(
        tools=[{"type": "function", "function": {"name": f"f{i}"}} for i in range(10_000)]
    ),
    "chain of 10,000 definitions": lambda: chat(guided_json=_definitions(10_000)),
    "chain of 10,000 rules": lambda: chat(guided_grammar=_chain("start", 10_000, ":")),
    "chain of 10,000 EBNF rules": lambda: chat(guided_grammar=_chain("root", 10_000, "::=")),
    "regex of a million characters": lambda: chat(guided_regex="a" * 1_000_000),
    "half a million groups": lambda: chat(guided_regex="()" * 500_000),
    "10^8 repetitions": lambda: chat(guided_regex="(abc|d){1,100000000}"),
    "prompt of 4 MB": lambda: chat(messages=[{"role": "user", "content": "a" * 4_000_000}]),
    "prompt of 1,000,000 tokens": lambda: prompted([1] * 1_000_000),
    "prompt of 400,000 tokens": lambda: prompted([1] * 400_000),
    "a million wrong values": lambda: prompted([*[""] * 1_000_000, 1.5]),
    "200,000 wrong values": lambda: prompted([*[""] * 200_000, 1.5]),
    "200,000 unknown fields": lambda: chat(**{f"k{i}": 0 for i in range(200_000)}),
    "160,000 wrong biases": lambda: chat(logit_bias={str(i): "" for i in range(160_000)}),
    "endless chat template": lambda: chat(chat_template=ENDLESS_TEMPLATE),
    "endless chat template among variables": lambda: chat(
        chat_template_kwargs={"chat_template": ENDLESS_TEMPLATE}
    ),
    "padding of a prompt": lambda: chat(
        chat_template_kwargs={"tokenizer_kwargs": {"padding": "max_length"}}
    ),
    "large number for a template": lambda: chat(chat_template_kwargs={"num": 10**12}),
    "10,000 stop strings": lambda: chat(stop=["x"] * 10_000),
    "stop string of 3 MB": lambda: chat(stop="ab" * 1_500_000),
    "100,000 messages": lambda: chat(messages=USER * 100_000),
    "100,000 prompts": lambda: prompted(["a"] * 100_000),
    "128 prompts of 128 answers": lambda: prompted(["a"] * 128, n=128),
}
"""Functions that make bodies, by name. A server with default limits refuses each with a 400."""


def slow_grammar(number: int) -> bytes:
    """A body within all limits whose grammar takes seconds to compile; each number has its own."""
    alternatives = " | ".join(f'"a{i}"' for i in range(25_000))
    return chat(guided_grammar=f'root ::= "x{number}" | {alternatives}')


EXPONENTIAL = (
    "((a+)+)+$",
    "(a|b)*a(a|b){40}",
    "a?" * 200 + "a" * 200,
    "(x+x+)+y",
    "((((a{1,100}){1,100}){1,100}){1,100}){1,100}",
)
"""Regular expressions that a backtracking engine, or one that builds its automaton first, does not
survive."""
