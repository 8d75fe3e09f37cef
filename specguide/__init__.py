"""Guided decoding and speculative decoding as one mechanism.

from specguide import LLM, SamplingParams, Guide, SpecConfig
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from specguide.config import CacheConfig, GuideConfig, SpecConfig
from specguide.drafts.tree import DraftTree, DynamicTree
from specguide.errors import SpecguideError
from specguide.guide import Guide, Reasoning
from specguide.host.release import installed_version
from specguide.other_engines import OTHER_NAMES
from specguide.params import SamplingParams, Speculation
from specguide.request import RequestOutput
from specguide.request_records import Logprob, OutputSpan, RequestMetrics

if TYPE_CHECKING:
    from specguide.llm import LLM

__all__ = [
    "LLM",
    "CacheConfig",
    "DraftTree",
    "DynamicTree",
    "Guide",
    "GuideConfig",
    "Logprob",
    "OutputSpan",
    "Reasoning",
    "RequestMetrics",
    "RequestOutput",
    "SamplingParams",
    "SpecConfig",
    "SpecguideError",
    "Speculation",
]


def __getattr__(name: str) -> Any:
    if name == "LLM":  # brings torch in; `import specguide` alone stays quick
        from specguide.llm import LLM

        return LLM
    if name == "__version__":
        return installed_version()
    if name in OTHER_NAMES:  # an AttributeError's words would not reach `from specguide import …`
        raise ImportError(f"specguide has no {name}: {OTHER_NAMES[name]}", name=__name__)
    raise AttributeError(f"module 'specguide' has no attribute {name!r}")
