"""Owns the first import of transformers. It takes most of a second, so it happens only when
something needs it."""

from __future__ import annotations

import threading

_LOCK = threading.Lock()


def import_transformers() -> None:
    """Import transformers as a whole, once, before anything is imported from it.

    While it is imported, it replaces its own module by another. A second thread that imports from
    it at that time would wait, then look for names in the first module, which does not have them.
    """
    with _LOCK:
        import transformers  # noqa: F401
