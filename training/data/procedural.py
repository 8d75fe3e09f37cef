"""Procedurally composed kinds: property names out of a lexicon, random types, random nesting.

They teach the general skill: find the value whose label matches the property's name or description,
and copy it.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from training.data import lexicon as lx
from training.data.records import FieldSpec, Kind, style_name
from training.data.value_types import generator
from training.data.values import Value, made_up, quote

# fmt: off
TYPES = [
    "person", "company", "city", "country", "street", "address", "email", "phone", "url", "date",
    "time", "timestamp",
    "money", "percent", "rating", "code", "code", "uuid", "ipv4", "version", "path", "product",
    "phrase", "phrase",
    "phrase", "duration", "bool", "bool", "token", "sentence", "color", "currency", "word", "word",
    "year",
    "language", "weekday", "job", "food", "skill", "int(0,9)", "int(1,100)", "int(0,5000)",
    "int(10,999999)",
    "int(-50,50)", "dec(0,1,2)", "dec(0,100,1)", "dec(-20,900,2)", "dec(0,9,3)", "int(1,400,kg)",
    "int(1,90,minutes)",
    "dec(0,80,1,cm)", "int(2,900,m)", "dec(1,40,2,bar)", "int(5,90,units)", "enum(low,medium,high)",
    "enum(open,closed,pending)", "enum(A,B,C,D)", "enum(red,amber,green)",
    "enum(north,south,east,west)",
    "enum(active,inactive,suspended)", "enum(yes,no,unknown)", "enum(small,medium,large)",
    "enum(daily,weekly,monthly,yearly)",
]
# fmt: on
FIXED = [generator(kind) for kind in TYPES]
FLAT = [
    generator(kind)
    for kind in TYPES
    if kind not in ("date", "bool", "time", "timestamp") and not kind.startswith("enum")
]
HELD_OUT = frozenset(lx.HELD_OUT_WORDS)
NOUNS = [word for word in lx.NOUNS if word not in HELD_OUT]


def _names(r: Random, held_out: bool) -> tuple[str, str, list[str]]:
    """A property name, its plain words, and other labels for it."""
    noun = r.choice(lx.HELD_OUT_WORDS if held_out else NOUNS)
    roll = r.random()
    if held_out and roll < 0.4:
        first = r.choice(lx.NOUNS)
        words = [noun, first]
    elif roll < 0.2:
        words = [noun]
    elif roll < 0.6 or held_out:
        words = [r.choice(lx.MODIFIERS), noun]
    elif roll < 0.75:
        words = [r.choice(NOUNS), noun]
    elif roll < 0.9:
        words = [made_up(r).lower(), noun]
    elif roll < 0.95:
        words = [noun := made_up(r).lower()]
    else:
        words = [r.choice(lx.MODIFIERS), noun := made_up(r).lower()]
    plain = " ".join(words)
    labels = [plain.capitalize()] * 3 + [plain]
    if len(words) == 2 and r.random() < 0.5:
        labels.append(
            f"{noun.capitalize()} ({words[0]})"
            if r.random() < 0.5
            else f"{words[1]} of the {words[0]}"
        )
    swapped = [lx.SYNONYMS.get(word, word) for word in words]
    if swapped != words and r.random() < 0.5:
        labels.append(" ".join(swapped).capitalize())
    if r.random() < 0.06:
        labels = [
            "".join(word[:3] for word in words).upper(),
            "".join(word[0] for word in words).upper() + " no.",
            *labels,
        ]
    return "_".join(words), plain, labels


def _description(r: Random, plain: str) -> str:
    form = r.choice(
        (
            "the {}",
            "{} as stated in the text",
            "{}",
            "value of the {}",
            "{} of the record",
            "which {} it has",
        )
    )
    return form.format(plain)


ENUM_STYLES = ("snake", "snake", "space", "kebab", "title", "camel", "pascal", "upper")


def random_enum(r: Random, held_out: bool = False) -> Callable[[Random], Value]:
    """An enum of 2 to 6 random members of one or two words, in some naming style; documents show
    the plain words."""
    pool = (
        lx.HELD_OUT_WORDS
        if held_out
        else lx.WORDS
        if r.random() < 0.4
        else NOUNS
        if r.random() < 0.6
        else lx.MODIFIERS
    )
    style, length = r.choice(ENUM_STYLES), r.choice((1, 1, 2))
    plain = []
    for _ in range(r.randint(2, 6)):
        words = [made_up(r).lower() if r.random() < 0.15 else r.choice(pool) for _ in range(length)]
        plain.append(" ".join(words))
    plain = list(dict.fromkeys(plain))
    members = [
        style_name(p, "snake").upper() if style == "upper" else style_name(p, style) for p in plain
    ]
    schema = {"type": "string", "enum": members}

    def generate(r: Random) -> Value:
        index = r.randrange(len(members))
        text = r.choice(
            (
                plain[index],
                plain[index].capitalize(),
                members[index],
                members[index],
                plain[index].title(),
            )
        )
        return Value(quote(members[index]), text, schema)

    return generate


def _field(r: Random, held_out: bool, depth: int, flat: bool = False) -> FieldSpec:
    name, plain, labels = _names(r, held_out)
    text = _description(r, plain)
    roll = r.random()
    if depth > 0 and not flat and roll < 0.2:
        children = _fields(r, r.randint(2, 4), held_out, depth - 1, flat=roll < 0.12)
        return FieldSpec(
            name, "rows" if roll < 0.12 else "group", tuple(labels), text, children=children
        )
    if roll < 0.3 and not flat:
        return FieldSpec(name, "list", tuple(labels), text, r.random() < 0.3, r.choice(FLAT))
    if roll < 0.36 and not flat:
        return FieldSpec(name, "leaf", tuple(labels), text, False, random_enum(r, held_out))
    return FieldSpec(
        name,
        "leaf",
        tuple(labels),
        text,
        not flat and r.random() < 0.1,
        r.choice(FLAT if flat else FIXED),
    )


def _fields(
    r: Random, count: int, held_out: bool, depth: int, flat: bool = False
) -> tuple[FieldSpec, ...]:
    fields: dict[str, FieldSpec] = {}
    while len(fields) < count:
        made = _field(r, held_out, depth, flat)
        fields[made.name] = made
    return tuple(fields.values())


def procedural_kind(r: Random, held_out: bool = False) -> Kind:
    """A random kind of 1 to 9 properties; `held_out` composes every name with a word kept out of
    training."""
    name = (
        r.choice(lx.HELD_OUT_WORDS)
        if held_out
        else made_up(r).lower()
        if r.random() < 0.2
        else r.choice(NOUNS)
    )
    name += "_" + r.choice(("record", "report", "sheet", "data", "info"))
    return Kind(
        name,
        _fields(
            r,
            r.choice((1, 2, 3, 3, 4, 4, 5, 5, 6, 7, 8, 9)),
            held_out,
            1 if r.random() < 0.5 else 0,
        ),
    )
