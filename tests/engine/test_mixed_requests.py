"""Mixed iterations with requests of every kind, and what may happen to one whose prompt rides; on
tiny models."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from logits_processors import alternate, echo
from misfits import Scripted
from random_requests import cases
from staggered import Watch, engine_of

from specguide import Guide, GuideConfig, SamplingParams, SpecConfig
from specguide.config import CacheConfig
from specguide.drafts.tree import DynamicTree
from specguide.engine import Engine
from specguide.guided.grammar_future import GrammarFuture
from specguide.params import Speculation
from specguide.request import Request

MODES: dict[str, dict[str, Any] | None] = {
    "plain": None,
    "eagle3": {},
    "tree": dict(tree=DynamicTree(3, 2, 8)),
    "adaptive": dict(adaptive=True),
    "adaptive tree": dict(tree=DynamicTree(3, 2, 8), adaptive=True),
    "draft_model": dict(method="draft_model"),
    "adaptive draft_model": dict(method="draft_model", adaptive=True),
    "mtp": dict(method="mtp"),
}
KINDS: list[dict[str, Any]] = [
    dict(),
    dict(n=2, temperature=0.8, top_k=20),
    dict(stop=["a", "}"], ignore_eos=True),
    dict(logprobs=2, return_drafts=True),
    dict(bad_words=["e"], frequency_penalty=0.5, logit_bias={101: 3.0}, min_tokens=4),
    dict(prompt_logprobs=1),
    dict(stop_token_ids=[101, 32], temperature=0.7, top_p=0.9, min_p=0.01),
    dict(speculation=Speculation(num_draft_tokens=0, guided_drafts=False)),
    dict(logits_processors=[alternate]),
    dict(logits_processors=[echo], temperature=0.9),
]
FREE_ONLY = {"stop", "stop_token_ids"}
"""Parameters that no guided request takes."""

FREE = SamplingParams(max_tokens=60, ignore_eos=True)

Asked = list[tuple[list[int], SamplingParams]]


def spec_of(mode: str, models: dict[str, Path]) -> SpecConfig | None:
    given = MODES[mode]
    if given is None:
        return None
    model = models[given.get("method", "eagle3")]
    return SpecConfig(**{"model": model, "num_draft_tokens": 3} | given)


def asked(engine: Engine, mode: str) -> Asked:
    """Prompts of 1 to 60 tokens, many of them guided; trees take no logits processors."""
    kinds = KINDS[:-2] if "tree" in mode else KINDS
    prompts, params = cases(3, 2 * len(kinds))
    requests = []
    for at, (prompt, each) in enumerate(zip(prompts, params, strict=True)):
        kind = kinds[at % len(kinds)]
        guide = None if kind.keys() & FREE_ONLY else each.guide
        made = SamplingParams(max_tokens=16, seed=at, guide=guide, **kind)
        requests.append((engine.prompt_ids(prompt), made))
    return requests


def staggered(engine: Engine, requests: Asked, steps_between: int) -> list[Request]:
    added = []
    for prompt_ids, params in requests:
        added += [engine.add(prompt_ids, params, sample=at) for at in range(params.n)]
        for _ in range(steps_between):
            engine.step()
    finish(engine)
    return added


def finish(engine: Engine) -> None:
    while engine.num_unfinished:
        engine.step()
    engine.check_integrity()


def told(request: Request) -> tuple[Any, ...]:
    """The parts of a request that a caller reads, but for log-probabilities."""
    return (
        request.output_ids,
        request.text.text,
        request.finish_reason,
        request.stop_reason,
        str(request.error),
        [sorted(entry) for entry in request.logprobs],
    )


def logprobs(request: Request) -> list[float]:
    """The log-probabilities of a request's prompt and output, each entry by token."""
    entries = [entry or {} for entry in (*request.prompt_logprobs, *request.logprobs)]
    return [entry[token].logprob for entry in entries for token in sorted(entry)]


def check_same(found: list[Request], expected: list[Request]) -> None:
    """Another order of sums changes the last digits of log-probabilities."""
    assert list(map(told, found)) == list(map(told, expected))
    for one, other in zip(found, expected, strict=True):
        assert logprobs(one) == pytest.approx(logprobs(other), abs=1e-3)


def tiny(folders: tuple[Path, Path], spec: SpecConfig | None, **options) -> tuple[Engine, Watch]:
    return engine_of(spec, model=folders[0], **options)


