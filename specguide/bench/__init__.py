"""Owns the measurements behind `specguide bench`: servers under load, what speculation gains, what
grammars enforce."""
