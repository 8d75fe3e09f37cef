"""What the host writes of slots: the Triton kernel against its plain-torch twin."""

from __future__ import annotations

import random

import pytest
import torch
from gpu_case import DEVICE, to_device

from specguide.batch import SamplingValues
from specguide.kernels import SamplingTensors, slot_rows, write_slots
from specguide.kernels.slot_rows import MAX_END_IDS, EntryValues, SlotRow, SlotState, SlotTensors

pytestmark = [pytest.mark.gpu, pytest.mark.small]
NUM_SLOTS, MOST_PAGES, NUM_NODES = 9, 300, 5


def slots() -> SlotTensors:
    """Tensors of slots in which every number is one that nothing writes."""
    ints = dict(fill_value=-7, dtype=torch.int32)
    sampling = SamplingTensors.neutral(NUM_SLOTS, "cpu")
    return SlotTensors(
        lengths=torch.full((NUM_SLOTS,), -7),
        active=torch.ones(NUM_SLOTS, dtype=torch.bool),
        adapter_ids=torch.full((NUM_SLOTS,), **ints),
        position_shifts=torch.full((NUM_SLOTS,), -7),
        max_lens=torch.full((NUM_SLOTS,), -7),
        end_ids=torch.full((NUM_SLOTS, MAX_END_IDS), **ints),
        block_table=torch.full((NUM_SLOTS, MOST_PAGES), **ints),
        tokens=torch.full((NUM_SLOTS, NUM_NODES), **ints),
        num_model=torch.full((NUM_SLOTS,), **ints),
        row_slots=torch.arange(NUM_SLOTS),
        sampling=sampling,
    )


def entry(numbers: random.Random) -> EntryValues:
    sampling = SamplingValues(
        seed=numbers.randrange(2**63),
        temperature=numbers.random(),
        top_k=numbers.choice([-1, 0, 5, 2**40]),
        top_p=numbers.random(),
        min_p=numbers.random(),
    )
    end_ids = [numbers.randrange(1 << 20) for _ in range(numbers.randrange(MAX_END_IDS + 1))]
    return EntryValues(numbers.randrange(1 << 40), end_ids, sampling, 3, numbers.randrange(9))


def row(slot: int, most_pages: int, numbers: random.Random) -> SlotRow:
    def or_none(value: object) -> object:
        return numbers.choice([value, None])

    pages = [numbers.randrange(1 << 20) for _ in range(numbers.randrange(most_pages + 1))]
    return SlotRow(
        slot,
        or_none(pages),
        or_none(SlotState(numbers.randrange(1 << 40), numbers.random() < 0.5, slot, -slot)),
        or_none(numbers.randrange(1 << 20)),
        or_none(entry(numbers)),
    )


@pytest.mark.parametrize("most_pages", [3, MOST_PAGES])
def test_rows_are_put_in_their_places(most_pages: int) -> None:
    numbers = random.Random(most_pages)
    expected = slots()
    found = to_device(expected)
    for _ in range(4):
        chosen = numbers.sample(range(NUM_SLOTS), numbers.randrange(1, NUM_SLOTS))
        rows = [row(slot, most_pages, numbers) for slot in chosen]
        write_slots(slot_rows.slot_rows(rows, torch.device("cpu")), expected)
        write_slots(slot_rows.slot_rows(rows, DEVICE), found)
    for name in SlotTensors._fields[:-1]:
        assert torch.equal(getattr(found, name).cpu(), getattr(expected, name)), name
    for mine, theirs in zip(found.sampling.given(), expected.sampling.given(), strict=True):
        assert torch.equal(mine.cpu(), theirs)
    assert torch.equal(found.sampling.seed.cpu(), expected.sampling.seed)
