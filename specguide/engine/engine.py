"""Owns the loop: schedule, run, commit. Requests whose grammar still compiles wait outside it."""

from __future__ import annotations

import secrets
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import count
from pathlib import Path
from typing import Any

from specguide.batch import Batch
from specguide.cache import CacheSize
from specguide.config import EngineConfig
from specguide.engine.adaptive import LevelChoice
from specguide.engine.deadlines import Deadlines
from specguide.engine.draft_counts import count_drafts
from specguide.engine.failures import iteration_errors, timeout, told
from specguide.engine.in_use import InUse, one_at_a_time
from specguide.engine.iterations import Launched, take_iterations
from specguide.engine.logprobs import take_logprobs
from specguide.engine.runner import Runner, target_folder
from specguide.engine.stats import EngineStats, RequestCounts
from specguide.errors import EngineError, InvalidParams, SpecguideError, UserError
from specguide.guided.backends import CompiledGrammar
from specguide.guided.compile import GrammarCompiler
from specguide.guided.reasoning import ReasoningSections
from specguide.integers import as_int, as_ints, is_int
from specguide.params import SamplingParams
from specguide.request import Request
from specguide.sampling import Adjustment, bind_processors
from specguide.scheduler import OutputText, Scheduler
from specguide.tokenizer import Tokenizer
from specguide.trace import Span, write_chrome_trace

_POLL_S = 0.001  # between looks at slots that a grammar worker is still inside


