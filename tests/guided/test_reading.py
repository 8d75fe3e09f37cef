"""Outputs read while they are written: whatever they are cut into, what is told of them is what
they were written as."""

from __future__ import annotations

import json
import random

import pytest

from benchmarks.guides.written_outputs import Written, kinds, written
from benchmarks.spans import check, cut_up
from specguide.guided.reading import OutputForm, OutputReader, Part, Piece, ReasoningMarks
from specguide.guided.reading.tags import tag_layout


@pytest.mark.parametrize("kind", kinds())
def test_any_cut_is_read_as_the_whole(kind: str) -> None:
    """700 deltas of up to 60 tokens a kind, 10,500 in all."""
    rng, num_deltas = random.Random(kind), 0
    while num_deltas < 700:
        made = written(kind, rng)
        cut = cut_up(made, rng)
        check(made, cut)
        num_deltas += len(cut.windows)


@pytest.mark.parametrize("kind", kinds())
def test_an_output_that_is_cut_off_is_read_alike(kind: str) -> None:
    """Wherever it ends, nothing is lost, and what was certain before is what it was written as."""
    rng = random.Random(kind)
    for _ in range(30):
        made = written(kind, rng)
        end = rng.randint(0, len(made.data))
        by_byte, at_once = (read(made, end, size) for size in (1, end + 1))
        assert by_byte.parts == at_once.parts and by_byte.data == made.data[:end]
        certain = read(made, end, 1, is_over=False).parts
        for (part, data), (part_written, data_written) in zip(certain, made.parts, strict=False):
            assert part == part_written and data_written.startswith(data)


def read(made: Written, end: int, size: int, *, is_over: bool = True) -> Written:
    """The first bytes of an output, as they are read."""
    reader, found = OutputReader(made.form), Written(made.form)
    stretches = [made.data[at : min(at + size, end)] for at in range(0, end, size)]
    for pieces in [*map(reader.feed, stretches), reader.finish() if is_over else []]:
        for piece in pieces:
            found.add(piece.part, piece.data)
    return found


def test_where_reasoning_may_come_and_does_not() -> None:
    marks = ReasoningMarks(b"</think>", b"<think>", b"<answer>")
    for text, said in ((b" <th", " <th"), (b"<answer>x", "x"), (b"\n <think>a</think>\nb", "b")):
        for size in (1, 5, 100):
            stretches = [text[at : at + size] for at in range(0, len(text), size)]
            reader, pieces = OutputReader(OutputForm(marks)), list[Piece]()
            for stretch in stretches:
                pieces += reader.feed(stretch)
            pieces += reader.finish()
            content = b"".join(one.shown for one in pieces if one.part.tag == "content")
            assert content.decode() == said


@pytest.mark.parametrize(
    "change",
    [
        {"begin": "<a"},
        {"end": ""},
        {"content": {"type": "regex", "pattern": "a*"}},
        {"content": {"type": "json_schema", "json_schema": {}, "style": "qwen_xml"}},
        {"content": {"type": "any_text"}, "end": ["a", "b"]},
        {"end": ["a", "ab"]},
        {"begin": {"type": "token", "token": 3}},
    ],
)
def test_tags_of_which_it_is_not_certain_what_a_text_is_of(change: dict) -> None:
    tags = [
        {"begin": begin, "content": {"type": "json_schema", "json_schema": {}}, "end": "</a>"}
        for begin in ("<a>", "<b>")
    ]
    form = {"type": "tags_with_separator", "tags": tags, "separator": ","}
    assert tag_layout(form) is not None
    assert tag_layout({**form, "tags": [tags[0], {**tags[1], **change}]}) is None
    assert tag_layout({"type": "sequence", "elements": [form]}) is None


@pytest.mark.parametrize("kind", kinds())
def test_no_output_is_too_odd(kind: str) -> None:
    """What is written wrong, as no grammar would have it, is read all the same, and alike."""
    rng = random.Random(kind)
    for _ in range(60):
        made = written(kind, rng)
        odd = bytearray(made.data)
        for _ in range(rng.randrange(1, 5)):
            at = rng.randrange(len(odd) + 1)
            odd[at : at + rng.randrange(4)] = rng.choice((b"", b"}", b'"', b"\\", b",", b"\xff"))
        made.parts = [(Part("content", "text"), bytes(odd))]
        by_byte, at_once = (read(made, len(odd), size) for size in (1, len(odd) + 1))
        assert by_byte.parts == at_once.parts and by_byte.data == bytes(odd)


def test_long_outputs() -> None:
    """An array of 40,000 numbers, and a text of a million bytes."""
    for data in (json.dumps(list(range(40_000))).encode(), b'"' + b"x\\n" * 300_000 + b'"'):
        reader = OutputReader(OutputForm(is_json=True))
        num_read = sum(
            len(piece.data)
            for at in range(0, len(data), 97)
            for piece in reader.feed(data[at : at + 97])
        )
        assert num_read == len(data)
