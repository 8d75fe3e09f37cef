"""Calls of the host by words, and rows taken from its memory: as their twins, and in captured
graphs."""

from __future__ import annotations

import pytest
import torch
from gpu_case import DEVICE, to_device
from host_functions import captured
from small_cases import small

from specguide import native
from specguide.guided.grammar_stream.streams import CallWords
from specguide.kernels import (
    FilledRows,
    HostCall,
    KeptRows,
    TakenRows,
    Wait,
    call_host,
    host_calls,
    take_rows,
)
from specguide.kernels.shared_memory import mapped

pytestmark = pytest.mark.gpu


def host_zeros(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    return torch.zeros(shape, dtype=dtype, pin_memory=DEVICE.type == "cuda")


def as_device(tensor: torch.Tensor) -> torch.Tensor:
    return mapped(tensor, DEVICE) if DEVICE.type == "cuda" else tensor


def wait_for(call: HostCall, announced: torch.Tensor, number: int) -> None:
    """Wait for a call, and take no rows."""
    ids = torch.zeros(0, 1, dtype=torch.int64, device=DEVICE)
    rows, flags = ids[:, :, None].int(), ids.byte()
    held = torch.zeros(1, dtype=torch.uint8, device=DEVICE)
    taken = TakenRows(rows, ids, flags, ids, ids.int(), held)
    take_rows(taken, FilledRows(rows, ids, None), Wait(call, announced, number))


class Rig:
    """Functions of the host, each called by words that a polling thread looks at."""

    def __init__(self, *functions: object) -> None:
        words = CallWords(len(functions), host_zeros)
        self.needed = host_zeros((1,), torch.int32)
        self.stream = native.PollingStream(
            native.HostStream("inner"), words.words.data_ptr(), len(functions), words.words
        )
        self.held = [
            self.stream.hold(native.python_host_function(function, (), {}, "function"))
            for function in functions
        ]
        aborted = as_device(host_zeros((1,), torch.int32))
        self.calls = words.calls(DEVICE, aborted)

    def call(self, index: int) -> None:
        call_host(self.calls[index], as_device(self.needed) if index == 0 else None)

    def wait(self, index: int) -> None:
        wait_for(self.calls[index], as_device(self.needed), index + 1)


@pytest.mark.small
def test_the_host_sees_what_was_written_and_its_answer_is_awaited() -> None:
    number, answer = host_zeros((1,), torch.int32), host_zeros((1,), torch.int32)
    seen: list[tuple[int, int]] = []

    def function() -> None:
        seen.append((int(number), int(rig.needed)))
        answer[0] = 10 * int(number)

    rig, found = Rig(function), []
    for i in range(1, 4):
        as_device(number).fill_(i)
        rig.call(0)
        rig.wait(0)
        found.append(as_device(answer).clone())
    assert [int(it) for it in found] == [10, 20, 30]
    assert [it[0] for it in seen] == [1, 2, 3] and int(rig.needed) == 1
    rig.stream.check()


@pytest.mark.small
def test_functions_that_are_called_at_once_run_in_order() -> None:
    seen: list[int] = []
    rig = Rig(*(lambda index=index: seen.append(index) for index in range(3)))
    for _ in range(4):
        for index in range(3):
            rig.call(index)
        for index in range(3):
            rig.wait(index)
        call = rig.calls[2]
        assert call.over.item() == call.called.item()
    assert seen == [0, 1, 2] * 4


def test_a_graph_calls_at_each_replay() -> None:
    number = host_zeros((1,), torch.int32)
    seen: list[int] = []
    rig = Rig(lambda: seen.append(int(number)), lambda: seen.append(-int(number)))
    counter = torch.zeros(1, dtype=torch.int32, device=DEVICE)

    def work() -> None:
        for index in range(2):
            counter.add_(1)
            as_device(number).copy_(counter)
            rig.call(index)
            rig.wait(index)

    work()
    counter.zero_()
    torch.cuda.synchronize()
    seen.clear()
    graph = captured(work)
    for _ in range(50):
        graph.replay()
    torch.cuda.synchronize()
    assert seen == [number if number % 2 else -number for number in range(1, 101)]


@pytest.mark.small
def test_the_host_is_called_once_all_devices_call() -> None:
    seen: list[int] = []
    words = CallWords(1, host_zeros, num_ranks=3)
    stream = native.PollingStream(
        native.HostStream("inner"), words.words.data_ptr(), 1, words.words
    )
    held = stream.hold(native.python_host_function(lambda: seen.append(1), (), {}, "function"))
    aborted = as_device(host_zeros((1,), torch.int32))
    own, *others = (words.calls(DEVICE, aborted, rank)[0] for rank in range(3))
    announced = torch.zeros(1, dtype=torch.int32, device=DEVICE)
    assert (held.due, held.done) == (0, 1) and len(own.others) == 2 and len(others[0].others) == 0
    for num in range(1, 4):
        for call in (*others, own):
            assert len(seen) == num - 1
            call_host(call)
        for call in (others[1], own, others[0]):
            wait_for(call, announced, 1)
            assert call.over.item() == own.done.item() and len(seen) == num


def test_nobody_waits_for_who_was_aborted() -> None:
    words = CallWords(1, host_zeros, num_ranks=2)
    aborted = as_device(host_zeros((1,), torch.int32))
    own, other = (words.calls(DEVICE, aborted, rank)[0] for rank in range(2))
    aborted.fill_(1)
    for call in (own, other):
        call_host(call)
        wait_for(call, torch.zeros(1, dtype=torch.int32, device=DEVICE), 1)
        if DEVICE.type == "cuda":
            torch.cuda.synchronize()
        assert call.over.item() == call.called.item() != call.done.item()


def wait_for_answered_call() -> Wait:
    """A wait that finds its answer at once, but has not begun: rows are read behind it."""
    word = torch.full((1,), 7, dtype=torch.int32)
    return Wait(HostCall(word, word, word, word * 0, word * 0, word[:0]), word, 7)


@pytest.mark.parametrize("num_words", [1, small(33), 4008, 9001])
@pytest.mark.parametrize("is_awaited", [False, True])
def test_rows_that_were_filled_anew_are_taken_and_no_others(
    num_words: int, is_awaited: bool
) -> None:
    random = torch.Generator().manual_seed(num_words)

    def integers(least: int, most: int, *shape: int) -> torch.Tensor:
        return torch.randint(least, most, shape, generator=random)

    filled = FilledRows(
        integers(-(2**31), 2**31, 7, 9, num_words).int(),
        integers(0, 3, 7, 9) << 33,
        integers(0, 2, 9).byte(),
    )
    taken = TakenRows(
        integers(-(2**31), 2**31, 7, 9, num_words).int(),
        integers(0, 3, 7, 9) << 33,
        integers(0, 2, 7, 9).byte(),
        integers(0, 2, 7, 9),
        integers(0, 2, 7, 9).int(),
        integers(0, 2, 9).byte(),
    )
    expected, found = TakenRows(*(it.clone() for it in taken)), to_device(taken)
    for has_held in (False, True):
        part = slice(2, 6), slice(0, 5)
        wait = to_device(wait_for_answered_call()) if is_awaited else None
        for rows, source, on, function in (
            (expected, filled, None, host_calls.take_rows),
            (found, to_device(filled), wait, take_rows),
        ):
            function(
                TakenRows(*(it[part] for it in rows[:5]), rows.held[:5]),
                FilledRows(
                    source.bitmask[part],
                    source.fill_ids[part],
                    source.held[:5] if has_held else None,
                ),
                on,
            )
        for name, mine in zip(TakenRows._fields, found, strict=True):
            assert torch.equal(mine.cpu(), getattr(expected, name)), name
    assert not torch.equal(expected.bitmask, taken.bitmask)


@pytest.mark.parametrize("num_words", [1, small(33), 4008, 9001])
def test_rows_that_are_kept_are_not_asked_for_again(num_words: int) -> None:
    """The host has forgotten rows whose numbers come again."""
    random = torch.Generator().manual_seed(num_words)
    num_kept, (num_nodes, num_slots) = 256, (4, 9)
    shape = num_nodes, num_slots
    taken = TakenRows(
        torch.zeros(*shape, num_words, dtype=torch.int32),
        torch.zeros(shape, dtype=torch.int64),
        torch.zeros(shape, dtype=torch.uint8),
        torch.zeros(shape, dtype=torch.int64),
        torch.zeros(shape, dtype=torch.int32),
        torch.zeros(num_slots, dtype=torch.uint8),
    )
    kept = KeptRows(
        torch.zeros(num_kept, num_words, dtype=torch.int32),
        torch.zeros(num_kept, dtype=torch.int64),
    )
    found, found_kept = to_device(taken), to_device(kept)
    contents: dict[int, torch.Tensor] = {}
    newest, num_forgotten = 1000, 0
    for _ in range(12):
        newest += int(torch.randint(0, 60, (1,), generator=random))
        ids = newest - torch.randint(0, 100, shape, generator=random)
        kind = torch.randint(0, 6, shape, generator=random)
        ids = torch.where(kind == 0, 0, torch.where(kind == 1, -ids, ids))
        rows = torch.zeros(*shape, num_words, dtype=torch.int32)
        for place in torch.cartesian_prod(torch.arange(num_nodes), torch.arange(num_slots)):
            node, slot = place.tolist()
            number = int(ids[node, slot])
            if number > 0 and bool((kept.ids == number).any()):
                num_forgotten += 1
                continue
            words = torch.randint(-(2**31), 2**31, (num_words,), generator=random).int()
            rows[node, slot] = contents.setdefault(number, words) if number > 0 else words
        filled = FilledRows(rows, ids, None)
        host_calls.take_rows(taken, filled, None, kept)
        take_rows(found, to_device(filled), None, found_kept)
        for name, mine in zip(TakenRows._fields, found, strict=True):
            assert torch.equal(mine.cpu(), getattr(taken, name)), name
        for mine, other in zip(found_kept, kept, strict=True):
            assert torch.equal(mine.cpu(), other)
        for node in range(num_nodes):
            for slot in range(num_slots):
                if int(ids[node, slot]) > 0:
                    expected = contents[int(ids[node, slot])]
                    assert torch.equal(taken.bitmask[node, slot], expected)
    assert num_forgotten > 20
