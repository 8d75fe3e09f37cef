"""Owns RemoteEngine: a front's interface to the engine, which runs in another process, the core."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import count

from specguide.config import GuideConfig
from specguide.engine.requests.prompts import Prompt, prompt_ids
from specguide.engine.serving import wire
from specguide.engine.serving.control import CoreFacts
from specguide.engine.serving.core_link import CoreLink
from specguide.engine.serving.served import CloseReport, EngineHealth, check_room, in_time
from specguide.engine.serving.stream import Mailbox, RequestDelta, RequestStream
from specguide.engine.serving.wire_data import delta_of, error_of, params_text
from specguide.engine.serving.wire_images import images_data
from specguide.engine.stats import EngineStats
from specguide.errors import (
    EngineClosed,
    EngineError,
    InvalidParams,
    RequestError,
    SpecguideError,
)
from specguide.guided.backends import CompiledGrammar
from specguide.guided.compile import GrammarCompiler
from specguide.guided.wrappers.reasoning import ReasoningSections
from specguide.params import SamplingParams
from specguide.request import EXTERNAL_ID, FinishReason, NoText, TextOfTokens
from specguide.request_records import RequestMetrics
from specguide.scheduler import OutputText
from specguide.tokenizer import Tokenizer
from specguide.trace import Span

_LONGEST_STATS_S = 2.0
_MOST_PRIORITY = 2**63 - 1
_ABORT_S = 0.5
"""Longest wait until the core confirms that cancelled requests have ended, seconds."""


@dataclass(eq=False)
class _Sent:
    """A request that was sent to the core.

    texts: the texts of its samples, made here from their tokens; the core makes the texts of
           requests with stop strings
    open:  its samples that have not ended
    """

    mailbox: Mailbox
    texts: list[TextOfTokens]
    open: set[int]


class RemoteEngine:
    """An engine whose core runs in another process, with the interface of AsyncEngine.

    Only the thread of the event loop on which it was made may use it, except for `grammar_of`.
    Requests are refused until `connect` was called.

    facts: the core's facts about its engine
    name:  name of this front; no other front has or had it
    """

    def __init__(self, facts: CoreFacts, tokenizer: Tokenizer, name: str) -> None:
        self.config = facts.config
        self.tokenizer = tokenizer
        self.vocab_size, self.max_model_len = facts.vocab_size, facts.max_model_len
        self.max_unfinished = facts.max_unfinished
        self._name = name
        self._stats: EngineStats | None = facts.stats
        self._compiler = GrammarCompiler(
            tokenizer.vocabulary(facts.vocab_size), facts.config.guide or GuideConfig()
        )
        self._event_loop = asyncio.get_running_loop()
        self._link: CoreLink | None = None
        self._failure: EngineError | None = EngineError("the engine is being started")
        self._numbers = count()
        self._sent: dict[int, _Sent] = {}
        self._asked: dict[int, asyncio.Future[wire.Answer]] = {}
        self._is_empty = asyncio.Event()
        self._closing: asyncio.Task[CloseReport] | None = None

    @property
    def health(self) -> EngineHealth:
        """Unhealthy while there is no core, or its engine has failed, and once this is being
        closed."""
        cause = self._failure
        if self._closing is not None:
            cause = EngineClosed("the engine is being closed")
        return EngineHealth(cause)

    @property
    def num_unfinished(self) -> int:
        """Number of requests of this front under way; each sample counts."""
        return sum(len(sent.open) for sent in self._sent.values())

    def connect(self, address: str) -> None:
        """Connect to a new core. Requests of an earlier core end."""
        self.disconnect("another one has been started")
        self._link = CoreLink(address, self._name, self._take)
        self._failure = None

    def disconnect(self, cause: str) -> None:
        """End the connection to a core that is gone: all requests end with an EngineError that says
        why."""
        if self._link is not None:
            self._link.close()
            self._link = None
        self._failure = EngineError(f"the engine's process is gone: {cause}")
        for number in list(self._sent):
            self._end(number, "error", self._failure)
        for answer in self._asked.values():
            if not answer.done():
                answer.set_exception(self._failure)

    def generate(
        self,
        prompt: Prompt,
        params: SamplingParams | None = None,
        *,
        priority: int = 0,
        client: str = "",
    ) -> RequestStream:
        """See AsyncEngine.generate. Where too many requests are under way, QueueFull is not raised;
        it is the error of the stream's last deltas. Raises InvalidParams for a priority of more
        than 64 bits."""
        params = params or SamplingParams()
        arrival_s = time.perf_counter()
        ids = prompt_ids(prompt, self.tokenizer, self.vocab_size)
        self.health.check()
        check_room(params.n, 0, self.max_unfinished)  # only the core knows the requests of others
        if not -_MOST_PRIORITY <= priority <= _MOST_PRIORITY:
            raise InvalidParams(
                f"priority must be {-_MOST_PRIORITY} to {_MOST_PRIORITY}, found {priority}",
                param="priority",
            )
        number, mailbox = next(self._numbers), Mailbox(params.n)
        texts = [self._text(ids, params) for _ in range(params.n)]
        names = (client, EXTERNAL_ID.get())
        of_front = (params_text(params), priority, arrival_s, *names)
        request = wire.AddRequest(number, tuple(ids), *of_front, images_data(ids))
        self._send(number, request)
        self._sent[number] = _Sent(mailbox, texts, set(range(params.n)))
        self._is_empty.clear()
        return RequestStream(mailbox, partial(self._cancel_soon, number))

    def grammar_of(self, params: SamplingParams) -> CompiledGrammar | None:
        """See Engine.grammar_of. The grammar is compiled in this process."""
        if params.guide is None:
            return None
        grammar = self._compiler.compile(params.guide)
        return (
            grammar
            if params.reasoning is None
            else self._sections.before(grammar, params.reasoning)
        )

    async def spans(self) -> list[Span]:
        """See AsyncEngine.spans."""
        answer = await in_time(self._ask("spans"))
        if answer.error is not None:
            raise error_of(answer.error)
        return answer.spans or []

    async def refresh_stats(self) -> None:
        """Ask the core for the figures that `stats` returns."""
        try:
            answer = await asyncio.wait_for(self._ask("stats"), _LONGEST_STATS_S)
            self._stats = answer.stats
        except (TimeoutError, EngineError):
            self._stats = None

    def stats(self) -> EngineStats | None:
        """The figures of the whole engine, as of the last `refresh_stats`. None where the core did
        not answer then: old figures would be counted twice once it does."""
        return self._stats

    async def close(self, timeout_s: float = 30.0) -> CloseReport:
        """Take no more requests, wait until this front's requests have ended, then abort the rest.

        timeout_s: longest wait before requests are aborted
        """
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close(timeout_s))
        return await asyncio.shield(self._closing)

    @cached_property
    def _sections(self) -> ReasoningSections:
        vocabulary = self.tokenizer.vocabulary(self.vocab_size)
        return ReasoningSections(vocabulary, self.tokenizer.token_id)

    def _send(self, number: int, message: wire.Message) -> None:
        if self._link is not None:
            self._link.send(number, message)

    def _cancel_soon(self, number: int) -> None:
        with suppress(RuntimeError):  # the event loop is closed, and this process at its end
            self._event_loop.call_soon_threadsafe(self._cancel, number)

    def _cancel(self, number: int) -> None:
        if number in self._sent:
            self._send(number, wire.Cancel(number))

    async def _ask(self, about: str) -> wire.Answer:
        if self._failure is not None and self._link is None:
            raise self._failure
        number = next(self._numbers)
        answer = self._asked[number] = self._event_loop.create_future()
        try:
            self._send(number, wire.Ask(number, about))  # type: ignore[arg-type]
            return await answer
        finally:
            del self._asked[number]

    def _take(self, message: wire.Deltas | wire.Refused | wire.Answer | wire.Failed) -> None:
        match message:
            case wire.Deltas(deltas):
                for delta in deltas:
                    self._deliver(delta)
            case wire.Refused(number, error):
                self._end(number, "error", error_of(error))
                self._answer(wire.Answer(number, error=error))
            case wire.Answer():
                self._answer(message)
            case wire.Failed(error):
                self._failure = EngineError(error.message)

    def _answer(self, answer: wire.Answer) -> None:
        asked = self._asked.get(answer.question)
        if asked is not None and not asked.done():
            asked.set_result(answer)

    def _text(self, ids: Sequence[int], params: SamplingParams) -> TextOfTokens:
        if params.may_stop_by_text:
            return NoText()
        return OutputText.of(self.tokenizer, ids, params)

    def _deliver(self, received: wire.Delta) -> None:
        sent = self._sent.get(received.request)
        if sent is None or received.index not in sent.open:
            return
        try:
            text = sent.texts[received.index]
            for token in received.token_ids:
                text.add(token)
            if received.end is not None:
                text.end()
            self._put(received.request, sent, delta_of(received, text.take()))
        except Exception as cause:  # of the tokenizer; it ends only this request
            self._cancel(received.request)
            self._end(
                received.request,
                "error",
                RequestError(f"the output cannot be decoded to text: {cause}"),
            )

    def _put(self, number: int, sent: _Sent, delta: RequestDelta) -> None:
        sent.mailbox.put(delta)
        if delta.finish_reason is None:
            return
        sent.open.discard(delta.index)
        if not sent.open:
            del self._sent[number]
            if not self._sent:
                self._is_empty.set()

    def _end(self, number: int, reason: FinishReason, error: SpecguideError | None) -> None:
        """End all samples of a request without an answer of the core."""
        sent = self._sent.get(number)
        if sent is None:
            return
        for sample in sorted(sent.open):
            metrics = RequestMetrics()
            delta = RequestDelta("", (), reason, error=error, metrics=metrics, index=sample)
            self._put(number, sent, delta)

    async def _close(self, timeout_s: float) -> CloseReport:
        began_s = time.perf_counter()
        num_awaited = self.num_unfinished
        await self._until_empty(timeout_s)
        waited_s = time.perf_counter() - began_s
        num_aborted = self.num_unfinished
        for number in self._sent:
            self._cancel(number)
        await self._until_empty(_ABORT_S)
        for number in list(self._sent):
            self._end(number, "abort", None)
        if self._link is not None:
            self._link.close()
            self._link = None
        await asyncio.to_thread(self._compiler.close)  # it waits for its threads
        return CloseReport(waited_s, num_awaited - num_aborted, num_aborted)

    async def _until_empty(self, timeout_s: float) -> None:
        with suppress(asyncio.TimeoutError):
            if self._sent:
                await asyncio.wait_for(self._is_empty.wait(), timeout_s)
