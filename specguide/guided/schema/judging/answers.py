"""Owns answers that may be uncertain: True, False, and None for what nobody knows.

Source: Kleene's three-valued logic.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

Answer: TypeAlias = bool | None


def all_hold(answers: Iterable[Answer]) -> Answer:
    """Whether all are True; those after a False one are not asked for."""
    found: Answer = True
    for answer in answers:
        if answer is False:
            return False
        found = None if answer is None else found
    return found


def any_holds(answers: Iterable[Answer]) -> Answer:
    """Whether one is True; those after a True one are not asked for."""
    return negated(all_hold(map(negated, answers)))


def negated(answer: Answer) -> Answer:
    """True for False, and the other way round."""
    return None if answer is None else not answer


def num_hold(answers: list[Answer], least: int, most: float) -> Answer:
    """Whether from `least` to `most` of the answers are True."""
    sure, maybe = answers.count(True), answers.count(None)
    if sure > most or sure + maybe < least:
        return False
    return True if least <= sure and sure + maybe <= most else None
