"""The processes of a service: one core with the engine, and fronts that serve HTTP.

Begin with `supervisor`, which starts, watches and ends them, each a `child`. `plans` has the data
with which they are started, and `service_folder` the folder of their sockets. `front` runs in a
front's process: it serves the application on the sockets of `listening`, until `stop` ends it. A
replica and a batch need no fronts: they talk to the core of `core_process` themselves.
"""
