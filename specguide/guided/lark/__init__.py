"""Lark as llguidance reads it: the attributes that a grammar has, and the term of a schema."""
