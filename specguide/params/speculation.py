"""Owns what one request takes of the engine's drafts."""

from __future__ import annotations

from dataclasses import dataclass

from specguide.errors import InvalidParams
from specguide.inputs.field_values import converted
from specguide.inputs.integers import as_int, is_int


@dataclass(frozen=True)
class Speculation:
    """What a request takes of the engine's drafts; None: as many as the engine makes, and as it
    makes them. The output is the same with any; acceptance and time are not.

    num_draft_tokens:  most drafts of the engine's method after each golden token, ≥ 0; 0 leaves
                       what the grammar forces
    num_forced_tokens: most drafts beside these that the grammar forces, ≥ 0; with both 0 it is
                       decoded plainly
    guided_drafts:     False: its draft head or model chooses among all tokens, not among what the
                       grammar allows

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
