"""Matchers written by users: they guide, they fail alone, and what they lack is said."""

from __future__ import annotations

from dataclasses import replace

import pytest
from random_requests import cases
from tiny_engine import generate, make
from user_matchers import EOS, Alternating

from specguide import LLM, Guide, Reasoning, SamplingParams, SpecConfig
from specguide.config import CacheConfig
from specguide.drafts.tree import DynamicTree
from specguide.errors import InvalidGuide, MatcherError


@pytest.mark.parametrize("spec", [True, False])
def test_they_guide(folders, spec):
    llm = make(folders, spec=spec)
    assert tuple(llm.tokenizer.encode("ab")) == Alternating.LETTERS
    guide = Guide(matcher=Alternating)
    params = [
        SamplingParams(max_tokens=40, guide=guide, reasoning=reasoning, temperature=1.0, seed=5)
        for reasoning in (None, Reasoning(end="zz", max_tokens=3))
    ]
    plain, reasoned = llm.generate(["x", "y"], params)
    assert (plain.text, plain.finish_reason, plain.error) == ("ababab", "stop", None)
    assert reasoned.text.endswith("zzababab") and len(reasoned.token_ids) <= 3 + 2 + 6 + 1
    llm.close()


def test_one_that_fails_ends_its_request_alone(folders):
    class Failing(Alternating):
        def fill(self, row):
            if len(self.taken) >= 2:
                raise KeyError("out of ideas")
            super().fill(row)

    made = []

    def make_once():
        if made:
            raise OSError("no more matchers")
        made.append(1)
        return Alternating()

    prompts, params = cases(3, 4)
    llm = make(folders)
    expected = llm.generate(prompts, params)
    failing = [SamplingParams(guide=Guide(matcher=maker)) for maker in (Failing, make_once)]
    *outs, first, second = llm.generate([*prompts, "x", "y"], [*params, *failing])
    assert [out.token_ids for out in outs] == [out.token_ids for out in expected]
    assert isinstance(first.error, MatcherError) and "out of ideas" in str(first.error)
    assert isinstance(second.error, MatcherError) and "no more matchers" in str(second.error)
    llm._engine.check_integrity()
    llm.close()


class _OneWay(Alternating):
    """Allows letters in any order, but fails wherever an output goes another way than `known`, or
    as far as that is `failing`; then it has forgotten all."""

    known: tuple[int, ...] = ()
    failing = 99
    num_failures = 0

    def allowed(self):
        return [] if self.is_terminated else [EOS] if len(self.taken) == 20 else [*range(64, 68)]

    def accept(self, token):
        place = len(self.taken)
        if self.known and (token not in self.known[place : place + 1] or place == self.failing):
            type(self).num_failures += 1
            self.taken = []
            raise KeyError("lost")
        return super().accept(token)


@pytest.mark.parametrize(
    "spec",
    [
        SpecConfig("eagle3", num_draft_tokens=3),
        SpecConfig("eagle3", tree=DynamicTree(4, 2, 8)),
        SpecConfig("eagle3", num_draft_tokens=2, num_forced_tokens=2),
        SpecConfig("suffix"),
    ],
)
def test_one_that_fails_at_a_draft_fails_only_where_the_target_goes_there(folders, spec):
    target, head = folders
    params = SamplingParams(guide=Guide(matcher=_OneWay), max_tokens=24, temperature=1.5, seed=3)

    def outputs(spec, **kept):
        llm, one = LLM(target, spec=spec), type("One", (_OneWay,), kept)
        outs = llm.generate(["x"] * 3, replace(params, guide=Guide(matcher=one)))
        llm._engine.check_integrity()
        llm.close()
        return outs, one.num_failures

    (known, *_), _ = outputs(None)
    (failed, *_), _ = outputs(None, known=known.token_ids, failing=9)
    assert len(known.token_ids) > 12 and "after 9 tokens: KeyError: 'lost'" in str(failed.error)
    if spec.method == "eagle3":
        spec = replace(spec, model=head)
    outs, num_failures = outputs(spec, known=known.token_ids)
    for out in outs:
        assert (out.token_ids, out.finish_reason) == (known.token_ids, known.finish_reason)
    assert num_failures > 0
    at_the_end = known.token_ids.index(EOS)
    for failing, expected in ((9, failed), (at_the_end, known)):
        for out in outputs(spec, known=known.token_ids, failing=failing)[0]:
            assert (out.token_ids, str(out.error)) == (expected.token_ids, str(expected.error))


def test_one_that_makes_nothing_guides_nobody_freely(folders):
    made = [Alternating()]
    (out,) = generate(
        make(folders),
        "x",
        SamplingParams(guide=Guide(matcher=lambda: made.pop() if made else None)),
    )
    assert (
        isinstance(out.error, MatcherError)
        and "lacks accept" in str(out.error)
        and out.token_ids == ()
    )


