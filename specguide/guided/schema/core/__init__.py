"""The core: the part of JSON Schema that grammar backends enforce.

Begin with `nodes`, of which a core schema is made. `keywords` gives the keywords of a node, and
`walk` visits all nodes. `capabilities` describes what a backend enforces, and `enforce` compares a
core schema with that. `emit` writes a core schema as the JSON that a library reads.
"""
