"""Owns the facts about messages with calls of many tools, whose arguments are compiled when a call
has reached its tool's name.

`tool_guide` says in `Guide.calls`, beside its grammar, how calls begin. A backend leaves the
arguments of most tools out of the grammar. Where a call of such a tool begins, a part takes over: a
grammar of the rest of the message, from the tool's name on, with this tool's arguments in it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

LEAST_DEFERRED = 32
"""Fewest tools for which arguments are compiled only when a call begins."""
CALL_RULE = "\ncall: "
"""The beginning of the rules that a message shares with its parts."""
BEHIND_RULE = "behind"
"""Name of the rule for what follows a call's arguments."""


@dataclass(frozen=True)
class CallTexts:
    """How the calls of a message begin. Bytes are as in native.Calls, written as hexadecimal
    digits.

    before:      texts, one of which stands in front of each call's name and of no other text; for a
                 first call from the gate on, for later ones from the end of the arguments before
    lead:        the bytes between the name and the arguments
    names:       names of the tools, each once, in the order of their schemas
    num_schemas: number of schemas before those of the tools
    gate:        bytes before which no call begins; empty: calls may begin at once
    ends:        how the end of arguments is found, one of native.CallArguments
    held:        the fields of native.HeldTexts, where arguments have texts that may contain the
                 beginning of a call; None: there are none
    firsts:      where there is no lead, the special tokens that may follow a name
    after:       the bytes that may follow the lead; None: any byte
    arguments:   by tool, the ranges in the guide's source of the term of its arguments and of the
                 rules that only it has; None: each tool's arguments are one JSON Schema
    is_reached:  whether a token may reach from a name into the arguments
    """

    before: Sequence[str]
    lead: str
    names: Sequence[str]
    num_schemas: int
    gate: str = ""
    ends: str = "JSON"
    held: Mapping[str, Any] | None = None
    firsts: Sequence[int] = ()
    after: str | None = None
    arguments: Sequence[Sequence[int]] | None = None
    is_reached: bool = False

    @property
    def lead_bytes(self) -> bytes:
        return bytes.fromhex(self.lead)

    @property
    def after_bytes(self) -> bytes | None:
        return None if self.after is None else bytes.fromhex(self.after)

    @property
    def held_bytes(self) -> dict[str, Any] | None:
        """`held` with bytes in place of digits."""
        if self.held is None:
            return None
        before = [bytes.fromhex(text) for text in self.held["before"]]
        marks = {name: bytes.fromhex(self.held[name]) for name in self.held.keys() - {"before"}}
        return {"before": before, **marks}

    @property
    def left_out(self) -> str:
        """Lark in place of arguments that are left out. It allows whatever a token that begins
        before the arguments may contain of them."""
        if self.firsts:
            return f"({' | '.join(f'<[{token}]>' for token in self.firsts)})"
        if self.is_reached:
            return "/(?s:.+)/"
        return '"{"' if self.arguments is None else ""


@dataclass(frozen=True)
class DeferredCalls:
    """Which parts of a message's grammar are left out.

    texts:    how calls begin: the fields of CallTexts
    schemas:  by tool, begin and end of its schema in the guide's source; empty where the texts say
              where the arguments are
    has_part: by tool, whether its arguments are left out
    """

    texts: dict[str, Any]
    schemas: list[tuple[int, int]]
    has_part: list[bool]


def first_of(lead: bytes) -> bytes:
    """The first byte of a lead, or the special token with which the lead begins."""
    return lead[: lead.index(b"\xff", 1) + 1] if lead.startswith(b"\xff") else lead[:1]


def lark_terms(text: bytes) -> str:
    """A text as terms of Lark. In the text, special tokens are ids between bytes of 255."""
    parts = enumerate(text.split(b"\xff"))
    terms = [f"<[{part.decode()}]>" if i % 2 else json.dumps(part.decode()) for i, part in parts]
    return " ".join(term for term in terms if term != '""') or '""'
