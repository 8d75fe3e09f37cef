"""Requests of every kind, for tests that compare ways to run an engine."""

from __future__ import annotations

from specguide import LLM, Guide, SamplingParams, SpecConfig
from specguide.config import EngineConfig, GuideConfig
from specguide.drafts.tree import DynamicTree
from specguide.engine import Engine
from specguide.errors import EngineError

PATIENT = GuideConfig(deadline_us=5_000_000, target_wait_us=5_000_000, draft_wait_us=5_000_000)
"""No row is ever late."""
SCHEMA = {
    "type": "object",
    "properties": {"first_name": {"type": "string", "maxLength": 4}, "age": {"type": "integer"}},
    "required": ["first_name", "age"],
}
PARAMS = [
    SamplingParams(max_tokens=8),
    SamplingParams(max_tokens=8, temperature=0.9, top_p=0.9, seed=3),
    SamplingParams(max_tokens=24, guide=Guide(json_schema=SCHEMA)),
    SamplingParams(max_tokens=8, guide=Guide(regex="[a-z]{3,5}"), temperature=0.8, seed=4),
    SamplingParams(max_tokens=8, logit_bias={101: 3.0}, min_tokens=4, frequency_penalty=0.5),
]
FOUR_TOKENS = SamplingParams(max_tokens=4)
PROMPTS = ["abc", "hello", "x" * 40, "a{}", "abcabc"]
SPECS = {
    "eagle3": SpecConfig("eagle3"),
    "tree": SpecConfig("eagle3", tree=DynamicTree(3, 3, 8)),
    "forced": SpecConfig("eagle3", num_forced_tokens=4),
    "mtp": SpecConfig("mtp"),
}


def outputs(llm: LLM) -> list[tuple[int, ...]]:
    """Outputs of requests of every kind, all at once."""
    try:
        return [tuple(it.token_ids) for it in llm.generate(PROMPTS, PARAMS)]
    finally:
        llm.close()


def plain_outputs() -> list[tuple[int, ...]]:
    """The outputs of the shipped target in one process without drafts, which all other ways to run
    it must give too."""
    config = EngineConfig(spec=None, guide=PATIENT, max_model_len=256, dtype="float32")
    return outputs(LLM.around(Engine(config)))


def failure(llm: LLM, params: SamplingParams = FOUR_TOKENS) -> str:
    """The message with which a request ends when the engine fails."""
    error = llm.generate(["abc"], params)[0].error
    assert isinstance(error, EngineError)
    return str(error)
