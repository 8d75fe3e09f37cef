"""Guides, and texts that they allow.

`real_text` has real-world schemas with instances, and `walks` goes through a grammar at random.
`written_outputs` writes outputs of which each part is known. `compile_clock` times a compile.
"""
