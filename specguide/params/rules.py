"""Owns the valid values of each sampling parameter."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

from specguide.guide import Guide, Reasoning
from specguide.guide.guide import is_text
from specguide.inputs.integers import is_int
from specguide.params.speculation import Speculation

MAX_LOGPROBS = 20
"""Most likeliest tokens that a request may ask for at each position."""

MAX_SAMPLES = 128
"""Most samples of one prompt, as in the OpenAI API."""

LEAST_TOP_P = 1e-9
"""The least top_p that is used: the likeliest token alone reaches it. A smaller one may round to 0
in float32, which would keep no token."""

_MAX_BIASES = 512

Predicate = Callable[[Any], bool]


def num_processor_arguments(processor: Callable[..., Any]) -> int | None:
    """The number of arguments with which a logits processor is called: 2 or 3; 2 where it accepts
    both, None where it accepts neither."""
    try:
        signature = inspect.signature(processor)
    except (TypeError, ValueError):  # a builtin without a signature
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


def _int_in(least: int, most: float = math.inf) -> Predicate:
    return lambda value: is_int(value) and least <= value <= most


def _real_in(least: float, most: float = math.inf) -> Predicate:
    return lambda value: _is_real(value) and least <= value <= most


def _instance_of(kind: type) -> Predicate:
    return lambda value: isinstance(value, kind)


def _optional(is_valid: Predicate) -> Predicate:
    return lambda value: value is None or is_valid(value)


def _are_processors(values: Any) -> bool:
    return isinstance(values, tuple) and all(
        callable(value) and num_processor_arguments(value) for value in values
    )


RULES: dict[str, tuple[Predicate, str]] = {
    "max_tokens": (
        _int_in(1),
        "an integer ≥ 1 (a large one ends where the context does)",
    ),
    "temperature": (_real_in(0), "a finite number ≥ 0"),
    "top_k": (_int_in(-1), "an integer ≥ 1, or 0 for no limit"),
    "top_p": (lambda value: _is_positive(value) and value <= 1, "a number in (0, 1]"),
    "min_p": (_real_in(0, 1), "a number in [0, 1]"),
    "seed": (_optional(_int_in(-(2**63), 2**63 - 1)), "an integer in [-2^63, 2^63)"),
    "stop_token_ids": (_are_ids, "token ids ≥ 0"),
    "ignore_eos": (_instance_of(bool), "True or False"),
    "guide": (_optional(_instance_of(Guide)), "a Guide or None"),
    "reasoning": (_optional(_instance_of(Reasoning)), "a Reasoning or None"),
    "allowed_token_ids": (
        _optional(lambda ids: _are_ids(ids) and len(ids) > 0),
        "at least one token id, all ≥ 0, or None to allow all",
    ),
    "bad_words": (_are_texts, "a list of non-empty Unicode strings"),
    "logit_bias": (
        _optional(_are_biases),
        f"at most {_MAX_BIASES} token ids ≥ 0, each with a number in [-100, 100]",
    ),
    "min_tokens": (_int_in(0), "an integer ≥ 0 and ≤ max_tokens"),
    "repetition_penalty": (_is_positive, "a number > 0"),
    "frequency_penalty": (_real_in(-2, 2), "a number in [-2, 2]"),
    "presence_penalty": (_real_in(-2, 2), "a number in [-2, 2]"),
    **dict.fromkeys(
        ("logprobs", "prompt_logprobs"),
        (
            _optional(_int_in(0, MAX_LOGPROBS)),
            f"an integer from 0 to {MAX_LOGPROBS}, or None (not -1: scores of the whole "
            "vocabulary are too many to tell)",
        ),
    ),
    "logits_processors": (
        _are_processors,
        "a list of functions f(output_ids, logits) or f(prompt_ids, output_ids, logits)",
    ),
    "stop": (_are_texts, "a non-empty Unicode string or a list of them"),
    **dict.fromkeys(
        ("include_stop_str_in_output", "skip_special_tokens"),
        (_instance_of(bool), "True or False"),
    ),
    "lora": (_optional(is_text), "the name of an adapter or None"),
    "n": (_int_in(1, MAX_SAMPLES), f"an integer from 1 to {MAX_SAMPLES}"),
    "timeout_s": (_optional(_is_positive), "a number of seconds > 0 or None"),
    "speculation": (_optional(_instance_of(Speculation)), "a Speculation or None"),
    "return_drafts": (_instance_of(bool), "True or False"),
    "return_spans": (_instance_of(bool), "True or False"),
    "faithful": (_instance_of(bool), "True or False"),
    "allow_truncation": (_instance_of(bool), "True or False"),
}
"""The valid values of SamplingParams' fields, as a predicate and in words."""
