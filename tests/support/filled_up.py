"""Engines on a CPU whose iterations are filled up to a few sizes, as a GPU's are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from specguide.speculation import sized_iterations
from specguide.speculation.graphs import EagerIterations


@contextmanager
def filled_up() -> Iterator[None]:
    """Those made inside of it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sized_iterations, "runner_for", lambda grammar, options: EagerIterations())
        yield
