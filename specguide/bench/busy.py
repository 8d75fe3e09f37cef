"""Owns the rate of a closed loop while all its clients are busy."""

from __future__ import annotations

from collections.abc import Sequence

from specguide.bench.answer import Answer


def busy_window(answers: Sequence[Answer], num_clients: int) -> tuple[float, float] | None:
    """From when every client has sent its first request until one finds no more, seconds of
    time.perf_counter; None where clients are never all busy.

    answers: of a closed loop, all of them
    """
    due_s = sorted(answer.due_s for answer in answers)
    if len(due_s) < num_clients:
        return None
    begin_s, last_s = due_s[num_clients - 1], due_s[-1]
    end_s = min((answer.end_s for answer in answers if answer.end_s > last_s), default=last_s)
    return (begin_s, end_s) if end_s > begin_s else None


def busy_tokens_per_s(
    answers: Sequence[Answer], whole: Sequence[Answer], num_clients: int
) -> float | None:
    """Tokens of the answers that are whole in that window, each answer's spread evenly over its
    chunks."""
    window = busy_window(answers, num_clients)
    if window is None:
        return None
    begin_s, end_s = window
    tokens = 0.0
    for answer in whole:
        inside = sum(begin_s < at_s <= end_s for at_s in answer.arrivals_s)
        tokens += answer.num_tokens * inside / max(1, len(answer.arrivals_s))
    return round(tokens / (end_s - begin_s), 2)
