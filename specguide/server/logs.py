"""Owns what the server's log lines look like."""

from __future__ import annotations

import copy
import logging
from typing import Any

from uvicorn.config import LOGGING_CONFIG

from specguide.request import EXTERNAL_ID


class AddsExternalId(logging.Filter):
    """Gives each record the name of the request in whose context it was made; "-": in none."""

    def filter(self, record: logging.LogRecord) -> bool:
        """True, always."""
        record.external_id = EXTERNAL_ID.get() or "-"
        return True


def log_config() -> dict[str, Any]:
    """uvicorn's own, with the request's id at the end of each line of its access log; as
    logging.config.dictConfig takes it."""
    config: dict[str, Any] = copy.deepcopy(LOGGING_CONFIG)
    config["filters"] = {"external_id": {"()": AddsExternalId}}
    config["handlers"]["access"]["filters"] = ["external_id"]
    config["formatters"]["access"]["fmt"] += " %(external_id)s"
    return config
