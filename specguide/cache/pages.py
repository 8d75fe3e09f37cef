"""Owns which KV pages are free, held and remembered: the prefix cache. Only PageAllocator changes
this.

A page that is full of verified tokens never changes again, so requests with the same tokens up to
its end may share it. Such a page is published under a key that stands for all these tokens, those
of the page and those before it. When no request holds it any more, it is remembered: it can be
found again until its memory is needed for something else.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from specguide.errors import EngineError

PageKey = bytes


class PageAllocator:
    """Hands out the page ids 0 … num_pages - 1: the page that was freed last first, remembered
    pages last.

    A page id stands for one page in every layer of a KVCache, the drafter's included.
    """

    def __init__(self, num_pages: int) -> None:
        if num_pages < 1:
            raise ValueError(f"a KV cache needs at least one page, found {num_pages}")
        self._num_pages = num_pages
        self._free = list(range(num_pages - 1, -1, -1))
        self._num_holders: dict[int, int] = {}
        self._pages: dict[PageKey, int] = {}  # published pages by key
        self._keys: dict[int, PageKey] = {}  # their keys by page
        # pages that are published and not held, the longest unused first
        self._remembered: OrderedDict[int, None] = OrderedDict()

    @property
    def num_pages(self) -> int:
        """Pages in all."""
        return self._num_pages

    @property
    def num_free(self) -> int:
        """Pages that `allocate` can still hand out, remembered ones included."""
        return len(self._free) + len(self._remembered)

    def allocate(self, num_pages: int) -> tuple[int, ...]:
        """Takes `num_pages` pages. Raises EngineError, and takes none, where fewer are free;
        ValueError for a negative number."""
        if num_pages < 0:
            raise ValueError(f"cannot allocate {num_pages} pages")
        if num_pages > self.num_free:
            raise EngineError(
                f"out of KV pages: {num_pages} asked for, {self.num_free} of {self._num_pages} "
                "free; give the KV cache more memory (gpu_memory_utilization, "
                "kv_cache_memory_bytes), or run fewer requests at once (max_batch_size)"
            )
        for _ in range(num_pages - len(self._free)):
            page, _none = self._remembered.popitem(last=False)
            del self._pages[self._keys.pop(page)]
            self._free.append(page)
        start = len(self._free) - num_pages
        pages = tuple(reversed(self._free[start:]))
        del self._free[start:]
        self._num_holders.update(dict.fromkeys(pages, 1))
        return pages

    def share(self, key: PageKey) -> int | None:
        """Takes the page that is published under the key, which others may hold too; None where
        there is none."""
        page = self._pages.get(key)
        if page is not None:
            self._remembered.pop(page, None)
            self._num_holders[page] = self._num_holders.get(page, 0) + 1
        return page

    def is_published(self, key: PageKey) -> bool:
        """Whether `share` would find a page."""
        return key in self._pages

    def publish(self, page: int, key: PageKey) -> None:
        """Publishes a held page under the key, so that `share` finds it. Does nothing where the key
        has another page already. Raises EngineError for a page that is not held."""
        if self._num_holders.get(page, 0) < 1:
            raise EngineError(f"cannot publish KV page {page}: it is not taken")
        if key not in self._pages and page not in self._keys:
            self._pages[key], self._keys[page] = page, key

    def free(self, pages: Iterable[int]) -> None:
        """Gives `pages` back. Raises EngineError, and frees none, where one of them is not held or
        comes twice."""
        pages = tuple(pages)
        strangers = [page for page in pages if page not in self._num_holders]
        if strangers or len(set(pages)) != len(pages):
            which = f"{strangers} are not taken" if strangers else f"a page comes twice in {pages}"
            raise EngineError(f"cannot free KV pages: {which}")
        for page in reversed(pages):  # so that a sequence's last page is forgotten first
            self._num_holders[page] -= 1
            if self._num_holders[page] == 0:
                del self._num_holders[page]
                if page in self._keys:
                    self._remembered[page] = None
                else:
                    self._free.append(page)

    def forget(self) -> None:
        """Forgets all published keys, for when the contents of pages are in doubt."""
        self._free += self._remembered
        self._remembered.clear()
        self._pages.clear()
        self._keys.clear()

    def check_integrity(self) -> None:
        """Raises EngineError unless every page is free, remembered or held, exactly once, and keys
        and pages agree."""
        free, held, remembered = set(self._free), set(self._num_holders), set(self._remembered)
        if len(free) != len(self._free):
            raise EngineError("KV pages are corrupt: a page is free twice")
        if free & held or free & remembered or held & remembered:
            raise EngineError(
                "KV pages are corrupt: "
                f"{sorted(free & held | free & remembered | held & remembered)} "
                "are in two states"
            )
        if free | held | remembered != set(range(self._num_pages)):
            raise EngineError(
                f"KV pages are corrupt: {len(free)} free, {len(remembered)} remembered and "
                f"{len(held)} held pages do not make {self._num_pages}"
            )
        if {
            page: key for key, page in self._pages.items()
        } != self._keys or not remembered <= self._keys.keys():
            raise EngineError("KV pages are corrupt: keys and pages differ")
