"""Serving: the loop that steps an engine while requests come, and the ways to reach it.

Begin with `served`, the interface of an engine to a server, wherever the engine runs. `loop` has
the engine, and steps it. `async_engine` runs the loop in a thread beside asyncio code. Across
processes, `core` runs the loop, `remote_engine` is the engine as a front sees it, and `core_link`,
`wire` and `wire_data` carry their messages. `stream` and `live` hold the output that was not read
or sent yet. The rooms beside this one know nothing of it.
"""
