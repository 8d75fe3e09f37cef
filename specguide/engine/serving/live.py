"""Owns how much of each sample under way was sent, and makes its next delta."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from specguide.engine.serving.stream import RequestDelta
from specguide.errors import EngineError
from specguide.request import Request
from specguide.request_records import RequestMetrics


@dataclass(eq=False)
class Live:
    """A sample under way: its request, and how many of its tokens and iterations were sent.

    sample:  index among the samples of its prompt
    request: None where the engine had failed before it was added
    """

    sample: int
    request: Request | None = None
    num_sent: int = 0
    num_iterations_sent: int = 0

    def take(self, failure: EngineError | None) -> RequestDelta | None:
        """The next delta; None where nothing is new. It is the last one where the request has
        ended, or the engine has failed."""
        request = self.request
        if request is None:
            return None if failure is None else self.fail(failure)
        is_last = request.finish_reason is not None or failure is not None
        if not is_last and self.num_sent == len(request.output_ids):
            return None
        news = self._news(request, is_last=is_last)
        if not is_last:
            return news
        return replace(
            news,
            finish_reason=request.finish_reason or "error",
            stop_reason=request.stop_reason,
            error=request.error if request.finish_reason else failure,
            metrics=request.metrics,
        )

    def fail(self, failure: EngineError) -> RequestDelta:
        """The last delta of a failure, without new output."""
        metrics = RequestMetrics() if self.request is None else self.request.metrics
        return RequestDelta("", (), "error", error=failure, metrics=metrics, index=self.sample)

    def _news(self, request: Request, *, is_last: bool) -> RequestDelta:
        """The output that was not sent yet; it counts as sent from now on."""
        params, num_sent = request.params, self.num_sent
        num_iterations = self.num_iterations_sent
        self.num_sent, self.num_iterations_sent = len(request.output_ids), len(request.iterations)
        has_prompt_logprobs = request.spec.has_prompt_logprobs and not num_sent
        return RequestDelta(
            request.text.take(),
            tuple(request.output_ids[num_sent:]),
            index=self.sample,
            logprobs=None if params.logprobs is None else tuple(request.logprobs[num_sent:]),
            prompt_logprobs=tuple(request.prompt_logprobs) if has_prompt_logprobs else None,
            iterations=tuple(request.iterations[num_iterations:]) if params.return_drafts else None,
            spans=request.take_spans(num_sent, is_last=is_last),
        )
