"""Owns the loop: schedule, submit, launch, collect, commit, publish."""

from __future__ import annotations

import secrets
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count
from pathlib import Path

from specguide.batch import Batch, StepOutput
from specguide.cache import CacheSize, PageAllocator
from specguide.config import EngineConfig
from specguide.engine.adaptive import AllDrafts, LevelChoice
from specguide.engine.admission import Admission
from specguide.engine.deadlines import Deadlines
from specguide.engine.draft_counts import count_drafts
from specguide.engine.executors import Executor, LocalExecutor, target_folder
from specguide.engine.failures import iteration_errors, timeout, told
from specguide.engine.in_use import InUse, one_at_a_time
from specguide.engine.iterations import InFlight, launch, take_iterations
from specguide.engine.logprobs import take_logprobs
from specguide.engine.stats import EngineStats, RequestCounts
from specguide.errors import EngineError, InvalidParams, SpecguideError
from specguide.guided.backends import CompiledGrammar, check_backend
from specguide.integers import as_int
from specguide.params import SamplingParams
from specguide.request import IterationTimes, Request
from specguide.scheduler import OutputText, Scheduler
from specguide.speculation.selection import guide_snapshot
from specguide.tokenizer import Tokenizer
from specguide.trace import Span, write_chrome_trace

_POLL_S = 0.001  # between looks at slots that a grammar worker is still inside


