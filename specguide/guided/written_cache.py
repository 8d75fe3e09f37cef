"""Owns what schemas came to that were written for a library, by their text: the tools of one
request come again in the next."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")
_MOST_CHARACTERS = 16 << 20
_MOST_CHARACTERS_OF_ONE = 64 << 10


class WrittenCache(Generic[T]):
    """The least recently used go when there are too many characters. Safe to use from several
    threads. size: of a value, in characters"""

    def __init__(self, size: Callable[[T], int]) -> None:
        self._size = size
        self._values: OrderedDict[str, tuple[T, int]] = OrderedDict()
        self._num_characters = 0
        self._lock = threading.Lock()

    def get(self, key: str, make: Callable[[], T]) -> T:
        """What was made of a schema; made where it is not there. What `make` raises is not kept.

        key: the schema's text, and what else its value hangs on
        """
        with self._lock:
            found = self._values.get(key)
            if found is not None:
                self._values.move_to_end(key)
                return found[0]
        value = make()
        self._put(key, value, len(key) + self._size(value))
        return value

    def _put(self, key: str, value: T, size: int) -> None:
        with self._lock:
            if key in self._values or size > _MOST_CHARACTERS_OF_ONE:
                return
            self._values[key] = (value, size)
            self._num_characters += size
            while self._num_characters > _MOST_CHARACTERS:
                _, (_, freed) = self._values.popitem(last=False)
                self._num_characters -= freed
