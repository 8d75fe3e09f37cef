"""From a body to a task, the same for all APIs.

Begin with `task`, which every parser makes, and `events`, which are what comes of it. `backend` is
what a parser may ask of the engine. `conversation` makes a task of a conversation: `messages`,
`tools` and `reasoning` read its parts, and `prompt` puts them through the chat template. `guides`
says what the output must match, and `tool_choice` which tools it may call. `schemas` and `strict`
look at JSON schemas before they are compiled.
"""
