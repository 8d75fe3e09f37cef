"""Owns what an API server is told."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ServerConfig:
    """Limits and names of an API server.

    model_name:     what clients call the model
    api_keys:       a request must carry one of them; none: anybody may ask
    tool_format:    name of a description under specguide/grammars/tool_calls; None: from the chat template
    max_body_bytes: largest request body
    max_tools:      most tools of a request
    drain_s:        longest time that requests under way are given when the server is stopped, seconds
    """

    model_name: str
    api_keys: tuple[str, ...] = ()
    tool_format: str | None = None
    max_body_bytes: int = 4 << 20
    max_tools: int = 1024
    drain_s: float = 30.0
