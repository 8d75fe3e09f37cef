"""Owns the first import of transformers, which takes most of a second, so that whoever needs it
imports it then."""

from __future__ import annotations

import threading

_LOCK = threading.Lock()


def import_transformers() -> None:
    """Import transformers as a whole, once, before anything is imported from it.

    It puts another module in its own place while it is imported: a thread that imports from it
    meanwhile would wait, and then look for names in the first one, which lacks them.
    """
    with _LOCK:
        import transformers  # noqa: F401
