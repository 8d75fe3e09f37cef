"""Bodies of requests to /v1/responses."""

from __future__ import annotations

import chat_bodies

INPUT = chat_bodies.USER[0]["content"]
WEATHER = {"type": "function", "strict": True, **chat_bodies.FUNCTION}
