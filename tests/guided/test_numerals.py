"""JSON numbers between bounds: what is taken is what decimal arithmetic says, in every spelling
that is admitted."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from byte_vocabulary import VOCABULARY, takes
from grammar_backends import WHOLE
from hypothesis import given, settings
from hypothesis import strategies as st

from specguide.config import GuideConfig
from specguide.guide import Guide
from specguide.guided.compile import GrammarCompiler
from specguide.guided.regex.multiples import multiples
from specguide.guided.regex.numerals import Interval, numerals
from specguide.guided.regex.tree import NOTHING
from specguide.guided.regex.writer import write

INT_64 = 2**63
NUMERAL = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
plain = st.builds(
    "{}{}{}".format,
    st.sampled_from(["", "-"]),
    st.integers(0, 10**5).map(str)
    | st.sampled_from([str(INT_64), str(INT_64 - 1), "0", "1", "10", str(10**25)]),
    st.sampled_from(
        [
            "",
            ".0",
            ".5",
            ".95",
            ".9",
            ".99",
            ".00",
            ".001",
            ".0010",
            ".123456789012345678901234567890",
        ]
    ),
)
scientific = st.builds(
    "{}{}{}e{}".format,
    st.sampled_from(["", "-"]),
    st.integers(1, 9),
    st.sampled_from(["", ".0", ".5", ".25"]),
    st.sampled_from([-307, -40, -7, -2, -1, 0, 1, 2, 5, 18, 25, 300]),
)
bounds = st.none() | st.tuples((plain | scientific).map(Decimal), st.booleans())


def around(bound: tuple[Decimal, bool] | None) -> list[str]:
    """Numerals that are a bound, begin like it, go on from it, or lie beside it."""
    if bound is None:
        return []
    text = f"{bound[0]:f}"
    point = "" if "." in text else "."
    return [
        text,
        text[:-1],
        text[:-2],
        text + point + "0",
        text + point + "01",
        text + point + "9",
        "-" + text,
        str(bound[0] + 1),
        str(bound[0] - 1),
    ]


def is_within(number: Decimal, interval: Interval) -> bool:
    low, high = interval.low, interval.high
    return (
        (low is None or number > low[0] or (number == low[0] and not low[1]))
        and (high is None or number < high[0] or (number == high[0] and not high[1]))
        and (interval.kind != "fraction" or number != number.to_integral_value())
    )


@settings(max_examples=200)
@given(
    low=bounds,
    high=bounds,
    kind=st.sampled_from(["number", "integer", "fraction"]),
    texts=st.lists(plain | scientific, min_size=4, max_size=4),
)
def test_what_is_taken_is_within_the_bounds(
    low: Any, high: Any, kind: str, texts: list[str]
) -> None:
    interval = Interval(low, high, kind)
    node = numerals(interval)
    taken = re.compile("(?!)" if node == NOTHING else write(node))
    for text in (*texts, *around(low), *around(high)):
        found = NUMERAL.fullmatch(text)
        if found is None or (kind == "integer" and (found[2] or found[3])):
            continue
        if kind == "fraction" and found[3] and "-" not in found[3]:
            continue  # 1.5e0 is spelt 1.5
        assert bool(taken.fullmatch(text)) == is_within(Decimal(text), interval), text


@pytest.mark.parametrize(
    "text",
    [
        "1e5000",
        "1e309",
        "1e-5000",
        "9" * 400,
        "1" + "0" * 309,
        "-1e999",
        "0.5e400",
        "1.8e308",
        "1.79769313486231571e308",
    ],
)
def test_what_is_generated_is_a_double(text: str) -> None:
    for kind in ("number", "integer"):
        assert not re.fullmatch(write(numerals(Interval(kind=kind))), text)


@pytest.mark.parametrize(
    "text",
    [
        "0",
        "-0",
        "0.1",
        "12e3",
        "0.5E+7",
        "1e-07",
        "1.5e+300",
        "1e00",
        "1e308",
        "9.9e307",
        repr(sys.float_info.max),
        "123456789.125e99",
        "9" * 308,
        repr(2.0**1000),
        "5e-300",
    ],
)
def test_doubles_are_taken_in_their_spellings(text: str) -> None:
    assert re.fullmatch(write(numerals(Interval())), text)


@pytest.mark.parametrize(
    "step",
    [
        "1",
        "2",
        "4",
        "5",
        "8",
        "10",
        "20",
        "100",
        "1000000",
        "0.01",
        "0.05",
        "0.25",
        "0.005",
        "2.5",
        "12.5",
    ],
)
def test_multiples_are_told_by_their_last_digits(step: str) -> None:
    taken = re.compile(multiples(Fraction(step)) or "(?!)")
    fractions = ("", ".0", ".5", ".50", ".25", ".125", ".005", ".010", ".75", ".0001", ".000100")
    for whole in (*range(210), 1_000, 12_325, 1_000_000, 7_000_005):
        for text in (f"{sign}{whole}{fraction}" for sign in ("", "-") for fraction in fractions):
            assert bool(taken.fullmatch(text)) == (Fraction(text) % Fraction(step) == 0), text


@pytest.mark.parametrize("step", ["3", "0.3", "1024", "6.75"])
def test_multiples_that_take_a_count_of_remainders_are_left_to_libraries(step: str) -> None:
    assert multiples(Fraction(step)) is None


SERVED = (
    # (schema, texts it takes, texts it refuses)
    (
        {"type": "number", "maximum": 0.95},
        ["0.9", "0.95", "0.950", "-1e5", "9e-1", "0"],
        ["0.951", "1", "1e0"],
    ),
    (
        {"type": "number", "maximum": 99.99},
        ["99.9", "99", "99.99", "9.999e1"],
        ["99.991", "100", "1e2"],
    ),
    ({"type": "number", "exclusiveMinimum": 0}, ["0.50", "1e-300", "10.10"], ["0.0", "-0", "-1"]),
    (
        {"type": "number", "minimum": -1.5, "maximum": 1e300},
        ["-1.50", "1e300", "-0.0"],
        ["-1.51", "1e301"],
    ),
    (
        {"type": "number"},
        ["1e308", repr(sys.float_info.max), "-1E-7"],
        ["1e309", "1e5000", "-1e309", "9" * 400],
    ),
    (
        {"type": "number", "maximum": sys.float_info.max},
        ["1e308", repr(sys.float_info.max)],
        ["1.8e308", "1e5000"],
    ),
    ({"type": "integer"}, [str(-INT_64), "9" * 40], ["1e2", "9" * 400, "1.0"]),
    ({"type": "integer", "minimum": -INT_64}, [str(-INT_64), "0"], [str(-INT_64 - 1), "1.0"]),
    ({"type": "integer", "maximum": INT_64 - 1}, [str(INT_64 - 1), "0"], [str(INT_64), "9" * 400]),
    (
        {"type": "integer", "minimum": -INT_64, "maximum": INT_64 - 1},
        [str(-INT_64), str(INT_64 - 1)],
        [str(-INT_64 - 1), str(INT_64)],
    ),
    (
        {"type": "integer", "minimum": 10**25, "maximum": 10**25},
        [str(10**25)],
        [str(10**25 + 1), str(10**25 - 1)],
    ),
    ({"type": "integer", "exclusiveMinimum": 2.5, "exclusiveMaximum": 5}, ["3", "4"], ["2", "5"]),
    (
        {"type": ["integer", "string"], "maximum": 2.5, "minLength": 1},
        ["2", '"a"'],
        ["3", '""', "null"],
    ),
    (
        {"type": "object", "properties": {"a": {"type": "number", "maximum": 0.95}}},
        ['{"a":0.9}'],
        ['{"a":1}', '{"b":1e5000}'],
    ),
    (
        {"type": "object", "additionalProperties": {"type": "number", "minimum": 1}},
        ['{"a":1e3}'],
        ['{"a":0.5}'],
    ),
    (
        {
            "type": "array",
            "prefixItems": [{"type": "integer", "minimum": 5}],
            "items": {"type": "number", "maximum": 1},
            "minItems": 2,
            "maxItems": 3,
        },
        ["[5, 0.5]", "[6, 1.0, 1e-3]"],
        ["[5]", "[4, 1]", "[5, 1, 1, 1]"],
    ),
    (
        {"enum": [2**60, 0.1, "0.2", {"a": [1]}]},
        [str(2**60), "0.1", '"0.2"', '{"a":[1]}'],
        [str(2**60 + 1), "0.51", "0.2", '{"a":[2]}'],
    ),
    (
        {"not": {"type": "integer"}, "type": "number"},
        ["1.5", "1e-3", "-0.25"],
        ["1", "1.0", "1e3", "0"],
    ),
    ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, ["1.5", "1e-3"], ["1", "1.0", '"a"']),
    (
        {"oneOf": [{"type": "integer"}, {"type": "number", "minimum": 2}]},
        ["1", "2.5", "-3"],
        ["2", "1.5"],
    ),
    (
        {
            "$ref": "#/$defs/n",
            "$defs": {
                "n": {
                    "anyOf": [
                        {"type": "array", "items": {"$ref": "#/$defs/n"}},
                        {"type": "number", "minimum": 0.5},
                    ]
                }
            },
        },
        ["0.5", "[5e-1, [7]]"],
        ["0.4", "[0.4]"],
    ),
    ({}, ["1e300", "[1, 2.5]", '{"a":-0.5}'], ["1e5000", "[1e999]"]),
)
BOUNDED = (
    {"type": "number", "maximum": 0.95},
    {"type": "number", "minimum": -99.99, "exclusiveMaximum": 1e-3},
    {"type": "number", "exclusiveMinimum": 120, "maximum": 2.5e7},
    {"type": "number", "minimum": 0.001},
    {"type": "integer", "minimum": -INT_64, "maximum": INT_64 - 1},
    {"type": "integer", "exclusiveMinimum": -7.5},
    {"type": "integer", "minimum": 17, "maximum": 4_031},
    {"type": "number"},
    {"type": "integer"},
)


@pytest.fixture(scope="module")
def compilers():
    compilers = {name: GrammarCompiler(VOCABULARY, GuideConfig(backend=name)) for name in WHOLE}
    yield compilers
    for compiler in compilers.values():
        compiler.close()


def tagged(schema: Any, **fields: Any) -> Guide:
    content = {"type": "json_schema", "json_schema": schema, **fields}
    return Guide(
        structural_tag={"format": {"type": "tag", "begin": "<", "content": content, "end": ">"}}
    )


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize(
    ("schema", "valid", "invalid"), SERVED, ids=lambda value: json.dumps(value)[:50]
)
def test_numbers_of_schemas_are_exact(
    schema: Any,
    valid: list[str],
    invalid: list[str],
    name: str,
    compilers: dict[str, GrammarCompiler],
) -> None:
    lark = Guide(grammar='start: "<" %json ' + json.dumps(schema) + ' ">"')
    for guide, before, after in (
        (Guide(json_schema=schema), "", ""),
        (lark, "<", ">"),
        (tagged(schema), "<", ">"),
    ):
        if guide.kind == "grammar" and name == "xgrammar":
            continue  # which has no schemas in Lark
        grammar = compilers[name].compile(guide)
        assert [text for text in valid if not takes(grammar, before + text + after)] == []
        assert [text for text in invalid if takes(grammar, before + text + after)] == []


def numeral_cases(schema: Any) -> Iterator[tuple[str, bool]]:
    """Numerals around a schema's bounds and elsewhere, and whether they are within; integers have
    plain ones alone."""
    ends = {
        keyword: (Decimal(repr(schema[keyword])), keyword.startswith("exclusive"))
        for keyword in schema
        if keyword != "type"
    }
    low = ends.get("minimum") or ends.get("exclusiveMinimum")
    high = ends.get("maximum") or ends.get("exclusiveMaximum")
    interval = Interval(low, high, schema["type"])
    others = [
        "0",
        "-0",
        "0.5",
        "9.5e2",
        "1E-3",
        "-1.25e+05",
        "1e308",
        "-1e308",
        "1e5000",
        "1e309",
        "7",
        "121",
        "-100",
    ]
    for text in {*around(low), *around(high), *others}:
        found = NUMERAL.fullmatch(text)
        if found is not None:
            is_plain = schema["type"] == "number" or not (found[2] or found[3])
            number = Decimal(text)
            yield (
                text,
                is_plain
                and abs(number) <= Decimal(sys.float_info.max)
                and is_within(number, interval),
            )


@pytest.mark.parametrize(
    ("schema", "valid", "invalid"),
    [
        (
            {"type": "number", "multipleOf": 0.05, "maximum": 0.95},
            ["0.9", "0.95", "0.950", "-3"],
            ["1", "0.96", "0.91"],
        ),
        (
            {"type": "integer", "multipleOf": 25, "minimum": -INT_64},
            ["75", "-100"],
            ["70", "9" * 400, "-1" + "0" * 20],
        ),
        (
            {"type": ["number", "null"], "multipleOf": 1},
            ["3", "4.0", "null"],
            ["4.5", "1" + "0" * 400],
        ),
        (
            {"type": "number", "multipleOf": 0.5, "not": {"type": "integer"}, "minimum": 0.5},
            ["0.5", "1.50", "20.5"],
            ["1", "1.0", "1.25", "-1.5", "5e0"],
        ),
        (
            {
                "anyOf": [
                    {"const": 7},
                    {"not": {"multipleOf": 2}, "type": "number", "multipleOf": 1},
                ]
            },
            ["7", "3"],
            ["4", "1.5"],
        ),
        (
            {"oneOf": [{"type": "null"}, {"type": "integer"}, {"type": "number", "multipleOf": 3}]},
            ["null", "4", "-1"],
            ["3", "1.5", "-6"],
        ),
        (
            {
                "type": ["number", "null"],
                "multipleOf": 0.5,
                "not": {"type": "integer"},
                "minimum": 2,
                "maximum": 2,
            },
            ["null"],
            ["2", "2.0", "2.5"],
        ),
    ],
    ids=json.dumps,
)
def test_bounds_beside_multiples_are_exact(
    schema: Any, valid: list[str], invalid: list[str], compilers: dict[str, GrammarCompiler]
) -> None:
    grammar = compilers["llguidance"].compile(Guide(json_schema={"type": "array", "items": schema}))
    assert [text for text in valid if not takes(grammar, f"[ {text} ]")] == []
    assert [text for text in invalid if takes(grammar, f"[ {text} ]")] == []


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("schema", BOUNDED, ids=json.dumps)
def test_every_backend_takes_what_decimal_arithmetic_says(
    schema: Any, name: str, compilers: dict[str, GrammarCompiler]
) -> None:
    for guide, frame in (
        (Guide(json_schema={"type": "array", "items": schema}), "[{}]"),
        (tagged(schema), "<{}>"),
    ):
        grammar = compilers[name].compile(guide)
        for text, is_taken in numeral_cases(schema):
            assert takes(grammar, frame.format(text)) == is_taken, text


def test_numbers_in_another_style_are_exact(compilers: dict[str, GrammarCompiler]) -> None:
    items = {"type": ["number", "string"]}
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "number", "maximum": 0.95},
            "b": {"type": "array", "items": items},
        },
        "required": ["a", "b"],
        "additionalProperties": False,
    }
    grammar = compilers["xgrammar"].compile(tagged(schema, style="qwen_xml"))
    text = "<<parameter=a>{}</parameter><parameter=b>[{}]</parameter>>"
    for first, second, is_taken in (
        ("0.9", "2", True),
        ("9.5e-1", "1e308", True),
        ("1", "2", False),
        ("0.9", "1e309", False),
        ("1e-1", '"2"', True),
    ):
        assert takes(grammar, text.format(first, second)) == is_taken, (first, second)
