"""Typed random values: each generator returns a `Value`, the JSON text of the answer and how a
document shows it."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

from training.data import lexicon as lx


class Value(NamedTuple):
    """One scalar: `json` is the exact JSON text of the answer, `text` its form in a document,
    `schema` its type."""

    json: str
    text: str
    schema: dict[str, Any]


STRING: dict[str, Any] = {"type": "string"}
LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ"


def quote(text: str) -> str:
    """`text` as a JSON string; non-ASCII characters stay as they are."""
    return json.dumps(text, ensure_ascii=False)


def string(text: str, schema: dict[str, Any] = STRING) -> Value:
    return Value(quote(text), text, schema)


def digits(r: Random, n: int) -> str:
    return "".join(r.choices("0123456789", k=n))


def made_up(r: Random, low: int = 2, high: int = 3) -> str:
    """A word that no list holds, such as 'Tamarvik'."""
    return "".join(r.choices(lx.SYLLABLES, k=r.randint(low, high))).capitalize()


def one_of(words: list[str], made_up_share: float = 0.0) -> Callable[[Random], Value]:
    def generate(r: Random) -> Value:
        return string(made_up(r) if r.random() < made_up_share else r.choice(words))

    return generate


def first(r: Random) -> str:
    return made_up(r) if r.random() < 0.25 else r.choice(lx.FIRST_NAMES)


def last(r: Random) -> str:
    return made_up(r) if r.random() < 0.35 else r.choice(lx.LAST_NAMES)


def full_name(r: Random) -> str:
    roll = r.random()
    name = f"{first(r)} {last(r)}"
    if roll < 0.05:
        return f"Dr. {name}"
    if roll < 0.10:
        return f"{first(r)} {r.choice(LETTERS)}. {last(r)}"
    return f"{name}-{last(r)}" if roll < 0.13 else name


def company_name(r: Random) -> str:
    head = made_up(r) if r.random() < 0.4 else r.choice(lx.COMPANY_WORDS)
    if r.random() < 0.2:
        head += " " + (r.choice(lx.COMPANY_WORDS) if r.random() < 0.7 else made_up(r))
    return f"{head} {r.choice(lx.COMPANY_ENDS)}" if r.random() < 0.85 else head


def city_name(r: Random) -> str:
    return made_up(r, 2, 4) if r.random() < 0.3 else r.choice(lx.CITIES)


def street_line(r: Random) -> str:
    name = made_up(r) if r.random() < 0.3 else r.choice(lx.STREETS)
    return f"{r.randint(1, 299)} {name} {r.choice(lx.STREET_KINDS)}"


def address(r: Random) -> Value:
    line = street_line(r)
    return string(f"{line}, {city_name(r)}" if r.random() < 0.5 else line)


def email(r: Random) -> Value:
    user, roll = first(r).lower(), r.random()
    if roll < 0.4:
        user += r.choice("._-") + last(r).lower()
    elif roll < 0.6:
        user += digits(r, r.randint(1, 3))
    domain = (made_up(r) if r.random() < 0.5 else r.choice(lx.COMPANY_WORDS)).lower()
    text = f"{user}@{domain}.{r.choice(('com', 'org', 'net', 'io', 'example', 'de', 'co.uk'))}"
    return string(text, {"type": "string", "format": "email"} if r.random() < 0.4 else STRING)


def phone(r: Random) -> Value:
    form = r.choice(
        (
            "+{a} {b} {c} {d}",
            "{b}-{c}",
            "({b}) {c}-{d}",
            "+{a}-{b}-{c}",
            "{b} {c} {d}",
            "+{a}{b}{c}{d}",
        )
    )
    return string(form.format(a=r.randint(1, 99), b=digits(r, 3), c=digits(r, 3), d=digits(r, 4)))


def url(r: Random) -> Value:
    host = f"{made_up(r).lower()}.{r.choice(('com', 'org', 'net', 'io'))}"
    path = (
        ""
        if r.random() < 0.4
        else "/" + r.choice(lx.WORDS) + ("/" + digits(r, 3) if r.random() < 0.4 else "")
    )
    text = f"http{r.choice(('s', ''))}://{r.choice(('www.', ''))}{host}{path}"
    return string(text, {"type": "string", "format": "uri"} if r.random() < 0.4 else STRING)


def code(r: Random) -> Value:
    roll, prefix = r.random(), "".join(r.choices(LETTERS, k=r.randint(1, 4)))
    if roll < 0.35:
        return string(f"{prefix}-{digits(r, r.randint(2, 6))}")
    if roll < 0.5:
        return string(f"{prefix}{digits(r, r.randint(2, 7))}")
    if roll < 0.6:
        return string(f"#{digits(r, r.randint(3, 6))}")
    if roll < 0.75:
        return string(digits(r, r.randint(4, 10)))
    if roll < 0.9:
        return string("".join(r.choices(LETTERS + "0123456789", k=r.randint(4, 9))))
    return string(f"{prefix}-{r.randint(1999, 2031)}-{digits(r, r.randint(2, 4))}")


def uuid(r: Random) -> Value:
    h = f"{r.getrandbits(128):032x}"
    text = f"{h[:8]}-{h[8:12]}-4{h[13:16]}-a{h[17:20]}-{h[20:]}"
    return string(text, {"type": "string", "format": "uuid"} if r.random() < 0.5 else STRING)


def ipv4(r: Random) -> Value:
    text = ".".join(str(r.randint(1, 254)) for _ in range(4))
    return string(text, {"type": "string", "format": "ipv4"} if r.random() < 0.5 else STRING)


def version(r: Random) -> Value:
    return string(
        f"{r.choice(('', '', 'v'))}{r.randint(0, 14)}.{r.randint(0, 30)}"
        + (f".{r.randint(0, 30)}" if r.random() < 0.6 else "")
    )


def path(r: Random) -> Value:
    parts = "/".join(r.choices(lx.WORDS, k=r.randint(1, 3)))
    root = r.choice(("/", "", "/var/", "src/", "/home/"))
    return string(f"{root}{parts}.{r.choice(('txt', 'py', 'log', 'csv', 'json', 'md', 'pdf'))}")


def product(r: Random) -> Value:
    text = r.choice(lx.PRODUCTS)
    if r.random() < 0.7:
        text = f"{r.choice(lx.ADJECTIVES)} {text}"
    if r.random() < 0.2:
        text = f"{made_up(r)} {text}"
    return string(text.title() if r.random() < 0.4 else text)


def phrase(r: Random) -> Value:
    """A short run of words that carries no meaning to lean on, so that it has to be copied."""
    text = " ".join(r.choices(lx.WORDS, k=r.randint(1, 4)))
    roll = r.random()
    return string(text.title() if roll < 0.3 else text.capitalize() if roll < 0.6 else text)


def enum(options: str) -> Callable[[Random], Value]:
    """`low=minor~mild,medium,high`: names, and after '=' other ways a document says the same."""
    names, ways = [], []
    for option in options.split(","):
        name, _, others = option.partition("=")
        names.append(name)
        plain = name.replace("_", " ")
        ways.append(
            [name, plain, plain, plain.capitalize()] + (others.split("~") * 2 if others else [])
        )
    schema = {"type": "string", "enum": names}

    def generate(r: Random) -> Value:
        index = r.randrange(len(names))
        text = r.choice(ways[index])
        return Value(quote(names[index]), text.upper() if r.random() < 0.05 else text, schema)

    return generate


def boolean(r: Random) -> Value:
    """Shown as yes/no; prose templates choose their own words for it."""
    truth = r.random() < 0.5
    text = (
        r.choice(("yes", "Yes", "true", "yes", "YES"))
        if truth
        else r.choice(("no", "No", "false", "no", "NO"))
    )
    return Value("true" if truth else "false", text, {"type": "boolean"})


def letters_and_digits(r: Random) -> Value:
    return string("".join(r.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=r.randint(5, 14))))


def sentence(r: Random) -> Value:
    words = " ".join(r.choices(lx.WORDS, k=r.randint(3, 7)))
    return string(f"{words.capitalize()}{r.choice(('.', '', ''))}")
