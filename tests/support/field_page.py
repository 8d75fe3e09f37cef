"""Owns docs/fields.md: what becomes of each field of a request, from the tables of the server.

`python tests/support/field_page.py` writes it, in a checkout with PYTHONPATH=.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from specguide.server.apis.anthropic import MessagesRequest
from specguide.server.bodies.base_body import Body
from specguide.server.bodies.fields import NoEffect, Refused
from specguide.server.bodies.requests import ChatRequest, CompletionRequest, ResponsesRequest

PAGE = Path(__file__).parent.parent.parent / "docs" / "fields.md"
BODIES: dict[str, type[Body]] = {
    "chat": ChatRequest,
    "completions": CompletionRequest,
    "responses": ResponsesRequest,
    "messages": MessagesRequest,
}
_HEAD = """# Fields of requests

What becomes of each field, by API: `/v1/chat/completions`, `/v1/completions`, `/v1/responses` and
`/v1/messages`. A field that is null is as if it were left out. A field that is not on this page is
taken, named in the header `x-specguide-ignored` and logged once; `--strict-fields` refuses it.
This page is written from [`fields.py`](../specguide/server/bodies/fields.py),
[`shared_fields.py`](../specguide/server/bodies/shared_fields.py),
[`requests.py`](../specguide/server/bodies/requests.py) and, for messages,
[`anthropic.py`](../specguide/server/apis/anthropic.py), and tested against them.

"""


def page() -> str:
    """The page, as Markdown."""
    parts = {
        "Honoured": _table(("field", "APIs"), _honoured()),
        "Taken, without effect": _table(("field", "APIs", "because"), _beside(NoEffect)),
        "Refused": _table(("field", "APIs", "but for", "because"), _beside(Refused)),
    }
    return _HEAD + "\n".join(f"## {title}\n\n{table}" for title, table in parts.items())


def _table(heads: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    lines = [heads, ("---",) * len(heads), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _honoured() -> Iterator[tuple[str, ...]]:
    apis: dict[str, list[str]] = {}
    for api, body in BODIES.items():
        for name, field in body.model_fields.items():
            apis.setdefault(field.alias or name, []).append(api)
    for name in sorted(apis):
        yield f"`{name}`", _told(apis[name])


def _beside(kind: type[NoEffect] | type[Refused]) -> Iterator[tuple[str, ...]]:
    apis: dict[tuple[str, ...], list[str]] = {}
    for api, body in BODIES.items():
        for name, verdict in body.beside.items():
            if isinstance(verdict, kind) and name not in body.model_fields:
                apis.setdefault((name, *_words(verdict)), []).append(api)
    for (name, *words), where in sorted(apis.items()):
        yield f"`{name}`", _told(where), *words


def _words(verdict: NoEffect | Refused) -> tuple[str, ...]:
    if isinstance(verdict, NoEffect):
        return (verdict.why,)
    return ", ".join(f"`{json.dumps(value)}`" for value in verdict.unless), verdict.why


def _told(apis: list[str]) -> str:
    return "all" if len(apis) == len(BODIES) else ", ".join(apis)


if __name__ == "__main__":
    PAGE.write_text(page())
