"""What is written of slots before an iteration, as the plain-torch twin says it."""

from __future__ import annotations

import torch

from specguide.batch import Batch, Chunk, Piggyback, SamplingValues, SlotEntry, Start
from specguide.config.spec import MOST_DRAFTS
from specguide.drafts.layout import DraftLayout
from specguide.slots import SlotSizes, SlotTable

SAMPLED = SamplingValues(seed=2**62, temperature=0.7, top_k=40, top_p=0.9, min_p=0.05)


def table() -> SlotTable:
    sizes = SlotSizes(5, 8, 16, vocab_size=100, layout=DraftLayout.chain(3))
    return SlotTable(sizes, torch.device("cpu"))


def entry(**changes: object) -> SlotEntry:
    return SlotEntry(**dict(max_len=90, end_ids=(7, 120), sampling=SAMPLED) | changes)


def test_a_request_enters_its_slot_and_leaves_it() -> None:
    slots = table()
    slots.nodes.tokens.fill_(9)
    chunk = Chunk((1, 2, 3), 4)
    slots.enter(Batch((0,), (2,), ((5, 6),), chunks=(chunk,), entries=(entry(),)))
    assert slots.lengths.tolist() == [0, 0, 7, 0, 0] and slots.active.tolist()[2]
    assert slots.block_table[2].tolist() == [5, 6, -1, -1, -1, -1, -1, -1]
    assert slots.nodes.tokens[2].tolist() == [9, -1, -1, -1]
    assert slots.nodes.tokens[1].tolist() == [9, 9, 9, 9]
    assert slots.end_ids[2].tolist() == [7, *[-2] * 15]  # 120 is no token of the model
    temperature, top_k, top_p, min_p = (each[2].item() for each in slots.sampling.given())
    assert (slots.sampling.seed[2].item(), top_k) == (2**62, 40)
    assert torch.tensor([temperature, top_p, min_p]).equal(torch.tensor([0.7, 0.9, 0.05]))
    slots.leave([2])
    assert not slots.active.any() and not slots.lengths.any()
    assert (slots.block_table == -1).all()


def test_an_iteration_that_decodes_changes_several_slots() -> None:
    slots = table()
    start = Start(1, entry(guided_drafts=False), 11, 3, True)
    beside = Piggyback((3,), ((8, 9, 10),), (Chunk((1, 2), 0, 3),), (1,))
    slots.change(
        Batch(
            (0, 1),
            (0, 2),
            ((1, 2), (4,)),
            has_grown=(True, False),
            starts=(start,),
            piggyback=beside,
        )
    )
    assert slots.block_table[:4, :3].tolist() == [[1, 2, -1], [-1] * 3, [4, -1, -1], [8, 9, 10]]
    assert slots.lengths.tolist() == [0, 0, 3, 2, 0]
    assert slots.adapter_ids.tolist() == [0, 0, 0, 1, 0]
    assert slots.active.tolist() == [False, False, True, False, False]
    assert slots.nodes.tokens[2].tolist() == [11, -1, -1, -1]
    assert slots.drafts.row_slots.tolist() == [0, 1, 4, 3, 4]
    assert slots.drafts.num_model.tolist() == [MOST_DRAFTS] * 5
    slots.change(Batch((0,), (0,), ((1, 2),), has_grown=(False,)))  # nothing
    assert slots.block_table[0, :2].tolist() == [1, 2]


def test_a_number_that_no_float32_holds_is_infinite() -> None:
    slots = table()
    sampling = SAMPLED._replace(temperature=1e300, top_k=2**70)
    slots.enter(
        Batch((0,), (1,), ((5,),), chunks=(Chunk((1,), 0),), entries=(entry(sampling=sampling),))
    )
    temperature, top_k, _, _ = (each[1].item() for each in slots.sampling.given())
    assert (temperature, top_k) == (float("inf"), 2**63 - 1)
