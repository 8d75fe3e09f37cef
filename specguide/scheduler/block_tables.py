"""Owns the block tables: which pages each running request has, and under which keys they are
published.

Page i of a request holds the keys of its positions [i · P, (i + 1) · P). It is published once these
keys are final. For the prompt that is when a prefill is planned, since all later reads of the page
run after it on the device; for the output, when its tokens are verified. A page key stands for all
tokens up to the page's end, and with a drafter for one token more, since a drafter's key at a
position depends on the next token. The last position with a token may be computed again, so its
page is not published before there is another token.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import islice, takewhile
from typing import TYPE_CHECKING

from specguide.errors import EngineError
from specguide.scheduler.saved_states import PrefixStates
from specguide.scheduler.sequence import SequenceState

if TYPE_CHECKING:
    from specguide.cache import PageAllocator

_FEWEST_MORE = 4
"""Fewest pages by which a table grows while pages are plentiful: each growth is a copy to the
device."""
_KEYS_AT_ONCE = 64


def _first_key(adapter: int) -> bytes:
    """What stands before the first page: keys depend on the LoRA adapter that computed them."""
    return b"%d" % adapter if adapter else b""


class BlockTables:
    """The pages of all requests that are open.

    num_ahead: number of tokens behind a page on which its keys depend: 1 with a drafter, else 0
    states:    the states that are saved behind pages
    """

    def __init__(
        self,
        pages: PageAllocator,
        page_size: int,
        *,
        num_ahead: int,
        states: PrefixStates | None = None,
    ) -> None:
        self._pages, self._page_size, self._num_ahead = pages, page_size, num_ahead
        self.states = states or PrefixStates()
        self._tables: dict[SequenceState, tuple[int, ...]] = {}
        self._keys: dict[SequenceState, list[bytes]] = {}
        """Page keys of each request's published pages, which are its first ones."""

    def __getitem__(self, sequence: SequenceState) -> tuple[int, ...]:
        return self._tables[sequence]

    def __contains__(self, sequence: SequenceState) -> bool:
        return sequence in self._tables

    def open(self, sequence: SequenceState) -> int:
        """Give the request the published pages of its first reusable tokens. Returns the number of
        tokens in them: never all of its tokens, since the last one must be computed to choose the
        next."""
        table: list[int] = []
        keys: list[bytes] = []
        for key in self._prefix_keys(sequence):
            page = self._pages.share(key)
            if page is None:
                break
            table.append(page)
            keys.append(key)
        num_usable = self.states.num_usable(keys)
        num_pages = (sequence.num_tokens - 1) // self._page_size
        places = self.states.save_at(len(keys), num_usable, num_pages)
        sequence.saved_at = tuple(place * self._page_size for place in places)
        self._pages.free(table[num_usable:])
        self._tables[sequence] = tuple(table[:num_usable])
        self._keys[sequence] = keys[:num_usable]
        self.states.restore(keys[:num_usable], sequence.slot)
        return num_usable * self._page_size

    def num_cached(self, sequence: SequenceState) -> int:
        """Number of its first tokens whose keys are in the prefix cache now."""
        found = list(takewhile(self._pages.is_published, self._prefix_keys(sequence)))
        return self.states.num_usable(found) * self._page_size

    def grow(self, sequence: SequenceState, num_positions: int, most_positions: int) -> bool:
        """Give it pages for the first `num_positions`, and some more, not beyond `most_positions`.
        Returns False, and changes nothing, where too few are free."""
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
        """Whether its pages suffice for this many positions."""
        return num_positions <= len(self._tables[sequence]) * self._page_size

    def publish(self, sequence: SequenceState, num_tokens: int) -> None:
        """Publish the full pages of its first `num_tokens`, whose keys are final, or will be when
        the planned iterations have run."""
        keys = self._keys[sequence]
        if num_tokens < (len(keys) + 1) * self._page_size:
            return
        table = self._tables[sequence]
        for key in self._keys_from(sequence, keys, num_tokens):
            self._pages.publish(table[len(keys)], key)
            keys.append(key)

    def chunk_end(self, sequence: SequenceState, end: int) -> int:
        """The position at which its next chunk is to end, which may be up to `end`."""
        start = sequence.num_computed
        return next((place for place in sequence.saved_at if start < place < end), end)

    def publish_chunk(self, sequence: SequenceState, end: int) -> None:
        """Publish the full pages of a planned chunk that ends at `end`, and save the state behind
        it where that is due."""
        self.publish(sequence, end)
        if end in sequence.saved_at:
            self.states.save(self._keys[sequence][end // self._page_size - 1], sequence.slot)

    def close(self, sequence: SequenceState) -> None:
        """Give the request's pages back, if it has any."""
        self._pages.free(self._tables.pop(sequence, ()))
        self._keys.pop(sequence, None)

    def prompt_keys(self, prompt_ids: Sequence[int], adapter: int) -> list[bytes]:
        """Page keys of a prompt's pages that another request with this prompt and this LoRA adapter
        may share."""
        return list(self._keys_behind(_first_key(adapter), prompt_ids))

    def num_held(self, sequence: SequenceState) -> int:
        """Number of pages that the request has."""
        return len(self._tables.get(sequence, ()))

    def num_pages(self, num_positions: int) -> int:
        """Number of pages that this many positions take."""
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
        """Page keys of the pages that it may share; kept in the sequence once they are computed."""
        keys = sequence.prefix_keys
        num_pages = min(sequence.num_reusable, sequence.num_tokens - 1) // self._page_size
        yield from islice(keys, num_pages)
        for key in self._keys_from(sequence, keys, sequence.num_reusable):
            keys.append(key)
            yield key

    def _keys_from(
        self, sequence: SequenceState, known: Sequence[bytes], num_tokens: int
    ) -> Iterator[bytes]:
        """Page keys behind those in `known`, for all pages that its first `num_tokens` fill."""
        last = known[-1] if known else _first_key(sequence.adapter)
        size = self._page_size
        num_pages = min(num_tokens, sequence.num_tokens - 1) // size
        for page in range(len(known), num_pages, _KEYS_AT_ONCE):
            end = min(page + _KEYS_AT_ONCE, num_pages)
            for key in self._keys_behind(last, sequence.key_ids(page * size, end * size + 1)):
                last = key
                yield key

    def _keys_behind(self, last: bytes, tokens: Sequence[int]) -> Iterator[bytes]:
        """Page keys of the pages that these tokens fill, behind the page with the key `last`. The
        last token is in no page: the last page's key may depend on it."""
        ids = array("q", tokens)
        text, page = ids.tobytes(), self._page_size * ids.itemsize
        most = page + self._num_ahead * ids.itemsize
        for start in range(0, len(text) - page, page):
            last = blake2b(last + text[start : start + most], digest_size=16).digest()
            yield last