class Engine:
    """Runs requests of token ids to their end, many at once.

    vocab_size:    width of the target's logits
    max_model_len: longest prompt plus output, tokens
    failure:       why the last iteration that failed did; None where none has
    on_ready:      called when a grammar has been compiled, from any thread
    in_use:        entered while a call is under way

    `add` takes a request at any time, `step` runs one iteration and returns the requests that
    finished. One call at a time, of whatever thread: where one is under way, another raises
    EngineError, but for what says "from any thread".
    """

    def __init__(self, config: EngineConfig) -> None:
        self.in_use = InUse()
        self.config = config
        with ThreadPoolExecutor(1) as reader:  # beside the weights, which take no interpreter
            tokenizer = reader.submit(_tokenizer, config)
            self._runner = Runner.load(config)
        self.tokenizer = tokenizer.result()
        self._recorder = self._runner.guide.recorder
        self.vocab_size, self.max_model_len = self._runner.vocab_size, self._runner.max_model_len
        vocabulary = self.tokenizer.vocabulary(self.vocab_size)
        self._compiler = GrammarCompiler(vocabulary, config.guide)
        self._reasoning = ReasoningSections(vocabulary, self.tokenizer.token_id)
        window = self._runner.window
        self._scheduler = Scheduler(
            max_batch_size=config.max_batch_size,
            max_model_len=self._runner.max_model_len,
            max_prefill_tokens=config.max_prefill_tokens,
            num_draft_tokens=window.num_drafts,
            num_draft_positions=window.num_positions,
            page_size=config.cache.page_size,
            pages=self._runner.pages,
            eos_token_ids=self.tokenizer.eos_token_ids,
            slot_is_idle=self._runner.guide.is_idle,
        )
        self._levels = (
            LevelChoice(self._runner.window)
            if config.spec is not None and config.spec.adaptive
            else None
        )
        self._in_flight: deque[Launched] = deque()
        self._compiling: dict[Future[Any], Request] = {}
        self._deadlines = Deadlines()
        self._ended: list[Request] = []  # outside an iteration, and not returned yet
        self.failure: EngineError | None = None
        self.on_ready: Callable[[], None] = lambda: None
        self._request_ids = count()
        self._counts = RequestCounts(window.num_drafts)
        self._iterations, self._output_tokens, self._step_s = 0, 0, 0.0
        self._warm_up_ns = 0  # of the callbacks

    @property
    def num_unfinished(self) -> int:
        """Requests that have been added and not yet returned by `step`."""
        return len(self._compiling) + len(self._ended) + self._scheduler.num_unfinished

    @property
    def cache_size(self) -> CacheSize:
        """What the KV cache holds; as text, in words."""
        return self._runner.cache_size

    def prompt_ids(self, prompt: str | Sequence[int]) -> list[int]:
        """Token ids of a prompt, given as text or as ids. From any thread. Raises InvalidParams."""
        if isinstance(prompt, str):
            prompt = self.tokenizer.encode(prompt) if prompt else []
        try:
            ids = as_ints(prompt)
        except TypeError:
            raise InvalidParams(
                f"a prompt is a text or a list of token ids, found {type(prompt).__name__}",
                param="prompt",
            ) from None
        if not ids:
            raise InvalidParams("the prompt is empty; give at least one token", param="prompt")
        bad = [token for token in ids if not is_int(token) or not 0 <= token < self.vocab_size]
        if bad:
            raise InvalidParams(
                f"prompt token {bad[0]!r} is not an id of this model's {self.vocab_size} tokens",
                param="prompt",
            )
        return ids

    def grammar_of(self, params: SamplingParams) -> CompiledGrammar | None:
        """The grammar of a request's whole output, a reasoning section included; None where it has
        no guide.

        Waits for a compile; what one came to is kept. From any thread. Raises what the request
        would end with.
        """
        return (
            None
            if params.guide is None
            else self._grammar(self._compiler.compile(params.guide), params)
        )

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
            future = self._compiler.submit(params.guide)
            self._compiling[future] = request
            future.add_done_callback(lambda _: self.on_ready())
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
        is_busy = self._ended or self._in_flight or self._scheduler.num_unfinished
        return (
            0.0
            if is_busy or any(future.done() for future in self._compiling)
            else self._deadlines.wait_s()
        )

    @one_at_a_time
    def step(self) -> list[Request]:
        """Launch an iteration and take the results of those that are due. Returns the requests that
        finished.

        Waits for a grammar where nothing else can run. Raises EngineError where the engine cannot
        go on.
        """
        self._collect_grammars()
        for request in self._deadlines.take_expired():
            self._end(request, timeout(request))
        finished, self._ended = self._ended, []
        start = time.perf_counter()
        try:
            with self._recorder.host("schedule"):
                batch = self._scheduler.schedule()
                self._leave_slots()
            if batch is None and not self._in_flight and self._scheduler.num_unfinished:
                time.sleep(_POLL_S)
            if batch is not None:
                self._in_flight.append(Launched.of(batch, self._runner, self._levels))
            lag = self._runner.lag if batch is not None and not batch.processed else 0
            while len(self._in_flight) > lag:
                finished += self._commit(self._in_flight.popleft())
        except BaseException as cause:
            finished += self._abandon(cause)
            if not isinstance(
                cause, Exception
            ):  # say Ctrl-C, which is the caller's; the next step returns them
                self._ended += finished
                raise
        self._step_s += time.perf_counter() - start
        for request in finished:
            self._deadlines.discard(request)
            self._counts.add(request)
        return finished

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
        self._compiler.warm_up()
        guide = self._runner.guide
        try:
            while self._in_flight:
                self._commit(self._in_flight.popleft())
            before_ns = guide.counters()["callback_ns"]
            self._runner.warm_up()
            guide.errors(())
        except BaseException as cause:
            self._abandon(cause)
            if not isinstance(cause, Exception):
                raise
            raise EngineError(f"the warm-up failed: {cause}") from cause
        self._warm_up_ns += guide.counters()["callback_ns"] - before_ns

    @one_at_a_time
    def close(self) -> None:
        """End what is in flight as aborted and stop the worker threads."""
        for request in list(self._compiling.values()):
            self._end(request)
        self._scheduler.abort()
        self._leave_slots()
        self._ended.clear()
        while self._in_flight:
            self._in_flight.popleft().result()
        self._compiler.close()

    def stats(self) -> EngineStats:
        """What was done since the start, and how it stands. From any thread."""
        counts, pages, num_running = self._counts, self._runner.pages, self._scheduler.num_running
        counters = self._runner.guide.counters()
        counters["callback_ns"] -= self._warm_up_ns
        return EngineStats(
            iterations=self._iterations,
            output_tokens=self._output_tokens,
            step_s=self._step_s,
            grammar_s=counters["callback_ns"] * 1e-9,
            grammar_exposed_s=self._runner.guide.exposed_s,
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
        self._runner.pages.forget()

    @one_at_a_time
    def spans(self) -> list[Span]:
        """The timeline so far. Waits for what is under way; raises InvalidParams where there is
        none."""
        if not self.config.trace:
            raise InvalidParams(
                "there is no timeline: build the engine with trace=True", param="trace"
            )
        self._recorder.add_callbacks(self._runner.guide.take_callback_times())
        return self._recorder.spans()

    def write_trace(self, path: str | Path) -> None:
        """Write the timeline so far as a Chrome trace. Raises InvalidParams where there is none,
        and for the path."""
        write_chrome_trace(path, self.spans())

    def check_integrity(self) -> None:
        """Raise EngineError when a page or slot is lost or held twice."""
        self._scheduler.check_integrity()

    def _abandon(self, cause: BaseException) -> list[Request]:
        """An iteration failed, and with it all that is in flight."""
        self._in_flight.clear()
        self.failure = error = EngineError(f"the iteration failed: {told(cause)}")
        error.__cause__ = cause
        finished = self._scheduler.abort(error)
        self._leave_slots()
        self._runner.guide.abandon()
        return finished

    def _commit(self, launched: Launched) -> list[Request]:
        batch = launched.batch
        with self._recorder.host("wait"):
            output, times = launched.result()
        lengths = _output_lengths(batch)
        with self._recorder.host("commit"):
            tokens = [
                row[:n]
                for row, n in zip(output.tokens.tolist(), output.num_tokens.tolist(), strict=True)
            ]
            errors = iteration_errors(
                batch, tokens, output.failures, self._runner.guide.errors(batch.slots)
            )
            finished = self._scheduler.commit(batch, tokens, errors)
            self._leave_slots()
            take_logprobs(batch, output)
            count_drafts(batch, output, lengths)
            take_iterations(batch, output, times, lengths)
            if self._levels is not None:
                self._levels.take(batch, launched.levels, output, times.end_s)
        self._iterations += 1
        self._output_tokens += sum(_output_lengths(batch)) - sum(lengths)
        return finished

    def _leave_slots(self) -> None:
        for slot in self._scheduler.take_left():
            self._runner.guide.detach(slot)
            self._runner.step.leave(slot)

    def _collect_grammars(self) -> None:
        if self._compiling and not (
            self._ended or self._in_flight or self._scheduler.num_unfinished
        ):
            timeout_s = min(2 * self.config.guide.compile_timeout_s, self._deadlines.wait_s())
            wait(self._compiling, timeout=timeout_s, return_when=FIRST_COMPLETED)
        for future in [future for future in self._compiling if future.done()]:
            request = self._compiling.pop(future)
            request.metrics.compile_s = time.perf_counter() - request.arrival_s
            cause = future.exception()
            if cause is None:
                self._admit(request, future.result())
            else:
                self._end(
                    request,
                    cause
                    if isinstance(cause, SpecguideError)
                    else EngineError(f"the grammar compiler failed: {cause}"),
                )

    def _admit(self, request: Request, grammar: CompiledGrammar | None = None) -> None:
        try:
            request.grammar = None if grammar is None else self._grammar(grammar, request.params)
            request.adjustment = Adjustment.of(request.params, self.tokenizer, self.vocab_size)
            if (
                request.params.logits_processors
                and self._runner.window.tree
                and self._levels is None
            ):
                raise InvalidParams(
                    "logits_processors need drafts in a chain: build the engine without a draft "
                    "tree, "
                    "or with adaptive drafts",
                    param="logits_processors",
                )
            request.processors = bind_processors(request.params, request.prompt_ids)
            request.window = self._runner.window_of(request.params)
            self._scheduler.add(request)
        except UserError as error:
            self._end(request, error)
        except Exception as cause:  # of a library, say a tokenizer's: it is this request's alone
            self._end(
                request,
                EngineError(f"the request could not be taken up: {type(cause).__name__}: {cause}"),
            )

    def _grammar(self, answer: CompiledGrammar, params: SamplingParams) -> CompiledGrammar:
        return (
            answer if params.reasoning is None else self._reasoning.before(answer, params.reasoning)
        )

    def _end(self, request: Request, error: SpecguideError | None = None) -> None:
        """End a request outside an iteration: with `error`, or as aborted."""
        future = next(
            (future for future, other in self._compiling.items() if other is request), None
        )
        if future is not None:
            del self._compiling[future]
            future.cancel()
            request.metrics.compile_s = time.perf_counter() - request.arrival_s
        self._deadlines.discard(request)
        self._scheduler.cancel(request, error)
        self._leave_slots()
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
