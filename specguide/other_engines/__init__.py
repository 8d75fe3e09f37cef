"""What becomes of options by the names that they have in vLLM, SGLang and TensorRT-LLM.

Begin with `option`: one such option, and what is to be done instead. `options` has those of a
server, `arguments` those of LLM, its calls and SamplingParams.
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