class Engine:
    """Runs requests of token ids to their end, many at once.

    vocab_size:    width of the target's logits
    max_model_len: longest prompt plus output, tokens
    failure:       why the last iteration that failed did; None where none has
    in_use:        entered while a call is under way

    `add` takes a request at any time, `step` runs one iteration and returns the requests that
    finished. One call at a time, of whatever thread: where one is under way, another raises
    EngineError, but for what says "from any thread".
    """

    def __init__(self, config: EngineConfig, executor: Executor | None = None) -> None:
        """executor: runs the batches; None: one in this process, with the models of `config`"""
        check_backend(config.guide)
        self.in_use = InUse()
        self.config = config
        with ThreadPoolExecutor(1) as reader:  # beside the weights, which take no interpreter
            tokenizer = reader.submit(_tokenizer, config)
            self._executor: Executor = executor or LocalExecutor.load(config)
        self.tokenizer = tokenizer.result()
        capabilities, self._guide = self._executor.capabilities, self._executor.guide
        self._recorder = self._guide.recorder
        self.vocab_size, self.max_model_len = capabilities.vocab_size, capabilities.max_model_len
        self._admission = Admission(config, self.tokenizer, capabilities)
        self._pages = PageAllocator(capabilities.cache_size.num_pages)
        self._scheduler = Scheduler(
            max_batch_size=config.max_batch_size,
            max_model_len=capabilities.max_model_len,
            max_prefill_tokens=config.max_prefill_tokens,
            num_draft_tokens=capabilities.window.num_drafts,
            num_draft_positions=capabilities.window.num_positions,
            page_size=config.cache.page_size,
            pages=self._pages,
            eos_token_ids=self.tokenizer.eos_token_ids,
            slot_is_idle=self._guide.is_idle,
        )
        is_adaptive = config.spec is not None and config.spec.adaptive
        self._levels = LevelChoice(capabilities.window) if is_adaptive else AllDrafts()
        self._lag = capabilities.lag
        self._in_flight: deque[InFlight] = deque()
        self._deadlines = Deadlines()
        self._ended: list[Request] = []  # and not returned yet
        self.failure: EngineError | None = None
        self._request_ids = count()
        self._counts = RequestCounts(capabilities.window.num_drafts)
        self._iterations, self._output_tokens, self._step_s = 0, 0, 0.0
        self._warm_up_ns = 0  # of the callbacks

    @property
    def num_unfinished(self) -> int:
        """Requests that have been added and not yet returned by `step`."""
        return self._admission.num_compiling + len(self._ended) + self._scheduler.num_unfinished

    @property
    def on_ready(self) -> Callable[[], None]:
        """Called when a grammar has been compiled, from any thread."""
        return self._admission.on_ready

    @on_ready.setter
    def on_ready(self, call: Callable[[], None]) -> None:
        self._admission.on_ready = call

    @property
    def cache_size(self) -> CacheSize:
        """What the KV cache holds; as text, in words."""
        return self._executor.capabilities.cache_size

    def prompt_ids(self, prompt: str | Sequence[int]) -> list[int]:
        """Token ids of a prompt, given as text or as ids. From any thread. Raises InvalidParams."""
        return self._admission.prompt_ids(prompt)

    def grammar_of(self, params: SamplingParams) -> CompiledGrammar | None:
        """The grammar of a request's whole output, a reasoning section included; None where it has
        no guide.

        Waits for a compile; what one came to is kept. From any thread. Raises what the request
        would end with.
        """
        return self._admission.grammar_of(params)

    @one_at_a_time
    def add(
        self,
        prompt_ids: Sequence[int],
        params: SamplingParams,
        *,
        priority: int = 0,
        sample: int = 0,
        arrival_s: float | None = None,
    ) -> Request:
        """Take a request. What is wrong with it ends it with its error, at the next `step`.

        priority:  each step is worth a head start, see scheduler.waiting
        sample:    which of the prompt's params.n samples it is; each is a request of its own
        arrival_s: when it came, by `time.perf_counter`; None: now
        """
        detokenizer = self.tokenizer.detokenizer(prompt_ids, is_guided=params.guide is not None)
        text = OutputText(detokenizer, params.stop or (), params.include_stop_str_in_output)
        arrival_s = time.perf_counter() if arrival_s is None else arrival_s
        request = Request(
            next(self._request_ids),
            list(prompt_ids),
            params,
            _seed(params.seed, sample),
            priority=as_int(priority),
            text=text,
            arrival_s=arrival_s,
            sample=sample,
        )
        request.metrics.prompt_tokens = len(request.prompt_ids)
        self._deadlines.add(request)
        if params.guide is None:
            self._admit(request)
        else:
            self._admission.compile(request)
        return request

    @one_at_a_time
    def cancel(self, request: Request) -> None:
        """End a request as aborted; the next `step` returns it. Nothing happens to one that has
        ended."""
        if request.finish_reason is None:
            self._end(request)

    def idle_s(self) -> float:
        """Seconds in which there is nothing to do, if no request is added and no grammar compiled;
        0: `step` has work.

        Infinite where no deadline will come.
        """
        is_busy = self._is_running or self._ended or self._admission.has_compiled
        return 0.0 if is_busy else self._deadlines.wait_s()

    @one_at_a_time
    def step(self) -> list[Request]:
        """Launch an iteration and take the results of those that are due. Returns the requests that
        finished.

        Waits for a grammar where nothing else can run. Raises EngineError where the engine cannot
        go on.
        """
        self._take_up()
        start = time.perf_counter()
        try:
            batch = self._schedule()
            if batch is not None:
                self._submit(batch)
                self._launch(batch)
            for launched in self._due(batch):
                output, times = self._collect(launched)
                self._commit(launched.batch, output, times)
        except BaseException as cause:
            self._abandon(cause)
            if not isinstance(cause, Exception):  # say Ctrl-C, which is the caller's
                raise
        self._step_s += time.perf_counter() - start
        return self._publish()

    @one_at_a_time
    def warm_up(self) -> None:
        """Compile all kernels and capture all CUDA graphs that requests may need; else both happen
        as they come up.

        Takes some seconds, a minute where kernels have never been compiled, and shows a progress
        bar; what is captured already is not captured again. Nothing to do on a CPU. A timeline
        shows it as iterations of their own phase; nothing else counts them. Raises EngineError
        while requests are under way, and where a capture fails.
        """
        if self.num_unfinished:
            raise EngineError(
                f"warm_up must run before requests are added or after they have ended, and "
                f"{self.num_unfinished} are under way: step the engine until they have ended"
            )
        self._admission.compiler.warm_up()
        try:
            for launched in self._due(None):
                self._commit(launched.batch, *launched.collect())
            before_ns = self._guide.counters()["callback_ns"]
            self._executor.warm_up()
            self._guide.errors(())
        except BaseException as cause:
            self._abandon(cause)
            if not isinstance(cause, Exception):
                raise
            raise EngineError(f"the warm-up failed: {cause}") from cause
        self._warm_up_ns += self._guide.counters()["callback_ns"] - before_ns

    @one_at_a_time
    def close(self) -> None:
        """End what is in flight as aborted and stop the worker threads."""
        for request in self._admission.take_all():
            self._end(request)
        self._release(self._scheduler.abort().released)
        self._ended.clear()
        for launched in self._due(None):
            launched.collect()
        self._admission.compiler.close()

    def stats(self) -> EngineStats:
        """What was done since the start, and how it stands. From any thread."""
        counts, pages, num_running = self._counts, self._pages, self._scheduler.num_running
        counters = self._guide.counters()
        counters["callback_ns"] -= self._warm_up_ns
        return EngineStats(
            iterations=self._iterations,
            output_tokens=self._output_tokens,
            step_s=self._step_s,
            grammar_s=counters["callback_ns"] * 1e-9,
            grammar_exposed_s=self._guide.exposed_s,
            grammar=counters,
            num_waiting=max(0, self.num_unfinished - num_running),
            num_running=num_running,
            max_batch_size=self.config.max_batch_size,
            num_pages_used=pages.num_pages - pages.num_free,
            num_pages=pages.num_pages,
            finished=dict(counts.finished),
            prompts=dict(counts.prompts),
            accepted={k: list(v) for k, v in counts.accepted.items()},
            latency={name: histogram.copy() for name, histogram in counts.latency.items()},
        )

    @one_at_a_time
    def reset_prefix_cache(self) -> None:
        """Forget the keys of earlier prompts and outputs: the next requests compute all of
        theirs."""
        self._pages.forget()

    @one_at_a_time
    def spans(self) -> list[Span]:
        """The timeline so far. Waits for what is under way; raises InvalidParams where there is
        none."""
        if not self.config.trace:
            raise InvalidParams(
                "there is no timeline: build the engine with trace=True", param="trace"
            )
        self._recorder.add_callbacks(self._guide.take_callback_times())
        return self._recorder.spans()

    def write_trace(self, path: str | Path) -> None:
        """Write the timeline so far as a Chrome trace. Raises InvalidParams where there is none,
        and for the path."""
        write_chrome_trace(path, self.spans())

    def check_integrity(self) -> None:
        """Raise EngineError when a page or slot is lost or held twice."""
        self._scheduler.check_integrity()

    @property
    def _is_running(self) -> bool:
        return bool(self._in_flight or self._scheduler.num_unfinished)

    def _take_up(self) -> None:
        """Requests whose grammar is there go to the scheduler; those whose time is up end."""
        if not (self._is_running or self._ended):
            self._admission.wait(self._deadlines.wait_s())
        for request, compiled in self._admission.take_compiled():
            self._admit(request, compiled)
        for request in self._deadlines.take_expired():
            self._end(request, timeout(request))

    def _schedule(self) -> Batch | None:
        with self._recorder.host("schedule"):
            batch, released = self._scheduler.schedule()
            self._release(released)
        if batch is None and not self._in_flight and self._scheduler.num_unfinished:
            time.sleep(_POLL_S)
        return batch and self._levels.choose(batch)

    def _submit(self, batch: Batch) -> None:
        with self._recorder.host("submit"):
            self._guide.submit(guide_snapshot(batch))

    def _launch(self, batch: Batch) -> None:
        self._in_flight.append(launch(batch, self._executor))

    def _due(self, batch: Batch | None) -> Iterator[InFlight]:
        """Batches whose results must be there before the next one is planned; `batch` was launched
        last. Logits processors see the output so far."""
        lag = 0 if batch is None or batch.processed else self._lag
        while len(self._in_flight) > lag:
            yield self._in_flight.popleft()

    def _collect(self, launched: InFlight) -> tuple[StepOutput, IterationTimes]:
        with self._recorder.host("wait"):
            return launched.collect()

    def _commit(self, batch: Batch, output: StepOutput, times: IterationTimes) -> None:
        lengths = _output_lengths(batch)
        with self._recorder.host("commit"):
            tokens = [
                row[:n]
                for row, n in zip(output.tokens.tolist(), output.num_tokens.tolist(), strict=True)
            ]
            errors = iteration_errors(
                batch, tokens, output.failures, self._guide.errors(batch.slots)
            )
            finished, released = self._scheduler.commit(batch, tokens, errors)
            self._ended += finished
            self._release(released)
            take_logprobs(batch, output)
            count_drafts(batch, output, lengths)
            take_iterations(batch, output, times, lengths)
            self._levels.take(batch, output, times.end_s)
        self._iterations += 1
        self._output_tokens += sum(_output_lengths(batch)) - sum(lengths)

    def _publish(self) -> list[Request]:
        ended, self._ended = self._ended, []
        for request in ended:
            self._deadlines.discard(request)
            self._counts.add(request)
        return ended

    def _abandon(self, cause: BaseException) -> None:
        """An iteration failed, and with it all that is in flight."""
        self._in_flight.clear()
        self.failure = error = EngineError(f"the iteration failed: {told(cause)}")
        error.__cause__ = cause
        finished, released = self._scheduler.abort(error)
        self._ended += finished
        self._release(released)
        self._guide.abandon()

    def _release(self, slots: Sequence[int]) -> None:
        for slot in slots:
            self._guide.detach(slot)
        self._executor.release(slots)

    def _admit(self, request: Request, compiled: Future[CompiledGrammar] | None = None) -> None:
        try:
            self._admission.prepare(request, compiled)
            self._scheduler.add(request)
        except SpecguideError as error:
            self._end(request, error)
        except Exception as cause:  # of a library, say a tokenizer's: it is this request's alone
            self._end(
                request,
                EngineError(f"the request could not be taken up: {type(cause).__name__}: {cause}"),
            )

    def _end(self, request: Request, error: SpecguideError | None = None) -> None:
        """End a request outside an iteration: with `error`, or as aborted."""
        self._admission.discard(request)
        self._deadlines.discard(request)
        self._release(self._scheduler.cancel(request, error))
        self._ended.append(request)


def _tokenizer(config: EngineConfig) -> Tokenizer:
    tokenizer = Tokenizer.from_folder(target_folder(config))
    tokenizer.detokenizer()  # raises now where it would raise later
    return tokenizer


def _seed(seed: int | None, sample: int) -> int:
    """Of a sample; the first one's is the one given. Steps of 2^63 / golden ratio keep all of a
    prompt apart."""
    return secrets.randbits(62) if seed is None else (seed + sample * 0x4F1BBCDCBFA53E0B) % 2**63


def _output_lengths(batch: Batch) -> list[int]:
    return [len(request.output_ids) for request in batch.requests]
