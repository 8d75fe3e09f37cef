"""Matchers that fail, refuse or sleep, and checks that other requests are not affected."""

from __future__ import annotations

import time

from random_requests import cases

from specguide import LLM, Guide, GuideConfig, SamplingParams
from specguide.errors import MatcherError
from specguide.guided.grammar_future import GrammarFuture

SLEEPS_S = {"sleep": 0.2, "nap": 0.01}


class ScriptedMatcher:
    """A matcher that allows everything until `action` is called at one of its fills."""

    def __init__(self, action, at: int) -> None:
        self.action, self.at = action, at
        self.num_fills = 0
        self.num_accepted = 0
        self.is_terminated = False

    def accept(self, token):
        self.num_accepted += 1
        return self.action != "refuse" or self.num_accepted <= self.at

    def fill(self, row):
        self.num_fills += 1
        row[:] = -1
        row[8:] = 0
        if self.num_fills > self.at:
            if self.action == "raise":
                raise KeyError("the matcher broke")
            if self.action == "dead end":
                row[:] = 0
            if self.action in SLEEPS_S and self.num_fills <= self.at + 4:
                time.sleep(SLEEPS_S[self.action])

    def rollback(self, n):
        self.num_accepted -= n

    def forced_tokens(self):
        return []


class Scripted:
    """A compiled grammar whose matchers misbehave."""

    def __init__(self, action: str, at: int) -> None:
        self.action, self.at = action, at

    def matcher(self):
        return ScriptedMatcher(self.action, self.at)


def with_misfit(llm: LLM, grammar: Scripted, prompts, params):
    """Run requests beside one with this grammar, the misfit. Returns their outputs and the
    misfit."""
    engine = llm._engine
    future = GrammarFuture()
    submit = engine._admission.compiler.submit
    future.set_result(grammar)
    engine._admission.compiler.submit = lambda guide, room: future
    misfit = engine.add([5, 6, 7], SamplingParams(max_tokens=40, guide=Guide(regex="a")))
    engine._admission.compiler.submit = submit
    outs = llm.generate(prompts, params)
    while engine.num_unfinished:
        engine.step()
    return outs, misfit


def check_a_failing_matcher(llm: LLM, action: str, words: str) -> str:
    """Check that requests give the same outputs beside one whose matcher fails after 5 tokens.
    Returns its error; closes `llm`."""
    prompts, params = cases(4, 6)
    alone = llm.generate(prompts, params)
    outs, misfit = with_misfit(llm, Scripted(action, 5), prompts, params)
    assert [out.token_ids for out in outs] == [out.token_ids for out in alone]
    assert misfit.finish_reason == "error" and isinstance(misfit.error, MatcherError)
    assert words in str(misfit.error)
    llm._engine.check_integrity()
    llm.close()
    return str(misfit.error)


HOLDING = GuideConfig(deadline_us=2000)


def check_a_sleeping_matcher(llm: LLM, at: int = 3, prompts=("ab", "ab"), times: int = 1):
    """Check that requests give the same outputs beside one whose matcher sleeps from its fill `at`
    on, and that this one is held. Returns the outputs and that request; closes `llm`, which must
    have the deadline of HOLDING."""
    params = [SamplingParams(max_tokens=60, ignore_eos=True)] * len(prompts)
    alone = llm.generate(prompts, params)
    for _ in range(times):
        outs, misfit = with_misfit(llm, Scripted("sleep", at), prompts, params)
        assert [out.token_ids for out in outs] == [out.token_ids for out in alone]
        assert misfit.metrics.num_held > 0 and misfit.error is None and len(misfit.output_ids) == 40
    llm.close()
    return outs, misfit


FAILURES = [("raise", "the matcher broke"), ("dead end", "allows no"), ("refuse", "refused")]
