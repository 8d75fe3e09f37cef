"""The HTTP server: the APIs of OpenAI and Anthropic over an engine, and the processes that serve
them.

Begin with `app`, which puts the application together, and with `apis.api`, which has the three
stages of a request: a body is parsed to a task, the task runs and gives events, and events are
rendered as the answer. `config` is what a server is told. Each folder is a room of its own and says
where to begin: `http` has what all routes have in common, `bodies` the fields of bodies, `tasks`
the first stage, `running` the second, and `apis` what differs between vendors; `playground` is a
page for people. `processes` starts it all, and no other folder imports it.
"""
