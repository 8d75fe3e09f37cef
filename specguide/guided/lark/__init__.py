"""Lark grammars as llguidance reads them: checks, changes to their source, and terms of their
rules."""
