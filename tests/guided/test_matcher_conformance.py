"""The matcher contract, every test over every backend, native and through Python, and over a plain
Python matcher."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import toy_backend
from counting_language import (
    EOS,
    FORCED_AT_START,
    OTHER_EOS,
    PATTERN,
    SPECIAL,
    VOCABULARY,
    CountingMatcher,
    allowed_in,
    token,
)
from grammar_backends import KINDS as IN_FOLDER
from hypothesis import given, settings
from hypothesis import strategies as st

from specguide import native
from specguide.config import GuideConfig
from specguide.guide import Guide
from specguide.guided.backends import BACKENDS, create_backend
from specguide.guided.matcher import Matcher
from specguide.tokenizer.vocabulary import Vocabulary

KINDS = [*IN_FOLDER, "toy-python"]
PLAIN = ["plain", "plain-native"]

Make = Callable[[], Matcher]

_makes: dict[tuple[str, str, int], Make] = {}


def make_for(kind: str, pattern: str = PATTERN, vocabulary: Vocabulary = VOCABULARY) -> Make:
    """Makes matchers of one compiled grammar."""
    if kind == "plain":
        return CountingMatcher
    if kind == "plain-native":
        return lambda: native.PythonMatcher(CountingMatcher(), len(VOCABULARY))
    key = (kind, pattern, id(vocabulary))
    if key not in _makes:
        name, how = kind.split("-")
        backend = create_backend(name, vocabulary, native=how == "native")
        _makes[key] = backend.compile(Guide(regex=pattern), GuideConfig()).matcher
    return _makes[key]


@pytest.fixture(autouse=True, scope="module")
def toy() -> Iterator[None]:
    """A backend from the tests alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(BACKENDS, toy_backend.SPEC.name, toy_backend.SPEC)
        yield


@pytest.fixture(params=KINDS + PLAIN)
def make(request: pytest.FixtureRequest) -> Make:
    return make_for(request.param)


def row_of(matcher: Matcher) -> np.ndarray:
    row = np.full(VOCABULARY.num_words, -1, np.int32)
    matcher.fill(row)
    return row


def walked(make: Make, *texts: bytes) -> Matcher:
    matcher = make()
    for text in texts:
        assert matcher.accept(token(text))
    return matcher


def test_all_follow_the_protocol(make: Make) -> None:
    assert isinstance(make(), Matcher)


def test_a_bit_is_set_exactly_where_accept_takes_the_token(make: Make) -> None:
    for texts in (
        (),
        (b"le",),
        (b"let", b" ", b"x="),
        (b"let", b" ", b"x=", b"01"),
        (b"let", b" ", b"x=", b"1", b";"),
    ):
        matcher = walked(make, *texts)
        allowed = allowed_in(row_of(matcher))
        for id_ in range(-1, 70):
            taken = matcher.accept(id_)
            assert taken == (id_ in allowed), (texts, id_)
            if taken:
                matcher.rollback(1)


def test_rows_are_those_of_the_plain_matcher(make: Make) -> None:
    matcher, plain = make(), CountingMatcher()
    for text in (b"let", b" ", b"x", b"=", b"01", b",x", b"=", b"1", b"0", b";"):
        assert np.array_equal(row_of(matcher), row_of(plain))
        assert matcher.accept(token(text)) and plain.accept(token(text))
    assert allowed_in(row_of(matcher)) == [EOS, OTHER_EOS]


def test_a_row_is_written_whole_whatever_was_in_it(make: Make) -> None:
    matcher = walked(make, b"let", b" ", b"x=", b"0")
    for garbage in (0, -1, 0x55555555):
        row = np.full(VOCABULARY.num_words, garbage, np.int32)
        matcher.fill(row)
        assert np.array_equal(row, row_of(matcher))


def test_padding_and_special_tokens_are_never_allowed(make: Make) -> None:
    matcher = walked(make, b"let", b" ", b"x=", b"0")
    allowed = allowed_in(row_of(matcher))
    assert max(allowed) == OTHER_EOS and SPECIAL not in allowed
    assert not any(matcher.accept(id_) for id_ in (SPECIAL, 14, 16, 44, 45, 63, 64, 1000, -1))


@pytest.mark.parametrize("eos", [EOS, OTHER_EOS])
def test_an_end_token_terminates_where_the_grammar_may_end(make: Make, eos: int) -> None:
    matcher = walked(make, b"let", b" ", b"x=")
    assert not matcher.accept(eos) and not matcher.is_terminated
    assert matcher.accept(token(b"1")) and not matcher.is_terminated
    assert matcher.accept(eos) and matcher.is_terminated


def test_a_terminated_matcher_refuses_everything_and_fills_nothing(make: Make) -> None:
    matcher = walked(make, b"let", b" ", b"x=", b"1")
    assert matcher.accept(EOS)
    assert not any(matcher.accept(id_) for id_ in range(len(VOCABULARY)))
    row = np.full(VOCABULARY.num_words, 77, np.int32)
    with pytest.raises(RuntimeError, match="terminated"):
        matcher.fill(row)
    assert (row == 77).all()
    assert list(matcher.forced_tokens()) == []


def test_a_refused_token_changes_nothing(make: Make) -> None:
    matcher = walked(make, b"let", b" ")
    before = row_of(matcher)
    for _ in range(3):
        assert not any(
            matcher.accept(id_) for id_ in (token(b"let"), token(b"01"), EOS, SPECIAL, -1, 999)
        )
        assert np.array_equal(row_of(matcher), before)
    matcher.rollback(2)
    assert np.array_equal(row_of(matcher), row_of(make()))


