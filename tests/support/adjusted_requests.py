"""Requests with adjusted logits beside others without."""

from __future__ import annotations

from dataclasses import replace

from random_requests import cases

from specguide import SamplingParams

SAMPLED = dict(temperature=0.8, top_k=40, top_p=0.95)

ADJUSTMENTS = {
    "repetition": dict(repetition_penalty=1.4),
    "repetition wanted": dict(repetition_penalty=0.7),
    "presence": dict(presence_penalty=2.0),
    "frequency": dict(frequency_penalty=1.2),
    "bias": dict(logit_bias={token: 3.0 * (token % 7 - 3) for token in range(0, 272, 2)}),
    "allowed": dict(allowed_token_ids=range(0, 272, 3)),
    "bad words": dict(bad_words=[" ", "t", "ue", 'a"', "red"]),
    "least length": dict(min_tokens=9),
    "all": dict(
        repetition_penalty=1.2,
        presence_penalty=-0.5,
        frequency_penalty=0.6,
        logit_bias={97: 5, 256: 4},
        bad_words=["b", "ad", "\n"],
        min_tokens=6,
    ),
}


def told(out):
    """The parts of an output that must agree. A failed request keeps its output up to the iteration
    that failed."""
    return "failed" if out.error else (out.token_ids, out.finish_reason)


def mixed(
    seed: int, num: int, adjustment: dict, **params
) -> tuple[list[str], list[SamplingParams]]:
    """Free and guided requests, every second one adjusted, some with stop tokens."""
    prompts, all_params = cases(seed, num, **params)
    for number, one in enumerate(all_params):
        stops = (
            dict(stop_token_ids=tuple(range(0, 272, 5))) if one.guide is None and number % 4 else {}
        )
        all_params[number] = replace(one, **stops, **(adjustment if number % 4 < 2 else {}))
    return prompts, all_params


def asking(seed: int, num: int, **params) -> tuple[list[str], list[SamplingParams]]:
    """Free, guided and adjusted requests, two thirds of which ask for 0 to 20 likeliest tokens of
    their prompts."""
    prompts, all_params = mixed(seed, num, dict(presence_penalty=1.0, logprobs=1), **params)
    return prompts, [
        one if number % 3 == 2 else replace(one, prompt_logprobs=(0, 1, 5, 20)[number % 4])
        for number, one in enumerate(all_params)
    ]
