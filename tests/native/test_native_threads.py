"""Objects of the extension made in several threads at once."""

from __future__ import annotations

import subprocess
import sys

MAKING = """
import threading
from specguide import native

words = native.NativeVocabulary([b"a", b"b", b"</s>"], [2])

def make():
    for _ in range(15_000):
        native.TokenTrie(words)

threads = [threading.Thread(target=make) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def test_objects_are_made_and_dropped_in_several_threads() -> None:
    """The table of pybind11 in which each is entered is not the threads' own."""
    subprocess.run([sys.executable, "-c", MAKING], check=True, timeout=60)
