"""Owns which KV pages are free and which are taken. PageAllocator is their only mutator."""

from __future__ import annotations

from collections.abc import Iterable

from specguide.errors import EngineError


class PageAllocator:
    """Hands out the page ids 0 … num_pages - 1; the page that was freed last goes out first.

    One page id stands for the same page in every layer of a KVCache.
    """

    def __init__(self, num_pages: int) -> None:
        if num_pages < 1:
            raise ValueError(f"a KV cache needs at least one page, found {num_pages}")
        self._num_pages = num_pages
        self._free = list(range(num_pages - 1, -1, -1))
        self._taken: set[int] = set()

    @property
    def num_pages(self) -> int:
        """Pages in all."""
        return self._num_pages

    @property
    def num_free(self) -> int:
        """Pages that `allocate` can still hand out."""
        return len(self._free)

    def allocate(self, num_pages: int) -> tuple[int, ...]:
        """Takes `num_pages` pages. Raises EngineError, and takes none, when fewer are free."""
        if num_pages < 0:
            raise ValueError(f"cannot allocate {num_pages} pages")
        if num_pages > len(self._free):
            raise EngineError(
                f"out of KV pages: {num_pages} asked for, {len(self._free)} of {self._num_pages} free; "
                "give the cache more pages (num_pages or max_bytes) or run fewer requests at once (max_batch_size)"
            )
        start = len(self._free) - num_pages
        pages = tuple(reversed(self._free[start:]))
        del self._free[start:]
        self._taken.update(pages)
        return pages

    def free(self, pages: Iterable[int]) -> None:
        """Gives `pages` back. Raises EngineError, and frees none, when one of them is not taken or comes twice."""
        pages = tuple(pages)
        strangers = sorted(set(pages) - self._taken)
        if strangers or len(set(pages)) != len(pages):
            which = f"{strangers} are not taken" if strangers else f"a page comes twice in {pages}"
            raise EngineError(f"cannot free KV pages: {which}")
        self._taken.difference_update(pages)
        self._free.extend(reversed(pages))

    def check_integrity(self) -> None:
        """Raises EngineError unless every page is either free or taken, exactly once."""
        free = set(self._free)
        if len(free) != len(self._free):
            raise EngineError("KV pages are corrupt: a page is free twice")
        if free & self._taken:
            raise EngineError(f"KV pages are corrupt: {sorted(free & self._taken)} are both free and taken")
        if free | self._taken != set(range(self._num_pages)):
            raise EngineError(f"KV pages are corrupt: {len(free)} free and {len(self._taken)} taken pages "
                              f"do not make {self._num_pages}")
