"""Automata of regular expressions against Python's `re`: what they match, have in common and leave
out."""

from __future__ import annotations

import itertools
import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specguide.guided.regex.automaton import MAX_STATES, automaton
from specguide.guided.regex.both import everything_but
from specguide.guided.regex.charset import EVERYTHING
from specguide.guided.regex.first import first_of
from specguide.guided.regex.nfa import TextMatcher
from specguide.guided.regex.parse import parse
from specguide.guided.regex.samples import samples
from specguide.guided.regex.tree import Both, Regex, UnsupportedRegex, lengths
from specguide.guided.regex.whole import whole
from specguide.guided.regex.writer import is_exact, restrict, write
from specguide.guided.schema.core.patterns import have_common_text

WORDS = ["".join(word) for length in range(6) for word in itertools.product("abc", repeat=length)]


def expressions() -> st.SearchStrategy[str]:
    """Regular expressions over a, b and c, without anchors."""
    return st.recursive(
        st.sampled_from(["a", "b", "c", "[ab]", "[^a]", ""]),
        lambda inner: st.one_of(
            st.builds("{}{}".format, inner, inner),
            st.builds("(?:{}|{})".format, inner, inner),
            st.builds("(?:{}){}".format, inner, st.sampled_from(["*", "+", "?", "{2}", "{1,2}"])),
        ),
        max_leaves=6,
    )


def tree(expression: str) -> Regex:
    return whole(parse(expression), search=False)


@settings(max_examples=150)
@given(left=expressions(), right=expressions())
def test_automata_match_what_re_matches(left: str, right: str) -> None:
    one, other = automaton(tree(left)), automaton(tree(right))
    both, rest, any_of = one & other, one - other, one | other
    written = re.compile(write(one.node()), re.DOTALL) if not one.is_empty else None
    beside = automaton(everything_but(tree(left)))
    for word in WORDS[:121]:
        fits, fits_other = (
            re.fullmatch(expression, word) is not None for expression in (left, right)
        )
        assert one.matches(word) == fits
        assert both.matches(word) == (fits and fits_other)
        assert rest.matches(word) == (fits and not fits_other)
        assert any_of.matches(word) == (fits or fits_other)
        assert (written is not None and written.fullmatch(word) is not None) == fits
        assert beside.matches(word) != fits


def test_texts_are_listed_and_counted() -> None:
    assert automaton(tree("[a-d]{2}|x")).num_texts(50) == 17
    assert automaton(tree("a*")).num_texts(50) == 51
    assert list(automaton(tree("[a-c]b?|")).texts()) == ["", "a", "b", "c", "ab", "bb", "cb"]
    assert automaton(tree("a")) - automaton(tree("[ab]")) == automaton(tree("b")) - automaton(
        tree("b")
    )


def test_too_many_states_are_refused() -> None:
    with pytest.raises(UnsupportedRegex, match=str(MAX_STATES)):
        automaton(tree("(?:a|b)*a(?:a|b){12}"))


def test_too_many_different_characters_are_refused_soon() -> None:
    words = "".join(map(chr, range(0x4E00, 0x4E00 + 2 * 3000, 2)))
    start = time.process_time()
    with pytest.raises(UnsupportedRegex, match="different characters"):
        automaton(tree(words))
    assert time.process_time() - start < 2


LOOKAHEADS = (
    "^(?!a)",
    "^(?!ab|c$)[a-c]+$",
    "^(?=.*b)(?!.*c)",
    "^(?!a|b).*$|^b$",
    "^((?!a)[bc]*)$",
    "^(?!.*cc)(a|c)*b?",
    "^(?!a$)(?!b$).{1,3}$",
    "^(?=a)(?=ab)",
    "a(?!b)",
    "^a(?!b)[abc]*$",
    "(?!b)a$",
    "^(a(?!b)|b(?=a))[ab]*$",
    "^a(?:b(?=c)c?)?[abc]{0,2}$",
    "^(?:a|(?!.*c)(?=a|b)(a)?(b(?=a)(a)?(b)?)?)$",
    "(?:b(?!c))?a",
    "^(?:(?!ab).)*$",
    "^a(?:(?!bc)(?!cb).)+$",
    "^(?:(?=a).)*$",
    "^(?:(?!).)*$",
)


@pytest.mark.parametrize("expression", LOOKAHEADS)
def test_a_lookahead_is_enforced(expression: str) -> None:
    node = restrict(whole(parse(expression), search=True), EVERYTHING)
    found = automaton(node)
    for word in WORDS:
        assert found.matches(word) == (re.search(expression, word) is not None), word


def test_what_dialects_read_differently_stays_so_after_a_lookahead() -> None:
    assert is_exact(whole(parse("^(?!ab)[a-c]*$"), search=True))
    assert not is_exact(whole(parse("^(?!ab).*$"), search=True))
    assert not is_exact(whole(parse("^(?!\\d)[a-c1\u0661]*$"), search=True))


