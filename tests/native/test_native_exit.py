"""A process that ends while native threads are still about to call Python: it exits at once, and
cleanly."""

from __future__ import annotations

import subprocess
import sys

import pytest

PRELUDE = """
import threading, time
from specguide import native
def function(call, *args): return native.python_host_function(call, args, {}, "f")
"""

LEAVING = {
    "queued functions": """
stream = native.HostStream()
for _ in range(200):
    stream.launch(function(time.sleep, 0.01))
""",
    "a function that never returns": """
stream = native.HostStream()
stream.launch(function(threading.Event().wait))
time.sleep(0.05)
""",
    "payloads and graphs in globals": """
stream = native.HostStream()
stream.begin_capture()
stream.launch(function(print, object()))
graph = stream.end_capture()
graph.replay(stream)
""",
    "a thread that waits in native code": """
def work():
    for _ in range(1000):
        stream = native.HostStream()
        stream.launch(function(int))
        stream.synchronize(1.0)
        del stream
for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.05)
""",
    "threads in a library that does not let Python unwind them": """
import sys
sys.modules["torch"] = None  # nor does it need it
import tvm_ffi
sleep = tvm_ffi.convert(time.sleep)
def work():
    while True:
        sleep(0.001)
for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.05)
""",
    "an executor with a matcher at work": """
class Sleeper:
    is_terminated = False
    def accept(self, token): return True
    def fill(self, row): time.sleep(0.3)
    def rollback(self, n): pass
    def forced_tokens(self): return []
import numpy as np
def zeros(*shape, dtype=np.int32):
    return np.zeros(shape, dtype)
executor = native.GrammarExecutor(
    native.GrammarBuffers(
        limits=native.DraftLimits(num_draft_tokens=1), vocab_size=32, bitmask=zeros(2, 2, 1),
        fill_ids=zeros(2, 2, dtype=np.int64), held=zeros(2, dtype=np.uint8),
        tokens=zeros(2, 2), num_accepted=zeros(2), needed=zeros(1)),
    native.ExecutorOptions(num_threads=1, deadline_us=1000))
executor.submit([(slot, native.PythonMatcher(Sleeper(), 32)) for slot in range(2)], [])
stream = native.HostStream()
stream.launch(executor.callbacks()[0])
""",
}


@pytest.mark.parametrize("left", LEAVING)
def test_exit(left: str) -> None:
    result = subprocess.run(
        [sys.executable, "-c", PRELUDE + LEAVING[left] + "print('bye')"],
        timeout=60,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert (result.returncode, "bye" in result.stdout, "Traceback" in result.stdout) == (
        0,
        True,
        False,
    ), result.stdout
