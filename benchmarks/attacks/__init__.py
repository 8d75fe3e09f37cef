"""Hostile clients of an API server, and one that is not.

Begin with `load`: how requests are written and sent, those that every server refuses, and the
client whose latency is measured beside them. `kinds` are well-formed and cost much, and `compiling`
is an attack on the compiler of grammars.
"""
