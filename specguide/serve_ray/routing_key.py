"""Owns the routing key of a request's body: hashes of its prompt and its grammar."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from specguide.serve_ray.routing import RoutingKey, grammar_hash, prefix_hashes

_PROMPT = ("model", "tools", "functions", "system", "instructions", "prompt", "messages", "input")
"""The fields that make up a prompt, in the order in which chat templates use them."""
_GRAMMAR = (
    "tools",
    "functions",
    "tool_choice",
    "response_format",
    "text",
    "output_config",
    "structured_outputs",
    "guided_json",
    "guided_regex",
    "guided_choice",
    "guided_grammar",
    "json_schema",
    "regex",
    "ebnf",
)
"""The fields that make up a grammar, of all APIs."""
_Fields = msgspec.defstruct(
    "_Fields", [(name, msgspec.Raw, msgspec.Raw()) for name in dict.fromkeys(_PROMPT + _GRAMMAR)]
)
_FIELDS = msgspec.json.Decoder(_Fields)


def routing_key(body: bytes) -> RoutingKey:
    """The key of a request's body, of any of the APIs; empty where the body is not a JSON object,
    which a replica will report. Fields are hashed as they are written, so a growing conversation
    keeps its prefix."""
    try:
        fields = _FIELDS.decode(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return RoutingKey()
    prompt = list(_parts(fields, _PROMPT))
    prefixes, lengths = prefix_hashes(prompt)
    grammar = list(_parts(fields, _GRAMMAR))
    return RoutingKey(
        prefixes, lengths, sum(map(len, prompt)), grammar_hash(grammar) if grammar else None
    )


def _parts(fields: object, names: tuple[str, ...]) -> Iterator[memoryview]:
    for name in names:
        written = memoryview(getattr(fields, name))
        if len(written) and written != b"null":
            yield written
