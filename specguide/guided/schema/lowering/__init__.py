"""The second pass: JSON Schemas are rewritten into the core.

Begin with `lower`, which goes through a schema, and with `lowering`, which the rules of each
keyword are given: `scalars`, `arrays`, `objects` and others. `plain` is the short way of most
schemas.
"""
