"""Bodies of requests to /v1/responses."""

from __future__ import annotations

INPUT = "My name is Anna and I am 31 years old."


WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "Weather of a city",
    "strict": True,
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 20}},
        "required": ["city"],
        "additionalProperties": False,
    },
}
