"""Guides, and texts that they allow.

`real_text` has real-world schemas with instances, by which `script` says what slots do, and `tasks`
has those of the shipped model. `walks` goes through a grammar at random. `written_outputs` writes
outputs of which each part is known, with `random_json` in them. `compile_clock` times a compile.
"""
