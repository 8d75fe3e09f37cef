"""The choice of a replica: what is remembered, what is weighed, and what is left of a dead one."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specguide.serve_ray.routing import (
    BLOCK_BYTES,
    Routing,
    RoutingCosts,
    RoutingKey,
    prefix_hashes,
)
from specguide.serve_ray.routing_key import routing_key


def key_of(text: str, schema: object = None) -> RoutingKey:
    body = {"model": "m", "messages": [{"role": "user", "content": text}], "max_tokens": 5}
    if schema is not None:
        body["response_format"] = {"type": "json_schema", "json_schema": {"schema": schema}}
    return routing_key(json.dumps(body).encode())


def routing_of(*names: str, **options: int) -> Routing:
    routing = Routing(**options)
    routing.update(names)
    return routing


def idle(name: str) -> int:
    return 0


def test_a_conversation_stays_where_its_prefix_is():
    routing = routing_of(*"abcdefgh")
    said = "".join(f"word {number} " for number in range(400))
    first = routing.choose(key_of(said), idle)[0]
    routing.note(first, key_of(said))
    for _ in range(20):
        said += "and then " * 30
        assert routing.choose(key_of(said), idle)[0] == first
        routing.note(first, key_of(said))


def test_another_router_sends_it_to_the_same_replica():
    """Neither knows what the other one has done."""
    same = 0
    for number in range(50):
        said = f"{number} " * 2000
        ones, others = routing_of(*"abcdefgh", seed=1), routing_of(*"abcdefgh", seed=2)
        same += ones.choose(key_of(said), idle)[0] == others.choose(key_of(said + "more"), idle)[0]
    assert same == 50


def test_load_outweighs_a_short_prefix_and_not_a_long_one():
    short, long = "a" * 2_000, "b" * 400_000
    for said, stays in ((short, False), (long, True)):
        routing = routing_of("one", "two")
        routing.note("one", key_of(said))
        chosen = routing.choose(key_of(said), lambda name: 40 if name == "one" else 0)
        assert (chosen[0] == "one") == stays and set(chosen) == {"one", "two"}


def test_a_grammar_counts():
    routing = routing_of(*"abcdefgh")
    schema = {"type": "object", "properties": {"x": {"type": "integer"}}}
    routing.note("f", key_of("some", schema))
    assert routing.choose(key_of("other", schema), idle)[0] == "f"
    busy = RoutingCosts().compile_s / RoutingCosts().ongoing_s + 1
    chosen = routing.choose(key_of("other", schema), lambda name: int(busy) * (name == "f"))
    assert chosen[0] != "f" and "f" in chosen


def test_a_dead_replica_leaves_nothing():
    routing = routing_of("a", "b", "c")
    for number in range(100):
        routing.note("abc"[number % 3], key_of(f"{number} " * 1000, {"const": number}))
    routing.note("b", key_of("0 " * 1000))
    routing.remove("b")
    assert "b" not in json.dumps([list(routing._holders.values()), list(routing._owners.values())])
    assert routing.replicas == ("a", "c") and len(routing._ring) == 2 * 16
    held = Counter(name for holders in routing._holders.values() for name in holders)
    assert sum(held.values()) == routing.num_entries
    for name in "ac":
        routing.remove(name)
    assert routing.num_entries == 0 == len(routing._holders) == len(routing._ring)
    assert routing.choose(key_of("x" * 3000), idle) == []
    routing.note("b", key_of("x" * 3000))
    routing.remove("b")
    assert routing.num_entries == 0


def test_what_is_remembered_is_bounded():
    routing = routing_of(*"abcd", max_entries=400)
    for number in range(500):
        routing.note("abcd"[number % 4], key_of(f"{number} " * 1000, {"const": number}))
    assert routing.num_entries <= 400 and len(routing._holders) <= 400
    assert routing._matched(key_of("499 " * 1000)) and not routing._matched(key_of("0 " * 1000))


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 30)), max_size=60))
def test_both_sides_of_the_index_agree(steps):
    """Replicas come and go, requests are routed: no entry is of one side alone."""
    routing = routing_of(max_entries=40)
    for name, number in steps:
        if number == 0:
            routing.remove(name)
        elif number < 4:
            routing.add(name)
        else:
            routing.note(name, key_of(f"{number % 7}" * 300 * (number % 5), number % 3))
        kept = {(entry, n) for n, each in routing._replicas.items() for entry in each.kept}
        assert kept == {(e, n) for e, holders in routing._holders.items() for n in holders}
        assert set(routing.choose(key_of("hello" * 100), idle)) <= set(routing.replicas)
        assert bool(routing.choose(RoutingKey(), idle)) == bool(routing.replicas)


@given(st.binary(max_size=20_000), st.lists(st.integers(0, 20_000), max_size=4))
def test_hashes_do_not_depend_on_how_a_text_is_cut(text, cuts):
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    parts = [text[start:end] for start, end in pairwise(places)]
    hashes, lengths = prefix_hashes([text])
    assert prefix_hashes(parts) == (hashes, lengths)
    assert all(length % BLOCK_BYTES == 0 for length in lengths)
    assert all(
        prefix_hashes([text[:length]])[0][-1] == found
        for found, length in zip(hashes, lengths, strict=True)
    )
    if len(text) >= BLOCK_BYTES:
        assert lengths[-1] > 0.8 * (len(text) - BLOCK_BYTES)


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[1]", b"null", b'{"messages": ' + b"[" * 100_000, b"\x00"],
)
def test_a_body_that_is_none_has_no_key(body):
    assert routing_key(body) == RoutingKey()


def test_what_a_key_is_of():
    plain = key_of("x" * 1000)
    assert plain.grammar is None and plain.num_bytes > 1000 and len(plain.prefixes) == 4
    assert key_of("x" * 1000, {"const": 1}).prefixes == plain.prefixes
    assert key_of("x", {"const": 1}).grammar != key_of("x", {"const": 2}).grammar
    tools = b'{"tools": [{"name": "f"}], "input": "x"}'
    assert routing_key(tools).grammar is not None
    assert routing_key(b'{"response_format": null, "messages": []}').grammar is None


@pytest.mark.parametrize("num_replicas", [2, 16, 4096])
def test_a_decision_asks_few_replicas(num_replicas):
    routing = routing_of(*(f"replica-{number}" for number in range(num_replicas)))
    for number in range(300):
        asked: list[str] = []
        key = key_of("shared " * 300 + f"{number % 40} " * 500, {"const": number % 9})
        chosen = routing.choose(key, lambda name, asked=asked: asked.append(name) or len(asked))
        assert set(chosen) == set(asked) and len(asked) == len(chosen) <= min(num_replicas, 16)
        routing.note(chosen[-1], key)
