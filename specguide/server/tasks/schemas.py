"""Owns the treatment of requests' JSON schemas before they are compiled: the check of `strict`, and
the closing of objects that do not say otherwise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from specguide.guided.schema.document.closed import closed
from specguide.server.tasks.strict import check_strict


@dataclass(frozen=True)
class SchemaRules:
    """openai_strict, is_closed: see `openai_strict` and `closed_objects` of ServerConfig"""

    openai_strict: bool = False
    is_closed: bool = False

    def check_strict(self, schema: Any, what: str, param: str) -> None:
        """Raises InvalidGuide for a schema with `strict` outside OpenAI's subset, where the rules
        ask for the check. See `strict.check_strict`."""
        if self.openai_strict:
            check_strict(schema, what, param)

    def closed(self, schema: Any) -> Any:
        """The schema, with closed objects where the rules ask for that. See `closed.closed`."""
        return closed(schema) if self.is_closed else schema

    def closing(self, is_closed: bool | None) -> SchemaRules:
        """The rules with a request's own choice; None: the server's."""
        return self if is_closed is None else replace(self, is_closed=is_closed)


AS_THEY_ARE = SchemaRules()
