"""Random numbers as `Value`s: counts, amounts of money, shares, ratings, years."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from training.data import lexicon as lx
from training.data.values import Value

INTEGER: dict[str, Any] = {"type": "integer"}
NUMBER: dict[str, Any] = {"type": "number"}


def integer(low: int, high: int, units: tuple[str, ...] = ()) -> Callable[[Random], Value]:
    def generate(r: Random) -> Value:
        number = r.randint(low, high)
        text = f"{number:,}" if number >= 1000 and r.random() < 0.3 else str(number)
        if units and r.random() < 0.7:
            text += " " + r.choice(units)
        return Value(str(number), text, INTEGER if r.random() < 0.85 else NUMBER)

    return generate


def decimal(
    low: float, high: float, places: int, units: tuple[str, ...] = ()
) -> Callable[[Random], Value]:
    def generate(r: Random) -> Value:
        text = shown = f"{r.uniform(low, high):.{places}f}"
        if units and r.random() < 0.7:
            shown += r.choice(units)
        return Value(text, shown, NUMBER)

    return generate


def money(r: Random) -> Value:
    amount = 10 ** r.uniform(0.5, 4.3)
    json_text = str(int(amount)) if r.random() < 0.25 else f"{amount:.2f}"
    text = (
        f"{float(json_text):,.{0 if '.' not in json_text else 2}f}"
        if r.random() < 0.35
        else json_text
    )
    roll = r.random()
    if roll < 0.55:
        text = (
            f"${text}"
            if roll < 0.2
            else f"€{text}"
            if roll < 0.3
            else f"{text} {r.choice(lx.CURRENCIES)}"
        )
    return Value(json_text, text, NUMBER)


def percent(r: Random) -> Value:
    number = str(r.randint(0, 100)) if r.random() < 0.6 else f"{r.uniform(0, 100):.1f}"
    return Value(number, number + r.choice(("%", "%", " percent", " %")), NUMBER)


def rating(r: Random) -> Value:
    number = f"{r.uniform(1, 5):.1f}" if r.random() < 0.6 else str(r.randint(1, 5))
    return Value(number, number + r.choice(("/5", " out of 5", " stars", "")), NUMBER)


def year(r: Random) -> Value:
    text = str(r.randint(1950, 2031))
    return Value(text, text, INTEGER)
