"""Engines on a CPU whose iterations are padded to a few sizes, as on a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from specguide.speculation import sized_iterations
from specguide.speculation.graphs import EagerIterations


@contextmanager
def filled_up() -> Iterator[None]:
    """A context; engines that are made inside it pad their iterations."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sized_iterations, "runner_for", lambda grammar, options: EagerIterations())
        yield
