"""Pages are handed out once each and taken back once; slots are where the block table says."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    multiple,
    precondition,
    rule,
)
from torch import Tensor

from specguide.cache import CacheShape, KeyShape, KVCache, PageAllocator, slot_mapping
from specguide.errors import EngineError


class Pages(RuleBasedStateMachine):
    """The allocator against plain counts of holders; a page that is published keeps its key until
    it is evicted."""

    NUM_PAGES = 12
    taken = Bundle("taken")

    def __init__(self) -> None:
        super().__init__()
        self.pages = PageAllocator(self.NUM_PAGES)
        self.num_holders: Counter[int] = Counter()
        self.keys: dict[bytes, int] = {}

    def num_held(self) -> int:
        return sum(1 for count in self.num_holders.values() if count)

    @rule(target=taken, count=st.integers(0, NUM_PAGES + 3))
    def allocate(self, count: int) -> object:
        if count > self.NUM_PAGES - self.num_held():
            with pytest.raises(EngineError, match="out of KV pages"):
                self.pages.allocate(count)
            return multiple()
        pages = self.pages.allocate(count)
        assert len(set(pages)) == len(pages) == count and not any(
            self.num_holders[page] for page in pages
        )
        self.num_holders.update(pages)
        self.keys = {key: page for key, page in self.keys.items() if page not in pages}
        return pages

    @rule(pages=taken, key=st.binary(min_size=1, max_size=1))
    def publish(self, pages: tuple[int, ...], key: bytes) -> None:
        for page in pages:
            if not self.num_holders[page]:
                with pytest.raises(EngineError, match="not taken"):
                    self.pages.publish(page, key)
            else:
                self.pages.publish(page, key)
                if key not in self.keys and page not in self.keys.values():
                    self.keys[key] = page

    @rule(target=taken, key=st.binary(min_size=1, max_size=1))
    def share(self, key: bytes) -> object:
        page = self.pages.share(key)
        assert page == self.keys.get(key)
        if page is None:
            return multiple()
        self.num_holders[page] += 1
        return (page,)

    @rule(pages=consumes(taken))
    def free(self, pages: tuple[int, ...]) -> None:
        self.pages.free(pages)
        self.num_holders.subtract(pages)

    @precondition(lambda self: self.num_held() < self.NUM_PAGES)
    @rule(data=st.data(), pages=taken)
    def free_what_is_not_taken(self, data: st.DataObject, pages: tuple[int, ...]) -> None:
        held = {page for page, count in self.num_holders.items() if count}
        stranger = data.draw(st.sampled_from(sorted(set(range(-1, self.NUM_PAGES + 1)) - held)))
        with pytest.raises(EngineError, match="not taken"):
            self.pages.free([*pages, stranger])

    @rule(pages=taken)
    def free_twice_at_once(self, pages: tuple[int, ...]) -> None:
        if pages:
            with pytest.raises(EngineError, match="twice"):
                self.pages.free([*pages, pages[0]])

    @rule()
    def forget(self) -> None:
        self.pages.forget()
        self.keys.clear()

    @invariant()
    def nothing_is_lost(self) -> None:
        self.pages.check_integrity()
        assert self.pages.num_free == self.NUM_PAGES - self.num_held()
        assert len(self.pages._remembered) == sum(
            not self.num_holders[page] for page in self.keys.values()
        )


TestPages = Pages.TestCase


def test_out_of_pages_says_what_to_do() -> None:
    pages = PageAllocator(4)
    pages.allocate(3)
    with pytest.raises(
        EngineError, match=r"2 asked for, 1 of 4 free.*kv_cache_memory_bytes.*max_batch_size"
    ):
        pages.allocate(2)
    assert pages.num_free == 1 and pages.num_pages == 4


@pytest.mark.parametrize("num_pages", [0, -1])
def test_cache_without_pages_is_refused(num_pages: int) -> None:
    with pytest.raises(ValueError, match="at least one page"):
        PageAllocator(num_pages)


def test_what_was_not_used_for_longest_is_forgotten_first() -> None:
    pages = PageAllocator(4)
    for key in (b"a", b"b", b"c"):
        (page,) = pages.allocate(1)
        pages.publish(page, key)
        pages.free([page])
    shared = pages.share(b"a")
    assert shared is not None
    pages.free([shared])
    pages.allocate(2)  # one of them was never used
    assert (
        pages.share(b"b") is None and pages.share(b"c") is not None and pages.share(b"a") == shared
    )


def test_negative_count_is_refused() -> None:
    with pytest.raises(ValueError, match="-1 pages"):
        PageAllocator(2).allocate(-1)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda pages: pages._free.append(pages._free[0]), "free twice"),
        (lambda pages: pages._num_holders.update({pages._free[0]: 1}), "in two states"),
        (lambda pages: pages._keys.update({pages._free[0]: b"key"}), "keys and pages differ"),
        (lambda pages: pages._free.pop(), "do not make 4"),
    ],
)
def test_integrity_check_finds_corruption(spoil: object, words: str) -> None:
    pages = PageAllocator(4)
    pages.check_integrity()
    spoil(pages)  # type: ignore[operator]
    with pytest.raises(EngineError, match=words):
        pages.check_integrity()


def test_kv_cache_shapes_and_size() -> None:
    cache = KVCache.allocate(KeyShape(3, 2, 8), 5, 16, torch.bfloat16, "cpu")
    assert len(cache.keys) == len(cache.values) == cache.num_layers == 3
    assert {tensor.shape for tensor in (*cache.keys, *cache.values)} == {(5, 16, 2, 8)}
    assert all(tensor.count_nonzero() == 0 for tensor in (*cache.keys, *cache.values))
    assert len({tensor.data_ptr() for tensor in (*cache.keys, *cache.values)}) == 6
    assert cache.num_pages == 5
    (memory,) = cache.memories
    assert memory.nbytes == 5 * 3 * 2 * 16 * 2 * 8 * 2 == 5 * cache.page_bytes
    assert memory.numel() == 5 * 16 * KeyShape(3, 2, 8).num_numbers


def test_a_cache_of_layers_that_differ() -> None:
    """Layers 3 and 4 read the keys of layers 1 and 2."""
    small, large = KeyShape(1, 4, 8), KeyShape(1, 1, 24)
    shape = CacheShape.of_layers([small, small, large, small, large], [0, 1, 2, 1, 2])
    assert shape.kinds == (KeyShape(2, 4, 8), KeyShape(1, 1, 24))
    cache = KVCache.allocate(shape, 5, 16, torch.bfloat16, "cpu")
    assert [key.shape[2:] for key in cache.keys] == [(4, 8), (4, 8), (1, 24), (4, 8), (1, 24)]
    places = [key.data_ptr() for key in cache.keys]
    assert places[3:] == places[1:3] and len({*places, *map(Tensor.data_ptr, cache.values)}) == 6
    assert cache.page_bytes == 16 * shape.num_numbers * 2 == 16 * 2 * 2 * (2 * 32 + 24)
    cache.keys[2][3].fill_(2.0), cache.values[1][3].fill_(3.0)
    other = KVCache.allocate(shape, 5, 16, torch.bfloat16, "cpu")
    other.write_pages([0, 4], cache.read_pages([3, 1]))
    assert bool((other.keys[4][0] == 2).all() and (other.values[3][0] == 3).all())
    assert not any(memory[:, :, 1:].any() for memory in other.memories)


def test_a_cache_of_keys_alone() -> None:
    keys = KeyShape(3, 1, 8, has_values=False)
    cache = KVCache.allocate(keys, 5, 16, torch.bfloat16, "cpu")
    assert cache.memories[0].numel() == 5 * 16 * keys.num_numbers == 5 * 16 * 3 * 8
    for key, value in zip(cache.keys, cache.values, strict=True):
        assert key.data_ptr() == value.data_ptr() and key.shape == (5, 16, 1, 8)


@given(
    data=st.data(),
    page_size=st.integers(1, 5),
    num_pages=st.integers(1, 4),
    num_seqs=st.integers(1, 3),
)
def test_slot_mapping_is_page_and_offset(
    data: st.DataObject, page_size: int, num_pages: int, num_seqs: int
) -> None:
    page = st.integers(-1, 20)
    table = data.draw(
        st.lists(
            st.lists(page, min_size=num_pages, max_size=num_pages),
            min_size=num_seqs,
            max_size=num_seqs,
        )
    )
    tokens = data.draw(
        st.lists(
            st.tuples(st.integers(0, num_seqs - 1), st.integers(-2, page_size * num_pages - 1))
        )
    )
    slots = slot_mapping(
        torch.tensor(table, dtype=torch.int32),
        torch.tensor([seq for seq, _ in tokens], dtype=torch.int64),
        torch.tensor([position for _, position in tokens], dtype=torch.int64),
        page_size,
    )
    assert slots.dtype == torch.int64
    expected = []
    for seq, position in tokens:
        page_id = table[seq][position // page_size] if position >= 0 else -1
        expected.append(page_id * page_size + position % page_size if page_id >= 0 else -1)
    assert slots.tolist() == expected
