"""Owns the orders in which the keys of JSON objects may come."""

from __future__ import annotations

KEY_ORDERS = ("schema", "any")
"""Properties in the schema's order, and others behind them; or in any order, each once."""
