"""Owns the running of compiles: which library, on which thread or in which process, under which
limits."""
