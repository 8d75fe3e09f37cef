"""Owns the cache of texts that were written for schemas and tools: the next request often has the
same ones."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")
_MOST_CHARACTERS = 16 << 20


class WrittenCache(Generic[T]):
    """A cache that drops the least recently used values when they have too many characters. Safe to
    use from several threads.

    size:        gives a value's size in characters
    most_of_one: most characters of a value that is kept, its key included
    """

    def __init__(self, size: Callable[[T], int], most_of_one: int) -> None:
        self._size = size
        self._most_of_one = most_of_one
        self._values: OrderedDict[Hashable, tuple[T, int]] = OrderedDict()
        self._num_characters = 0
        self._lock = threading.Lock()

    def get(self, text: str | bytes, others: Hashable, make: Callable[[], T]) -> T:
        """The value for a text and `others`, by which it is kept too; made where it is not in the
        cache. Errors of `make` are not kept."""
        key = (text, others)
        with self._lock:
            known = self._values.get(key)
            if known is not None:
                self._values.move_to_end(key)
                return known[0]
        value = make()
        self._put(key, value, len(text) + self._size(value))
        return value

    def _put(self, key: Hashable, value: T, size: int) -> None:
        with self._lock:
            if key in self._values or size > self._most_of_one:
                return
            self._values[key] = (value, size)
            self._num_characters += size
            while self._num_characters > _MOST_CHARACTERS:
                _, (_, freed) = self._values.popitem(last=False)
                self._num_characters -= freed
