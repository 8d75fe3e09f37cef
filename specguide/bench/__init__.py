"""Owns the measurement of servers of the OpenAI API, this one or another, with a load whose answers are checked."""
