"""JSON Schema: read in any draft, freed of negations, rewritten into the core that grammar backends
enforce, checked keyword by keyword.

Begin with `cores`, which has the way of a schema through the passes, each in a folder: `negation`,
`lowering`, `merging` and `pruning`. They go from a `document` to the `core`; `judging` answers what
they ask of schemas as given, and `places` is what guards are told. What stands here serves several.
"""
