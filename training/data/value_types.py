"""The names of value types, as kinds write them, and their generators."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from training.data import lexicon as lx
from training.data import value_numbers as numbers
from training.data import value_times as times
from training.data import values as v
from training.data.values import Value

GENERATORS: dict[str, Callable[[Random], Value]] = {
    "person": lambda r: v.string(v.full_name(r)),
    "first": lambda r: v.string(v.first(r)),
    "last": lambda r: v.string(v.last(r)),
    "company": lambda r: v.string(v.company_name(r)),
    "city": lambda r: v.string(v.city_name(r)),
    "country": v.one_of(lx.COUNTRIES, 0.1),
    "street": lambda r: v.string(v.street_line(r)),
    "address": v.address,
    "email": v.email,
    "phone": v.phone,
    "url": v.url,
    "date": times.date,
    "iso": times.iso_date,
    "time": times.clock,
    "timestamp": times.timestamp,
    "money": numbers.money,
    "percent": numbers.percent,
    "rating": numbers.rating,
    "code": v.code,
    "uuid": v.uuid,
    "ipv4": v.ipv4,
    "version": v.version,
    "path": v.path,
    "product": v.product,
    "phrase": v.phrase,
    "duration": times.duration,
    "bool": v.boolean,
    "token": v.letters_and_digits,
    "sentence": v.sentence,
    "color": v.one_of(lx.COLORS),
    "currency": v.one_of(lx.CURRENCIES),
    "food": v.one_of(lx.FOODS, 0.1),
    "dish": v.one_of(lx.DISHES, 0.1),
    "skill": v.one_of(lx.SKILLS, 0.1),
    "job": v.one_of(lx.JOBS),
    "drug": v.one_of(lx.DRUGS, 0.25),
    "diagnosis": v.one_of(lx.DIAGNOSES),
    "symptom": v.one_of(lx.SYMPTOMS),
    "language": v.one_of(lx.LANGUAGES),
    "weekday": v.one_of(lx.WEEKDAYS),
    "month": v.one_of(lx.MONTHS),
    "topic": v.one_of(lx.TOPICS),
    "issue": v.one_of(lx.ISSUES),
    "book": v.one_of(lx.BOOK_WORDS),
    "year": numbers.year,
    "word": v.one_of(lx.WORDS, 0.3),
    "team": lambda r: v.string(
        f"{v.city_name(r)} {r.choice(('United', 'Tigers', 'Rovers', 'Hawks', 'City', 'Stars'))}"
    ),
}


def generator(spec: str) -> Callable[[Random], Value]:
    """The generator for a type written as `person`, `int(1,9,kg)`, `dec(0,5,1, km)` or
    `enum(a=b~c,d)`.

    Raises KeyError for a type nobody defined.
    """
    name, _, rest = spec.partition("(")
    if not rest:
        return GENERATORS[name]
    args = rest.removesuffix(")")
    if name == "enum":
        return v.enum(args)
    parts = args.split(",")
    if name == "int":
        return numbers.integer(int(parts[0]), int(parts[1]), tuple(parts[2:]))
    if name == "dec":
        return numbers.decimal(float(parts[0]), float(parts[1]), int(parts[2]), tuple(parts[3:]))
    raise KeyError(spec)