@pytest.mark.parametrize("spec", [True, False])
@pytest.mark.parametrize("lag", [0, 1])
def test_an_output_that_is_complete_needs_no_way_on(folders, spec, lag):
    class Short(Alternating):
        def allowed(self):
            return [self.LETTERS[0]] if len(self.taken) < 4 else []

    llm = make(folders, spec=spec, lag=lag)
    guide = Guide(matcher=Short)
    complete, short = generate(
        llm, ["x", "x"], [SamplingParams(guide=guide, max_tokens=num) for num in (4, 5)]
    )
    assert (complete.text, complete.finish_reason, complete.error) == ("aaaa", "length", None)
    assert short.token_ids == complete.token_ids and "after 4" in str(short.error)


def test_one_that_forgets_what_it_allowed_ends_its_request_alone(folders):
    """Seen when a request has lost its pages: its matcher is made anew and follows the output."""
    made = []

    class Fickle(Alternating):
        def __init__(self):
            super().__init__()
            made.append(self)

        def accept(self, token):
            return len(made) < 3 and super().accept(
                token
            )  # the first was made to be looked at, the third follows

        def allowed(self):
            return [] if self.is_terminated else list(self.LETTERS)

    llm = make(folders, max_batch_size=2, cache=CacheConfig(page_size=16, num_pages=36))
    free, fickle = (
        SamplingParams(max_tokens=300, ignore_eos=True),
        SamplingParams(max_tokens=200, guide=Guide(matcher=Fickle)),
    )
    (expected,) = llm.generate(["x" * 150], free)
    neighbour, out = llm.generate(["x" * 150, "y" * 150], [free, fickle])
    assert neighbour.token_ids == expected.token_ids and out.metrics.num_preemptions
    assert isinstance(out.error, MatcherError) and "refuses token" in str(out.error)
    llm._engine.check_integrity()
    llm.close()


@pytest.mark.parametrize("spec", [True, False])
def test_one_that_ends_without_an_end_token_guides_nobody_freely(folders, spec):
    """Rows of a terminated matcher are free."""

    class Endless(Alternating):
        @property
        def is_terminated(self):
            return len(self.taken) == 6

    class Over(Alternating):
        is_terminated = True

    class Told(Alternating):
        def is_terminated(self):  # a method in place of a property
            return self.taken[-1:] == [EOS]

        def allowed(self):
            if self.is_terminated():
                return []
            return [EOS] if len(self.taken) == 6 else [self.LETTERS[len(self.taken) % 2]]

    params = [SamplingParams(guide=Guide(matcher=one)) for one in (Endless, Over, Told)]
    endless, over, told = generate(make(folders, spec=spec), ["x", "y", "z"], params)
    assert isinstance(endless.error, MatcherError) and "no end token" in str(endless.error)
    assert "ababab".startswith(endless.text)
    assert isinstance(over.error, InvalidGuide) and "before it has taken" in str(over.error)
    assert (told.text, told.finish_reason, told.error) == ("ababab", "stop", None)


def test_what_they_lack_is_said(folders):
    class Half:
        def accept(self, token):
            return True

    class Unsure(Alternating):
        @property
        def is_terminated(self):
            raise OSError("who knows")

    def broken():
        raise ValueError("no")

    makers = (Half, broken, Unsure)
    half, failed, unsure = generate(
        make(folders), ["x", "y", "z"], [SamplingParams(guide=Guide(matcher=m)) for m in makers]
    )
    assert isinstance(
        half.error, InvalidGuide
    ) and "lacks fill, rollback, is_terminated, forced_" in str(half.error)
    assert isinstance(failed.error, InvalidGuide) and "ValueError: no" in str(failed.error)
    assert isinstance(unsure.error, InvalidGuide) and "OSError: who knows" in str(unsure.error)
    with pytest.raises(InvalidGuide, match="function that makes a matcher"):
        Guide(matcher=3)


@pytest.mark.parametrize(
    "spec", [None, SpecConfig("suffix"), SpecConfig("eagle3", tree=DynamicTree(4, 2, 8))]
)
def test_what_one_does_not_write_allows_nothing(folders, spec):
    class Silent(Alternating):
        def fill(self, row):
            pass

    target, head = folders
    if spec is not None and spec.tree is not None:
        spec = replace(spec, model=head)
    llm = LLM(target, spec=spec)
    others, guide = Guide(matcher=Alternating), Guide(matcher=Silent)
    llm.generate(["x"] * 4, SamplingParams(max_tokens=8, guide=others))  # leaves rows behind
    (silent,) = llm.generate("x", SamplingParams(max_tokens=8, guide=guide))
    assert "no token" in str(silent.error) and silent.token_ids == ()
    llm.close()
