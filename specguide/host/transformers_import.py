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


class _Quiet:
    """How many threads want transformers to be quiet, and how talkative it was before."""

    num_threads = 0
    verbosity = 0
    has_progress = False


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """A context in which transformers writes nothing but errors, and shows no progress, until no
    thread is in such a context."""
    import_transformers()
    from transformers.utils import logging

    with _LOCK:
        if not _Quiet.num_threads:
            _Quiet.verbosity = logging.get_verbosity()
            _Quiet.has_progress = logging.is_progress_bar_enabled()
            logging.set_verbosity_error()
            logging.disable_progress_bar()
        _Quiet.num_threads += 1
    try:
        yield
    finally:
        with _LOCK:
            _Quiet.num_threads -= 1
            if not _Quiet.num_threads:
                logging.set_verbosity(_Quiet.verbosity)
                if _Quiet.has_progress:
                    logging.enable_progress_bar()
