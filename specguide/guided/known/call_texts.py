"""Owns what is known of messages with calls of many tools, whose arguments are compiled when a call
has come as far as its tool's name.

`tool_guide` says beside its grammar, in `Guide.calls`, how calls begin. A backend leaves the
arguments of most tools out of the grammar. Where a call of such a tool begins, a part takes over: a
grammar of the rest of the message, from the tool's name on, with this tool's arguments in it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

LEAST_DEFERRED = 32
"""Least number of tools whose arguments are compiled only when a call of theirs begins."""
CALL_RULE = "\ncall: "
"""Beginning of those rules of a message that its parts have, too."""
BEHIND_RULE = "behind"
"""Name of the rule for what follows a call's arguments."""


@dataclass(frozen=True)
class CallTexts:
    """How the calls of a message begin; bytes as in native.Calls, each as hexadecimal digits.

    before:      the texts of which one stands in front of a call's name, and of no other text: of
                 a first call, from the gate on, and of later ones, from the end of arguments on
    lead:        bytes between the name and the arguments
    names:       names of the tools, each once, in the order of their schemas
    num_schemas: number of schemas before the tools' own
    gate:        bytes before which no call begins; none: calls may begin at once
    ends:        how the end of arguments is found, one of native.CallArguments
    held:        of texts in arguments that may have what begins a call, the fields of
                 native.HeldTexts; None: there are none
    firsts:      where there is no lead, the special tokens with which what is behind a name begins
    after:       the bytes with which what is behind the lead may begin; None: any byte
    arguments:   by tool, where the term of its arguments stands in the guide's source, and the
                 rules that it alone has; None: each tool's arguments are one JSON Schema
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
        """`held` in bytes."""
        if self.held is None:
            return None
        before = [bytes.fromhex(text) for text in self.held["before"]]
        marks = {name: bytes.fromhex(self.held[name]) for name in self.held.keys() - {"before"}}
        return {"before": before, **marks}

    @property
    def left_out(self) -> str:
        """What stands in the place of arguments that are left out, as Lark: all with which they
        may begin, as far as a token may that begins before them."""
        if self.firsts:
            return f"({' | '.join(f'<[{token}]>' for token in self.firsts)})"
        if self.is_reached:
            return "/(?s:.+)/"
        return '"{"' if self.arguments is None else ""


@dataclass(frozen=True)
class DeferredCalls:
    """The parts that are left out of a message's grammar.

    texts:    how calls begin: the fields of CallTexts
    schemas:  by tool, where its schema begins and ends in the guide's source; none where the texts
              say where arguments stand
    has_part: by tool, whether its arguments are left out
    """

    texts: dict[str, Any]
    schemas: list[tuple[int, int]]
    has_part: list[bool]


def first_of(lead: bytes) -> bytes:
    """The first byte of a lead, or the special token with which it begins."""
    return lead[: lead.index(b"\xff", 1) + 1] if lead.startswith(b"\xff") else lead[:1]


def lark_terms(text: bytes) -> str:
    """A text as terms of Lark; special tokens stand between bytes of 255, by their ids."""
    parts = enumerate(text.split(b"\xff"))
    terms = [f"<[{part.decode()}]>" if i % 2 else json.dumps(part.decode()) for i, part in parts]
    return " ".join(term for term in terms if term != '""') or '""'
