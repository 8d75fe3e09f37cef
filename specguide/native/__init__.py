"""Owns the access to the native core (csrc/): streams, host functions, the grammar executor,
matchers and backend adapters.

No other module imports the extension; `_native.pyi` states the shapes, dtypes and errors of every
name. A caller's mistake raises ValueError, a failure of the core itself EngineError.
"""

from __future__ import annotations

import importlib.util
import sys
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

from specguide.host import machine


def _load_extension() -> None:
    """Load the newest build: the one made in place, or the one that an editable install put
    elsewhere."""
    name = f"{__name__}._native"
    candidates = (
        importlib.util.find_spec(name),
        PathFinder.find_spec(name, [str(Path(__file__).parent)]),
    )
    specs = [
        spec
        for spec in candidates
        if spec is not None and spec.origin and Path(spec.origin).exists()
    ]
    if not specs:
        raise ImportError(
            "the native extension is missing for Python "
            f"{sys.version_info.major}.{sys.version_info.minor}: "
            "run `make ext` in a checkout, or `pip install --force-reinstall --no-deps specguide`"
        )

    def built(spec: ModuleSpec) -> float:
        return Path(str(spec.origin)).stat().st_mtime

    spec = max(specs, key=built)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    assert spec.loader is not None
    spec.loader.exec_module(module)


_load_extension()

from specguide.native._native import (  # noqa: E402
    AttentionPass,
    AutomatonPool,
    CallArguments,
    CallerStream,
    CallMatcher,
    Calls,
    CapturableStream,
    CudaEvent,
    CudaStream,
    DistinctMatcher,
    DistinctPlace,
    DistinctPlaces,
    DistinctRoom,
    DistinctTokens,
    DraftLimits,
    EndingMatcher,
    Endings,
    Event,
    ExecutorCounters,
    ExecutorOptions,
    GrammarBuffers,
    GrammarExecutor,
    HeldTexts,
    HostEvent,
    HostFunction,
    HostGraph,
    HostStream,
    KeyMatcher,
    KeyOption,
    KeyPlace,
    KeyPlaces,
    KeyStarts,
    KeyTokens,
    LibraryMatcher,
    LLGuidanceLibrary,
    LLGuidanceLimits,
    LLGuidanceTokenizer,
    LookupSource,
    Matcher,
    NativeGrammar,
    NativeVocabulary,
    NgramSource,
    PollingStream,
    PythonMatcher,
    ReasoningMark,
    ReasoningMatcher,
    Stream,
    SuffixSource,
    TokenTrie,
    UnnamedKeys,
    XGrammarLibrary,
    choose_tokens,
    cuda_unavailable_reason,
    drain_releases,
    norm_rows,
    python_host_function,
    rotate_and_store_rows,
    set_num_cores,
)

set_num_cores(machine.num_cores())

__all__ = [
    "AttentionPass",
    "AutomatonPool",
    "CallArguments",
    "CallMatcher",
    "CallerStream",
    "Calls",
    "CapturableStream",
    "CudaEvent",
    "CudaStream",
    "DistinctMatcher",
    "DistinctPlace",
    "DistinctPlaces",
    "DistinctRoom",
    "DistinctTokens",
    "DraftLimits",
    "EndingMatcher",
    "Endings",
    "Event",
    "ExecutorCounters",
    "ExecutorOptions",
    "GrammarBuffers",
    "GrammarExecutor",
    "HeldTexts",
    "HostEvent",
    "HostFunction",
    "HostGraph",
    "HostStream",
    "KeyMatcher",
    "KeyOption",
    "KeyPlace",
    "KeyPlaces",
    "KeyStarts",
    "KeyTokens",
    "LLGuidanceLibrary",
    "LLGuidanceLimits",
    "LLGuidanceTokenizer",
    "LibraryMatcher",
    "LookupSource",
    "Matcher",
    "NativeGrammar",
    "NativeVocabulary",
    "NgramSource",
    "PollingStream",
    "PythonMatcher",
    "ReasoningMark",
    "ReasoningMatcher",
    "Stream",
    "SuffixSource",
    "TokenTrie",
    "UnnamedKeys",
    "XGrammarLibrary",
    "choose_tokens",
    "cuda_unavailable_reason",
    "drain_releases",
    "norm_rows",
    "python_host_function",
    "rotate_and_store_rows",
]
