"""The processes of a service: one core with the engine, and fronts that serve HTTP.

Begin with `supervisor`, which starts, watches and ends them, each a `child`. `plans` is what they
are started with, and `service_folder` where they find each other. `front` is what such a process
runs: the application, on the sockets of `listening`, until `stop` ends it. A replica and a batch
need no fronts: they talk to the core of `core_process` themselves.
"""
