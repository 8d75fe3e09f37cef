"""Owns the certificate of a schema: what its grammar enforces, checked mask by mask against a
validator that knows nothing about grammars."""
