"""The second pass: it rewrites JSON Schemas into the core.

Begin with `lower`, which visits a schema, and `lowering`, the interface that the rules for keywords
use. The rules are in `scalars`, `arrays`, `objects` and others. `plain` is a short cut for most
schemas.
"""
