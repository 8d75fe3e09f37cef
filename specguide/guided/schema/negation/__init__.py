"""Owns the first pass over JSON Schemas: what takes the place of their negations."""
