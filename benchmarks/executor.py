"""The native grammar executor against a plain Python loop: first it checks that all rows are equal,
then it times both.

    SPECGUIDE_DATA=… python -m benchmarks.executor

Every slot follows a valid instance of a real-world schema, with K drafts per iteration. Some drafts
are refused: one rollback, the golden token, then the drafts, a row filled after each. The Python
loop makes the same calls slot by slot through the Python adapters. Both follow one script, made
beforehand. Prints a table, then one JSON line.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

from benchmarks.common import argument_parser, emit
from benchmarks.guides.real_text import VOCAB_SIZE, Case, load_cases, load_vocabulary
from benchmarks.guides.script import NUM_DRAFTS, NUM_NODES, Script, started, write_script
from specguide import GuideConfig, native
from specguide.guided.backends import backend_names, create_backend
from specguide.guided.matcher import Matcher
from specguide.tokenizer.vocabulary import Vocabulary

SCHEMAS = ("Github_hard---o16046", "Github_hard---o5407", "Github_easy---o40353")
DEADLINE_US = 60_000_000
"""Rows are never late here, so that all the work is timed."""


class PythonLoop:
    """The slow twin: a loop over slots, each with a matcher of the Python adapter."""

    def __init__(self, matchers: list[Matcher]) -> None:
        self.rows = np.zeros((NUM_NODES, len(matchers), (VOCAB_SIZE + 31) // 32), np.int32)
        self._matchers = matchers
        self._depth = [0] * len(matchers)

    def run(self, tokens: np.ndarray, num_accepted: np.ndarray) -> None:
        for slot, matcher in enumerate(self._matchers):
            matcher.rollback(self._depth[slot] - int(num_accepted[slot]))
            self._depth[slot] = 0
        for node in range(NUM_NODES):
            for slot, matcher in enumerate(self._matchers):
                token = int(tokens[slot, node])
                if token >= 0 and self._depth[slot] == max(0, node - 1) and matcher.accept(token):
                    self._depth[slot] = node
                    matcher.fill(self.rows[node, slot])


class NativeExecutor:
    """The grammar executor over native matchers, its callbacks run in turn as an iteration does."""

    def __init__(self, matchers: list[Any], num_threads: int) -> None:
        size = len(matchers)
        self.rows = np.zeros((NUM_NODES, size, (VOCAB_SIZE + 31) // 32), np.int32)
        self.fill_ids = np.zeros((NUM_NODES, size), np.int64)
        self._held = np.zeros(size, np.uint8)
        self._tokens = np.full((size, NUM_NODES), -1, np.int32)
        self._num_accepted = np.zeros(size, np.int32)
        self._needed = np.zeros(1, np.int32)
        self._executor = native.GrammarExecutor(
            native.GrammarBuffers(
                limits=native.DraftLimits(num_draft_tokens=NUM_DRAFTS),
                vocab_size=VOCAB_SIZE,
                bitmask=self.rows,
                fill_ids=self.fill_ids,
                held=self._held,
                tokens=self._tokens,
                num_accepted=self._num_accepted,
                needed=self._needed,
            ),
            native.ExecutorOptions(num_threads=num_threads, deadline_us=DEADLINE_US),
        )
        self._callbacks = self._executor.callbacks()
        self._stream = native.CallerStream()
        self._slots = list(range(size))
        self._executor.submit(list(enumerate(matchers)), [])
        self._stream.launch(self._callbacks[0])

    def run(self, tokens: np.ndarray, num_accepted: np.ndarray) -> None:
        """From one verification to the next: the golden token, the drafts, and the next iteration's
        first callback."""
        self._num_accepted[:] = num_accepted
        for node in range(NUM_DRAFTS):
            self._tokens[:, node] = tokens[:, node]
            self._stream.launch(self._callbacks[node + 1])
        self._tokens[:, NUM_DRAFTS] = tokens[:, NUM_DRAFTS]
        self._executor.submit([], self._slots)
        self._stream.launch(self._callbacks[0])

    def check(self) -> None:
        """Raise SystemExit if a slot failed, or a row was late."""
        self._stream.check()
        self._executor.check()
        errors = [error for error in map(self._executor.error, self._slots) if error]
        if errors or self._executor.counters().held:
            raise SystemExit(f"the executor failed: {errors or 'slots were held'}")


def assert_same_rows(native_side: NativeExecutor, python_side: PythonLoop, script: Script) -> int:
    """Runs both through the script and compares every row that the grammar filled. Returns how many
    there were."""
    num_rows = 0
    for tokens, num_accepted in zip(script.tokens, script.num_accepted, strict=True):
        native_side.run(tokens, num_accepted)
        python_side.run(tokens, num_accepted)
        native_side.check()
        filled = tokens.T >= 0
        if not native_side.fill_ids[filled].all() or native_side.fill_ids[~filled].any():
            raise SystemExit("the executor says of other rows than the script's that they count")
        if not np.array_equal(native_side.rows[filled], python_side.rows[filled]):
            raise SystemExit("rows of the executor and of the Python loop differ")
        num_rows += int(filled.sum())
    return num_rows


def ms_per_iteration(side: PythonLoop | NativeExecutor, script: Script) -> float:
    """Median over iterations."""
    times = []
    for tokens, num_accepted in zip(script.tokens, script.num_accepted, strict=True):
        begin = time.perf_counter()
        side.run(tokens, num_accepted)
        times.append(time.perf_counter() - begin)
    return 1e3 * float(np.median(times))


def measure(
    name: str,
    vocabulary: Vocabulary,
    cases: list[Case],
    batch_size: int,
    iterations: int,
    thread_counts: list[int],
    repeats: int,
) -> dict[str, Any]:
    """Checks rows, then times the Python loop and the executor with each number of threads, in
    turn.

    Each time is the least of `repeats` medians, since neighbours on the machine only ever add to
    it.
    """
    guides, instances = [case.guide for case in cases], [case.token_ids for case in cases]
    compiled = {
        how: [
            create_backend(name, vocabulary, native=how).compile(guide, GuideConfig())
            for guide in guides
        ]
        for how in (True, False)
    }
    script = write_script(compiled[True], instances, batch_size, iterations)

    def executor(num_threads: int) -> NativeExecutor:
        return NativeExecutor(started(compiled[True], instances, script.offset), num_threads)

    def loop() -> PythonLoop:
        return PythonLoop(started(compiled[False], instances, script.offset))

    num_rows = assert_same_rows(executor(max(thread_counts)), loop(), script)
    times: dict[str, list[float]] = {}
    for _ in range(repeats):
        times.setdefault("python_ms", []).append(ms_per_iteration(loop(), script))
        for num_threads in thread_counts:
            side = executor(num_threads)
            times.setdefault(f"native_{num_threads}_threads_ms", []).append(
                ms_per_iteration(side, script)
            )
            side.check()
    least = {column: round(min(values), 3) for column, values in times.items()}
    return {"backend": name, "batch_size": batch_size, "rows_equal": num_rows, **least}


def parsed_arguments() -> argparse.Namespace:
    """The arguments of the command line."""
    parser = argument_parser(__doc__)
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[1, 16, 128])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--iterations", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=5)
    names = backend_names()
    parser.add_argument("--backends", nargs="+", default=list(names), choices=names)
    parser.add_argument("--no-save", action="store_true", help="print only")
    return parser.parse_args()


def main() -> None:
    args = parsed_arguments()
    vocabulary, tokenizer = load_vocabulary()
    cases = load_cases(tokenizer, SCHEMAS)
    columns = ["python_ms", *(f"native_{n}_threads_ms" for n in args.threads)]
    print(
        f"{'backend':<12}{'batch':>6}{'rows equal':>12}"
        + "".join(f"{column:>24}" for column in columns)
    )
    results = []
    for name in args.backends:
        for batch_size in args.batch_sizes:
            results.append(
                measure(
                    name, vocabulary, cases, batch_size, args.iterations, args.threads, args.repeats
                )
            )
            last = results[-1]
            print(
                f"{name:<12}{batch_size:>6}{last['rows_equal']:>12}"
                + "".join(
                    f"{last[column]:>16.3f} ({last['python_ms'] / last[column]:>4.1f}×)"
                    for column in columns
                )
            )
    emit(
        "executor",
        {
            "schemas": SCHEMAS,
            "vocab_size": VOCAB_SIZE,
            "num_draft_tokens": NUM_DRAFTS,
            "iterations": args.iterations,
            "repeats": args.repeats,
        },
        results,
        save=not args.no_save,
    )


if __name__ == "__main__":
    main()
