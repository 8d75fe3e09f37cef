"""Owns the rate of a closed loop over the time in which all its clients are busy."""

from __future__ import annotations

from collections.abc import Sequence

from specguide.bench.answer import Answer

Window = tuple[float, float]
"""Begin and end, seconds of time.perf_counter."""


def busy_window(answers: Sequence[Answer], num_clients: int) -> Window | None:
    """The time from when every client has sent its first request until one finds no more; None if
    the clients are never all busy.

    answers: all answers of a closed loop whose clients share their requests
    """
    due_s = sorted(answer.due_s for answer in answers)
    if len(due_s) < num_clients:
        return None
    begin_s, last_s = due_s[num_clients - 1], due_s[-1]
    end_s = min((answer.end_s for answer in answers if answer.end_s > last_s), default=last_s)
    return (begin_s, end_s) if end_s > begin_s else None


def common(windows: Sequence[Window | None]) -> Window | None:
    """The intersection of all windows; None if it is empty."""
    found = [window for window in windows if window is not None]
    if not found or len(found) < len(windows):
        return None
    begin_s, end_s = max(begin for begin, _ in found), min(end for _, end in found)
    return (begin_s, end_s) if end_s > begin_s else None


def busy_tokens_per_s(whole: Sequence[Answer], window: Window | None) -> float | None:
    """The rate of tokens in a window, where each answer's tokens are spread evenly over its chunks;
    None without a window.

    whole: answers that are neither refused nor lost
    """
    if window is None:
        return None
    begin_s, end_s = window
    tokens = 0.0
    for answer in whole:
        inside = sum(begin_s < at_s <= end_s for at_s in answer.arrivals_s)
        tokens += answer.num_tokens * inside / max(1, len(answer.arrivals_s))
    return round(tokens / (end_s - begin_s), 2)
