"""Owns Speculation: how one request uses the engine's drafts."""

from __future__ import annotations

from dataclasses import dataclass

from specguide.errors import InvalidParams
from specguide.inputs.field_values import converted
from specguide.inputs.integers import as_int, is_int


@dataclass(frozen=True)
class Speculation:
    """How a request uses the engine's drafts. A field that is None changes nothing: all drafts are
    used as the engine makes them. The output is always the same; acceptance and time differ.

    num_draft_tokens:  most drafts of the engine's method after each golden token, ≥ 0; 0 leaves
                       only those that the grammar forces
    num_forced_tokens: most additional drafts that the grammar forces, ≥ 0; with both 0 the request
                       is decoded without speculation
    guided_drafts:     False: its draft head or model chooses among all tokens, not only among those
                       that the grammar allows

    Raises InvalidParams naming the field.
    """

    num_draft_tokens: int | None = converted(None, as_int)
    num_forced_tokens: int | None = converted(None, as_int)
    guided_drafts: bool | None = None

    def __post_init__(self) -> None:
        for name in ("num_draft_tokens", "num_forced_tokens"):
            number = getattr(self, name)
            if number is not None and not (is_int(number) and number >= 0):
                raise InvalidParams(
                    f"speculation.{name} must be an integer ≥ 0 or None, found {number!r}",
                    param=f"speculation.{name}",
                )
        if not isinstance(self.guided_drafts, bool | None):
            raise InvalidParams(
                "speculation.guided_drafts must be True, False or None, found "
                f"{self.guided_drafts!r}",
                param="speculation.guided_drafts",
            )
