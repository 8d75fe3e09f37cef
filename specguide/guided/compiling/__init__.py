"""Owns how guides are compiled: which library, on which thread or in which process, under which
limits."""
