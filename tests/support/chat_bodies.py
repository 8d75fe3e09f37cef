"""Bodies of requests to /v1/chat/completions."""

from __future__ import annotations

FUNCTION = {
    "name": "get_weather",
    "description": "Weather of a city",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 20}},
        "required": ["city"],
        "additionalProperties": False,
    },
}
WEATHER = {"type": "function", "function": FUNCTION}
USER = [{"role": "user", "content": "My name is Anna and I am 31 years old."}]


def schema_format(schema):
    return {"type": "json_schema", "json_schema": {"name": "person", "schema": schema}}
