"""Owns the log of requests: uvicorn's lines, each with the id of its request at its end."""

from __future__ import annotations

import copy
import logging
from typing import Any

from uvicorn.config import LOGGING_CONFIG

from specguide.request import EXTERNAL_ID


class WithRequestId(logging.Filter):
    """Gives every record the id."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.request_id = EXTERNAL_ID.get() or "-"
        return True


def log_config() -> dict[str, Any]:
    """uvicorn's, with the id."""
    config = copy.deepcopy(LOGGING_CONFIG)
    config["filters"] = {"request_id": {"()": WithRequestId}}
    config["handlers"]["access"]["filters"] = ["request_id"]
    config["formatters"]["access"]["fmt"] += " %(request_id)s"
    return config
