"""Spans and calls of random outputs, read in random windows of up to 60 tokens: each is compared
with what was written, and then the reading is timed.

    python -m benchmarks.spans [--deltas 1000000]

Outputs are JSON, structural tags, and calls of tools in each family's format with text, an
answer's JSON or reasoning beside them; their marks are special tokens or text; see
benchmarks.guides.written_outputs. Tokens are 1 to 8 bytes, and cut characters, strings and marks
anywhere. Prints a table, then one JSON line.
"""

from __future__ import annotations

import math
import random
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass

from benchmarks.common import argument_parser, emit
from benchmarks.guides.written_outputs import Written, kinds, written
from specguide.guided.reading import OutputReader, Part, SpanReader, SpelledTokens
from specguide.guided.reading.spelled import special_bytes
from specguide.request_records import OutputSpan
from specguide.server.running.said_pieces import SaidPieces
from specguide.server.tasks.events import Arguments, CallBegin, Reasoned, Said, Text

MOST_TOKENS, MOST_BYTES = 60, 8
_NUM_RESERVED = 400
_IDS = {special_bytes(token): token for token in range(_NUM_RESERVED)}
_SPECIAL = re.compile(rb"(\xff[\x80-\xbf]{4}\xfe)")


@dataclass(frozen=True)
class Cut:
    """An output in tokens of a vocabulary of its own, which come in windows."""

    spelled: SpelledTokens
    windows: list[list[int]]

    @property
    def tokens(self) -> list[int]:
        """All tokens."""
        return [token for window in self.windows for token in window]


def cut_up(made: Written, rng: random.Random) -> Cut:
    """At random."""
    table = [b""] * _NUM_RESERVED
    tokens = list[int]()
    for stretch in _SPECIAL.split(made.data):
        if stretch in _IDS:
            tokens.append(_IDS[stretch])
            continue
        while stretch:
            size = rng.randint(1, MOST_BYTES)
            tokens.append(len(table))
            table.append(stretch[:size])
            stretch = stretch[size:]
    most, windows = rng.choice((1, 4, MOST_TOKENS)), list[list[int]]()
    while tokens:
        size = rng.randint(1, most)
        windows.append(tokens[:size])
        tokens = tokens[size:]
    return Cut(SpelledTokens(table, ()), windows)


def check(made: Written, cut: Cut) -> None:
    """Asserts that it is read as it was written."""
    reader = OutputReader(made.form)
    stretches = [b"".join(cut.spelled[token] for token in window) for window in cut.windows]
    windows = [*map(reader.feed, stretches), reader.finish()]
    found = Written(made.form)
    for pieces in windows:
        for piece in pieces:
            found.add(piece.part, piece.data)
    assert found.parts == made.parts, (found.parts, made.parts)
    if made.form.tags is None:  # which only those who ask for spans read
        said = SaidPieces(tells_reasoning=True)
        events = [event for pieces in windows for event in said.take(pieces)] + said.finish()
        assert told(events) == (made.reasoning, made.text, made.calls), made
    assert spans_of(made, cut) == expected_spans(made.parts, cut)


def spans_of(made: Written, cut: Cut) -> list[OutputSpan]:
    """The spans as they are read, window by window."""
    reader = SpanReader(made.form, cut.spelled)
    spans = [span for one in cut.windows for span in reader.add(one, list(map(_logprob, one)))]
    return spans + reader.finish()


def expected_spans(parts: Iterable[tuple[Part, bytes]], cut: Cut) -> list[OutputSpan]:
    """The spans that must come, by what each byte was written as and which token it is of."""
    tokens = cut.tokens
    owners = [i for i, token in enumerate(tokens) for _ in cut.spelled[token]]
    spans = []
    begin = 0
    for part, data in parts:
        inside = owners[begin : begin + len(data)]
        start = inside[0]
        end = inside[-1] + 1
        logprob = math.fsum(map(_logprob, tokens[start:end]))
        spans.append(OutputSpan(*part, start, end, logprob))
        begin += len(data)
    return spans


def told(events: Iterable[Said]) -> tuple[str, str, list[tuple[str, str]]]:
    """Reasoning, text, and calls with their arguments."""
    reasoning = text = ""
    calls: list[tuple[str, str]] = []
    for event in events:
        if isinstance(event, Reasoned):
            reasoning += event.text
        elif isinstance(event, Text):
            text += event.text
        elif isinstance(event, CallBegin):
            assert event.index == len(calls)
            calls.append((event.name, ""))
        elif isinstance(event, Arguments):
            name, arguments = calls[event.index]
            calls[event.index] = (name, arguments + event.text)
    return reasoning, text, calls


def _logprob(token: int) -> float:
    return -token / 64


def timed(made: Written, cut: Cut) -> float:
    """Seconds of processor time that its spans take."""
    begin_s = time.process_time()
    spans_of(made, cut)
    return time.process_time() - begin_s


def measure(kind: str, num_deltas: int) -> dict[str, float]:
    """Read outputs of a kind until there were so many deltas."""
    rng, found = random.Random(kind), dict.fromkeys(("outputs", "deltas", "tokens", "s"), 0.0)
    while found["deltas"] < num_deltas:
        made = written(kind, rng)
        cut = cut_up(made, rng)
        check(made, cut)
        found["outputs"] += 1
        found["deltas"] += len(cut.windows)
        found["tokens"] += len(cut.tokens)
        found["s"] += timed(made, cut)
    return {
        **{name: int(found[name]) for name in ("outputs", "deltas", "tokens")},
        "us_a_token": round(1e6 * found["s"] / found["tokens"], 2),
    }


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--deltas", type=int, default=1_000_000, help="of all kinds together")
    parser.add_argument("--no-save", action="store_true", help="keep no result")
    args = parser.parse_args()
    found = {}
    print(f"{'kind':16} {'outputs':>9} {'deltas':>9} {'tokens':>9} {'us a token':>11}")
    for kind in kinds():
        one = found[kind] = measure(kind, math.ceil(args.deltas / len(kinds())))
        print(
            f"{kind:16} {one['outputs']:9} {one['deltas']:9} {one['tokens']:9} "
            f"{one['us_a_token']:11}"
        )
    config = {"deltas": args.deltas, "most_tokens": MOST_TOKENS, "most_bytes": MOST_BYTES}
    emit("spans", config, {"wrong": 0, **found}, save=not args.no_save)


if __name__ == "__main__":
    main()
