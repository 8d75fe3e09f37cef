"""Owns the tests of the budget of work on one guide: every kind of small, dear schema is refused
soon, by keyword."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from typing import Any

import pytest
from byte_vocabulary import VOCABULARY
from lowered_schemas import lowered

from specguide.config import GuideConfig
from specguide.errors import GuideLimitExceeded, InvalidGuide, InvalidParams, UnsupportedGuide
from specguide.guide import Guide
from specguide.guided.budget import Budget, at_work, kept, spend
from specguide.guided.compile import GrammarCompiler
from specguide.guided.schema.document.document import Document
from specguide.guided.schema.judging.disjoint import Comparison
from specguide.guided.schema.judging.instance import Instances
from specguide.guided.schema.merging.merge import merge
from specguide.guided.select import rewrites

WORDS = [f"w{i:05d}" for i in range(19_000)]
MOST_S = 10.0
"""Of CPU time, on any machine: a million steps take about a second."""


def patterned(i: int) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {f"a{i}": {"type": "string", "pattern": f"^(a|b){{{i % 20 + 3}}}c+$"}},
    }


def containing(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(depth):
        schema = {"type": "array", "contains": schema, "minContains": 64}
    return schema


DEAR = {
    "oneOf": {"oneOf": [patterned(i) for i in range(400)]},
    "enum": {"not": {"enum": WORDS}},
    "pattern": {"type": "string", "pattern": "(^|)" * 40},
    "allOf": {
        "allOf": [
            {"type": "string", "pattern": f"{word[:2]}.{{{3 + i % 40}}}{word[2:]}"}
            for i, word in enumerate(WORDS[:2000])
        ]
    },
    "contains": containing(6),
}
REFUSED = {
    "multipleOf": {"multipleOf": 99999989},
    "not": {"not": {"pattern": "^(?:[^a]|a){0,500}$|^(?:[^a]|a){501}"}},
}


def rewrite_all(schema: Any) -> None:
    with Budget(GuideConfig().max_schema_steps).counting():
        for _ in rewrites(Guide(json_schema=schema), "llguidance"):
            pass


@pytest.mark.parametrize("keyword", DEAR)
def test_a_dear_schema_is_refused_by_keyword(keyword):
    start = time.process_time()
    with pytest.raises(
        GuideLimitExceeded, match=rf"^{keyword} at /.* than max_schema_steps \(1000000\)"
    ) as caught:
        rewrite_all(DEAR[keyword])
    assert caught.value.limit == "max_schema_steps"
    assert time.process_time() - start < MOST_S


@pytest.mark.parametrize("keyword", REFUSED)
def test_what_cannot_be_enforced_anyway_is_refused_soon(keyword):
    start = time.process_time()
    with pytest.raises(UnsupportedGuide, match=keyword):
        rewrite_all(REFUSED[keyword])
    assert time.process_time() - start < MOST_S


@pytest.mark.parametrize(
    ("pattern", "refusal", "words"),
    [
        (
            "^[" + "".join(map(chr, range(0x4E00, 0x7000, 2))) + "]{0,3000}$",
            InvalidGuide,
            "no value at all",
        ),
        ("^(((a{1000}){1000}){1000})$", GuideLimitExceeded, "max_schema_steps"),
    ],
)
def test_a_dear_pattern_is_refused_soon(pattern, refusal, words):
    start = time.process_time()
    with pytest.raises(refusal, match=words):
        rewrite_all(
            {"pattern": pattern, "enum": ["a" * length + "b" for length in range(2000, 4000, 50)]}
        )
    assert time.process_time() - start < MOST_S


def test_a_budget_is_one_for_all_backends_and_its_end_is_not_cached():
    def compiler(most: int) -> GrammarCompiler:
        return GrammarCompiler(VOCABULARY, GuideConfig(max_schema_steps=most))

    guide = Guide(
        json_schema={
            "type": "object",
            "properties": {name: {"type": "string"} for name in WORDS[:50]},
        }
    )
    small = compiler(500)
    for _ in range(2):
        with pytest.raises(
            GuideLimitExceeded, match=r"properties at /properties takes more than max_schema_steps"
        ):
            small.compile(guide)
    assert len(small.cache) == 0
    small.close()
    large = compiler(1_000_000)
    assert large.compile(guide).backend == "llguidance"
    large.close()


def test_a_chain_of_references_is_no_nesting():
    chain = {f"d{i}": {"$ref": f"#/$defs/d{i + 1}"} for i in range(3000)}
    rewrite_all({"$ref": "#/$defs/d0", "$defs": {**chain, "d3000": {"type": "null"}}})


def test_the_innermost_keyword_that_took_half_is_named():
    def counting() -> AbstractContextManager[None]:
        return Budget(100).counting()

    def work(inner: int, outer: int) -> None:
        with at_work("oneOf", ""):
            spend(outer)
            with at_work("pattern", "/oneOf/0"):
                spend(inner)

    with pytest.raises(GuideLimitExceeded, match=r"^pattern at /oneOf/0/pattern takes"), counting():
        work(inner=60, outer=50)
    with pytest.raises(GuideLimitExceeded, match=r"^oneOf at /oneOf takes"), counting():
        work(inner=20, outer=90)
    with pytest.raises(GuideLimitExceeded, match=r"^the guide as a whole takes"), counting():
        spend(60)
        work(inner=20, outer=21)


def test_no_keyword_is_named_that_the_schema_does_not_have():
    least, most = (
        {"properties": {f"p{i}": {keyword: i} for i in range(400)}}
        for keyword in ("minimum", "maximum")
    )
    core = lowered({**least, "$ref": "#/$defs/most", "$defs": {"most": most}})
    for steps, what in ((5_000, "what holds at once at the root"), (500, "the guide as a whole")):
        with (
            pytest.raises(GuideLimitExceeded, match=f"^{what} takes more"),
            Budget(steps).counting(),
        ):
            merge(core)


def test_what_is_kept_is_made_once_for_a_guide():
    made = []
    make = kept(lambda key: made.append(key))
    with Budget(10).counting():
        make("a"), make("a")
    with Budget(10).counting():
        make("a")
    assert made == ["a", "a"]
    spend(10**9)  # outside of a budget nothing counts


def test_a_budget_has_a_step():
    with pytest.raises(InvalidParams, match="max_schema_steps must be at least 1"):
        GuideConfig(max_schema_steps=0)


def test_parts_that_name_different_properties_are_compared_in_few_steps() -> None:
    def part(number: int) -> dict[str, Any]:
        names = [f"p{number}{i}" for i in range(8)]
        return {"properties": {name: {"type": "string"} for name in names}, "required": names}

    def branch(kind: str, num_parts: int) -> dict[str, Any]:
        parts = ({"$ref": f"#/$defs/d{i}"} for i in range(num_parts))
        return {"allOf": [{"properties": {"kind": {"const": kind}}}, *parts]}

    branches = [branch("a", 9), branch("b", 8)]
    schema = {"oneOf": branches, "$defs": {f"d{i}": part(i) for i in range(9)}}
    with Budget(10_000).counting():
        document = Document(schema)
        places = [document.start / "oneOf" / i for i in range(2)]
        left, right = zip(branches, places, strict=True)
        objects = frozenset({"object"})
        comparison = Comparison(document, Instances(document))
        assert comparison.shared_types(left, right, objects) == objects
        branches[0]["required"] = ["kind"]
        comparison = Comparison(document, Instances(document))
        assert not comparison.shared_types(left, right, objects)
