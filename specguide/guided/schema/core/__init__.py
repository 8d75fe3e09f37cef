"""The core: the part of JSON Schema that grammar backends enforce, and what is asked of it.

Begin with `nodes`, which it is made of; `keywords` says which keywords they stand for, and `walk`
leads through them. `capabilities` is what a backend can do with a core, and `enforce` asks whether
that is enough. `emit` writes one as the JSON that a library reads.
"""
