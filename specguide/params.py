"""Owns what a caller asks of one request: sampling parameters, of which the guide is one."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from specguide.converted import converted
from specguide.errors import InvalidParams
from specguide.guide import Guide, Reasoning, is_text
from specguide.integers import as_int, as_ints, is_int

MAX_LOGPROBS = 20
"""Likeliest tokens of each place that a request may ask for."""

_MAX_BIASES = 512
MAX_SAMPLES = 128
"""Most samples of one prompt, as in the OpenAI API."""

_Predicate = Callable[[Any], bool]


@dataclass(frozen=True)
class Speculation:
    """What a request takes of the engine's drafts; None: as many as the engine makes, and as it
    makes them. The output is the same with any; acceptance and time are not.

    num_draft_tokens:  most drafts of the engine's method after each golden token, ≥ 0; 0 leaves
                       what the grammar forces
    num_forced_tokens: most drafts beside these that the grammar forces, ≥ 0; with both 0 it is
                       decoded plainly
    guided_drafts:     False: its draft head or model chooses among all tokens, not among what the
                       grammar allows

    Raises InvalidParams naming the field.
    """

    num_draft_tokens: int | None = converted(None, as_int)
    num_forced_tokens: int | None = converted(None, as_int)
    guided_drafts: bool | None = None

    def __post_init__(self) -> None:
        for name in ("num_draft_tokens", "num_forced_tokens"):
            number = getattr(self, name)
            if number is not None and not (is_int(number) and number >= 0):
                raise InvalidParams(
                    f"speculation.{name} must be an integer ≥ 0 or None, found {number!r}",
                    param=f"speculation.{name}",
                )
        if not isinstance(self.guided_drafts, bool | None):
            raise InvalidParams(
                "speculation.guided_drafts must be True, False or None, found "
                f"{self.guided_drafts!r}",
                param="speculation.guided_drafts",
            )


def _as_tuple(values: Any) -> Any:
    return (
        tuple(values)
        if isinstance(values, Iterable) and not isinstance(values, (str, bytes))
        else values
    )


def _as_ids(values: Any) -> Any:
    try:
        return values if isinstance(values, (str, bytes)) else tuple(as_ints(values))
    except TypeError:  # nothing that has elements
        return values


def _as_biases(biases: Any) -> Any:
    """A dict of its own; ids may be text, as JSON has them."""
    if not isinstance(biases, Mapping):
        return biases
    return {
        int(token) if isinstance(token, str) and token.isdecimal() else as_int(token): bias
        for token, bias in biases.items()
    }


def _as_processors(values: Any) -> Any:
    return () if values is None else _as_tuple(values)


def _as_stop(stop: Any) -> Any:
    if stop is None:
        return ()
    if isinstance(stop, str):
        return (stop,)
    return tuple(stop) if isinstance(stop, Sequence) else stop


@dataclass(frozen=True)
class SamplingParams:
    """How one request is decoded; names and defaults as in vLLM and the OpenAI API.

    max_tokens:     most tokens to generate, ≥ 1
    temperature:    0 is greedy; otherwise logits are divided by it, > 0
    top_k:          keep the k likeliest allowed tokens; 0 or -1 keeps all
    top_p:          keep the smallest set of likeliest tokens whose probability reaches it, in (0,
                    1]
    min_p:          drop tokens whose probability is below min_p × the greatest, in [0, 1]
    seed:           makes sampling repeatable; None draws one
    stop_token_ids: tokens that end a free request besides the model's own end tokens, and a guided
                    one where its grammar may end behind them
    ignore_eos:     end tokens of the model do not end a free request
    guide:          the grammar the output must match; None generates freely
    reasoning:      what may come before the guided answer; None: nothing
    stop:           a string, or several, that end a request; its text ends before the first of them
                    to be complete. With a guide the first behind which, or before which, its
                    grammar may end, so that the text matches it
    include_stop_str_in_output: the text ends behind the stop string instead
    n:              samples of the prompt, 1 to MAX_SAMPLES; the seeds of the second and later ones
                    follow from `seed`
    speculation:    what it takes of the engine's drafts; None: all
    timeout_s:      seconds from its arrival after which it ends with an error, > 0; None waits for
                    ever

    The logits are adjusted in this order, and the guide's grammar stands over all of it:

    logits_processors:  functions f(output_ids, logits) or f(prompt_ids, output_ids, logits), called
                        one after the other for each token: ids are lists of ints, logits a float32
                        tensor [vocab_size] on the CPU that f may write to; f returns such a tensor,
                        in which -inf forbids a token. It must depend on its arguments alone: it is
                        called for drafts too, more often than tokens are output. Iterations with
                        such a request wait for the processors, in Python, and for the results of
                        the one before
    allowed_token_ids:  the output has only these tokens, end tokens too only if they are among
                        them; None allows all
    bad_words:          texts that the output does not spell in the tokens they are encoded to, with
                        and without a space before them; at most 128, of at most 32 tokens each
    logit_bias:         token id → number added to its logit, in [-100, 100], at most 512 tokens
    min_tokens:         tokens before which no end token and none of stop_token_ids comes and no
                        stop string ends it, ≤ max_tokens; a grammar that allows nothing else may
                        end all the same
    repetition_penalty: > 0; logits of tokens of prompt and output are divided by it where > 0, else
                        multiplied
    frequency_penalty:  taken off for each time that a token is in the output, in [-2, 2]
    presence_penalty:   taken off once for each token that is in the output, in [-2, 2]

    logprobs: for each token of the output its log-probability and those of the so many likeliest
              ones, 0 to 20, by the model's own logits before anything is done to them; None: none
    prompt_logprobs: the same for each token of the prompt but the first; all of the prompt is then
                     computed, also where
              its keys are known from an earlier one
    return_drafts: tell for each iteration what was drafted and how much of it was accepted, as
                   `iterations`
    return_spans: tell for each output token which part of the output it lies in: a field's value, a
                  tool's name, reasoning, …, as `spans`
    faithful: draw from what the guide admits by the model's own probabilities of whole outputs, not
              token by token among what may follow; for guides of few outputs, see docs/grammars.md
    allow_truncation: let max_tokens cut a guided output off; else it ends in time, and a request of
                      which not even the shortest output would is refused

    Raises InvalidParams naming the parameter.
    """

    max_tokens: int = converted(256, as_int)
    temperature: float = 0.0
    top_k: int = converted(0, as_int)
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int | None = converted(None, as_int)
    stop_token_ids: tuple[int, ...] = converted((), _as_ids)
    ignore_eos: bool = False
    guide: Guide | None = None
    reasoning: Reasoning | None = None
    allowed_token_ids: tuple[int, ...] | None = converted(None, _as_ids)
    bad_words: tuple[str, ...] = converted((), _as_tuple)
    logit_bias: Mapping[int, float] | None = converted(None, _as_biases)
    min_tokens: int = converted(0, as_int)
    repetition_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    logprobs: int | None = converted(None, as_int)
    prompt_logprobs: int | None = converted(None, as_int)
    logits_processors: Sequence[Callable[..., Any]] | None = converted((), _as_processors)
    stop: str | Sequence[str] | None = converted((), _as_stop)
    include_stop_str_in_output: bool = False
    n: int = converted(1, as_int)
    timeout_s: float | None = None
    speculation: Speculation | None = None
    return_drafts: bool = False
    return_spans: bool = False
    faithful: bool = False
    allow_truncation: bool = False

    def __post_init__(self) -> None:
        wrong = next(
            (name for name, (is_valid, _) in _RULES.items() if not is_valid(getattr(self, name))),
            None,
        )
        if wrong is None and self.min_tokens > self.max_tokens:
            wrong = "min_tokens"
        if wrong is not None:
            raise InvalidParams(
                f"{wrong} must be {_RULES[wrong][1]}, found {getattr(self, wrong)!r}", param=wrong
            )
        if self.reasoning is not None and self.guide is None:
            raise InvalidParams(
                "reasoning says what comes before a guided answer: give a guide, or leave it out",
                param="reasoning",
            )
        if self.guide is not None and self.ignore_eos:
            raise InvalidParams(
                "ignore_eos cannot be honoured with a guide: the grammar decides where the output "
                "ends",
                param="ignore_eos",
            )
        if self.faithful:
            self._check_faithful()

    def _check_faithful(self) -> None:
        if self.guide is None:
            raise InvalidParams(
                "faithful draws from the outputs of a guide: give a guide, or leave it out",
                param="faithful",
            )
        plain = SamplingParams()
        for name in _UNFAITHFUL:
            if getattr(self, name) not in (getattr(plain, name), -1, {}):  # a top_k, a logit_bias
                raise InvalidParams(
                    f"faithful does not honour {name}: outputs are drawn by the model's own "
                    "probabilities, without a change; leave one of the two out",
                    param=name,
                )

    @property
    def may_stop_by_text(self) -> bool:
        """Its output is read while it is made, since that may end it."""
        return bool(self.stop or (self.guide is not None and self.stop_token_ids))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> SamplingParams:
        """From a mapping of parameter names. Raises InvalidParams naming an unknown one."""
        known = {f.name for f in fields(cls)}
        for name in values:
            if name not in known:
                raise InvalidParams(
                    f"unknown sampling parameter {name!r}; known: {', '.join(sorted(known))}",
                    param=name,
                )
        return cls(**values)


def num_processor_arguments(processor: Callable[..., Any]) -> int | None:
    """2 or 3: with how many arguments a logits processor is called, 2 where it takes either; None:
    it takes neither."""
    try:
        signature = inspect.signature(processor)
    except (TypeError, ValueError):  # a builtin that does not say
        return 2
    for num_arguments in (2, 3):
        try:
            signature.bind(*range(num_arguments))
        except TypeError:
            continue
        return num_arguments
    return None


def _is_real(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and -1e30 < value < 1e30


def _is_positive(value: Any) -> bool:
    return _is_real(value) and value > 0


def _are_ids(values: Any) -> bool:
    return isinstance(values, tuple) and all(is_int(value) and value >= 0 for value in values)


def _are_texts(values: Any) -> bool:
    return isinstance(values, tuple) and all(map(is_text, values))


def _are_biases(biases: Any) -> bool:
    return (
        isinstance(biases, dict)
        and len(biases) <= _MAX_BIASES
        and all(
            is_int(token) and token >= 0 and _is_real(bias) and abs(bias) <= 100
            for token, bias in biases.items()
        )
    )


def _int_in(least: int, most: float = math.inf) -> _Predicate:
    return lambda value: is_int(value) and least <= value <= most


def _real_in(least: float, most: float = math.inf) -> _Predicate:
    return lambda value: _is_real(value) and least <= value <= most


def _instance_of(kind: type) -> _Predicate:
    return lambda value: isinstance(value, kind)


def _optional(is_valid: _Predicate) -> _Predicate:
    return lambda value: value is None or is_valid(value)


def _are_processors(values: Any) -> bool:
    return isinstance(values, tuple) and all(
        callable(value) and num_processor_arguments(value) for value in values
    )


_RULES: dict[str, tuple[_Predicate, str]] = {
    "max_tokens": (_int_in(1), "an integer ≥ 1"),
    "temperature": (_real_in(0), "a finite number ≥ 0"),
    "top_k": (_int_in(-1), "an integer ≥ 1, or 0 for no limit"),
    "top_p": (lambda value: _is_positive(value) and value <= 1, "a number in (0, 1]"),
    "min_p": (_real_in(0, 1), "a number in [0, 1]"),
    "seed": (_optional(_int_in(0, 2**63 - 1)), "an integer in [0, 2^63)"),
    "stop_token_ids": (_are_ids, "token ids ≥ 0"),
    "guide": (_optional(_instance_of(Guide)), "a Guide or None"),
    "reasoning": (_optional(_instance_of(Reasoning)), "a Reasoning or None"),
    "allowed_token_ids": (
        _optional(lambda ids: _are_ids(ids) and len(ids) > 0),
        "at least one token id, all ≥ 0, or None to allow all",
    ),
    "bad_words": (_are_texts, "a list of non-empty Unicode texts"),
    "logit_bias": (
        _optional(_are_biases),
        f"at most {_MAX_BIASES} token ids ≥ 0, each with a number in [-100, 100]",
    ),
    "min_tokens": (_int_in(0), "an integer ≥ 0 and ≤ max_tokens"),
    "repetition_penalty": (_is_positive, "a number > 0"),
    "frequency_penalty": (_real_in(-2, 2), "a number in [-2, 2]"),
    "presence_penalty": (_real_in(-2, 2), "a number in [-2, 2]"),
    "logprobs": (
        _optional(_int_in(0, MAX_LOGPROBS)),
        f"an integer from 0 to {MAX_LOGPROBS}, or None",
    ),
    "prompt_logprobs": (
        _optional(_int_in(0, MAX_LOGPROBS)),
        f"an integer from 0 to {MAX_LOGPROBS}, or None",
    ),
    "logits_processors": (
        _are_processors,
        "a list of functions f(output_ids, logits) or f(prompt_ids, output_ids, logits)",
    ),
    "stop": (_are_texts, "a non-empty Unicode string or a list of them"),
    "include_stop_str_in_output": (_instance_of(bool), "True or False"),
    "n": (_int_in(1, MAX_SAMPLES), f"an integer from 1 to {MAX_SAMPLES}"),
    "timeout_s": (_optional(_is_positive), "a number of seconds > 0 or None"),
    "speculation": (_optional(_instance_of(Speculation)), "a Speculation or None"),
    "return_drafts": (_instance_of(bool), "True or False"),
    "return_spans": (_instance_of(bool), "True or False"),
    "faithful": (_instance_of(bool), "True or False"),
    "allow_truncation": (_instance_of(bool), "True or False"),
}
"""Of SamplingParams' fields: which values are valid, as a predicate and in words."""

_UNFAITHFUL = (
    *("top_k", "top_p", "min_p", "stop", "stop_token_ids", "reasoning", "allowed_token_ids"),
    *("bad_words", "logit_bias", "min_tokens", "logits_processors", "prompt_logprobs"),
    *("repetition_penalty", "frequency_penalty", "presence_penalty", "allow_truncation"),
)
"""Of SamplingParams' fields: those that are as by default in a faithful request."""
