"""How options are treated that vLLM, SGLang and TensorRT-LLM have under names of their own.

Begin with `option`, which describes one such option and what to do instead. `options` lists those
of a server, `arguments` those of LLM, its calls and SamplingParams.
"""

from specguide.other_engines.arguments import (
    OTHER_CALL_OPTIONS,
    OTHER_LLM_OPTIONS,
    OTHER_SAMPLING,
)
from specguide.other_engines.option import OtherOption, without_others
from specguide.other_engines.options import OTHER_OPTIONS

__all__ = [
    "OTHER_CALL_OPTIONS",
    "OTHER_LLM_OPTIONS",
    "OTHER_OPTIONS",
    "OTHER_SAMPLING",
    "OtherOption",
    "without_others",
]
