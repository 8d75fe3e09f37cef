"""The HTTP server: the APIs of OpenAI and Anthropic over an engine, and the processes that serve
them.

Begin with `app`, which builds the application, and with `apis.api`, which has the three stages of a
request: its body is parsed to a task, the task runs and produces events, and the events are
rendered as the answer. `config` has the server's settings. Each folder is a room of its own, whose
first lines say where to begin: `http` has the parts that all routes share, `bodies` the fields of
request bodies, `tasks` the first stage, `running` the second, and `apis` the differences between
vendors; `playground` is a page for people. `processes` starts all of it, and no other folder
imports it.
"""
