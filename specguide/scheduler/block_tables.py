"""Owns which pages belong to which running request, and what is known of their contents.

Page i of a request holds the keys of its positions [i · P, (i + 1) · P). It is published once these
are those of the request's own tokens for good: of the prompt when a prefill is planned, since all
that reads the page comes after it on the device, and of the output when it is verified. What is
published stands for the tokens of these positions and all before, and where there is a drafter for
one more: its key at a position depends on the token after it. The last position that has a token
may be computed again, so its page is not published before there is another token.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import islice, takewhile
from typing import TYPE_CHECKING

from specguide.errors import EngineError
from specguide.scheduler.sequence import SequenceState

if TYPE_CHECKING:
    from specguide.cache import PageAllocator

_FEWEST_MORE = 4
"""Pages by which a table grows where there are enough: each growth is a copy to the device."""
_KEYS_AT_ONCE = 64


class BlockTables:
    """The pages of the requests that have been opened and not closed.

    num_ahead: tokens behind a page that its keys depend on, 1 with a drafter, else 0
    """

    def __init__(self, pages: PageAllocator, page_size: int, *, num_ahead: int) -> None:
        self._pages, self._page_size, self._num_ahead = pages, page_size, num_ahead
        self._tables: dict[SequenceState, tuple[int, ...]] = {}
        self._keys: dict[SequenceState, list[bytes]] = {}
        """Keys of each request's first pages, as far as they are published."""

    def __getitem__(self, sequence: SequenceState) -> tuple[int, ...]:
        return self._tables[sequence]

    def __contains__(self, sequence: SequenceState) -> bool:
        return sequence in self._tables

    def open(self, sequence: SequenceState) -> int:
        """Give the request the published pages of its first reusable tokens. Tokens whose keys are
        there: not all of them, since the last one's pass is to say what follows."""
        table: list[int] = []
        keys: list[bytes] = []
        for key in self._prefix_keys(sequence):
            page = self._pages.share(key)
            if page is None:
                break
            table.append(page)
            keys.append(key)
        self._tables[sequence] = tuple(table)
        self._keys[sequence] = keys
        return len(table) * self._page_size

    def num_cached(self, sequence: SequenceState) -> int:
        """Tokens of its beginning whose keys it would find now."""
        pages = self._pages
        found = takewhile(pages.is_published, self._prefix_keys(sequence))
        return sum(1 for _ in found) * self._page_size

    def grow(self, sequence: SequenceState, num_positions: int, most_positions: int) -> bool:
        """Pages for the first `num_positions`, and some more, not beyond `most_positions`; False
        where too few are free, and then nothing changes."""
        table = self._tables[sequence]
        num_needed = self.num_pages(num_positions) - len(table)
        if num_needed <= 0:
            return True
        if num_needed > self._pages.num_free:
            return False
        num_useful = min(max(num_needed, _FEWEST_MORE), self.num_pages(most_positions) - len(table))
        num_more = num_useful if 2 * num_useful <= self._pages.num_free else num_needed
        self._tables[sequence] = table + self._pages.allocate(max(num_needed, num_more))
        return True

    def has_room(self, sequence: SequenceState, num_positions: int) -> bool:
        """Its pages are enough for so many positions."""
        return num_positions <= len(self._tables[sequence]) * self._page_size

    def publish(self, sequence: SequenceState, num_tokens: int) -> None:
        """The keys of the request's first `num_tokens` are, or will be, in its pages for good."""
        keys = self._keys[sequence]
        if num_tokens < (len(keys) + 1) * self._page_size:
            return
        table = self._tables[sequence]
        for key in self._keys_from(sequence, keys, num_tokens):
            self._pages.publish(table[len(keys)], key)
            keys.append(key)

    def close(self, sequence: SequenceState) -> None:
        """Give the request's pages back, if it has any."""
        self._pages.free(self._tables.pop(sequence, ()))
        self._keys.pop(sequence, None)

    def prompt_keys(self, prompt_ids: Sequence[int]) -> list[bytes]:
        """Keys under which the pages of a prompt are published, those that another request with
        this prompt may share."""
        return list(self._keys_behind(b"", prompt_ids))

    def num_held(self, sequence: SequenceState) -> int:
        """Pages that the request has."""
        return len(self._tables.get(sequence, ()))

    def num_pages(self, num_positions: int) -> int:
        """Pages that so many positions take."""
        return -(-num_positions // self._page_size)

    def check_integrity(self, running: Sequence[SequenceState]) -> None:
        """Raise EngineError unless the open requests are among `running` and hold all pages that
        are held."""
        if not self._tables.keys() <= set(running):
            raise EngineError("a sequence that does not run holds pages")
        self._pages.check_integrity()
        held = {page for table in self._tables.values() for page in table}
        if len(held) + self._pages.num_free != self._pages.num_pages:
            raise EngineError("a cache page is lost")

    def _prefix_keys(self, sequence: SequenceState) -> Iterator[bytes]:
        """Keys of the pages that it may share; those are computed that nobody has asked for yet."""
        keys = sequence.prefix_keys
        num_pages = min(sequence.num_reusable, sequence.num_tokens - 1) // self._page_size
        yield from islice(keys, num_pages)
        for key in self._keys_from(sequence, keys, sequence.num_reusable):
            keys.append(key)
            yield key

    def _keys_from(
        self, sequence: SequenceState, known: Sequence[bytes], num_tokens: int
    ) -> Iterator[bytes]:
        """Keys of the request's pages behind those of `known`, as far as they are full of its first
        `num_tokens`."""
        last = known[-1] if known else b""
        size = self._page_size
        num_pages = min(num_tokens, sequence.num_tokens - 1) // size
        for page in range(len(known), num_pages, _KEYS_AT_ONCE):
            end = min(page + _KEYS_AT_ONCE, num_pages)
            for key in self._keys_behind(last, sequence.tokens(page * size, end * size + 1)):
                last = key
                yield key

    def _keys_behind(self, last: bytes, tokens: Sequence[int]) -> Iterator[bytes]:
        """Keys of the pages that are full of these tokens, behind the page with the key `last`. The
        last token belongs to none: it is what one may depend on."""
        ids = array("q", tokens)
        text, page = ids.tobytes(), self._page_size * ids.itemsize
        most = page + self._num_ahead * ids.itemsize
        for start in range(0, len(text) - page, page):
            last = blake2b(last + text[start : start + most], digest_size=16).digest()
            yield last
