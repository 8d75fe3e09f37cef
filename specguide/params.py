"""Owns what a caller asks of one request: sampling parameters and the guide."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from specguide.errors import InvalidGuide, InvalidParams


@dataclass(frozen=True)
class Guide:
    """The grammar an output must match; holds exactly one of its kinds.

    json_schema:    a JSON Schema as a dict, a bool or JSON text
    json_object:    True: any JSON object
    regex:          the whole output matches this regular expression
    grammar:        a context-free grammar, EBNF (GBNF flavour, `root ::= …`) or Lark (`start: …`)
    choice:         the output is one of these strings
    structural_tag: a structural tag (xgrammar's format) as a dict or JSON text
    matcher:        a function that makes a matcher of your own, see specguide.guided.matcher.Matcher
    backend:        "auto" or the name of one grammar backend ("llguidance", "xgrammar")

    Raises InvalidGuide when none or several kinds are given or one is malformed.
    """

    json_schema: Mapping[str, Any] | bool | str | None = None
    json_object: bool | None = None
    regex: str | None = None
    grammar: str | None = None
    choice: Sequence[str] | None = None
    structural_tag: Mapping[str, Any] | str | None = None
    matcher: Callable[[], Any] | None = None
    backend: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        given = [name for name in _KINDS if getattr(self, name) is not None]
        if len(given) != 1:
            found = " and ".join(given) if given else "none"
            raise InvalidGuide(f"a Guide holds exactly one of {', '.join(_KINDS)}; found {found}", param="guide")
        if self.backend not in (None, "auto", "llguidance", "xgrammar"):
            raise InvalidGuide(f'guide backend {self.backend!r} is unknown; use "auto", "llguidance" or "xgrammar"',
                               param="backend")
        _CHECKS[given[0]](getattr(self, given[0]))

    @property
    def kind(self) -> str:
        """Name of the field that is set."""
        return next(name for name in _KINDS if getattr(self, name) is not None)

    def source(self) -> str:
        """The guide as canonical text: what backends compile and what a cache keys on. A matcher has none."""
        value = getattr(self, self.kind)
        return value if isinstance(value, str) and self.kind in ("regex", "grammar") else _canonical(value)


@dataclass(frozen=True)
class Reasoning:
    """Free text that a model writes before the guided answer, as reasoning models do between marks.

    end:        the mark that ends it, a special token of the model or any text; the guide begins behind it
    begin:      the mark that it must begin with; None where the prompt has begun it already
    max_tokens: after so many tokens of free text the end mark must follow; None: no limit

    Raises InvalidParams.
    """

    end: str = "</think>"
    begin: str | None = None
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        for name in ("end", "begin"):
            mark = getattr(self, name)
            if not (mark is None and name == "begin") and not _is_text(mark):
                raise InvalidParams(f"the {name} mark of reasoning must be a non-empty Unicode text, found {mark!r}",
                                    param="reasoning")
        if self.max_tokens is not None and not (_is_int(self.max_tokens) and self.max_tokens >= 0):
            raise InvalidParams(f"max_tokens of reasoning must be an integer ≥ 0 or None, found {self.max_tokens!r}",
                                param="reasoning")


_KINDS = tuple(f.name for f in fields(Guide) if f.name != "backend")


def _canonical(value: Any) -> str:
    if isinstance(value, str):
        value = json.loads(value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _check_json(kind: str, types: tuple[type, ...]) -> Any:
    def check(value: Any) -> None:
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except (json.JSONDecodeError, RecursionError) as error:
                raise InvalidGuide(f"{kind} is not valid JSON: {error}", param=kind) from error
        if not isinstance(value, types):
            raise InvalidGuide(f"{kind} must be a JSON object, found {type(value).__name__}", param=kind)
        try:
            json.dumps(value)
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidGuide(f"{kind} cannot be written as JSON: {error}", param=kind) from error

    return check


def _check_text(kind: str) -> Any:
    def check(value: Any) -> None:
        if not isinstance(value, str) or not value:
            raise InvalidGuide(f"{kind} must be a non-empty string", param=kind)

    return check


def _check_json_object(value: Any) -> None:
    if value is not True:
        raise InvalidGuide("json_object takes only True; leave it out to generate freely", param="json_object")


def _check_matcher(value: Any) -> None:
    if not callable(value):
        raise InvalidGuide(f"matcher must be a function that makes a matcher, found {type(value).__name__}",
                           param="matcher")


def _check_choice(value: Any) -> None:
    if isinstance(value, str) or not value or not all(isinstance(item, str) and item for item in value):
        raise InvalidGuide("choice must be a non-empty list of non-empty strings", param="choice")


_CHECKS = {
    "json_schema": _check_json("json_schema", (Mapping, bool)),
    "json_object": _check_json_object,
    "regex": _check_text("regex"),
    "grammar": _check_text("grammar"),
    "choice": _check_choice,
    "structural_tag": _check_json("structural_tag", (Mapping,)),
    "matcher": _check_matcher,
}


MAX_LOGPROBS = 20
"""Likeliest tokens of each place that a request may ask for."""

_MAX_BIASES = 512
_SURROGATE = re.compile("[\ud800-\udfff]")  # half of a pair: JSON can spell it and no text has it
MAX_SAMPLES = 128
"""Most samples of one prompt, as in the OpenAI API."""

_Predicate = Callable[[Any], bool]


@dataclass(frozen=True)
class SamplingParams:
    """How one request is decoded; names and defaults as in vLLM and the OpenAI API.

    max_tokens:     most tokens to generate, ≥ 1
    temperature:    0 is greedy; otherwise logits are divided by it, > 0
    top_k:          keep the k likeliest allowed tokens; 0 or -1 keeps all
    top_p:          keep the smallest set of likeliest tokens whose probability reaches it, in (0, 1]
    min_p:          drop tokens whose probability is below min_p × the greatest, in [0, 1]
    seed:           makes sampling repeatable; None draws one
    stop_token_ids: tokens that end a free request besides the model's own end tokens
    ignore_eos:     end tokens of the model do not end a free request
    guide:          the grammar the output must match; None generates freely
    reasoning:      what may come before the guided answer; None: nothing
    stop:           a string, or several, that end a free request; its text ends before the first of them to be complete
    include_stop_str_in_output: the text ends behind the stop string instead
    n:              samples of the prompt, 1 to MAX_SAMPLES; the seeds of the second and later ones follow from `seed`
    timeout_s:      seconds from its arrival after which it ends with an error, > 0; None waits for ever

    The logits are adjusted in this order, and the guide's grammar stands over all of it:

    allowed_token_ids:  the output has only these tokens, end tokens too only if they are among them; None allows all
    bad_words:          texts that the output does not spell in the tokens they are encoded to, with and without a
                        space before them; at most 128, of at most 32 tokens each
    logit_bias:         token id → number added to its logit, in [-100, 100], at most 512 tokens
    min_tokens:         tokens before which no end token and none of stop_token_ids comes and no stop string ends it, ≤
                        max_tokens; a grammar that allows nothing else may end all the same
    repetition_penalty: > 0; logits of tokens of prompt and output are divided by it where > 0, else multiplied
    frequency_penalty:  taken off for each time that a token is in the output, in [-2, 2]
    presence_penalty:   taken off once for each token that is in the output, in [-2, 2]

    logprobs: for each token of the output its log-probability and those of the so many likeliest ones, 0 to 20, by the
              model's own logits before anything is done to them; None: none

    Raises InvalidParams naming the parameter.
    """

    max_tokens: int = 256
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int | None = None
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    guide: Guide | None = None
    reasoning: Reasoning | None = None
    allowed_token_ids: tuple[int, ...] | None = None
    bad_words: tuple[str, ...] = ()
    logit_bias: Mapping[int, float] | None = None
    min_tokens: int = 0
    repetition_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    logprobs: int | None = None
    stop: str | Sequence[str] | None = ()
    include_stop_str_in_output: bool = False
    n: int = 1
    timeout_s: float | None = None

    def __post_init__(self) -> None:
        for name, normal in (("stop_token_ids", _as_tuple), ("allowed_token_ids", _as_tuple), ("bad_words", _as_tuple),
                             ("logit_bias", _as_biases)):
            object.__setattr__(self, name, normal(getattr(self, name)))
        stop = (self.stop,) if isinstance(self.stop, str) else () if self.stop is None else self.stop
        object.__setattr__(self, "stop", tuple(stop) if isinstance(stop, Sequence) else stop)
        wrong = next((name for name, (is_valid, _) in _RULES.items() if not is_valid(getattr(self, name))), None)
        if wrong is None and self.min_tokens > self.max_tokens:
            wrong = "min_tokens"
        if wrong is not None:
            raise InvalidParams(f"{wrong} must be {_RULES[wrong][1]}, found {getattr(self, wrong)!r}", param=wrong)
        if self.reasoning is not None and self.guide is None:
            raise InvalidParams("reasoning says what comes before a guided answer: give a guide, or leave it out",
                                param="reasoning")
        contradicted = next((n for n in ("ignore_eos", "stop_token_ids", "stop") if getattr(self, n)), None)
        if self.guide is not None and contradicted is not None:
            raise InvalidParams(f"{contradicted} cannot be honoured with a guide: the grammar decides where the output "
                                "ends", param=contradicted)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> SamplingParams:
        """From a mapping of parameter names. Raises InvalidParams naming an unknown one."""
        known = {f.name for f in fields(cls)}
        for name in values:
            if name not in known:
                raise InvalidParams(f"unknown sampling parameter {name!r}; known: {', '.join(sorted(known))}",
                                    param=name)
        return cls(**values)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_real(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and -1e30 < value < 1e30


def _is_positive(value: Any) -> bool:
    return _is_real(value) and value > 0


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value != "" and _SURROGATE.search(value) is None


def _are_ids(values: Any) -> bool:
    return isinstance(values, tuple) and all(_is_int(value) and value >= 0 for value in values)


def _are_texts(values: Any) -> bool:
    return isinstance(values, tuple) and all(map(_is_text, values))


def _are_biases(biases: Any) -> bool:
    return isinstance(biases, dict) and len(biases) <= _MAX_BIASES and all(
        _is_int(token) and token >= 0 and _is_real(bias) and abs(bias) <= 100 for token, bias in biases.items())


def _int_in(least: int, most: float = math.inf) -> _Predicate:
    return lambda value: _is_int(value) and least <= value <= most


def _real_in(least: float, most: float = math.inf) -> _Predicate:
    return lambda value: _is_real(value) and least <= value <= most


def _instance_of(kind: type) -> _Predicate:
    return lambda value: isinstance(value, kind)


def _optional(is_valid: _Predicate) -> _Predicate:
    return lambda value: value is None or is_valid(value)


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
    "allowed_token_ids": (_optional(lambda ids: _are_ids(ids) and len(ids) > 0),
                          "at least one token id, all ≥ 0, or None to allow all"),
    "bad_words": (_are_texts, "a list of non-empty Unicode texts"),
    "logit_bias": (_optional(_are_biases), f"at most {_MAX_BIASES} token ids ≥ 0, each with a number in [-100, 100]"),
    "min_tokens": (_int_in(0), "an integer ≥ 0 and ≤ max_tokens"),
    "repetition_penalty": (_is_positive, "a number > 0"),
    "frequency_penalty": (_real_in(-2, 2), "a number in [-2, 2]"),
    "presence_penalty": (_real_in(-2, 2), "a number in [-2, 2]"),
    "logprobs": (_optional(_int_in(0, MAX_LOGPROBS)), f"an integer from 0 to {MAX_LOGPROBS}, or None"),
    "stop": (_are_texts, "a non-empty Unicode string or a list of them"),
    "include_stop_str_in_output": (_instance_of(bool), "True or False"),
    "n": (_int_in(1, MAX_SAMPLES), f"an integer from 1 to {MAX_SAMPLES}"),
    "timeout_s": (_optional(_is_positive), "a number of seconds > 0 or None"),
}
"""Of SamplingParams' fields: which values are valid, as a predicate and in words."""


def _as_tuple(values: Any) -> Any:
    return tuple(values) if isinstance(values, Iterable) and not isinstance(values, (str, bytes)) else values


def _as_biases(biases: Any) -> Any:
    """A dict of its own; ids may be text, as JSON has them."""
    if not isinstance(biases, Mapping):
        return biases
    return {int(token) if isinstance(token, str) and token.isdecimal() else token: bias
            for token, bias in biases.items()}
