"""Owns the attack on the grammar compiler: are new schemas of other clients served while some
schemas take long to compile?

A few attackers send small, expensive schemas in a loop, each one new. Another client sends new,
ordinary schemas one after another, and again some time after the attack.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from itertools import count
from typing import Any

import httpx

from benchmarks.attacks.bodies import chat, post, slow_grammar
from benchmarks.attacks.neighbour import Neighbour, latency

NAME = "new schemas beside slow ones"
NUM_SCHEMAS = 98
NUM_ATTACKERS = 4
SERVED_BESIDE = 95
"""The fewest of NUM_SCHEMAS that may be served during the attack; after it, all must be."""
_WORDS = (
    "name",
    "city",
    "street",
    "email",
    "phone",
    "total",
    "price",
    "count",
    "state",
    "kind",
    "note",
    "tags",
)


def usual_schema(number: int) -> dict[str, Any]:
    """A schema like those that applications send; each number has its own."""
    rng = random.Random(number)

    def value(depth: int) -> dict[str, Any]:
        kind = rng.choice(
            ("string", "string", "integer", "number", "boolean", "enum", "date", "list", "object")
        )
        if kind == "enum":
            return {"enum": rng.sample(_WORDS, 4)}
        if kind == "date":
            return {"type": "string", "format": "date"}
        if kind == "string":
            return {"type": "string", "maxLength": rng.randint(5, 60)}
        if kind == "integer":
            return {"type": "integer", "minimum": 0, "maximum": rng.randint(5, 5000)}
        if kind == "list" and depth < 3:
            return {"type": "array", "items": value(depth + 1), "maxItems": rng.randint(2, 9)}
        if kind == "object" and depth < 3:
            return fields(depth + 1)
        return {"type": rng.choice(("number", "boolean"))}

    def fields(depth: int) -> dict[str, Any]:
        names = rng.sample(_WORDS, rng.randint(3, 8))
        return {
            "type": "object",
            "properties": {name: value(depth) for name in names},
            "required": names[:3],
            "additionalProperties": False,
        }

    schema = fields(0)
    schema["properties"][f"id_{number}"] = {"type": "integer"}
    return schema


def slow_schemas(first: int) -> Iterator[bytes]:
    """Bodies of a few hundred bytes to some hundred kilobytes, each of which costs seconds or
    gigabytes."""
    for number in count(first, NUM_ATTACKERS):
        odd = 99_999_989 + 2 * number
        tool = {"type": "object", "properties": {"a": {"type": "integer", "multipleOf": odd}}}
        texts = [f"{number} {i} {'x' * (i % 40)}" for i in range(19_000)]
        yield chat(guided_json={"type": "integer", "multipleOf": odd})
        yield chat(
            tools=[{"type": "function", "function": {"name": "f", "parameters": tool}}],
            tool_choice="required",
        )
        yield slow_grammar(number)
        yield chat(guided_json={"type": "array", "items": {"enum": texts}, "uniqueItems": True})
        yield chat(guided_json={"type": "string", "not": {"enum": texts}})
        yield chat(
            guided_json={
                "type": "string",
                "not": {"pattern": f"^(a|b)*a(a|b){{{20 + number % 9}}}$"},
            }
        )
        yield chat(
            guided_json={
                "oneOf": [
                    {"type": "object", "properties": {f"p{i}": {"pattern": f"^{number}.*{i}$"}}}
                    for i in range(400)
                ]
            }
        )


def served(url: str, first: int, pause_s: float) -> tuple[Counter[int], list[float]]:
    """The statuses of the answers to new schemas, and their times, seconds."""
    statuses: Counter[int] = Counter()
    seconds: list[float] = []
    for number in range(first, first + NUM_SCHEMAS):
        start = time.perf_counter()
        try:
            statuses[post(url, chat(guided_json=usual_schema(number))).status_code] += 1
        except httpx.HTTPError:
            statuses[0] += 1
        seconds.append(time.perf_counter() - start)
        time.sleep(pause_s)
    return statuses, seconds


def denial(url: str, *, pause_s: float = 0.25, calm_s: float = 30.0) -> dict[str, Any]:
    """How many new schemas were served beside the attack and after it, with the latencies of all,
    ms.

    pause_s: between two of the client's new schemas, seconds
    calm_s:  from the attack's end to the second look, seconds
    """
    hostile: Counter[str] = Counter()
    is_over = threading.Event()

    def attack(number: int) -> None:
        for body in slow_schemas(number):
            if is_over.is_set():
                return
            try:
                hostile[str(post(url, body).status_code)] += 1
            except httpx.HTTPError as error:
                hostile[type(error).__name__] += 1

    attackers = [
        threading.Thread(target=attack, args=(number,), daemon=True)
        for number in range(NUM_ATTACKERS)
    ]
    with Neighbour(url) as beside:
        for attacker in attackers:
            attacker.start()
        time.sleep(2.0)  # by now it has what it can get
        during, during_s = served(url, 0, pause_s)
    is_over.set()
    time.sleep(calm_s)
    with Neighbour(url) as later:
        after, after_s = served(url, NUM_SCHEMAS, 0.0)
    return {
        "attack": NAME,
        "hostile": dict(hostile),
        "served_beside": during[200],
        "served_after": after[200],
        "of": NUM_SCHEMAS,
        "statuses": sorted(beside.statuses | later.statuses),
        "new": latency(during_s),
        "new_after": latency(after_s),
        **latency(beside.seconds),
        "after": latency(later.seconds),
    }


def faults_of(row: dict[str, Any]) -> list[str]:
    """The reasons why the bar was missed."""
    found = []
    if row["served_beside"] < SERVED_BESIDE:
        found.append(
            f"{NAME}: {row['served_beside']} of {NUM_SCHEMAS} were served beside the attack"
        )
    if row["served_after"] < NUM_SCHEMAS:
        found.append(f"{NAME}: {row['served_after']} of {NUM_SCHEMAS} were served after the attack")
    return found
