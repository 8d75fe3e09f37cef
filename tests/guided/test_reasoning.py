"""Reasoning before an answer: free up to its mark, also when the mark comes within tokens, then the
grammar."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest
from baseline_llm import baseline_llm
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_engine import K, generate, make

from specguide import Guide, GuideConfig, Reasoning, SamplingParams, SpecConfig
from specguide.errors import InvalidParams
from specguide.guided.backends import create_backend
from specguide.guided.wrappers.reasoning import ReasoningSections
from specguide.tokenizer.vocabulary import Vocabulary

TOKENS = [
    b"a",
    b"b",
    b"<",
    b"/",
    b">",
    b"</",
    b"/>",
    b"a<",
    b">a",
    b"</>",
    b"b</",
    b"a</>",
    b"1",
    b"2",
    b"",
    b"",
    b"<<",
    b"/>1",
]
MARK, SPECIAL, EOS = "</>", 14, 15
VOCABULARY = Vocabulary(tuple(TOKENS), (EOS,))
ANSWER = "[12]{1,3}"


class Naive:
    """The contract by the whole text, from scratch each time."""

    def __init__(self, begin: str | None, max_tokens: int | None) -> None:
        self.begin, self.max_tokens, self.taken = (begin or "").encode(), max_tokens, []

    def allowed(self) -> list[int]:
        return [token for token in range(len(TOKENS)) if self.takes([*self.taken, token])]

    def takes(self, tokens: list[int]) -> bool:
        """Whether all of them can stand at the beginning of an output."""
        text, num_free, part = b"", 0, "begin" if self.begin else "free"
        for place, token in enumerate(tokens):
            piece = TOKENS[token]
            if part == "answer":
                return self.answers(tokens[place:])
            if not piece:
                return False
            before, text = text, text + piece
            if part == "begin":
                if not self.begin.startswith(text):
                    return False
                if text == self.begin:
                    text, part = b"", "free"
                continue
            if self.max_tokens is not None and num_free >= self.max_tokens:
                seen = max(n for n in range(len(MARK)) if before.endswith(MARK.encode()[:n]))
                if not MARK.encode()[seen:].startswith(piece):
                    return False
            num_free += 1
            end = text.find(MARK.encode())
            if end >= 0 and end + len(MARK) < len(text):
                return False
            if end >= 0:
                part = "answer"
        return True

    def answers(self, tokens: list[int]) -> bool:
        text = b"".join(TOKENS[token] for token in tokens).decode()
        if tokens[-1] == EOS:
            return EOS not in tokens[:-1] and re.fullmatch(ANSWER, text) is not None
        return (
            EOS not in tokens
            and all(TOKENS[token] for token in tokens)
            and re.fullmatch(ANSWER, text) is not None
        )


@pytest.fixture(scope="module")
def grammar():
    return create_backend("llguidance", VOCABULARY).compile(Guide(regex=ANSWER), GuideConfig())


def sections() -> ReasoningSections:
    return ReasoningSections(VOCABULARY, lambda text: SPECIAL if text == "[mark]" else None)


@given(
    begin=st.sampled_from([None, "<<", "a"]),
    max_tokens=st.sampled_from([None, 0, 1, 4]),
    seed=st.integers(0, 10**6),
)
@settings(max_examples=150, deadline=None)
def test_the_matcher_is_the_naive_one(grammar, begin, max_tokens, seed):
    matcher = (
        sections()
        .before(grammar, Reasoning(end=MARK, begin=begin, max_tokens=max_tokens))
        .matcher()
    )
    naive, rng, row = Naive(begin, max_tokens), random.Random(seed), np.zeros(1, np.int32)
    for _ in range(30):
        if matcher.is_terminated:
            assert naive.taken[-1] == EOS
        else:
            matcher.fill(row)
            allowed = [token for token in range(32) if row[0] >> token & 1]
            assert allowed == naive.allowed()
            refused = rng.choice(sorted(set(range(len(TOKENS))) - set(allowed)))
            assert not matcher.accept(refused)
            ending = [
                token
                for token in allowed
                if MARK.encode() in TOKENS[token] or TOKENS[token] in (b"/", b">")
            ]
            token = rng.choice(ending if ending and rng.random() < 0.4 else allowed)
            assert matcher.accept(token)
            naive.taken.append(token)
        if rng.random() < 0.3 or matcher.is_terminated:
            num = rng.randint(0, min(len(naive.taken), 6))
            matcher.rollback(num)
            naive.taken = naive.taken[: len(naive.taken) - num]
    with pytest.raises(ValueError, match="were accepted"):
        matcher.rollback(len(naive.taken) + 1)


def test_marks_of_text_and_special_tokens(grammar):
    """The first of the end ends the free text; the others must follow, whatever is drafted."""
    reasoning = Reasoning(end="[mark]</>[mark]", begin="[mark]a<", max_tokens=9)
    matcher, row = sections().before(grammar, reasoning).matcher(), np.zeros(1, np.int32)

    def allowed() -> set[bytes | int]:
        matcher.fill(row)
        return {TOKENS[one] or one for one in range(len(TOKENS)) if row[0] >> one & 1}

    text = [SPECIAL, 7, 0, 12, SPECIAL, 9, SPECIAL, 12]
    rows = [{SPECIAL}, {b"a", b"a<"}, None, None, None, {b"<", b"</", b"</>"}, {SPECIAL}]
    for token, wanted in zip(text, [*rows, {b"1", b"2"}], strict=True):
        free = {one for one in TOKENS if one} | {SPECIAL}
        assert allowed() == (free if wanted is None else wanted)
        assert matcher.accept(token)
    assert matcher.accept(EOS) and matcher.is_terminated
    matcher.rollback(3)
    assert allowed() == {SPECIAL}
    matcher.rollback(6)
    assert allowed() == {SPECIAL} and not matcher.accept(0)


def test_a_mark_that_is_a_special_token(grammar):
    matcher, row = (
        sections().before(grammar, Reasoning(end="[mark]", max_tokens=2)).matcher(),
        np.zeros(1, np.int32),
    )
    for token in (0, 1):
        matcher.fill(row)
        assert row[0] == sum(1 << i for i in range(len(TOKENS)) if TOKENS[i] or i == SPECIAL)
        assert matcher.accept(token)
    matcher.fill(row)
    assert row[0] == 1 << SPECIAL and not matcher.accept(0) and matcher.accept(SPECIAL)
    assert matcher.accept(12) and matcher.accept(EOS) and matcher.is_terminated


LETTERS = (b"a", b"1", b"2", b"", b"", b"", b"")
BEGIN, STOP, CALL, LAST = range(3, 7)
BRIEF = Vocabulary(LETTERS, (LAST,))
NAMED = {"[begin]": BEGIN, "[stop]": STOP, "[call]": CALL}
TEXT, ANSWERS = {0, 1, 2}, {1, 2, CALL}


def left_out(taken: list[int], instead: str, most: int) -> set[int]:
    """What may follow where [begin] text [stop], or `instead`, stands before one digit or two, or
    before [call] and a 1; and [call] ends the text as well."""
    if not taken:
        return {BEGIN} | ({STOP} if instead else ANSWERS)
    rest = taken
    if rest[0] == BEGIN:
        free = [*rest[1:], STOP].index(STOP)
        free = min(free, [*rest[1:], CALL].index(CALL))
        if len(rest) == free + 1:
            return {STOP, CALL, *TEXT} if free < most else {STOP}
        rest = rest[free + 1 :]
    rest = rest[1:] if rest[0] == STOP else rest
    if not rest:
        return ANSWERS
    if rest[0] == CALL:
        return {1} if len(rest) == 1 else {LAST}
    return {1, 2, LAST} if len(rest) == 1 else {LAST}


@pytest.mark.parametrize("instead", ["", "[stop]"])
def test_a_section_may_be_left_out_or_cut_by_what_the_answer_begins_with(instead):
    answer = Guide(grammar=f'start: /[12]{{1,2}}/ | <[{CALL}]> "1"')
    compiled = create_backend("llguidance", BRIEF).compile(answer, GuideConfig())
    reasoning = Reasoning("[stop]", "[begin]", 3, instead, "[call]")
    section = ReasoningSections(BRIEF, NAMED.get).before(compiled, reasoning)
    matcher, rng, row = section.matcher(), random.Random(instead), np.zeros(1, np.int32)
    taken: list[int] = []
    for _ in range(400):
        if not matcher.is_terminated:
            matcher.fill(row)
            allowed = {token for token in range(len(LETTERS)) if row[0] >> token & 1}
            assert allowed == left_out(taken, instead, 3), taken
            assert not any(map(matcher.accept, {*range(len(LETTERS))} - allowed))
            taken.append(rng.choice(sorted(allowed)))
            assert matcher.accept(taken[-1])
        if rng.random() < 0.3 or matcher.is_terminated:
            num = rng.randint(0, len(taken))
            matcher.rollback(num)
            taken = taken[: len(taken) - num]


def test_a_section_that_is_told_by_no_special_token_must_come(grammar):
    matcher, row = (
        sections().before(grammar, Reasoning(end=MARK, begin="<<", instead="")).matcher(),
        np.zeros(1, np.int32),
    )
    matcher.fill(row)
    assert {TOKENS[one] for one in range(len(TOKENS)) if row[0] >> one & 1} == {b"<", b"<<"}


def test_what_cannot_be_is_refused(grammar):
    with pytest.raises(InvalidParams, match="give `begin` too"):
        Reasoning(instead="")
    with pytest.raises(InvalidParams, match="give a guide"):
        SamplingParams(reasoning=Reasoning())
    with pytest.raises(InvalidParams, match="non-empty"):
        Reasoning(end="")
    with pytest.raises(InvalidParams, match="max_tokens of reasoning"):
        Reasoning(max_tokens=-1)
    with pytest.raises(InvalidParams, match="continues the reasoning mark"):
        sections().before(grammar, Reasoning(end="</x>"))


@pytest.mark.parametrize("spec", ["eagle3", "Python callbacks", None])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_outputs_reason_and_then_answer(folders, spec, temperature):
    reasoning = Reasoning(end="xy", begin="<t>", max_tokens=20)
    params = [
        SamplingParams(
            max_tokens=60,
            temperature=temperature,
            seed=n,
            guide=Guide(regex="[ab]{2,5}"),
            reasoning=reasoning if n % 3 else None,
        )
        for n in range(9)
    ]
    prompts = [f"prompt {n}" for n in range(9)]
    chains = SpecConfig(model=folders[1], num_draft_tokens=K) if spec else None
    baseline = spec if spec == "Python callbacks" else None
    llm, plain = baseline_llm(folders[0], baseline, spec=chains), make(folders, spec=False)
    outs = llm.generate(prompts, params)
    assert [out.token_ids for out in outs] == [
        out.token_ids for out in plain.generate(prompts, params)
    ]
    for out, param in zip(outs, params, strict=True):
        assert out.error is None and out.finish_reason == "stop"
        section = r"<t>(?s:.*?)xy" if param.reasoning else ""
        assert re.fullmatch(section + "[ab]{2,5}", out.text), out.text
    llm.close()
    plain.close()


def test_a_mark_that_the_model_cannot_write_ends_its_request_alone(folders):
    guide = Guide(regex="[ab]{2,5}")
    bad, good = generate(
        make(folders),
        ["a", "b"],
        [SamplingParams(guide=guide, reasoning=Reasoning(end=mark)) for mark in ("<|end|>", "ab")],
    )
    assert (
        isinstance(bad.error, InvalidParams)
        and "end token" in str(bad.error)
        and good.error is None
    )
