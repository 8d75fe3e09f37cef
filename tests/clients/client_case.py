"""Owns what all clients are asked to do, and how one of them says what it did.

A file of `cases/` has functions named as CELLS; each does what CELLS says with its client, and
raises where that does not work, or Refused where the server refuses it for a good reason.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

CELLS = {
    "structured": "an object of a schema comes back, parsed",
    "tools": "a tool is called with arguments of its schema, its result sent back, and answered",
    "streaming": "a streamed answer equals, or is put together as, one that is not",
    "errors": "a model that there is not is told as the client's own error",
}
URL = os.environ.get("SPECGUIDE_URL", "http://127.0.0.1:8000")
KEY = os.environ.get("SPECGUIDE_KEY", "none")
MODEL = os.environ.get("SPECGUIDE_MODEL", "small")
SENTENCE = "My name is Anna and I am 31 years old."
QUESTION = "I want to get the weather in Riga."


class Refused(Exception):
    """The server does not do this, and says why."""


def get_weather(city: str) -> str:
    """Weather of a city.

    Args:
        city: name of the city
    """
    assert isinstance(city, str)
    CALLS.append(city)
    return "rain"


CALLS: list[str] = []
"""Cities for which `get_weather` was called."""


def run(cases: dict[str, Any]) -> None:
    """Run a file's cases, and print what each did as one line of JSON."""
    for name in CELLS:
        case: Callable[[], None] | None = cases.get(name)
        if case is None:
            continue
        CALLS.clear()
        began_s = time.monotonic()
        told: dict[str, Any] = {"cell": name}
        try:
            case()
            told["outcome"] = "works"
        except Refused as why:
            told |= {"outcome": "refused", "why": str(why)}
        except BaseException as error:
            traceback.print_exc(file=sys.stderr)
            told |= {"outcome": "fails", "why": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps({**told, "seconds": round(time.monotonic() - began_s, 1)}), flush=True)
    os._exit(0)  # threads of some clients would hold up an orderly end
