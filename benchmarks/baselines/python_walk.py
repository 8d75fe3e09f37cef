"""Owns one request's walk in plain Python: the slow twin of csrc/walk.cc, of the same meaning and
the same economy."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable

from specguide.guided.matcher import Row
from specguide.native import Matcher


class PythonWalk:
    """The grammar's way along one request's path: the golden token, then the drafts, a row filled
    after each.

    matcher:    None for a free request, whose rows are free and which has no operations
    rows:       one of ceil(vocab / 32) int32 words for each node
    next_node:  the node whose token comes next; len(rows): the path is complete
    counters:   by the names of GrammarCounters; the walk counts in them
    is_ended:   the end token is verified

    `start`, `golden` and `draft` are called on the callbacks' thread, `detach` on the host's.
    """

    def __init__(
        self,
        slot: int,
        matcher: Matcher | None,
        rows: list[Row],
        vocab_size: int,
        counters: Counter[str],
    ) -> None:
        self.slot = slot
        self.is_free = matcher is None
        self.next_node = len(rows)
        self.is_ended, self.is_detached = False, False
        self.error: str | None = None
        self._matcher, self._rows, self._vocab_size, self._counters = (
            matcher,
            rows,
            vocab_size,
            counters,
        )
        self._lock = threading.Lock()
        self._fill_ids = [0] * len(rows)
        self._depth = 0  # drafts of this path that the matcher holds
        self._is_stopped = False  # the grammar does not follow the drafts beyond _depth
        self._is_draft_ended = False  # the draft at _depth was the end token
        self._num_tokens = 0  # verified tokens that the matcher holds
        self._iteration = -1
        self._num_accepts = 0
        self._num_fills = 0
        self._num_rollbacks = 0

    @property
    def is_over(self) -> bool:
        """Whether nothing more will be done for the request."""
        return self.error is not None or self.is_ended or self.is_detached

    def fill_id(self, node: int) -> int:
        """The number of the row of `node`: negative, and different each time it is filled; 0: it is
        not filled."""
        return self._fill_ids[node]

    def start(self, iteration: int) -> None:
        """Fill row 0 at the matcher's start state."""
        self._guarded(iteration, self._open)

    def golden(self, iteration: int, num_accepted: int, token: int) -> None:
        """Take back the drafts beyond the accepted ones, accept the golden token (-1: none), fill
        row 0."""
        self._guarded(iteration, lambda matcher: self._golden(matcher, num_accepted, token))

    def draft(self, iteration: int, node: int, token: int) -> None:
        """Accept draft `node` (-1: none) and fill its row."""
        self._guarded(iteration, lambda matcher: self._draft(matcher, node, token))

    def detach(self) -> None:
        """Let go of the matcher; waits for the operation under way."""
        with self._lock:
            self.is_detached, self._matcher = True, None

    def _guarded(self, iteration: int, operation: Callable[[Matcher], None]) -> None:
        with self._lock:
            if self.is_over or self._matcher is None:
                return
            if iteration != self._iteration:
                self._iteration = iteration
                self._num_accepts = 0
                self._num_fills = 0
                self._num_rollbacks = 0
            begin = time.perf_counter_ns()
            try:
                operation(self._matcher)
            except Exception as error:
                self._fail(f"the matcher failed {self._after_tokens()}: {error}")
            self._counters["busy_ns"] += time.perf_counter_ns() - begin

    def _open(self, matcher: Matcher) -> None:
        """Fill row 0 unless the grammar has ended; it must allow some token."""
        if matcher.is_terminated:
            return self._end()
        self._fill(matcher, 0)
        if not self._rows[0].any():
            self._fail(f"the grammar allows no token {self._after_tokens()}")

    def _golden(self, matcher: Matcher, num_accepted: int, token: int) -> None:
        self._fill_ids = [0] * len(self._rows)
        if self._is_draft_ended and num_accepted >= self._depth:
            return self._end()  # what was verified beyond the end token does not count
        if num_accepted > self._depth:
            return self._fail(
                f"the verification accepted {num_accepted} drafts where the grammar follows "
                f"{self._depth}, {self._after_tokens()}"
            )
        if self._depth > num_accepted:
            self._rollback(matcher, self._depth - num_accepted)
        self._num_tokens += num_accepted
        self._depth, self._is_stopped, self._is_draft_ended = 0, False, False
        if token < 0:
            return self._fail(f"the grammar allows no token {self._after_tokens()}")
        if not self._accept(matcher, token):
            return self._fail_by_refusal(token)
        self._num_tokens += 1
        self._open(matcher)

    def _draft(self, matcher: Matcher, node: int, token: int) -> None:
        if self._is_stopped or self._is_draft_ended:
            return
        if token < 0 or not self._accept(matcher, token):
            # An unguided drafter guesses; but the target relies on what a row allows.
            if token >= 0 and self._row_allows(node - 1, token):
                return self._fail_by_refusal(token)
            self._is_stopped = True
            return
        self._depth = node
        self._is_draft_ended = matcher.is_terminated
        if not self._is_draft_ended:
            self._fill(matcher, node)

    def _accept(self, matcher: Matcher, token: int) -> bool:
        if token >= self._vocab_size:
            return False
        self._num_accepts += 1
        self._counters["accepts"] += 1
        self._counters["max_accepts"] = max(self._counters["max_accepts"], self._num_accepts)
        return matcher.accept(token)

    def _fill(self, matcher: Matcher, node: int) -> None:
        self._num_fills += 1
        self._counters["fills"] += 1
        self._counters["max_fills"] = max(self._counters["max_fills"], self._num_fills)
        matcher.fill(self._rows[node])
        self._fill_ids[node] = -self._counters["fills"]

    def _rollback(self, matcher: Matcher, num_tokens: int) -> None:
        self._num_rollbacks += 1
        self._counters["rollbacks"] += 1
        self._counters["max_rollbacks"] = max(self._counters["max_rollbacks"], self._num_rollbacks)
        matcher.rollback(num_tokens)

    def _row_allows(self, node: int, token: int) -> bool:
        return token < self._vocab_size and bool(
            int(self._rows[node][token // 32]) >> token % 32 & 1
        )

    def _fail_by_refusal(self, token: int) -> None:
        self._fail(
            f"the grammar refused token {token}, which its row had allowed, {self._after_tokens()}"
        )

    def _fail(self, message: str) -> None:
        self._fill_ids = [0] * len(self._rows)
        self.error = message

    def _end(self) -> None:
        self._fill_ids = [0] * len(self._rows)
        self.is_ended = True

    def _after_tokens(self) -> str:
        return f"after {self._num_tokens} token{'' if self._num_tokens == 1 else 's'}"
