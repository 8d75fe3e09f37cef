"""Arbitrary traffic: every output is that of the same request alone, and nothing leaks, waits for
ever or is lost.

SPECGUIDE_FUZZ_EXAMPLES=5000 python -m pytest --timeout 0 tests/engine/test_engine_traffic.py runs
as many, of a new seed.
"""

from __future__ import annotations

import gc
import os
import time
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

import pytest
from baseline_llm import baseline_llm
from filled_up import filled_up
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from traffic import MATCHERS, MAX_MODEL_LEN, Job, random_job, serve

from benchmarks.baselines import BASELINES
from specguide import LLM, GuideConfig, SpecConfig, native
from specguide.config import CacheConfig
from specguide.drafts.tree import DynamicTree
from specguide.engine import Engine
from specguide.errors import MatcherError, RequestTimeout, UserError
from specguide.request import Request, RequestOutput

NUM_EXAMPLES = int(os.environ.get("SPECGUIDE_FUZZ_EXAMPLES", "0"))
PAGE = 4
CONFIGS = st.fixed_dictionaries(
    dict(
        lag=st.sampled_from([0, 1, 2]),
        max_batch_size=st.sampled_from([3, 6, 6, 1]),
        max_prefill_tokens=st.sampled_from([3, 16, 2048]),
        cache=st.sampled_from([33, 33, 40, 200]).map(
            lambda num_pages: CacheConfig(page_size=PAGE, num_pages=num_pages)
        ),
        guide=st.builds(
            GuideConfig,
            deadline_us=st.sampled_from([1, 300, 60_000_000]),
            callbacks=st.sampled_from(["native", "polling"]),
        ),
    )
)
CHAINS = st.fixed_dictionaries(
    dict(
        num_draft_tokens=st.sampled_from([1, 3]),
        guided_drafts=st.sampled_from([True, True, False]),
    )
)
SHAPES = st.sampled_from(
    [
        dict(tree=DynamicTree(4, 4, 20)),
        dict(tree=DynamicTree(4, 4, 20), adaptive=True),
        dict(num_draft_tokens=3, num_forced_tokens=8),
        dict(num_draft_tokens=3, num_forced_tokens=8, adaptive=True),
        dict(model=None, method="suffix", num_draft_tokens=6, num_forced_tokens=8),
    ]
)


@pytest.fixture(scope="module")
def plain(folders):
    llm = LLM(
        folders[0],
        spec=None,
        max_batch_size=1,
        max_model_len=MAX_MODEL_LEN,
        guide=GuideConfig(deadline_us=60_000_000),
        cache=CacheConfig(page_size=PAGE, num_pages=40),
    )
    yield llm
    llm.close()


def alone(plain: LLM, job: Job) -> tuple[RequestOutput, ...]:
    plain.reset_prefix_cache()
    return plain.generate([job.prompt_ids], replace(job.params, timeout_s=None))[0].samples


def may_fail(job: Job) -> bool:
    """Whether the job has a matcher that fails."""
    guide = job.params.guide
    return guide is not None and isinstance(guide.matcher, partial)


def check(one: Request, expected: RequestOutput, job: Job, plain: LLM) -> None:
    """Compare a request with the same request alone."""
    tokens, whole = tuple(one.output_ids), expected.token_ids
    if one.finish_reason == "abort" or isinstance(one.error, RequestTimeout):
        assert (
            job.cancel is not None
            if one.finish_reason == "abort"
            else job.params.timeout_s is not None
        )
        assert tokens == whole[: len(tokens)]
        # its first bytes may end a character of the prompt, and it may have begun a stop string
        texts = expected.text, plain.tokenizer.decode(whole)
        assert any(text.startswith(one.text.text.rstrip("\ufffd")) for text in texts)
    elif may_fail(job) and isinstance(expected.error or one.error, MatcherError):
        # drafts may find it first, also where no token is left that would
        num = min(len(tokens), len(whole))
        assert isinstance(one.error, MatcherError) and tokens[:num] == whole[:num]
    else:
        assert (tokens, one.text.text, one.finish_reason, one.stop_reason, one.error is None) == (
            whole,
            expected.text,
            expected.finish_reason,
            expected.stop_reason,
            expected.error is None,
        ), one.error
        assert not isinstance(expected.error, UserError) or str(one.error) == str(expected.error)
    if job.params.logprobs is not None:
        assert len(one.logprobs) == len(tokens)
        for entry, other in zip(one.logprobs, expected.logprobs, strict=False):
            assert entry.keys() == other.keys()
            for token in entry:  # two tokens alike up to rounding may change places
                assert abs(entry[token].rank - other[token].rank) <= 1
                assert abs(entry[token].logprob - other[token].logprob) < 1e-4


def check_nothing_is_left(engine: Engine) -> None:
    """Check that nothing is left of requests that have come and gone."""
    executor, scheduler = engine._executor, engine._scheduler
    assert engine.failure is None and engine.num_unfinished == 0
    assert (
        engine._pages.num_free == engine._pages.num_pages
        and not scheduler._placement.tables._tables
    )
    assert engine._requests.deadlines.wait_s() == float("inf") == engine.idle_s()
    assert not engine._admission.compiler._jobs
    end_s, num_slots = time.perf_counter() + 10, engine.config.max_batch_size
    while not all(map(executor.grammar.is_idle, range(num_slots))):
        assert time.perf_counter() < end_s
    slots = scheduler._placement._slots
    assert len(slots._free | slots._draining) == num_slots
    state = executor.step._state
    assert not state.active.any() and not state.lengths.any() and (state.block_table == -1).all()


@settings(
    max_examples=NUM_EXAMPLES or 14,
    derandomize=not NUM_EXAMPLES,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
@given(
    config=CONFIGS,
    spec=st.tuples(CHAINS, st.sampled_from([None, None, *BASELINES]))
    | st.tuples(st.none() | SHAPES),
    fills_up=st.booleans(),
    seeds=st.lists(st.integers(0, 2**32), min_size=4, max_size=14),
)
def test_any_traffic(folders, plain, config, spec, fills_up, seeds):
    """spec: drafts, and the parts other than the engine's own, if there are any"""
    target, head = folders
    drafts, *baseline = spec
    jobs = [random_job(seed) for seed in seeds]
    with filled_up() if fills_up else nullcontext():
        engine = baseline_llm(
            target,
            *baseline,
            spec=drafts and SpecConfig(**dict(model=head) | drafts),
            max_model_len=MAX_MODEL_LEN,
            **config,
        )._engine
    samples = serve(engine, jobs)
    for job, requests in zip(jobs, samples, strict=True):
        for request, expected in zip(requests, alone(plain, job), strict=True):
            check(request, expected, job, plain)
    check_nothing_is_left(engine)
    engine.close()
    del engine, samples, requests, request
    native.drain_releases()
    gc.collect()
    assert not MATCHERS
