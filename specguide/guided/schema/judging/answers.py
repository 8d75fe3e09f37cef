"""Owns answers that may be uncertain: True, False, and None for unknown.

Source: Kleene's three-valued logic.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

Answer: TypeAlias = bool | None


def all_hold(answers: Iterable[Answer]) -> Answer:
    """Whether all answers are True; stops at a False one."""
    result: Answer = True
    for answer in answers:
        if answer is False:
            return False
        result = None if answer is None else result
    return result


def any_holds(answers: Iterable[Answer]) -> Answer:
    """Whether any answer is True; stops at a True one."""
    return negated(all_hold(map(negated, answers)))


def negated(answer: Answer) -> Answer:
    """Returns the opposite answer."""
    return None if answer is None else not answer


def num_hold(answers: list[Answer], least: int, most: float) -> Answer:
    """Whether the number of True answers is between `least` and `most`."""
    sure, maybe = answers.count(True), answers.count(None)
    if sure > most or sure + maybe < least:
        return False
    return True if least <= sure and sure + maybe <= most else None
