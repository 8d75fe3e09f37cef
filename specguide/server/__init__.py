"""Owns what speaks the OpenAI API: tools, and what becomes of them in a model's output."""
