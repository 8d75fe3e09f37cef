"""Owns whether a text is a JSON instance of a schema, as `jsonschema` judges it."""

from __future__ import annotations

import json
from decimal import Decimal, InvalidOperation
from typing import Any

import jsonschema


def violation(schema: Any, text: str) -> str | None:
    """Why a text is no JSON instance of a schema, formats included and numbers taken exactly; None
    when it is one."""
    cls = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    exact = json.loads(json.dumps(schema), parse_float=_exact)
    try:
        cls(exact, format_checker=cls.FORMAT_CHECKER).validate(json.loads(text, parse_float=_exact))
    except (json.JSONDecodeError, RecursionError, jsonschema.ValidationError) as error:
        return str(error).splitlines()[0]
    return None


def _exact(text: str) -> int | float | Decimal:
    """A JSON number as written: doubles would make 561.29 no multiple of 0.01."""
    try:
        value = Decimal(text)
    except InvalidOperation:  # an exponent beyond all bounds
        return float(text)
    return int(value) if value.adjusted() < 1000 and value == value.to_integral_value() else value
