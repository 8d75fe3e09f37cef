"""Owns what a caller asks of one request: sampling parameters and the guide."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
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
    backend:        "auto" or the name of one grammar backend ("llguidance", "xgrammar")

    Raises InvalidGuide when none or several kinds are given or one is malformed.
    """

    json_schema: Mapping[str, Any] | bool | str | None = None
    json_object: bool | None = None
    regex: str | None = None
    grammar: str | None = None
    choice: Sequence[str] | None = None
    structural_tag: Mapping[str, Any] | str | None = None
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
        """The guide as canonical text: what backends compile and what a cache keys on."""
        value = getattr(self, self.kind)
        return value if isinstance(value, str) and self.kind in ("regex", "grammar") else _canonical(value)


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
            except json.JSONDecodeError as error:
                raise InvalidGuide(f"{kind} is not valid JSON: {error}", param=kind) from error
        if not isinstance(value, types):
            raise InvalidGuide(f"{kind} must be a JSON object, found {type(value).__name__}", param=kind)
        try:
            json.dumps(value)
        except (TypeError, ValueError) as error:
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
}


MAX_SAMPLES = 128
"""Most samples of one prompt, as in the OpenAI API."""


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
    stop:           a string, or several, that end a free request; its text ends before the first of them to be complete
    include_stop_str_in_output: the text ends behind the stop string instead
    n:              samples of the prompt, 1 to MAX_SAMPLES; the seeds of the second and later ones follow from `seed`
    timeout_s:      seconds from its arrival after which it ends with an error, > 0; None waits for ever

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
    stop: str | Sequence[str] | None = ()
    include_stop_str_in_output: bool = False
    n: int = 1
    timeout_s: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "stop_token_ids", tuple(self.stop_token_ids))
        stop = (self.stop,) if isinstance(self.stop, str) else () if self.stop is None else self.stop
        object.__setattr__(self, "stop", tuple(stop) if isinstance(stop, Sequence) else stop)
        for name, valid, meaning in (
            ("max_tokens", _is_int(self.max_tokens) and self.max_tokens >= 1, "an integer ≥ 1"),
            ("temperature", _is_real(self.temperature) and self.temperature >= 0, "a finite number ≥ 0"),
            ("top_k", _is_int(self.top_k) and self.top_k >= -1, "an integer ≥ 1, or 0 for no limit"),
            ("top_p", _is_real(self.top_p) and 0 < self.top_p <= 1, "a number in (0, 1]"),
            ("min_p", _is_real(self.min_p) and 0 <= self.min_p <= 1, "a number in [0, 1]"),
            ("seed", self.seed is None or (_is_int(self.seed) and 0 <= self.seed < 2**63), "an integer in [0, 2^63)"),
            ("stop_token_ids", all(_is_int(t) and t >= 0 for t in self.stop_token_ids), "token ids ≥ 0"),
            ("guide", self.guide is None or isinstance(self.guide, Guide), "a Guide or None"),
            ("stop", isinstance(self.stop, tuple) and all(isinstance(s, str) and s for s in self.stop),
             "a non-empty string or a list of them"),
            ("include_stop_str_in_output", isinstance(self.include_stop_str_in_output, bool), "True or False"),
            ("n", _is_int(self.n) and 1 <= self.n <= MAX_SAMPLES, f"an integer from 1 to {MAX_SAMPLES}"),
            ("timeout_s", self.timeout_s is None or (_is_real(self.timeout_s) and self.timeout_s > 0),
             "a number of seconds > 0 or None"),
        ):
            if not valid:
                raise InvalidParams(f"{name} must be {meaning}, found {getattr(self, name)!r}", param=name)
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
