"""Owns the check whether a text is a JSON instance of a schema, as `jsonschema` judges it."""

from __future__ import annotations

import json
from decimal import Decimal, InvalidOperation
from typing import Any

import jsonschema


def violation(schema: Any, text: str) -> str | None:
    """Why a text is not a JSON instance of a schema, with formats checked and numbers taken
    exactly; None if it is one. Raises LookupError if that cannot be decided: for a pattern that
    Python cannot read, a reference to the network, or a text nested too deeply for Python."""
    cls = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    exact = exactly(json.dumps(schema))
    try:
        cls(exact, format_checker=cls.FORMAT_CHECKER).validate(exactly(text))
    except (json.JSONDecodeError, jsonschema.ValidationError) as error:
        return str(error).splitlines()[0]
    except Exception as error:  # anything that stops jsonschema
        raise LookupError(f"jsonschema: {type(error).__name__}: {error}") from error
    return None


def exactly(text: str) -> Any:
    """A JSON text's value with its numbers exactly as written: as a double, 561.29 would not be a
    multiple of 0.01. Raises JSONDecodeError."""
    return json.loads(text, parse_float=_exact)


def _exact(text: str) -> int | float | Decimal:
    try:
        value = Decimal(text)
    except InvalidOperation:  # an exponent out of range
        return float(text)
    return int(value) if value.adjusted() < 1000 and value == value.to_integral_value() else value
