"""Guides, and texts that they allow.

`real_text` has real-world schemas with instances, from which `script` makes what slots do. `tasks`
has tasks for the shipped model. `walks` walks through a grammar at random. `written_outputs` writes
outputs whose parts are known, with values of `random_json`. `compile_clock` times a compile.
"""
