"""Patterns over module names: equal to Python's `re`, in bounded time."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specguide.errors import CheckpointError
from specguide.layers.quantization.name_pattern import NamePattern

NAMES = ["lm_head", "model.layers.0.mlp.gate", "model.layers.12.self_attn.q_proj", "", "a\nb"]
PATTERNS = [
    ".*lm_head",
    "model[.]layers\\.\\d+\\.mlp\\.gate$",
    "^model\\.layers\\.(0|12)\\..*",
    ".*(q|k|v)_proj",
    ".*self_attn.*",
    "(?!.*mlp).*layers",
    "(?:model\\.)?layers|lm",
    ".*layers\\.[0-9]{1,2}\\.[^.]+\\.\\w*?proj$",
    "a.b",
    "[\\w.-]+",
    "[^\\d]*$",
    "(?=.*gate).*mlp",
    "x{2,}|(ab){0,3}",
]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_is_what_re_matches(pattern: str) -> None:
    for name in NAMES:
        assert NamePattern(pattern).matches(name) == bool(re.match(pattern, name)), name


ATOMS = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", "\\d"])
EXPRESSIONS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.tuples(inner, inner).map("({0[0]}|{0[1]})".format),
        st.tuples(ATOMS, st.sampled_from(["*", "+", "?", "{1,2}", "{2}", "{1,}"])).map("".join),
    ),
    max_leaves=6,
)


@settings(max_examples=100, deadline=None)
@given(EXPRESSIONS, st.text("ab1", max_size=6), st.booleans())
def test_any_expression_matches_as_in_re(source: str, name: str, is_whole: bool) -> None:
    source = f"({source})$" if is_whole else source
    assert NamePattern(source).matches(name) == bool(re.match(source, name))


@pytest.mark.parametrize(
    "pattern",
    ["(", "a)", "*a", "[a", "a{2", "a{1000}", "\\bmlp", "(?<=a)b", "(a)\\1", "a" * 2000, "x\\"],
)
def test_what_is_not_known_is_refused(pattern: str) -> None:
    with pytest.raises(CheckpointError, match="the pattern 're:"):
        NamePattern(pattern).check()


@pytest.mark.parametrize("pattern", ["(a*)*$", ".*.*.*.*.*.*.*.*.*b", "((a|aa)+)+$"])
def test_time_is_bounded(pattern: str) -> None:
    start = time.perf_counter()
    NamePattern(pattern).matches("a" * 100 + "c")
    assert time.perf_counter() - start < 2
