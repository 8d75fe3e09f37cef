"""Owns requests from their arrival until they enter the scheduler: it checks them, and has their
grammars compiled beside the loop."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from itertools import count
from typing import NamedTuple, Unpack

from specguide.batch import Adjustment
from specguide.config.adapters import check_adapter
from specguide.config.resolved import ResolvedConfig
from specguide.drafts.layout import DraftLayout
from specguide.engine.executors import Capabilities
from specguide.engine.requests.prompts import Prompt, prompt_ids
from specguide.errors import (
    EngineError,
    InvalidParams,
    OutputTooLong,
    PromptTooLong,
    SpecguideError,
)
from specguide.guided.backends import CompiledGrammar
from specguide.guided.compile import GrammarCompiler
from specguide.guided.ends import GrammarEnds
from specguide.guided.finite import FiniteGrammars
from specguide.guided.grammar_future import GrammarFuture
from specguide.guided.grammar_stream.no_grammar import NoCompiler
from specguide.guided.reading import SpanReader
from specguide.guided.wrappers.endings import EndingGrammar
from specguide.guided.wrappers.reasoning import ReasoningSections
from specguide.images import PromptIds
from specguide.params import SamplingParams
from specguide.request import NoText, Request, RequestDetails, RequestSpec, TextOfTokens
from specguide.request_records import RequestMetrics
from specguide.sampling import adjustment_of, bind_processors
from specguide.sampling.processors import Processor
from specguide.scheduler import GuidedText, OutputText
from specguide.tokenizer import Tokenizer


class Admitted(NamedTuple):
    """A request that may run.

    grammar:    the grammar of its output; None for a free request
    adjustment: how its logits are adjusted; None: not at all
    processors: its logits processors
    layout:     the drafts that it takes; None: all that the engine makes
    """

    request: Request
    grammar: CompiledGrammar | None
    adjustment: Adjustment | None
    processors: tuple[Processor, ...]
    layout: DraftLayout | None


class Admission:
    """Checks requests against what the engine can run, and has their grammars compiled.

    compiler: compiles the grammars
    on_ready: called when a grammar has been compiled, from any thread
    """

    def __init__(
        self,
        config: ResolvedConfig,
        tokenizer: Tokenizer,
        capabilities: Capabilities,
        *,
        makes_texts: bool,
    ) -> None:
        """makes_texts: see Engine"""
        self._vocabulary = tokenizer.vocabulary(capabilities.vocab_size)
        self.compiler = (
            NoCompiler()
            if config.guide is None
            else GrammarCompiler(self._vocabulary, config.guide)
        )
        self._reasoning = ReasoningSections(self._vocabulary, tokenizer.token_id)
        self._finite = FiniteGrammars(capabilities.vocab_size)
        self._tokenizer, self._capabilities = tokenizer, capabilities
        self._num_ranks = config.num_ranks
        self._adapters = {name: place for place, name in enumerate(config.adapters, 1)}
        self._takes_processors = capabilities.layout.takes_processors or config.is_adaptive
        self._may_cut_off = config.guide is not None and config.guide.allow_truncation
        self._longest_wait_s = 2 * config.guide.compile_timeout_s if config.guide else 0.0
        self.on_ready: Callable[[], None] = lambda: None
        self._makes_texts = makes_texts
        self._request_ids = count()
        self._compiling: dict[GrammarFuture, Request] = {}

    @property
    def num_compiling(self) -> int:
        """Number of requests whose grammar is still compiled, or was not taken yet."""
        return len(self._compiling)

    @property
    def has_compiled(self) -> bool:
        """Whether `take_compiled` would return any."""
        return any(future.done() for future in self._compiling)

    def prompt_ids(self, prompt: Prompt) -> tuple[int, ...]:
        """See Engine.prompt_ids."""
        return prompt_ids(prompt, self._tokenizer, self._capabilities.vocab_size)

    def request(
        self,
        prompt_ids: Sequence[int],
        params: SamplingParams,
        **details: Unpack[RequestDetails],
    ) -> Request:
        """A new request, with the parameters of Engine.add."""
        details = {"arrival_s": time.perf_counter(), **details}
        seed = _seed(params.seed, details.get("sample", 0))
        adapter = self._adapters.get(params.lora or "", 0)
        ids = prompt_ids if isinstance(prompt_ids, PromptIds) else tuple(prompt_ids)
        spec = RequestSpec(self.next_id(), ids, params, seed, adapter=adapter, **details)
        metrics = RequestMetrics(prompt_tokens=len(spec.prompt_ids))
        return Request(spec, self._text(prompt_ids, params), metrics=metrics)

    def grammar_of(self, params: SamplingParams) -> CompiledGrammar | None:
        """See Engine.grammar_of."""
        if params.guide is None:
            return None
        return self._as_asked(self.compiler.compile(params.guide), params, params.max_tokens)

    def compile(self, request: Request) -> None:
        """Start to compile a guided request's grammar."""
        assert request.params.guide is not None
        future = self.compiler.submit(request.params.guide, self._room(request))
        request.metrics.is_compile_cached = future.done()
        if request.params.faithful:
            future = self._finite.submit(future, self._most_output(request))
        self._compiling[future] = request
        future.add_done_callback(lambda _: self.on_ready())

    def next_id(self) -> int:
        """The id of a new request."""
        return next(self._request_ids)

    def close(self) -> None:
        """Stop the compilers."""
        self._finite.close()
        self.compiler.close()

    def wait(self, most_s: float) -> None:
        """Wait until a grammar has been compiled, at most `most_s` seconds."""
        if self._compiling:
            timeout_s = min(self._longest_wait_s, most_s)
            wait(self._compiling, timeout=timeout_s, return_when=FIRST_COMPLETED)

    def take_compiled(self) -> list[tuple[Request, GrammarFuture]]:
        """Take the requests whose compile has ended, successfully or not."""
        done = [future for future in self._compiling if future.done()]
        return [(self._take(future), future) for future in done]

    def take_all(self) -> list[Request]:
        """Take all requests whose compile was not taken yet, and cancel it."""
        return [self._cancel(future) for future in list(self._compiling)]

    def discard(self, request: Request) -> None:
        """Cancel the compile of a request that has ended, if it has one."""
        for future in [future for future, other in self._compiling.items() if other is request]:
            self._cancel(future)

    def admit(self, request: Request, compiled: GrammarFuture | None) -> Admitted:
        """Admit a request. Raises SpecguideError where one of its parameters cannot be honoured.

        compiled: the grammar of its guide; None where it has none
        """
        params, vocab_size = request.params, self._capabilities.vocab_size
        if params.logits_processors and self._num_ranks > 1:
            raise InvalidParams(
                "logits_processors are Python functions, which the other ranks cannot call: leave "
                "them out, or build the engine without tensor_parallel_size and "
                "pipeline_parallel_size",
                param="logits_processors",
            )
        if params.logits_processors and not self._takes_processors:
            raise InvalidParams(
                "logits_processors need drafts in a chain, and this engine drafts in a tree: build "
                "it without a draft tree, or with adaptive drafts",
                param="logits_processors",
            )
        check_adapter(params.lora, self._adapters)
        grammar = None
        if compiled is not None:
            grammar = self._within_context(compiled, request)
        if grammar is not None and params.may_stop_by_text:
            request.text = self._guided_text(request, grammar)
        request.span_reader = self._span_reader(params)
        return Admitted(
            request,
            grammar,
            adjustment_of(params, self._tokenizer, vocab_size),
            bind_processors(params, request.prompt_ids),
            self._capabilities.layout_for(params),
        )

    def _room(self, request: Request) -> int | None:
        """Most tokens of a request's answer; None where it may be cut off."""
        params = request.params
        if self._may_cut_off or params.allow_truncation:
            return None
        if params.reasoning is not None:  # it may take all but the tokens of the shortest answer
            return 0
        return self._most_output(request)

    def _most_output(self, request: Request) -> int:
        """Most tokens of its output."""
        return min(request.params.max_tokens, self._context(request) - len(request.prompt_ids))

    def _context(self, request: Request) -> int:
        """Most tokens of its prompt and output together. A faithful request has one less: its
        sequences are scored as prompts, behind which a token must fit."""
        return self._capabilities.max_model_len - request.params.faithful

    def _text(self, prompt_ids: Sequence[int], params: SamplingParams) -> TextOfTokens:
        if not (params.may_stop_by_text or self._makes_texts):
            return NoText()
        return OutputText.of(self._tokenizer, prompt_ids, params)

    def _span_reader(self, params: SamplingParams) -> SpanReader | None:
        """The reader of the output's spans; None where they are not asked for. Call it only after
        the guide was compiled: the reader cannot handle a malformed guide."""
        if not params.return_spans:
            return None
        return SpanReader.of(params, self._vocabulary, self._tokenizer.token_id)

    def _guided_text(self, request: Request, grammar: CompiledGrammar) -> GuidedText:
        params, skips = request.params, request.params.skip_special_tokens
        detokenizer = self._tokenizer.detokenizer(is_guided=True, skip_special_tokens=skips)
        names = {} if skips else self._vocabulary.names
        ends = GrammarEnds(grammar.matcher(), self._vocabulary, names)
        return GuidedText(detokenizer, params, ends, self._tokenizer.eos_token_ids)

    def _cancel(self, future: GrammarFuture) -> Request:
        future.cancel()
        return self._take(future)

    def _take(self, future: GrammarFuture) -> Request:
        request = self._compiling.pop(future)
        request.metrics.compile_s = future.took_s
        return request

    def _within_context(self, compiled: GrammarFuture, request: Request) -> CompiledGrammar:
        """The grammar of a request. Raises PromptTooLong where the shortest output does not fit
        behind the prompt, whatever max_tokens is."""
        try:
            return self._as_asked(_result(compiled), request.params, self._most_output(request))
        except OutputTooLong as error:
            prompt_len = len(request.prompt_ids)
            if prompt_len + error.num_needed <= self._context(request):
                raise
            cut_off = ", or set allow_truncation to have the output cut off"
            raise PromptTooLong(
                f"this model's maximum context length is {self._capabilities.max_model_len} "
                f"tokens, output included: the prompt has {prompt_len} and the shortest output "
                f"that matches the guide takes {error.num_needed}; make the prompt shorter"
                + ("" if request.params.faithful else cut_off)
            ) from error

    def _as_asked(
        self, answer: CompiledGrammar, params: SamplingParams, most: int
    ) -> CompiledGrammar:
        """The answer's grammar with the request's reasoning section before it. Unless the output
        may be cut off, it ends within `most` tokens."""
        may_cut_off = self._may_cut_off or params.allow_truncation
        if not may_cut_off and isinstance(answer, EndingGrammar):
            return self._reasoning.ending(answer, params.reasoning, most)
        return (
            answer if params.reasoning is None else self._reasoning.before(answer, params.reasoning)
        )


def _seed(seed: int | None, sample: int) -> int:
    """The seed of a sample, in [0, 2^63). The first sample has the given seed, modulo 2^63; each
    next one is a step of 2^63 / golden ratio further, so that the samples differ."""
    return secrets.randbits(62) if seed is None else (seed + sample * 0x4F1BBCDCBFA53E0B) % 2**63


def _result(compiled: GrammarFuture) -> CompiledGrammar:
    try:
        return compiled.result()
    except SpecguideError:
        raise
    except BaseException as cause:
        raise EngineError(f"the grammar compiler failed: {cause}") from cause
