"""Batches: files of requests, which the application answers as it would over HTTP.

Begin with `run`, which has the engine's process and the requests under way; `lines` defines the
lines of such a file.
"""
