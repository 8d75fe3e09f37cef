"""Owns the list of grammar backends.

`create_backend(name, vocabulary)` binds a library to a vocabulary; `backend_status(name)` says what is installed.
"""

from specguide.guided.backends.base import Backend, BackendStatus, CompiledGrammar

__all__ = ["Backend", "BackendStatus", "CompiledGrammar"]
