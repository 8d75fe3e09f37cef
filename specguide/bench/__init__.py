"""Owns the measurements behind `specguide bench`: servers under load, the gain from speculation,
and what grammars enforce."""
