"""Random dates, times of day and durations, as `Value`s."""

from __future__ import annotations

from random import Random

from training.data import lexicon as lx
from training.data.values import STRING, Value, digits, quote, string


def date(r: Random) -> Value:
    """ISO in the answer where the schema asks for format date; else exactly as the document has
    it."""
    year, month, day = r.randint(1995, 2032), r.randint(1, 12), r.randint(1, 28)
    iso = f"{year}-{month:02d}-{day:02d}"
    name = lx.MONTHS[month - 1]
    roll = r.random()
    forms = (
        iso,
        f"{name} {day}, {year}",
        f"{day} {name} {year}",
        f"{name[:3]} {day}, {year}",
        f"{day} {name[:3]} {year}",
    )
    text = iso if roll < 0.5 else forms[int(roll * 8.0) - 3 if roll < 1.0 else 1]
    if r.random() < 0.65:
        hint = {"description": "ISO 8601 date"} if r.random() < 0.1 else {}
        return Value(quote(iso), text, {"type": "string", "format": "date"} | hint)
    return string(text)


def iso_date(r: Random) -> Value:
    text = f"{r.randint(1995, 2032)}-{r.randint(1, 12):02d}-{r.randint(1, 28):02d}"
    return string(text, {"type": "string", "format": "date"} if r.random() < 0.5 else STRING)


def clock(r: Random) -> Value:
    if r.random() < 0.2:
        return string(
            f"{r.randint(1, 12)}:{r.choice(('00', '15', '30', '45'))} "
            f"{r.choice(('am', 'pm', 'AM', 'PM'))}"
        )
    text = (
        f"{r.randint(0, 23):02d}:{r.choice(('00', '15', '30', '45', digits(r, 1) + '5', '20')):0>2}"
    )
    text = text[:3] + str(min(int(text[3:]), 59)).zfill(2)
    return string(
        text, {"type": "string", "pattern": "^[0-9]{2}:[0-9]{2}$"} if r.random() < 0.2 else STRING
    )


def timestamp(r: Random) -> Value:
    text = (
        f"{r.randint(1999, 2031)}-{r.randint(1, 12):02d}-{r.randint(1, 28):02d}{r.choice('TT ')}"
        f"{r.randint(0, 23):02d}:{r.randint(0, 59):02d}:{r.randint(0, 59):02d}"
    )
    text += r.choice(("Z", "Z", "", "+02:00")) if "T" in text else ""
    return string(
        text,
        {"type": "string", "format": "date-time"}
        if text.endswith("Z") and r.random() < 0.7
        else STRING,
    )


def duration(r: Random) -> Value:
    number, unit = r.randint(2, 90), r.choice(("minutes", "hours", "days", "weeks", "months"))
    return string(f"{number} {unit}")
