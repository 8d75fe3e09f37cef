"""What the environment says to specguide, and what it says to the processes that it starts."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from specguide.errors import InvalidParams
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


def test_numbers_of_threads_are_checked(monkeypatch):
    monkeypatch.setenv("SPECGUIDE_GRAMMAR_THREADS", "3")
    monkeypatch.setenv("OMP_NUM_THREADS", "0")
    assert env.num_grammar_threads() == 3 and env.num_forward_threads() >= 1
    for wrong in ("abc", "0", "-5", "99999"):
        monkeypatch.setenv("SPECGUIDE_GRAMMAR_THREADS", wrong)
        with pytest.raises(InvalidParams, match="SPECGUIDE_GRAMMAR_THREADS must be 1 to 1024"):
            env.num_grammar_threads()
