"""Stop strings: the text ends where the first is complete, however it is cut into tokens; what may
be one waits."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_scheduler import EOS, make, request
from tokenizer_subjects import subject

from specguide.scheduler import OutputText


class Letters:
    """Tokens that stand for texts of their own."""

    def __init__(self, texts: Sequence[str], rest: str = "") -> None:
        self._texts, self._rest = texts, rest

    def add(self, token: int) -> str:
        return self._texts[token]

    def flush(self) -> str:
        return self._rest


def read(
    texts: Sequence[str], stop: Sequence[str], include: bool = False, rest: str = ""
) -> tuple[str | None, str, list[str]]:
    """The stop string, the text, and what could be shown after each token, as it came."""
    output, shown = OutputText(Letters(texts, rest), stop, include), []
    for token in range(len(texts)):
        found = output.add(token)
        shown.append(output.take())
        if found is not None:
            break
    else:
        found = output.end()
        shown.append(output.take())
    assert "".join(shown) == output.text
    return found, output.text, shown


def expected(text: str, stop: Sequence[str], include: bool) -> tuple[str | None, str]:
    """The stop string that ends a text, and what is told of it, by trying every beginning of the
    text."""
    for end in range(1, len(text) + 1):
        found = max((s for s in stop if text[:end].endswith(s)), key=len, default=None)
        if found is not None:
            return found, text[:end] if include else text[: end - len(found)]
    return None, text


@given(
    st.lists(st.text("ab", max_size=4), max_size=12),
    st.lists(st.text("ab", min_size=1, max_size=5), max_size=3),
    st.booleans(),
    st.text("ab", max_size=3),
)
def test_every_cut_ends_at_the_same_place(
    texts: list[str], stop: list[str], include: bool, rest: str
) -> None:
    found, text, shown = read(texts, stop, include, rest)
    assert (found, text) == expected("".join(texts) + rest, stop, include)
    if not found:  # nothing was held back that could not have become a stop string
        for count in range(len(texts)):
            so_far = "".join(texts[: count + 1])
            held = so_far.removeprefix("".join(shown[: count + 1]))
            assert held == max(
                (
                    so_far[i:]
                    for i in range(len(so_far))
                    if any(s != so_far[i:] and s.startswith(so_far[i:]) for s in stop)
                ),
                key=len,
                default="",
            )


def test_the_beginning_of_a_stop_string_is_held_back() -> None:
    assert read(["x <", "/", "b> </", "a>", "y"], ["</a>"])[2] == ["x ", "", "</b> ", ""]
    assert read(["x </a"], ["</a>"])[1:] == ("x </a", ["x ", "</a"])
    assert read(["x </a>y"], ["</a>"], include=True) == ("</a>", "x </a>", ["x </a>"])


@pytest.mark.parametrize("name", ["byte-level", "sentencepiece"])
def test_a_stop_string_whose_characters_are_several_tokens(name: str) -> None:
    tokenizer = subject(name)
    token_ids = tokenizer.encode("one € two €€ three")
    output = OutputText(tokenizer.detokenizer(), ["€€"])
    found = [output.add(token) for token in token_ids]
    assert [stop for stop in found if stop] == ["€€"]
    assert output.text == tokenizer.decode(token_ids).split("€€")[0]


def test_characters_left_incomplete_may_complete_one() -> None:
    assert read(["a"], ["a\ufffd"], rest="\ufffd\ufffd") == ("a\ufffd", "", ["", ""])


def with_text(texts: Sequence[str], **params):
    one = request(**params)
    one.text = OutputText(Letters(texts), one.params.stop, one.params.include_stop_str_in_output)
    return one


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        (dict(stop="cd"), ([1, 2, 3], "stop", "cd", "ab")),
        (dict(stop=["zz", "bc"], include_stop_str_in_output=True), ([1, 2], "stop", "bc", "abc")),
        (dict(stop="zz"), ([1, 2, 3, 4, EOS], "stop", None, "abcdezEND")),
        (dict(stop="ez"), ([1, 2, 3, 4], "stop", "ez", "abcd")),
        (dict(stop="ez", max_tokens=3), ([1, 2, 3], "length", None, "abcde")),
        (dict(stop_token_ids=[3]), ([1, 2, 3], "stop", 3, "abcde")),
        (dict(stop_token_ids=[3], stop="e"), ([1, 2, 3], "stop", "e", "abcd")),
        (dict(stop_token_ids=[EOS]), ([1, 2, 3, 4, EOS], "stop", None, "abcdezEND")),
        (
            dict(stop_token_ids=[EOS], ignore_eos=True),
            ([1, 2, 3, 4, EOS], "stop", EOS, "abcdezEND"),
        ),
    ],
)
def test_an_accepted_window_ends_with_the_token_that_completes_one(params, expected):
    scheduler, one = make(), with_text(["END", "a", "bc", "de", "z"], **params)
    scheduler.add(one)
    scheduler.commit(scheduler.schedule().batch, [[1]], {})
    batch, late = (scheduler.schedule().batch for _ in range(2))
    assert scheduler.commit(batch, [[2, 3, 4, EOS]], {}).finished == (one,)
    assert scheduler.commit(late, [[4, 4, 4, 4]], {}).finished == ()
    assert (one.output_ids, one.finish_reason, one.stop_reason, one.text.text) == expected
    assert (
        one.metrics.output_tokens == len(one.output_ids)
        and sum(one.metrics.accepted_histogram) == 1
    )
    scheduler.check_integrity()


def test_an_aborted_request_keeps_what_was_held_back():
    scheduler, one = make(), with_text(["", "ab"], stop="bc")
    scheduler.add(one)
    scheduler.commit(scheduler.schedule().batch, [[1]], {})
    assert one.text.take() == "a"
    scheduler.abort()
    assert one.text.text == "ab" and one.stop_reason is None


def test_a_stop_string_before_its_time_is_text() -> None:
    output = OutputText(Letters("xabab"), ["ab"])
    found = [output.add(token, may_stop=token >= 3) for token in range(5)]
    assert found == [None, None, None, None, "ab"] and output.text == "xab"
