"""The outputs of 325 requests over all modes of decoding, as they were recorded: a net below every
change of the core.

PYTHONPATH=. python tests/e2e/recorded_outputs.py        # record them anew, where outputs change on
purpose
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from specguide import LLM, Guide, GuideConfig, SamplingParams, SpecConfig
from specguide.drafts.layout import ProposedChain
from specguide.drafts.tree import DynamicTree
from specguide.guide import Reasoning

RECORDED = Path(__file__).with_name("recorded_outputs.json")
PATIENT = {"deadline_us": 5_000_000, "target_wait_us": 5_000_000, "draft_wait_us": 5_000_000}
"""Waits with which no row is ever late, so that the same drafts are verified each time."""

MODES: dict[str, tuple[SpecConfig | None, dict[str, Any]]] = {
    "plain": (None, {}),
    "plain, polling": (None, {"callbacks": "polling"}),
    "eagle3": (SpecConfig(), {}),
    "eagle3, polling": (SpecConfig(num_draft_tokens=5), {"callbacks": "polling"}),
    "eagle3, unguided drafts": (SpecConfig(guided_drafts=False), {}),
    "eagle3, adaptive": (SpecConfig(adaptive=True), {}),
    "eagle3, forced": (SpecConfig(num_forced_tokens=8), {}),
    "eagle3, tree": (SpecConfig(tree=DynamicTree(4, 3, 12)), {}),
    "auto": (SpecConfig("auto"), {}),
    "mtp": (SpecConfig("mtp"), {}),
    "ngram": (SpecConfig("ngram"), {}),
    "suffix, forced": (SpecConfig("suffix", num_draft_tokens=8, num_forced_tokens=8), {}),
    "grammar": (SpecConfig("grammar", num_forced_tokens=16), {}),
}
SAME_DRAFTS = [mode for mode in MODES if mode not in ("eagle3, adaptive", "auto", "suffix, forced")]
"""Modes whose drafts depend neither on the clock nor on the order in which requests end, but see
`has_same_drafts`."""

WITHOUT_GUIDES = [
    mode
    for mode, (spec, guide) in MODES.items()
    if not guide and (spec is None or not isinstance(spec.layout, ProposedChain))
]
"""Modes that an engine without guides has, too."""

_PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 20},
        "age": {"type": "integer", "minimum": 0, "maximum": 130},
        "tags": {"type": "array", "items": {"enum": ["new", "old", "vip"]}, "maxItems": 3},
        "address": {
            "type": "object",
            "properties": {
                "city": {"type": "string"},
                "zip": {"type": "string", "pattern": "^[0-9]{5}$"},
            },
            "required": ["city"],
        },
    },
    "required": ["name", "age"],
}
_TAG = {
    "type": "structural_tag",
    "format": {
        "type": "triggered_tags",
        "triggers": ["<call"],
        "tags": [
            {
                "begin": "<call>",
                "content": {"type": "json_schema", "json_schema": _PERSON},
                "end": "</call>",
            }
        ],
    },
}
_ARITHMETIC = 'root ::= term (" + " term)*\nterm ::= [0-9]+ | "(" root ")"\n'
_GUIDES = [
    Guide(json_schema=_PERSON),
    Guide(json_schema=_PERSON, backend="xgrammar"),
    Guide(json_object=True),
    Guide(regex=r"[A-Z][a-z]+ [0-9]{2,4}(, [a-z]+){0,4}"),
    Guide(choice=["yes", "no", "not at all"]),
    Guide(grammar=_ARITHMETIC),
    Guide(structural_tag=_TAG),
]
_TEXTS = [
    "Maria is 34 and lives in Lyon, 69001.",
    "The quick brown fox",
    "Call me Ishmael. Some years ago",
    "1 + 2 + (3 + 4) +",
]


def _requests() -> list[tuple[str, SamplingParams]]:
    free = [
        dict(),
        dict(temperature=0.8, seed=3),
        dict(temperature=1.0, top_p=0.9, seed=4),
        dict(stop=("the", "and")),
        dict(temperature=1.1, top_k=20, min_p=0.05, seed=5),
        dict(repetition_penalty=1.3, frequency_penalty=0.4),
        dict(presence_penalty=0.5, logprobs=3),
        dict(logit_bias={10: 4.0, 20: -50.0}, min_tokens=12),
        dict(bad_words=("is", "of"), temperature=0.7, seed=6),
        dict(ignore_eos=True, prompt_logprobs=1),
    ]
    guided = [dict(guide=guide) for guide in _GUIDES]
    guided += [dict(guide=guide, temperature=0.9, seed=20 + at) for at, guide in enumerate(_GUIDES)]
    guided += [dict(guide=_GUIDES[0], reasoning=Reasoning(end="so", max_tokens=12), logprobs=0)]
    return [
        (_TEXTS[at % len(_TEXTS)], SamplingParams(max_tokens=28, allow_truncation=True, **params))
        for at, params in enumerate(free + guided)
    ]


def has_same_drafts(mode: str, params: SamplingParams) -> bool:
    """Whether each run verifies the same drafts of the request. Forced tokens are spelt as the
    target has spelt them in any request before (csrc/spelling.h), so which drafts a guided request
    has then depends on the order in which requests are admitted."""
    spec, _ = MODES[mode]
    is_spelt_by_habit = bool(spec and spec.num_forced_tokens and params.guide)
    return mode in SAME_DRAFTS and not is_spelt_by_habit


def recorded_of(mode: str) -> list[dict[str, Any]]:
    """What was recorded in one mode, without what depends on the order of admission."""
    recorded = json.loads(RECORDED.read_text())[mode]
    return [
        output if has_same_drafts(mode, params) else output | {"accepted": None}
        for output, (_, params) in zip(recorded, _requests(), strict=True)
    ]


def outputs_of(mode: str, *, has_guides: bool = True) -> list[dict[str, Any]]:
    """Tokens, how it finished, rounded log-probabilities, and the accepted drafts of each request,
    in one mode; of an engine without guides those of the free requests, which come first."""
    spec, guide = MODES[mode]
    llm = LLM(
        spec=spec,
        guide=GuideConfig(**PATIENT, **guide) if has_guides else None,
        max_batch_size=8,
        device="cpu",
        dtype="float32",
    )
    requests = [(text, one) for text, one in _requests() if has_guides or one.guide is None]
    texts, params = zip(*requests, strict=True)
    outputs = llm.generate(list(texts), list(params))
    llm.close()
    return [
        {
            "tokens": list(output.token_ids),
            "finish": output.finish_reason,
            "error": output.error and str(output.error),
            "logprobs": _rounded(output.logprobs),
            "prompt_logprobs": _rounded(output.prompt_logprobs),
            "accepted": output.metrics.accepted_histogram if has_same_drafts(mode, one) else None,
        }
        for output, one in zip(outputs, params, strict=True)
    ]


def _rounded(logprobs: Any) -> list[Any] | None:
    """Pairs of token and log-probability."""
    if logprobs is None:
        return None
    return [
        scores and [[token, round(score.logprob, 3)] for token, score in sorted(scores.items())]
        for scores in logprobs
    ]


def main() -> None:
    """Record all modes."""
    recorded = {mode: outputs_of(mode) for mode in MODES}
    lines = [
        f"{json.dumps(mode)}: [\n" + ",\n".join(json.dumps(it) for it in its) + "\n]"
        for mode, its in recorded.items()
    ]
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
