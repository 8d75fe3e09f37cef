"""How options are treated that vLLM, SGLang and TensorRT-LLM have under names of their own.

Begin with `option`, which describes one such option and what to do instead. `options` and `sglang`
list those of a server, `benchmarks` those of commands that measure one, `arguments` those of LLM,
its calls and SamplingParams, and the attributes that these objects have there.
"""

from specguide.other_engines.arguments import (
    OTHER_ASYNC_ATTRIBUTES,
    OTHER_CALL_OPTIONS,
    OTHER_GUIDE,
    OTHER_LLM_ATTRIBUTES,
    OTHER_LLM_OPTIONS,
    OTHER_NAMES,
    OTHER_OUTPUT_ATTRIBUTES,
    OTHER_SAMPLING,
    OTHER_STREAM_OPTIONS,
    OTHER_TEMPLATE_OPTIONS,
    OTHER_TOKENIZER_ATTRIBUTES,
)
from specguide.other_engines.benchmarks import OTHER_BENCH_OPTIONS
from specguide.other_engines.option import (
    OtherOption,
    knows_others,
    missing,
    unknown,
    without_others,
)
from specguide.other_engines.options import OTHER_OPTIONS

__all__ = [
    "OTHER_ASYNC_ATTRIBUTES",
    "OTHER_BENCH_OPTIONS",
    "OTHER_CALL_OPTIONS",
    "OTHER_GUIDE",
    "OTHER_LLM_ATTRIBUTES",
    "OTHER_LLM_OPTIONS",
    "OTHER_NAMES",
    "OTHER_OPTIONS",
    "OTHER_OUTPUT_ATTRIBUTES",
    "OTHER_SAMPLING",
    "OTHER_STREAM_OPTIONS",
    "OTHER_TEMPLATE_OPTIONS",
    "OTHER_TOKENIZER_ATTRIBUTES",
    "OtherOption",
    "knows_others",
    "missing",
    "unknown",
    "without_others",
]
