"""An engine that serves: the loop that runs it for as long as requests come, and the ways to it.

`served` says what a server may ask of an engine, wherever that runs; begin there. `loop` has the
engine, and steps it. `async_engine` runs the loop in a thread beside asyncio code. Across processes
`core` runs it, `remote_engine` is what a front has of it, and `core_link`, `wire` and `wire_data`
carry their messages. `stream` and `live` hold what a reader has not read yet. The rooms beside this
one know nothing of it.
"""
