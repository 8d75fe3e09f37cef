"""Which prefixes have a saved state, and which copies are planned for it."""

from __future__ import annotations

import pytest

from specguide.batch import StateCopy
from specguide.scheduler.saved_states import PrefixStates, SavedStates

KEYS = [b"a", b"b", b"c"]


def test_the_longest_prefix_with_a_state_counts() -> None:
    states = SavedStates(range(5, 8), 16)
    assert states.num_usable(KEYS) == 0
    states.save(b"b", slot=1)
    assert states.num_usable(KEYS) == 0  # the iteration that computes it has not run
    (_, (saved,)) = states.take()
    assert states.num_usable(KEYS) == 2 and states.num_usable(KEYS[:1]) == 0
    states.restore(KEYS[:2], slot=3)
    assert states.take() == ((StateCopy(saved.target, 3),), ()) and saved.source == 1
    assert states.take() == ((), ())


def test_the_state_that_was_not_used_for_the_longest_time_gives_way() -> None:
    states = SavedStates(range(2), 16)
    for key in KEYS[:2]:
        states.save(key, slot=0)
    states.take()
    states.restore(KEYS[:1], slot=4)
    states.save(b"c", slot=0)
    states.take()
    assert [states.num_usable([key]) for key in KEYS] == [1, 0, 1]


def test_ends_of_prompts_do_not_displace_the_beginning_that_they_share() -> None:
    states = SavedStates(range(4), 16)
    states.save(b"shared", slot=0)
    states.take()
    for end in range(9):
        if end % 3 == 0:  # three prompts come at once
            states.restore([b"shared"], slot=1)
        states.save(bytes([end]), slot=1)
        states.take()
    ends = [states.num_usable([bytes([end])]) for end in range(9)]
    assert ends == [0] * 6 + [1] * 3 and states.num_usable([b"shared"]) == 1


def test_states_that_were_used_once_give_way_to_newer_ones() -> None:
    states = SavedStates(range(4), 16)
    for key in (*b"abcd", *b"efgh"):
        states.save(bytes([key]), slot=0)
        states.take()
        states.restore([bytes([key])], slot=0)
    assert [states.num_usable([bytes([key])]) for key in b"abcdefgh"] == [0] * 4 + [1] * 4


def test_a_key_is_saved_once_and_a_slot_restored_once() -> None:
    states = SavedStates(range(2), 16)
    for slot in (0, 1):
        states.save(b"a", slot)
    states.save(b"b", 1)
    _, saved = states.take()
    for key in (b"a", b"b"):
        states.restore([key], slot=7)
    assert len(saved) == 2 and states.take() == ((StateCopy(saved[1].target, 7),), ())


def test_no_rows() -> None:
    states = SavedStates(range(3, 3), 16)
    states.save(b"a", 0)
    assert states.num_usable(KEYS) == 0 and states.take() == ((), ())


@pytest.mark.parametrize(
    ("num_found", "num_usable", "num_pages", "expected"),
    [
        (0, 0, 40, (40,)),  # a long prompt
        (0, 0, 31, ()),
        (9, 0, 20, (9,)),  # it leaves another one behind 9 pages
        (9, 9, 20, ()),
        (9, 4, 50, (9, 50)),
        (50, 20, 50, (50,)),
    ],
)
def test_where_states_are_saved(
    num_found: int, num_usable: int, num_pages: int, expected: tuple[int, ...]
) -> None:
    states = SavedStates(range(1), page_size=16)
    assert states.save_at(num_found, num_usable, num_pages) == expected
    assert PrefixStates().save_at(num_found, num_usable, num_pages) == ()
