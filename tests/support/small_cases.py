"""Owns which cases of the kernel tests are marked `small`: those that `make sanitize-gpu` runs, and
that Triton's interpreter runs where there is no GPU.

Both make kernels 10 to 1000 times slower, so these cases touch every kernel at sizes that fill no
block: groups of 7 heads, heads of 80, split keys, trees, 33 and 5000 tokens, rows of 3 and 96. None
captures a graph, which needs the caching allocator; without it each tensor is an allocation of its
own, and memcheck sees where it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product
from typing import Any

import pytest
from _pytest.mark import ParameterSet


def small(*values: Any) -> ParameterSet:
    """One case of a parametrized test."""
    return pytest.param(*values, marks=pytest.mark.small)


def crossed(*axes: Iterable[Any], where: Callable[..., bool]) -> list[Any]:
    """All cases of some axes; those are small for which `where` is true."""
    return [small(*case) if where(*case) else pytest.param(*case) for case in product(*axes)]
