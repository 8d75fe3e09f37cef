"""Baselines: other parts of the engine, which give the same outputs, for comparison."""

from dataclasses import replace

from benchmarks.baselines.forced import ForcedAcceptance, ForcedText
from benchmarks.baselines.python_executor import PythonGrammarExecutor
from benchmarks.baselines.two_model import TwoModelStep
from specguide.engine.setup.parts import EngineParts

_PYTHON = EngineParts(executor=PythonGrammarExecutor.of)
BASELINES = {
    "two models": EngineParts(step=TwoModelStep),
    "Python callbacks": _PYTHON,
    "two models, Python callbacks": replace(_PYTHON, step=TwoModelStep),
}
"""The baselines by name."""

__all__ = [
    "BASELINES",
    "ForcedAcceptance",
    "ForcedText",
    "PythonGrammarExecutor",
    "TwoModelStep",
]
