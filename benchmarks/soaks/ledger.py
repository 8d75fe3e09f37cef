"""Owns which requests are under way, and whether they and the engine's counters came out right."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable

from benchmarks.soaks.jobs import Job
from benchmarks.soaks.watched_engine import WatchedEngine
from specguide.guided.backends import CompiledGrammar
from specguide.params import SamplingParams
from specguide.request import Request
from specguide.tokenizer import Tokenizer


class Ledger:
    """Which requests are under way, and whether those that ended were right.

    outputs: tokens of the last greedy output of each job, by its number
    faults:  what was wrong, one line each
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        grammar_of: Callable[[SamplingParams], CompiledGrammar | None],
    ) -> None:
        self._tokenizer, self._grammar_of = tokenizer, grammar_of
        self._under_way: dict[Request, Job] = {}
        self._unchecked: list[tuple[Request, Job]] = []
        self.outputs: dict[int, tuple[int, ...]] = {}
        self.faults: list[str] = []
        self.totals: Counter[str] = Counter()

    def add(self, request: Request, job: Job) -> None:
        """The request was given to the engine."""
        self._under_way[request] = job
        self.totals["requests"] += 1
        self.totals["sampled"] += request.params.temperature > 0

    def take(self, request: Request) -> None:
        """The engine has returned it."""
        job = self._under_way.pop(request, None)
        if job is None:
            self.faults.append(f"request {request.request_id} was returned twice")
        else:
            self._unchecked.append((request, job))

    def is_under_way(self, request: Request | None) -> bool:
        """Added and not yet taken."""
        return request in self._under_way

    def check(self) -> None:
        """Walk each output through a fresh matcher, and validate those that their grammar ended."""
        for request, job in self._unchecked:
            fault = self._fault(request, job)
            if fault is not None:
                self.faults.append(f"request {request.request_id}, job {job.number}: {fault}")
            metrics = request.metrics
            self.totals.update(
                {
                    str(request.finish_reason): 1,
                    "output_tokens": len(request.output_ids),
                    "iterations": metrics.num_iterations,
                    "held": metrics.num_held,
                }
            )
        self._unchecked.clear()

    def close(self) -> None:
        """Notes a fault for each request that has not come back."""
        self.check()
        self.faults += [f"request {request.request_id} was lost" for request in self._under_way]

    def _fault(self, request: Request, job: Job) -> str | None:
        if request.finish_reason not in ("stop", "length"):
            return f"ended by {request.finish_reason}: {request.error}"
        tokens = tuple(request.output_ids)
        if tokens == self.outputs.get(job.number):
            return None
        grammar = self._grammar_of(request.params)
        assert grammar is not None
        matcher = grammar.matcher()
        refused = next((at for at, token in enumerate(tokens) if not matcher.accept(token)), None)
        if refused is not None:
            return f"its grammar refuses token {refused}, {tokens[refused]}"
        if request.finish_reason == "stop":
            if not matcher.is_terminated:
                return "it stopped where its grammar goes on"
            text = self._tokenizer.decode(tokens)
            if not job.validator.is_valid(json.loads(text)):
                return f"{text} does not match {job.schema}"
        if request.params.temperature == 0:
            self.outputs[job.number] = tokens
        return None


def counter_faults(engine: WatchedEngine, totals: Counter[str]) -> list[str]:
    """What the executor counted, held against what the requests say; all of them have ended.

    A request runs along for up to `lag` iterations after its end, and behind a prefill that is held
    for as many that give nothing; its own figures leave both out, and may leave out that prefill.
    """
    stats = engine.stats()
    pages = engine._pages
    capabilities = engine._executor.capabilities
    counted = stats.grammar
    num_nodes = capabilities.layout.num_drafts + 1
    slack = capabilities.lag * totals["requests"]
    walked = totals["iterations"] + totals["held"] + totals["requests"]  # and a prefill each
    num_walks = 2 if counted["guessed_draft_rows"] else 1  # what was guessed is walked again
    most = num_walks * num_nodes
    held = counted["held"]  # at most so many prefills, which `walked` may count twice
    rules = {
        "tokens given out are those that requests have": stats.output_tokens
        == totals["output_tokens"],
        "guided iterations are those of the requests": walked - held
        <= counted["iterations"]
        <= walked + 2 * slack + held,
        # Behind a prefill that is held, `lag` iterations are under way that give nothing, their
        # rows in time or not.
        "held slots are those of the requests": held - slack
        <= totals["held"]
        <= (1 + capabilities.lag) * held,
        "no walk has more than K + 1 fills": counted["max_fills"] <= most,
        "no walk has more than K + 1 accepts": counted["max_accepts"] <= most,
        "no walk has more than one rollback": counted["max_rollbacks"] <= num_walks,
        "fills add up": totals["requests"] <= counted["fills"] <= most * counted["iterations"],
        "all pages are free": pages.num_free == pages.num_pages,
    }
    figures = f"counted {dict(counted)}, requests {dict(totals)}"
    return [f"not so: {rule} ({figures})" for rule, holds in rules.items() if not holds]