@pytest.mark.parametrize("expression", ["^(?:a(?:b|c)?($|c))*$", "^(?:a($|b))+$", "^(?:b|a$)*$"])
def test_the_last_of_what_repeats_may_come_to_the_end(expression: str) -> None:
    node = whole(parse(expression), search=True)
    found = automaton(node)
    for word in WORDS:
        assert found.matches(word) == (re.search(expression, word) is not None), word


def test_what_is_too_long_to_write_down_keeps_its_parts() -> None:
    expression = "^(?!.*(?:abcabc|cbacba))(?=.*(?:[ab]{3}c){40})[abc]{1,500}$"
    node = restrict(whole(parse(expression), search=True), EVERYTHING)
    assert isinstance(node, Both)
    again = whole(parse(f"^(?:{write(node)})$"), search=True)
    for word in ("aaac" * 40, "aaac" * 39, "aaac" * 40 + "abcabc", "c" + "bbbc" * 41, "d"):
        fits = re.search(expression, word) is not None
        assert TextMatcher(node).matches(word) == TextMatcher(again).matches(word) == fits


def test_what_may_match_nothing_is_refused_where_it_is_too_long() -> None:
    with pytest.raises(UnsupportedRegex):
        whole(parse("^(?!.*[ab]{300})(?=.*[ab]{300})[abc]{1,500}$"), search=True)


@pytest.mark.parametrize("expression", ["^(a(?!b))*", "^(?:(?=ab).)*$", "(?=a)*"])
def test_other_lookaheads_are_refused(expression: str) -> None:
    with pytest.raises(UnsupportedRegex, match="lookahead"):
        whole(parse(expression), search=True)


def test_states_that_nothing_tells_apart_are_one() -> None:
    """Of a count, each state differs from the next in its last step alone."""
    assert len(automaton(tree("(?:ab|cb){1,60}")).edges) == 121
    assert len(automaton(tree("(?:aa|ab|ba|bb)(?:a|b)*")).edges) == 3


def test_what_no_library_could_follow_is_refused() -> None:
    names = r"^(?!.*://)(?=.{1,255}$)((.{1,63}\.){1,127}(?![0-9]*$)[a-z0-9-]+\.?)$"
    with pytest.raises(UnsupportedRegex):
        restrict(whole(parse(names), search=True), EVERYTHING)


@given(expressions(), st.integers(0, 5))
@settings(max_examples=200, deadline=None)
def test_samples_match_and_texts_begin_as_is_told(expression, least):
    node, first = tree(expression), first_of(tree(expression))
    matched = list(filter(automaton(node).matches, WORDS))
    assert all(map(first.begins, matched))
    assert first.may_be_empty == ("" in matched)
    begun = {word[0] for word in matched if word}
    assert begun <= {letter for letter in "abc" if first.begins(letter)}
    shortest, longest = lengths(node)
    assert not matched or shortest == min(map(len, matched))
    assert all(len(word) <= longest for word in matched)
    if longest <= 5 and matched and "[^a]" not in expression:
        assert longest == max(map(len, matched))
    for sample in samples(node, least):
        assert TextMatcher(node).matches(sample)
    if matched:
        assert any(True for _ in samples(node, least))


@given(expressions(), expressions(), st.integers(0, 3), st.none() | st.integers(3, 5))
@settings(max_examples=200, deadline=None)
def test_common_texts_are_those_of_the_automata(left, right, least, most):
    patterns = f"^(?:{left})$", f"^(?:{right})$"
    sized = automaton(tree(f"(?:[^a]|a){{{least},{'' if most is None else most}}}"))
    both = automaton(tree(left)) & automaton(tree(right)) & sized
    assert have_common_text(patterns, least, most) == (not both.is_empty)


@given(expressions())
def test_how_far_an_end_is_from_each_state(expression):
    one = automaton(tree(expression))
    matched = next(filter(one.matches, WORDS), None)  # the shortest come first
    assert matched is None or one.to_end[0] == len(matched)
    assert set(one.to_end) == set(range(len(one.rows)))


def test_lookaheads_that_bound_lengths_are_followed_together() -> None:
    label = "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
    name = rf"[a-z0-9_+]+(\.[a-z0-9_+]+)*@{label}(\.{label})*"
    found = whole(parse(rf"^(?=.{{9,254}}$)(?=.{{1,64}}@){name}$"), search=True)
    matcher = TextMatcher(found)
    assert isinstance(found, Both)
    assert all(map(matcher.matches, ("abcd@abcd", f"{'a' * 64}@{'ab.' * 62}abc")))
    long = ("abc@abcd", f"{'a' * 65}@ab", f"{'a' * 64}@{'ab.' * 62}abcd", f"a@{'a' * 64}")
    assert not any(map(matcher.matches, long))
