"""Owns the engine: the calls that it takes, and its loop: schedule, submit, launch, collect,
commit, publish."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Unpack

from specguide.cache import CacheSize, PageAllocator
from specguide.config import EngineConfig
from specguide.engine.cycle import Cycle
from specguide.engine.executors import Executor, load_executor
from specguide.engine.in_use import InUse, one_at_a_time
from specguide.engine.iterations import Iterations
from specguide.engine.kv_transfer import EngineSide, load_transfer
from specguide.engine.levels.choice import AllDrafts, LevelChoice
from specguide.engine.logprobs import Logprobs
from specguide.engine.observers import DraftCounts, Observer, StepTimes
from specguide.engine.requests.admission import Admission
from specguide.engine.requests.failures import in_words
from specguide.engine.requests.prompts import Prompt
from specguide.engine.requests.requests import Requests
from specguide.engine.setup.facts import resolved
from specguide.engine.setup.target_folder import load_tokenizer
from specguide.engine.stats import EngineStats, RequestCounts, Totals
from specguide.errors import EngineError, InvalidParams
from specguide.guided.backends import CompiledGrammar, check_backend
from specguide.params import SamplingParams
from specguide.request import Request, RequestDetails
from specguide.scheduler import Scheduler
from specguide.trace import Span, write_chrome_trace


class Engine:
    """Runs requests of token ids to their end, many at once.

    vocab_size:    width of the target's logits
    max_model_len: longest prompt plus output, tokens
    failure:       error of the last iteration that failed; None: none has failed
    in_use:        entered while a call is under way

    `add` takes a request at any time; `step` runs one iteration and returns the requests that
    finished. Any thread may call, but only one at a time: a second call raises EngineError while
    one is under way. Methods that say "from any thread" may be called at any time.
    """

    def __init__(
        self,
        config: EngineConfig,
        executor: Executor | None = None,
        *,
        makes_texts: bool = True,
    ) -> None:
        """executor: runs the batches; None: made by `load_executor` from `config`

        makes_texts: False: outputs are only tokens, except for requests with stop strings
        """
        if config.guide is not None:
            check_backend(config.guide)
        self.in_use = InUse()
        self.config = resolved(config)
        with ThreadPoolExecutor(1) as reader:  # while weights load, which leaves the GIL free
            tokenizer = reader.submit(load_tokenizer, self.config)
            self._executor: Executor = executor or load_executor(self.config)
        self.tokenizer = tokenizer.result()
        capabilities, self._grammar = self._executor.capabilities, self._executor.grammar
        self._recorder = self._grammar.recorder
        self.vocab_size, self.max_model_len = capabilities.vocab_size, capabilities.max_model_len
        self._admission = Admission(
            self.config, self.tokenizer, capabilities, makes_texts=makes_texts
        )
        self._pages = PageAllocator(capabilities.cache_size.num_pages)
        self._scheduler = Scheduler(
            capabilities.scheduler_limits(self.config),
            self._pages,
            self.tokenizer.eos_token_ids,
            slot_is_idle=self._grammar.is_idle,
        )
        levels = LevelChoice(capabilities.layout) if self.config.is_adaptive else AllDrafts()
        self._totals, self._counts = Totals(), RequestCounts(capabilities.layout.num_drafts)
        observers: list[Observer] = [Logprobs(), DraftCounts(), Iterations()]
        observers += [levels, self._totals, StepTimes(self._scheduler)]
        on_end = levels.forget, self._counts.add
        max_active = max(1, self.config.max_batch_size // 2)
        self._transfer = load_transfer(self._engine_side())
        self._requests = Requests(
            self._admission, self._scheduler, self._executor, on_end, max_active, self._transfer
        )
        self._cycle = Cycle(self._scheduler, self._requests, self._executor, levels, observers)
        self.failure: EngineError | None = None
        self._warm_up_ns = 0  # time of callbacks in warm-ups

    @property
    def num_unfinished(self) -> int:
        """Number of requests that were added and not yet returned by `step`."""
        return self._requests.num_unfinished

    @property
    def on_ready(self) -> Callable[[], None]:
        """Called when a grammar has been compiled, from any thread."""
        return self._admission.on_ready

    @on_ready.setter
    def on_ready(self, call: Callable[[], None]) -> None:
        self._admission.on_ready = call

    @property
    def cache_size(self) -> CacheSize:
        """The size of the KV cache; `str` of it is a sentence."""
        return self._executor.capabilities.cache_size

    def prompt_ids(self, prompt: Prompt) -> tuple[int, ...]:
        """Token ids of a prompt. From any thread. Raises InvalidParams."""
        return self._admission.prompt_ids(prompt)

    def grammar_of(self, params: SamplingParams) -> CompiledGrammar | None:
        """The grammar of a request's whole output, reasoning included; None where it has no guide.

        Waits for the compile, whose result is cached. From any thread. Raises the error with which
        the request would end.
        """
        return self._admission.grammar_of(params)

    @one_at_a_time
    def add(
        self,
        prompt_ids: Sequence[int],
        params: SamplingParams,
        **details: Unpack[RequestDetails],
    ) -> Request:
        """Take a request. If something is wrong with it, it ends with an error at the next
        `step`."""
        request = self._admission.request(prompt_ids, params, **details)
        if self._transfer.refusal is not None:
            self._requests.end(request, InvalidParams(self._transfer.refusal))
        else:
            self._requests.add(request)
        return request

    @one_at_a_time
    def cancel(self, request: Request) -> None:
        """End a request as aborted; the next `step` returns it. Does nothing to a request that has
        ended."""
        self._end_unfinished(request)

    def wait_s(self, client: str, priority: int) -> float:
        """Estimated seconds until a request that is added now would run. From any thread."""
        return self._scheduler.wait_s(client, priority)

    def idle_s(self) -> float:
        """Seconds without work, unless a request is added or a grammar becomes ready before. 0:
        `step` has work now; infinite: no request has a deadline."""
        return 0.0 if self._cycle.in_flight else self._requests.idle_s()

    @one_at_a_time
    def step(self) -> list[Request]:
        """Launch an iteration, and commit the iterations that are due. Returns the requests that
        finished.

        Waits for a grammar where nothing else can run. Raises EngineError where the engine cannot
        go on.
        """
        if not self._cycle.in_flight and self._requests.has_none_to_run:
            self._requests.wait()
        self._requests.take_up()
        cycle = self._cycle
        start = time.perf_counter()
        try:
            batch, requests, _ = cycle.schedule()
            if batch is not None:
                cycle.submit(batch, requests)
                cycle.launch(batch, requests)
            for launched in cycle.due(batch):
                output, times = cycle.collect(launched)
                cycle.commit(launched, output, times)
        except BaseException as cause:
            self._abandon(cause)
            if not isinstance(cause, Exception):  # for example Ctrl-C, which the caller handles
                raise
        self._totals.step_s += time.perf_counter() - start
        return cycle.publish()

    @one_at_a_time
    def warm_up(self) -> None:
        """Compile all kernels and capture all CUDA graphs that requests may need. Without this
        call, both happen when they are first needed.

        Takes some seconds, or a minute where kernels have never been compiled, and shows a progress
        bar. Graphs that exist are not captured again. Does nothing on a CPU. A timeline shows these
        iterations with the phase "warm-up"; nothing else counts them. Raises EngineError while
        requests are under way, and where a capture fails.
        """
        if self.num_unfinished:
            raise EngineError(
                "warm_up must run while no request is under way, found "
                f"{self.num_unfinished}: step the engine until they have ended"
            )
        self._admission.compiler.warm_up()
        try:
            for launched in self._cycle.due(None):
                self._cycle.commit(launched, *launched.collect())
            before_ns = self._grammar.counters().callback_ns
            self._executor.warm_up()
            self._grammar.errors(())
        except BaseException as cause:
            self._abandon(cause)
            if not isinstance(cause, Exception):
                raise
            raise EngineError(f"the warm-up failed: {cause}") from cause
        self._warm_up_ns += self._grammar.counters().callback_ns - before_ns

    @one_at_a_time
    def close(self) -> None:
        """End all requests as aborted, and stop the worker threads."""
        self._requests.close()
        for launched in self._cycle.due(None):
            launched.collect()
        self._executor.close()
        self._admission.close()

    def stats(self) -> EngineStats:
        """Counts since the start, and the present state. From any thread."""
        pages, num_running = self._pages, self._scheduler.num_running
        grammar = asdict(self._grammar.counters())
        grammar["callback_ns"] -= self._warm_up_ns
        return EngineStats(
            **asdict(self._totals),
            **self._counts.copies(),
            grammar_s=grammar["callback_ns"] * 1e-9,
            grammar_exposed_s=self._grammar.exposed_s,
            grammar=grammar,
            num_waiting=max(0, self.num_unfinished - num_running),
            num_running=num_running,
            max_batch_size=self.config.max_batch_size,
            num_pages_used=pages.num_pages - pages.num_free,
            num_pages=pages.num_pages,
            transfers=dict(self._transfer.counts),
        )

    @one_at_a_time
    def reset_prefix_cache(self) -> None:
        """Empty the prefix cache: requests that come next compute all keys of their prompts."""
        self._pages.forget()

    @one_at_a_time
    def spans(self) -> list[Span]:
        """The timeline so far. Waits for the iterations under way. Raises InvalidParams where none
        is recorded."""
        if not self.config.trace:
            raise InvalidParams(
                "there is no timeline: build the engine with trace=True", param="trace"
            )
        self._grammar.forward.synchronize()  # so that all callbacks have run, too
        self._recorder.add_callbacks(self._grammar.take_callback_times())
        return self._recorder.spans()

    def write_trace(self, path: str | Path) -> None:
        """Write `spans` to a file as a Chrome trace. Also raises InvalidParams where the file
        cannot be written."""
        write_chrome_trace(path, self.spans())

    def check_integrity(self) -> None:
        """Raise EngineError when a page or slot is lost or held twice."""
        self._scheduler.check_integrity()

    def _engine_side(self) -> EngineSide:
        """What a transfer of pages needs of the engine; not used where there is no transfer."""
        return EngineSide(
            self.config,
            self.vocab_size,
            self._pages,
            getattr(self._executor, "caches", ()),
            self._grammar.forward,
            self._scheduler.prompt_keys,
            self._add_prompt,
            self._end_unfinished,
            lambda: self._admission.on_ready(),
        )

    def _end_unfinished(self, request: Request) -> None:
        if request.finish_reason is None:
            self._requests.end(request)

    def _add_prompt(self, prompt_ids: Sequence[int], adapter: int) -> Request:
        """Add a prompt whose keys another engine asks for. Called within a step."""
        lora = (None, *self.config.adapters)[adapter]
        params = SamplingParams(max_tokens=1, temperature=0.0, ignore_eos=True, lora=lora)
        request = self._admission.request(prompt_ids, params)
        self._requests.add(request)
        return request

    def _abandon(self, cause: BaseException) -> None:
        """End all requests after an iteration has failed."""
        self._cycle.in_flight.clear()
        self.failure = EngineError(f"the iteration failed: {in_words(cause)}")
        self.failure.__cause__ = cause
        self._requests.abort(self.failure)
        self._grammar.abandon()