def eagle3(folders: tuple[Path, Path], **options) -> tuple[Engine, Watch]:
    return tiny(folders, SpecConfig(model=folders[1], num_draft_tokens=3), **options)


@pytest.fixture(scope="module")
def alone(folders):
    """The outputs of a mode's requests, each on its own, without chunks and speculation."""
    known = {}

    def of(mode: str) -> list[Request]:
        key = "tree" in mode
        if key not in known:
            engine, _ = tiny(folders, None, mixed_iterations=False, max_batch_size=1)
            requests = asked(engine, mode)
            known[key] = [one for each in requests for one in staggered(engine, [each], 0)]
            engine.close()
        return known[key]

    return of


@pytest.mark.parametrize("lag", [0, 1, 2])
@pytest.mark.parametrize("mode", MODES)
def test_every_kind_of_request_gives_what_it_gives_alone(folders, models, alone, mode, lag):
    engine, watch = tiny(folders, spec_of(mode, models), lag=lag, max_prefill_tokens=16)
    outputs = staggered(engine, asked(engine, mode), 2)
    check_same(outputs, alone(mode))
    assert {one.finish_reason for one in outputs} >= {"stop", "length"}
    assert len(watch.chunks) > 5 and watch.num_starts > 5 and max(watch.chunks) <= 16
    engine.close()


@pytest.mark.parametrize("mode", ["eagle3", "draft_model", "mtp"])
def test_as_much_is_accepted_behind_a_prompt_that_rode(folders, models, mode):
    """The drafter's keys of a prompt are those of a prefill, so it proposes the same."""
    histograms = []
    slow = replace(FREE, max_tokens=200, speculation=Speculation(num_draft_tokens=0))
    for mixed in (True, False):
        engine, watch = tiny(
            folders, spec_of(mode, models), mixed_iterations=mixed, max_prefill_tokens=16
        )
        engine.add(engine.prompt_ids("ab"), slow)
        engine.step()
        prompts = [engine.prompt_ids(f"{times} abc {{}}" * times) for times in (1, 4, 7)]
        requests = staggered(engine, [(ids, replace(FREE, max_tokens=20)) for ids in prompts], 9)
        histograms.append([one.metrics.accepted_histogram for one in requests])
        assert watch.num_starts == (3 if mixed else 0)
        engine.close()
    assert histograms[0] == histograms[1]
    if mode == "draft_model":  # the target itself, which is always right
        assert all(sum(counts[:-1]) <= 2 for counts in histograms[0])


def riding(engine: Engine, watch: Watch, prompt_ids: list[int], params: SamplingParams) -> Request:
    """A request of whose prompt some is computed, beside one that decodes."""
    engine.add(engine.prompt_ids("ab"), replace(FREE, max_tokens=80))
    for _ in range(4):
        engine.step()
    request = engine.add(prompt_ids, params)
    while not watch.chunks:
        engine.step()
    return request


LONG = "abc {}" * 9
GUIDED = SamplingParams(max_tokens=30, guide=Guide(regex="[a-f0-9]{25}"))


def given_alone(folders: tuple[Path, Path], params: SamplingParams) -> list[int]:
    engine, _ = eagle3(folders)
    request = engine.add(engine.prompt_ids(LONG), params)
    finish(engine)
    engine.close()
    return request.output_ids


@pytest.mark.parametrize("lag", [0, 1, 2])
def test_a_request_that_is_cancelled_while_its_prompt_rides(folders, lag):
    engine, watch = eagle3(folders, lag=lag, max_prefill_tokens=16)
    gone = riding(engine, watch, engine.prompt_ids(LONG), GUIDED)
    engine.cancel(gone)
    again = engine.add(engine.prompt_ids(LONG), GUIDED)
    finish(engine)
    assert gone.finish_reason == "abort" and not gone.output_ids
    assert again.output_ids == given_alone(folders, GUIDED)
    engine.close()


@pytest.mark.parametrize("lag", [0, 1, 2])
@pytest.mark.parametrize("when", ["rides", "starts"])
def test_a_request_that_loses_its_pages_while_it(folders, when, lag):
    engine, watch = eagle3(folders, lag=lag, max_prefill_tokens=16)
    request = riding(engine, watch, engine.prompt_ids(LONG), GUIDED)
    while when == "starts" and not watch.num_starts:
        engine.step()
    scheduler = engine._scheduler
    scheduler._placement.preempt(scheduler._sequences[request.request_id])
    finish(engine)
    assert request.metrics.num_preemptions == 1
    assert request.output_ids == given_alone(folders, GUIDED)
    engine.close()


