"""Owns what tests of ranks and stages share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def target(folders: tuple[Path, Path]) -> Path:
    """The tiny target's folder."""
    return folders[0]
