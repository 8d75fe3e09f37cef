"""A scheduler of few pages, and requests for it."""

from __future__ import annotations

from specguide.batch import Batch
from specguide.cache import PageAllocator
from specguide.params import SamplingParams
from specguide.piggyback import NEVER_PIGGYBACK, PiggybackLimits
from specguide.request import Request, RequestSpec
from specguide.scheduler import Scheduler, SchedulerLimits
from specguide.scheduler.sequence import SequenceState

EOS, K, PAGE = 0, 3, 4


def make(
    num_pages: int = 64,
    max_batch_size: int = 4,
    max_model_len: int = 40,
    max_prefill_tokens: int = 2048,
    is_idle=lambda slot: True,
    num_draft_tokens: int = K,
    piggyback: PiggybackLimits = NEVER_PIGGYBACK,
) -> Scheduler:
    limits = SchedulerLimits(
        max_batch_size,
        max_model_len,
        max_prefill_tokens,
        num_draft_tokens,
        num_draft_tokens,
        PAGE,
        piggyback,
    )
    return Scheduler(limits, PageAllocator(num_pages), [EOS], is_idle)


def request(
    number: int = 0,
    prompt_len: int = 5,
    priority: int = 0,
    arrival_s: float = 0,
    token: int | None = None,
    **params,
) -> Request:
    """A request with a prompt of its own token, so that it does not find the pages of others,
    unless `token` is given."""
    prompt = [100 + number if token is None else token] * prompt_len
    spec = RequestSpec(
        number, prompt, SamplingParams(**params), priority=priority, arrival_s=arrival_s
    )
    return Request(spec)


def plan(scheduler: Scheduler) -> Batch | None:
    return scheduler.schedule().batch


def state_of(scheduler: Scheduler, one: Request) -> SequenceState:
    return scheduler._sequences[one.request_id]


def commit(scheduler: Scheduler, *results) -> list[Request]:
    """Commit an iteration; returns the requests that have finished."""
    return list(scheduler.commit(*results).finished)


def run_alone(scheduler: Scheduler, one: Request) -> None:
    """Run a request alone to the end of its prompt and its first token."""
    while not one.output_ids:
        batch = plan(scheduler)
        scheduler.commit(
            batch, [[5] if chunk.next_id is None else [] for chunk in batch.chunks], {}
        )
