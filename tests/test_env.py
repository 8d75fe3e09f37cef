"""What the environment says to specguide, and what it says to the processes that it starts."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from specguide.host import env


@pytest.mark.parametrize(
    "before, after",
    [
        ("", "glibc.malloc.hugetlb=1"),
        ("glibc.malloc.arena_max=2", "glibc.malloc.arena_max=2:glibc.malloc.hugetlb=1"),
        ("glibc.malloc.hugetlb=0", "glibc.malloc.hugetlb=0"),
    ],
)
def test_heaps_of_processes_are_in_huge_pages_unless_they_must_not(monkeypatch, before, after):
    monkeypatch.setenv("GLIBC_TUNABLES", "")  # which is as it was once the test is over
    monkeypatch.setenv("GLIBC_TUNABLES", before)
    env.prefer_huge_pages()
    env.prefer_huge_pages()
    said = [sys.executable, "-c", "import os; print(os.environ['GLIBC_TUNABLES'])"]
    assert os.environ["GLIBC_TUNABLES"] == after
    assert subprocess.check_output(said, text=True).strip() == after
