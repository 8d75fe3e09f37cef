"""Hostile clients of an API server, and a well-behaved one.

Begin with `bodies`: how requests are written and sent, and those that every server refuses. `kinds`
are well-formed and cost much, and `compiling` is an attack on the compiler of grammars. `neighbour`
is the client whose latency is measured beside them, and `server` what both of them ask.
"""
