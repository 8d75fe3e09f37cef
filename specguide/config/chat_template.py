"""Owns how a chat template is given that takes the place of the model's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from specguide.errors import InvalidParams


def template_text(given: Any) -> Any:
    """The text of a template that is given as a file or as its text, which has braces. Raises
    InvalidParams for a file that cannot be read."""
    if not isinstance(given, (str, Path)) or "{" in str(given):
        return given
    try:
        return Path(given).read_text("utf-8")
    except (OSError, ValueError) as error:  # ValueError: another encoding, or a name with a null
        raise InvalidParams(
            f"chat_template is a file or a template's text; {str(given)!r} cannot be read: {error}",
            param="chat_template",
        ) from error
