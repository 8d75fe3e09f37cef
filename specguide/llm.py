"""Owns the offline API: LLM.generate and LLM.chat."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self

from specguide.config import CacheConfig, EngineConfig, GuideConfig, SpecConfig
from specguide.config.adapters import lora_texts
from specguide.config.keywords import cache_config, check_call
from specguide.engine import Engine, EngineStats, SharedEngine
from specguide.engine.requests.prompts import (
    Prompt,
    check_variables,
    conversation_ids,
    conversation_list,
    ids_or_error,
    params_list,
    prompt_list,
)
from specguide.engine.requests.tool_definitions import check_tools, guide_of_tools
from specguide.errors import UserError
from specguide.guide import Guide
from specguide.other_engines import OTHER_LLM_ATTRIBUTES, missing
from specguide.params import SamplingParams
from specguide.request import RequestOutput
from specguide.trace import Span

Messages = Sequence[Mapping[str, Any]]


class LLM:
    """A target model, its drafter and its grammars, ready to generate.

    model:         folder of a Hugging Face checkpoint; None takes the shipped model
    spec:          SpecConfig, or the name of a method or "auto"; None decodes without drafts;
                   "default" uses the shipped head for the shipped model, and no drafts for others
    guide_backend: "auto" or the name of a grammar backend ("llguidance", "xgrammar")
    guide:         the whole GuideConfig instead; None: requests with a guide are refused, and
                   iterations do nothing for grammars
    cache:         CacheConfig; or its fields one by one, such as `gpu_memory_utilization=0.8`
    lora_modules:  as in EngineConfig, or the folders of the adapters by their names
    the others:    as in EngineConfig. vLLM's names are accepted where they change nothing here,
                   such as `trust_remote_code=True`; otherwise the error has our name

    Several threads may use it at once: their requests run together. Ctrl-C ends `generate` and
    `chat` between two iterations, and aborts their requests. `with LLM() as llm:` closes it at the
    end. Only the process that built it can use it, no fork; it cannot be pickled.

    Raises CheckpointError and InvalidParams.
    """

    _when_dropped: weakref.finalize[..., LLM] | None = None

    def __init__(
        self,
        model: str | Path | None = None,
        *,
        spec: SpecConfig | str | None = "default",
        guide_backend: str = "auto",
        guide: GuideConfig | Literal["default"] | None = "default",
        cache: CacheConfig | None = None,
        max_batch_size: int = 16,
        max_model_len: int | None = None,
        max_prefill_tokens: int = 2048,
        mixed_iterations: bool = True,
        max_step_ms: float | None = None,
        chat_template: str | Path | None = None,
        quantization: str | None = None,
        max_image_tokens: int = 16_384,
        limit_images_per_prompt: int = 16,
        lora_modules: Sequence[str] | Mapping[str, str | Path] = (),
        model_impl: str = "auto",
        device: str | None = None,
        dtype: str | None = None,
        tensor_parallel_size: int = 1,
        pipeline_parallel_size: int = 1,
        num_micro_batches: int | None = None,
        enable_expert_parallel: bool = False,
        rank_timeout_s: float = 60.0,
        rank_address: str | None = None,
        lag: int | None = None,
        enforce_eager: bool = False,
        trace: bool = False,
        **of_cache: Any,
    ) -> None:
        if spec == "default":
            spec = SpecConfig() if model is None else None
        if guide == "default":
            guide = GuideConfig(backend=guide_backend)
        config = EngineConfig(
            model=model,
            spec=SpecConfig(spec) if isinstance(spec, str) else spec,
            guide=guide,
            cache=cache_config(cache, of_cache),
            max_batch_size=max_batch_size,
            max_model_len=max_model_len,
            max_prefill_tokens=max_prefill_tokens,
            mixed_iterations=mixed_iterations,
            max_step_ms=max_step_ms,
            chat_template=None if chat_template is None else str(chat_template),
            quantization=quantization,
            max_image_tokens=max_image_tokens,
            limit_images_per_prompt=limit_images_per_prompt,
            lora_modules=lora_texts(lora_modules),
            model_impl=model_impl,
            device=device,
            dtype=dtype,
            tensor_parallel_size=tensor_parallel_size,
            pipeline_parallel_size=pipeline_parallel_size,
            num_micro_batches=num_micro_batches,
            enable_expert_parallel=enable_expert_parallel,
            rank_timeout_s=rank_timeout_s,
            rank_address=rank_address,
            lag=lag,
            enforce_eager=enforce_eager,
            trace=trace,
        )
        self._take(Engine(config))
        self._close_when_dropped()

    @classmethod
    def of(cls, config: EngineConfig) -> LLM:
        """An LLM from a whole configuration. Raises CheckpointError and InvalidParams."""
        llm = cls.around(Engine(config))
        llm._close_when_dropped()
        return llm

    @classmethod
    def around(cls, engine: Engine) -> LLM:
        """An LLM that uses an engine, which nobody else may use from now on."""
        llm = cls.__new__(cls)
        llm._take(engine)
        return llm

    def _take(self, engine: Engine) -> None:
        self._engine = engine
        self._shared = SharedEngine(engine)
        self.tokenizer = engine.tokenizer

    def _close_when_dropped(self) -> None:
        self._when_dropped = weakref.finalize(self, self._shared.close)
        self._when_dropped.atexit = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "an LLM has threads and memory of its process, and cannot be pickled or copied: build "
            "one in each process"
        )

    if not TYPE_CHECKING:  # to a type checker it would be an attribute of any name

        def __getattr__(self, name: str) -> NoReturn:
            raise missing(self, name, OTHER_LLM_ATTRIBUTES)

    def generate(
        self,
        prompts: Prompt | Iterable[Prompt] | None = None,
        params: SamplingParams | Iterable[SamplingParams] | None = None,
        **others: Any,
    ) -> list[RequestOutput]:
        """Continue one prompt or several. Returns an output for each, in the same order.

        prompts: a text, a list of token ids, one of them in a dict (`{"prompt": text}`,
                 `{"prompt_token_ids": ids}`), or an iterable of these
        params:  one for all prompts, or one for each; None: `SamplingParams()`
        others:  parameters of vLLM's call, accepted where they change nothing, such as `use_tqdm`

        With n > 1 an output's `samples` are all samples of its prompt, beginning with itself. If a
        prompt or its guide is wrong, only its own output has an `error`.

        Raises InvalidParams where the call itself is wrong, TypeError for an unknown parameter, and
        EngineClosed after `close`.
        """
        check_call(others)
        listed = prompt_list(prompts)
        per_prompt = params_list(params, len(listed))
        return self._run([ids_or_error(self._engine, prompt) for prompt in listed], per_prompt)

    def chat(
        self,
        conversations: Messages | Sequence[Messages] | None = None,
        params: SamplingParams | Iterable[SamplingParams] | None = None,
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        allow_special_tokens: bool = False,
        continue_final_message: bool = False,
        chat_template_kwargs: Mapping[str, Any] | None = None,
        **others: Any,
    ) -> list[RequestOutput]:
        """Answer one conversation or several, through the model's chat template.

        conversations: a list of messages, as in the OpenAI API, or a list of such lists; a content
                       is a text or a list of text parts
        params:        as in `generate`. A JSON schema guide is shown to the template as
                       `json_schema`, for models that were taught to read it
        tools:         definitions that the template shows to the model. Only a guide makes the
                       model call them correctly, see `tool_guide`
        allow_special_tokens: special tokens spelled in a message become these tokens, as always in
                       `generate`; otherwise they are text like any other
        continue_final_message: the last message is the beginning of the answer. A request that has
                       a guide too is refused, since a guide is for a whole answer
        chat_template_kwargs: more variables of the template, such as {"enable_thinking": False};
                       those that it does not read are left out

        Returns and raises what `generate` does. If a conversation is wrong, only its own output has
        an `error`.
        """
        if continue_final_message and others.get("add_generation_prompt") is False:
            del others["add_generation_prompt"]  # it says the same
        check_call(others)
        check_tools(tools)
        check_variables(chat_template_kwargs)
        many = conversation_list(conversations)
        per_prompt = params_list(params, len(many))
        prompt_of = partial(
            conversation_ids,
            self._engine,
            tools=tools,
            allow_special_tokens=allow_special_tokens,
            is_continued=continue_final_message,
            variables=chat_template_kwargs,
        )
        return self._run(list(map(prompt_of, many, per_prompt)), per_prompt)

    def tool_guide(
        self,
        tools: Sequence[Mapping[str, Any]],
        *,
        must_call: bool = False,
        is_parallel: bool = True,
        answer: Any = None,
        tool_format: str | None = None,
    ) -> Guide:
        """The guide of an answer that may call these tools, in the format in which the model writes
        calls, with arguments that match the tools' schemas; for `chat` with the same `tools`.

        must_call:   the answer is calls, at least one; otherwise it may also be text
        is_parallel: it may have several calls, if the format allows that
        answer:      a JSON schema for an answer without calls
        tool_format: name of the format; None: that of the chat template

        Raises InvalidParams.
        """
        return guide_of_tools(
            tools,
            self.tokenizer,
            self._engine.vocab_size,
            self._engine.config.guide,
            tool_format=tool_format,
            must_call=must_call,
            is_parallel=is_parallel,
            answer=answer,
        )

    def warm_up(self) -> None:
        """Capture all CUDA graphs now, not when the first batch of each size runs; on a CPU there
        is nothing to do. Raises EngineError where a capture fails.
        """
        with self._shared as engine:
            engine.warm_up()

    def reset_prefix_cache(self) -> None:
        """Empty the prefix cache: later prompts are computed from their beginning. This is for
        measurements."""
        with self._shared as engine:
            engine.reset_prefix_cache()

    def stats(self) -> EngineStats:
        """The engine's counters since it was built: iterations, tokens, seconds, and those of the
        grammar executor."""
        return self._engine.stats()

    def write_trace(self, path: str | Path) -> None:
        """Write the timeline so far as a Chrome trace, for https://ui.perfetto.dev. It has four
        tracks: forward stream, grammar stream, grammar callbacks and host; of each the last 65,536
        spans are kept.

        Raises InvalidParams for an LLM without `trace=True`, and for a path that cannot be written.
        """
        with self._shared as engine:
            engine.write_trace(path)

    def spans(self) -> list[Span]:
        """The timeline so far, track by track. Raises InvalidParams for an LLM without
        `trace=True`."""
        with self._shared as engine:
            return engine.spans()

    def close(self) -> None:
        """Abort all requests, stop the worker threads, and free the cache's memory on the GPU. An
        LLM that is no longer referenced is closed automatically."""
        self._shared.close()
        if self._when_dropped is not None:  # else it would keep the engine's memory
            self._when_dropped.detach()

    def _run(
        self, prompts: Sequence[tuple[int, ...] | UserError], params: Sequence[SamplingParams]
    ) -> list[RequestOutput]:
        asked = [
            (prompt, param)
            for prompt, param in zip(prompts, params, strict=True)
            if not isinstance(prompt, UserError)
        ]
        ended = iter(self._shared.run(asked))
        return [
            RequestOutput.refused(prompt)
            if isinstance(prompt, UserError)
            else RequestOutput.of(next(ended))
            for prompt in prompts
        ]
