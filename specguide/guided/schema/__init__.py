"""JSON Schema, of any draft: rewritten without negations, lowered to the core that grammar backends
enforce, and checked keyword by keyword.

Begin with `cores`, which runs a schema through the passes, each in its folder: `negation`,
`lowering`, `merging` and `pruning`. Their input is a `document`, their output the `core`. `judging`
answers questions of theirs about subschemas as the user wrote them; `places` finds the arrays and
objects that guards follow. The modules of this folder itself serve several passes.
"""
