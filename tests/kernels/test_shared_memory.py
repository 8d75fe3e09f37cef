"""Memory that processes share: it is the same, and goes with what refers to it."""

from __future__ import annotations

import gc
import os
import subprocess
import sys

import pytest

from specguide.kernels.shared_memory import of_another_process, pinned_for_others


def test_another_process_reads_and_writes_it():
    memory, file = pinned_for_others(100)
    assert len(memory) == 100 and not memory.any()
    memory[3] = 7
    code = f"""
from specguide.kernels.shared_memory import of_another_process
memory = of_another_process({file!r}, 100)
assert memory[3] == 7
memory[4] = 8
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    assert memory[4] == 8


def test_it_goes_with_its_last_part():
    memory, file = pinned_for_others(64)
    own = of_another_process(file, 64)
    part = memory[8:16]
    del memory
    gc.collect()
    own[8] = 5
    assert part[0] == 5 and os.path.exists(file)
    del part
    gc.collect()
    assert not os.path.exists(file) and own[8] == 5


def test_what_is_not_there_is_refused():
    with pytest.raises(RuntimeError, match="cannot open the shared memory of another rank"):
        of_another_process("", 64)
