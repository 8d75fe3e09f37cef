"""From a body to a task, the same for all APIs.

Begin with `task`, which every parser makes, and `events`, which the run of a task produces.
`backend` gives parsers access to the engine. `conversation` makes a task of a conversation:
`messages`, `tools` and `reasoning` read its parts, and `prompt` renders them with the chat
template. `guides` makes the guide of the output, and `tool_choice` determines which tools it may
call. `schemas` and `strict` check and change JSON schemas before they are compiled.
"""
