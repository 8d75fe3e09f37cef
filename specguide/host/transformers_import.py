"""Owns the first import of transformers. It takes most of a second, so it happens only when
something needs it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

_LOCK = threading.Lock()


def import_transformers() -> None:
    """Import transformers as a whole, once, before anything is imported from it.

    While it is imported, it replaces its own module by another. A second thread that imports from
    it at that time would wait, then look for names in the first module, which does not have them.
    """
    with _LOCK:
        import transformers  # noqa: F401


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """A context in which transformers writes nothing but errors, and shows no progress."""
    import_transformers()
    from transformers.utils import logging

    verbosity, has_progress = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if has_progress:
            logging.enable_progress_bar()