def test_rollback_takes_back_across_termination(make: Make) -> None:
    matcher = walked(make, b"let", b" ", b"x=", b"1")
    before = row_of(matcher)
    assert matcher.accept(EOS)
    matcher.rollback(1)
    assert not matcher.is_terminated and np.array_equal(row_of(matcher), before)
    assert matcher.accept(token(b";")) and matcher.accept(OTHER_EOS)
    matcher.rollback(3)
    assert np.array_equal(row_of(matcher), row_of(walked(make, b"let", b" ", b"x=")))
    assert matcher.accept(token(b"0")) and matcher.accept(EOS) and matcher.is_terminated


def test_rollback_of_none_changes_nothing(make: Make) -> None:
    matcher = make()
    matcher.rollback(0)
    assert matcher.accept(token(b"let"))
    matcher.rollback(0)
    assert np.array_equal(row_of(matcher), row_of(walked(make, b"let")))


@pytest.mark.parametrize("ended", [False, True])
def test_rollback_of_too_many_is_an_error_and_changes_nothing(make: Make, ended: bool) -> None:
    matcher = walked(make, b"let", b" ", b"x=", b"1")
    if ended:
        assert matcher.accept(EOS)
    wrapped = isinstance(
        matcher, native.PythonMatcher
    )  # whose errors cross the core and come back as one class
    for n in (5 + ended, 100, -1):
        with pytest.raises(RuntimeError if wrapped else ValueError, match="rollback"):
            matcher.rollback(n)
    assert matcher.is_terminated == ended
    matcher.rollback(4 + ended)
    assert np.array_equal(row_of(matcher), row_of(make()))


def test_forced_tokens_spell_the_forced_text_and_change_nothing(make: Make) -> None:
    matcher = make()
    assert list(matcher.forced_tokens()) == FORCED_AT_START
    assert np.array_equal(row_of(matcher), row_of(make()))
    for text in (b"let", b" ", b"x"):
        assert matcher.accept(token(text))
    assert list(matcher.forced_tokens()) == [token(b"=")]
    assert matcher.accept(token(b"=")) and list(matcher.forced_tokens()) == []
    assert matcher.accept(token(b"01")) and list(matcher.forced_tokens()) == []
    assert matcher.accept(token(b",x")) and list(matcher.forced_tokens()) == [token(b"=")]


def test_nothing_is_forced_where_the_grammar_may_end(make: Make) -> None:
    matcher = walked(make, b"let", b" ", b"x=", b"1", b";")
    assert allowed_in(row_of(matcher)) == [EOS, OTHER_EOS]
    assert list(matcher.forced_tokens()) == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_dead_end_is_a_row_of_zeros_and_can_be_rolled_back(kind: str) -> None:
    vocabulary = Vocabulary(token_bytes=(b"a", b"c", b"") + (b"",) * 40, eos_token_ids=(2,))
    matcher = make_for(kind, "ab|c", vocabulary)()
    row = np.full(vocabulary.num_words, -1, np.int32)
    assert matcher.accept(0)
    matcher.fill(row)
    assert allowed_in(row) == [] and list(matcher.forced_tokens()) == []
    assert not matcher.accept(1) and not matcher.accept(2)
    matcher.rollback(1)
    assert matcher.accept(1) and matcher.accept(2) and matcher.is_terminated


# A walk: the n-th allowed token is taken, or some tokens are rolled back, or a token is tried that
# may be refused, or forced drafts are looked for.
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("take"), st.integers(0, 50)),
        st.tuples(st.just("look"), st.integers(1, 6)),
        st.tuples(st.just("back"), st.integers(0, 6)),
        st.tuples(st.just("try"), st.integers(-1, 50)),
    ),
    max_size=40,
)


@pytest.mark.parametrize("kind", KINDS + PLAIN)
@settings(max_examples=60)
@given(steps=STEPS)
def test_a_walk_with_rollbacks_equals_a_fresh_matcher_on_the_surviving_path(
    kind: str, steps: list[tuple[str, int]]
) -> None:
    make = make_for(kind)
    matcher, path = make(), []
    for step, number in steps:
        if step == "back":
            number = min(number, len(path))
            matcher.rollback(number)
            del path[len(path) - number :]
        elif step == "try":
            path += [number] if matcher.accept(number) else []
        elif not matcher.is_terminated:
            row, plain = row_of(matcher), CountingMatcher()
            assert all(map(plain.accept, path)) and np.array_equal(row, row_of(plain))
            if step == "take":
                allowed = allowed_in(row)
                path.append(allowed[number % len(allowed)])
                assert matcher.accept(path[-1])
            elif isinstance(matcher, native.Matcher):
                assert len(matcher.forced_drafts(row, number)) <= number or kind == "plain-native"
    fresh, plain = make(), CountingMatcher()
    for id_ in path:
        assert fresh.accept(id_) and plain.accept(id_)
    assert matcher.is_terminated == fresh.is_terminated == plain.is_terminated
    assert list(matcher.forced_tokens()) == plain.forced_tokens()
    if not plain.is_terminated:
        assert np.array_equal(row_of(matcher), row_of(fresh)) and np.array_equal(
            row_of(fresh), row_of(plain)
        )


@pytest.mark.parametrize("kind", KINDS)
def test_matchers_of_one_grammar_walk_on_many_threads(kind: str) -> None:
    make, failures = make_for(kind), []

    def walk(seed: int) -> None:
        random = np.random.default_rng(seed)
        try:
            for _ in range(10):
                matcher, plain = make(), CountingMatcher()
                for _ in range(12):
                    row = row_of(matcher)
                    assert np.array_equal(row, row_of(plain))
                    id_ = int(random.choice(allowed_in(row)))
                    assert matcher.accept(id_) and plain.accept(id_)
                    if matcher.is_terminated or random.random() < 0.2:
                        matcher.rollback(1)
                        plain.rollback(1)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=walk, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
