"""Owns SamplingParams: how one request is decoded, and the guide that its output must match."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from specguide.errors import InvalidParams
from specguide.guide import Guide, Reasoning
from specguide.guide.structured_outputs import guide_of
from specguide.inputs.field_values import converted
from specguide.inputs.integers import as_int, as_ints, as_real
from specguide.other_engines import OTHER_SAMPLING, knows_others, unknown, without_others
from specguide.params.rules import RULES
from specguide.params.speculation import Speculation


def _as_tuple(values: Any) -> Any:
    try:
        return values if isinstance(values, (str, bytes)) else tuple(values)
    except TypeError:  # not iterable
        return values


def _as_ids(values: Any) -> Any:
    try:
        return values if isinstance(values, (str, bytes)) else tuple(as_ints(values))
    except TypeError:  # not iterable
        return values


def _as_biases(biases: Any) -> Any:
    """A copy as a dict; ids may be strings, as JSON has them."""
    if not isinstance(biases, Mapping):
        return biases
    return {_as_id(token): as_real(bias) for token, bias in biases.items()}


def _as_id(token: Any) -> Any:
    if not isinstance(token, str) or not token.isdecimal():
        return as_int(token)
    try:
        return int(token)
    except ValueError:  # thousands of digits
        return token


def _as_stop_ids(values: Any) -> Any:
    return () if values is None else _as_ids(values)


def _as_listed(values: Any) -> Any:
    return () if values is None else _as_tuple(values)


def _as_stop(stop: Any) -> Any:
    if stop is None:
        return ()
    if isinstance(stop, str):
        return (stop,)
    return tuple(stop) if isinstance(stop, Sequence) else stop


def _as_seed(seed: Any) -> Any:
    seed = as_int(seed)
    return None if seed == -1 else seed  # in other engines -1 is a random seed


def _ours(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """The given parameters by our names. Raises InvalidParams and InvalidGuide, and TypeError for
    an unknown name."""
    if given.keys() <= _OWN_NAMES:
        return given
    rest = without_others(OTHER_SAMPLING, given, str)
    for name in _NAMES_OF_GUIDES:
        guide = guide_of(rest.pop(name, None), name)
        if guide is not None and rest.get("guide", guide) not in (guide, None):
            raise InvalidParams(
                f"guide and {name} both constrain the output; give only one of them", param=name
            )
        rest["guide"] = guide or rest.get("guide")
    for name in rest:
        if name not in _OWN_NAMES:
            raise unknown("SamplingParams", name, _OWN_NAMES)
    return rest


@knows_others(_ours)
@dataclass(frozen=True)
class SamplingParams:
    """How one request is decoded; names as in vLLM and the OpenAI API. The defaults are greedy
    decoding and 256 tokens.

    max_tokens:     most tokens to generate, ≥ 1; fewer where the context has no room for them
    temperature:    0 is greedy; otherwise logits are divided by it, > 0
    top_k:          keep the k likeliest allowed tokens; 0 or -1 keeps all
    top_p:          keep the smallest set of likeliest tokens whose probability reaches it, in (0,
                    1]
    min_p:          drop tokens whose probability is below min_p × the greatest, in [0, 1]
    seed:           makes sampling repeatable, in [-2^63, 2^63); left out, or -1: a random one
    stop_token_ids: tokens that end a request, besides the model's own end tokens. A free request's
                    text ends before the token; a guided request ends only where its grammar may end
                    after the token, which its text includes
    ignore_eos:     end tokens of the model do not end a free request
    guide:          the grammar that the output must match; None generates freely
    reasoning:      the reasoning that may come before the guided answer; None: nothing
    stop:           a string, or several, that end a request; the text ends before the stop string
                    that is complete first. With a guide a stop string ends the request only where
                    the text before it matches the grammar
    include_stop_str_in_output: the text includes the stop string or stop token
    skip_special_tokens: special tokens add nothing to the text; False: they add their names. The
                    end token that ends an output is left out unless stops are included, too
    n:              samples of the prompt, 1 to MAX_SAMPLES; the seeds of the second and later ones
                    are derived from `seed`
    speculation:    how the request uses the engine's drafts; None: all of them
    lora:           name of the LoRA adapter that the target runs with, of the engine's
                    lora_modules; None: none
    timeout_s:      seconds from the request's arrival after which it ends with an error, > 0; None:
                    no limit

    The logits are adjusted in this order; the guide's grammar takes precedence over all of it:

    logits_processors:  functions f(output_ids, logits) or f(prompt_ids, output_ids, logits), called
                        one after the other for each token: ids are lists of ints, logits a float32
                        tensor [vocab_size] on the CPU that f may write to; f returns such a tensor,
                        in which -inf forbids a token. It must depend on its arguments alone: it is
                        called for drafts too, more often than tokens are output. Iterations with
                        such a request wait for the processors, which run in Python, and for the
                        results of the previous iteration
    allowed_token_ids:  the only tokens that the output may have; end tokens must be among them too.
                        None allows all
    bad_words:          texts that the output must not spell in the tokens to which they are
                        encoded, with and without a space before them; at most 128, of at most 32
                        tokens each
    logit_bias:         token id → number added to its logit, in [-100, 100], at most 512 tokens
    min_tokens:         number of tokens before which no end token and none of stop_token_ids is
                        generated, and no stop string ends the request, ≤ max_tokens; a grammar that
                        allows nothing else may still end earlier
    repetition_penalty: > 0; logits of tokens in the prompt and the output are divided by it where
                        they are > 0, else multiplied
    frequency_penalty:  subtracted for each time that a token is in the output, in [-2, 2]
    presence_penalty:   subtracted once for each token that is in the output, in [-2, 2]

    logprobs: return for each output token its log-probability and those of this many likeliest
              tokens, 0 to 20, by the model's own logits before any adjustment; None: none
    prompt_logprobs: the same for each token of the prompt but the first; the whole prompt is then
                     computed, even where its keys are cached
    return_drafts: return for each iteration its draft tokens and how many of them were accepted, as
                   `iterations`
    return_spans: return for each output token the part of the output in which it lies: a field's
                  value, a tool's name, reasoning, …, as `spans`
    faithful: sample from the outputs that the guide allows by the model's own probabilities of
              whole outputs, not token by token among the allowed tokens; for guides of few outputs,
              see docs/grammars.md
    allow_truncation: let max_tokens cut a guided output off; else the output is steered to a valid
                      end in time, and a request whose shortest output is too long is refused

    `structured_outputs` and `guided_decoding` give a guide as vLLM's classes of these names do, or
    as a dict with their fields. Other parameters of vLLM are accepted where they change nothing,
    such as `detokenize=True`; otherwise they are refused, and the error says what to do.

    Raises InvalidParams naming the parameter, and TypeError for an unknown name.
    """

    max_tokens: int = converted(256, as_int)
    temperature: float = converted(0.0, as_real)
    top_k: int = converted(0, as_int)
    top_p: float = converted(1.0, as_real)
    min_p: float = converted(0.0, as_real)
    seed: int | None = converted(None, _as_seed)
    stop_token_ids: tuple[int, ...] = converted((), _as_stop_ids)
    ignore_eos: bool = False
    guide: Guide | None = None
    reasoning: Reasoning | None = None
    allowed_token_ids: tuple[int, ...] | None = converted(None, _as_ids)
    bad_words: tuple[str, ...] = converted((), _as_listed)
    logit_bias: Mapping[int, float] | None = converted(None, _as_biases)
    min_tokens: int = converted(0, as_int)
    repetition_penalty: float = converted(1.0, as_real)
    frequency_penalty: float = converted(0.0, as_real)
    presence_penalty: float = converted(0.0, as_real)
    logprobs: int | None = converted(None, as_int)
    prompt_logprobs: int | None = converted(None, as_int)
    logits_processors: Sequence[Callable[..., Any]] | None = converted((), _as_listed)
    stop: str | Sequence[str] | None = converted((), _as_stop)
    include_stop_str_in_output: bool = False
    skip_special_tokens: bool = True
    n: int = converted(1, as_int)
    lora: str | None = None
    timeout_s: float | None = converted(None, as_real)
    speculation: Speculation | None = None
    return_drafts: bool = False
    return_spans: bool = False
    faithful: bool = False
    allow_truncation: bool = False

    def __post_init__(self) -> None:
        wrong = next(
            (name for name, (is_valid, _) in RULES.items() if not is_valid(getattr(self, name))),
            None,
        )
        if wrong is None and self.min_tokens > self.max_tokens:
            wrong = "min_tokens"
        if wrong is not None:
            raise InvalidParams(
                f"{wrong} must be {RULES[wrong][1]}, found {getattr(self, wrong)!r}", param=wrong
            )
        if self.reasoning is not None and self.guide is None:
            raise InvalidParams(
                "reasoning describes what comes before a guided answer, and there is no guide: "
                "give a guide, or leave reasoning out",
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
                "faithful samples from the outputs that a guide allows, and there is no guide: "
                "give a guide, or leave faithful out",
                param="faithful",
            )
        plain = SamplingParams()
        for name in _UNFAITHFUL:
            if getattr(self, name) not in (getattr(plain, name), -1, {}):  # a top_k, a logit_bias
                raise InvalidParams(
                    f"faithful cannot be combined with {name}: it samples whole outputs with the "
                    f"model's own probabilities; leave faithful or {name} out",
                    param=name,
                )

    @property
    def may_stop_by_text(self) -> bool:
        """Its output is read while it is generated, since the text may end it."""
        return bool(self.stop or (self.guide is not None and self.stop_token_ids))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> SamplingParams:
        """SamplingParams from a mapping of parameter names. Raises InvalidParams naming an unknown
        one."""
        for name in values:
            if name not in _KNOWN_NAMES:
                raise InvalidParams(
                    f"unknown sampling parameter {name!r}; known: {', '.join(sorted(_OWN_NAMES))}",
                    param=name,
                )
        return cls(**values)


_UNFAITHFUL = (
    *("top_k", "top_p", "min_p", "stop", "stop_token_ids", "reasoning", "allowed_token_ids"),
    *("bad_words", "logit_bias", "min_tokens", "logits_processors", "prompt_logprobs"),
    *("repetition_penalty", "frequency_penalty", "presence_penalty", "allow_truncation"),
)
"""The fields of SamplingParams that must have their defaults in a faithful request."""

_OWN_NAMES = frozenset(entry.name for entry in fields(SamplingParams))
_NAMES_OF_GUIDES = ("structured_outputs", "guided_decoding")
_KNOWN_NAMES = _OWN_NAMES.union(OTHER_SAMPLING, _NAMES_OF_GUIDES)
