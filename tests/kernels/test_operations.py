"""Each operation's Triton implementation takes what its plain-torch twin takes; others can be put
in."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import pytest
import tiny
import torch
from torch import Tensor

from specguide import LLM, SamplingParams, kernels
from specguide.kernels.operation import Implementations

PACKAGE = Path(kernels.__file__).parent.parent
CPU = torch.device("cpu")


@dataclass(frozen=True)
class Pair:
    """name = operation(twin, lambda: triton.module.function), as it is written in a room."""

    room: str
    name: str
    module: str
    function: str

    @property
    def implementations(self) -> Implementations:
        return getattr(import_module(f"specguide.{self.room}"), self.name).implementations


def pairs_of(room: Path) -> Iterator[Pair]:
    """Read from the source, since Triton need not be installed."""
    for node in ast.parse(room.read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.value).startswith("operation("):
            assert isinstance(node.value, ast.Call) and isinstance(node.value.args[1], ast.Lambda)
            _, module, function = ast.unparse(node.value.args[1].body).split(".")
            yield Pair(room.parent.name, ast.unparse(node.targets[0]), module, function)


PAIRS = [pair for room in PACKAGE.glob("*/__init__.py") for pair in pairs_of(room)]
each_pair = pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair.room}.{pair.name}")


def signature(definition: ast.FunctionDef) -> Iterator[str]:
    """A parameter a line, with its kind and default."""
    arguments = definition.args
    num_required = len(arguments.args) - len(arguments.defaults)
    for index, argument in enumerate(arguments.args):
        default = arguments.defaults[index - num_required] if index >= num_required else None
        yield f"{argument.arg} = {ast.unparse(default) if default else 'required'}"
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield f"*, {argument.arg} = {ast.unparse(default) if default else 'required'}"
    assert not arguments.vararg and not arguments.kwarg and not arguments.posonlyargs


def definition(source: str, name: str) -> ast.FunctionDef:
    found = [n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef) and n.name == name]
    assert len(found) == 1, f"{name} is defined {len(found)} times"
    return found[0]


def test_pairs_are_found() -> None:
    assert {"linear", "masked_sample", "rope_and_store"} <= {pair.name for pair in PAIRS}


@each_pair
def test_triton_implementation_has_the_parameters_of_its_twin(pair: Pair) -> None:
    twin = pair.implementations.twin
    fast_file = PACKAGE / "kernels" / "triton" / f"{pair.module}.py"
    fast = definition(fast_file.read_text(), pair.function)
    twin_file = inspect.getsourcefile(twin)
    assert twin_file is not None
    expected = definition(Path(twin_file).read_text(), twin.__name__)
    assert list(signature(fast)) == list(signature(expected))


@each_pair
def test_triton_implementation_is_found(pair: Pair) -> None:
    pytest.importorskip("triton")
    found = pair.implementations.triton()
    assert inspect.signature(found).parameters.keys() == (
        inspect.signature(pair.implementations.twin).parameters.keys()
    )


@each_pair
def test_kernel_is_compared_with_its_twin(pair: Pair) -> None:
    tests = Path(__file__).parent.parent
    files = [*tests.glob("gpu/test_gpu_kernels_*.py"), tests / "support/draft_trees.py"]
    assert any(re.search(rf"\b{pair.name}\(|\({pair.name},", file.read_text()) for file in files)


def test_a_twin_runs_on_a_cpu_and_is_bound_once() -> None:
    implementations = kernels.silu_mul.implementations
    assert kernels.silu_mul(torch.tensor([[0.0, 2.0]])).tolist() == [[0.0]]
    assert implementations[CPU] is implementations.twin


def test_kernel_of_ones_own_takes_the_place_of_another(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine runs it, in each of 6 layers."""
    implementations = kernels.rope_and_store.implementations
    num_calls = 0

    def counted(*tensors: Tensor) -> Tensor:
        nonlocal num_calls
        num_calls += 1
        return implementations.twin(*tensors)

    llm = LLM(str(folders[0]), device="cpu")
    params = SamplingParams(max_tokens=4, temperature=0.0, ignore_eos=True)
    expected = llm.generate([[1, 2, 3]], params)
    monkeypatch.setitem(implementations, CPU, counted)
    assert llm.generate([[1, 2, 3]], params)[0].token_ids == expected[0].token_ids
    assert num_calls >= 4 * tiny.NUM_LAYERS