@pytest.mark.parametrize("lag", [0, 1, 2])
def test_so_few_pages_that_requests_lose_theirs(folders, alone, lag):
    cache = CacheConfig(page_size=4, num_pages=42)
    engine, watch = eagle3(folders, lag=lag, max_prefill_tokens=16, cache=cache)
    outputs = staggered(engine, asked(engine, "eagle3"), 1)
    check_same(outputs, alone("eagle3"))
    assert sum(one.metrics.num_preemptions for one in outputs) > 0
    assert watch.chunks and watch.num_starts
    engine.close()


@pytest.mark.parametrize("lag", [0, 2])
def test_a_matcher_whose_first_row_is_late_holds_its_own_start_only(folders, lag):
    outputs = []
    for deadline_us in (2_000, 5_000_000):
        guide = GuideConfig(deadline_us=deadline_us, target_wait_us=deadline_us)
        engine, watch = eagle3(folders, lag=lag, guide=guide)
        first = engine.add(engine.prompt_ids("ab"), replace(FREE, max_tokens=90))
        for _ in range(4):
            engine.step()
        late = with_grammar(engine, Scripted("sleep", 0))
        finish(engine)
        assert watch.num_starts >= 1 and late.error is None and first.metrics.num_held == 0
        assert (late.metrics.num_held > 0) == (deadline_us == 2_000)
        outputs.append((first.output_ids, late.output_ids))
        engine.close()
    assert outputs[0] == outputs[1]


def with_grammar(engine: Engine, grammar: Scripted) -> Request:
    """A request with a compiled grammar of one's own."""
    compiler, future = engine._admission.compiler, GrammarFuture()
    future.set_result(grammar)
    submit, compiler.submit = compiler.submit, lambda guide, room: future
    request = engine.add([5, 6, 7], SamplingParams(max_tokens=20, guide=Guide(regex="a")))
    compiler.submit = submit
    return request


@pytest.mark.parametrize("lag", [0, 1, 2])
@pytest.mark.parametrize("max_tokens", [1, 2, 3])
def test_a_prompt_of_which_one_token_is_left_behind_chunks_under_way(folders, lag, max_tokens):
    params = replace(FREE, max_tokens=max_tokens)
    engine, _ = eagle3(folders, lag=lag, max_prefill_tokens=16)
    request = engine.add(engine.prompt_ids(LONG)[:33], params)
    finish(engine)
    assert request.error is None and len(request.output_ids) == max_tokens
    engine.close()


@pytest.mark.parametrize("lag", [0, 1, 2])
def test_a_prompt_of_one_token_waits_for_nobody(folders, lag):
    engine, watch = eagle3(folders, lag=lag)
    first = engine.add(engine.prompt_ids("ab"), FREE)
    for _ in range(4):
        engine.step()
    short = engine.add([99], replace(FREE, max_tokens=3))
    while short.finish_reason is None:
        engine.step()
    assert first.finish_reason is None and watch.num_starts == 1
    finish(engine)
    engine.close()


def test_a_prompt_that_is_in_the_cache_but_for_its_end(folders):
    engine, watch = eagle3(folders)
    expected = given_alone(folders, GUIDED)
    for _ in range(2):
        watch.chunks.clear()
        request = riding(engine, watch, engine.prompt_ids(LONG), GUIDED)
        finish(engine)
        assert request.output_ids == expected
    assert request.metrics.num_cached >= 48 and sum(watch.chunks) < 8
    engine.close()


def test_prompts_that_are_scored_run_apart_beside_others_that_ride(folders):
    outputs = []
    for mixed in (True, False):
        engine, watch = eagle3(folders, mixed_iterations=mixed, max_prefill_tokens=16)
        scored = [replace(FREE, max_tokens=12, prompt_logprobs=1), replace(FREE, max_tokens=12)]
        prompts = [engine.prompt_ids(str(at) + LONG) for at in range(8)]
        requests = [(ids, scored[at % 2]) for at, ids in enumerate(prompts)]
        outputs.append(staggered(engine, requests, 3))
        assert bool(watch.chunks) == mixed
        engine.close()
    check_same(*outputs)
