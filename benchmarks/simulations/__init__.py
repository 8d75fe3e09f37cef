"""The real scheduler, and the real routing to replicas, against a clock.

`scheduler` runs the clients of `scheduler_traffic`, and `closed_loop` clients that ask as soon as
they are answered. `replicas` runs those of `replica_traffic` behind routers.
"""
