"""A JSON Schema as the user wrote it: a document with places, references and a draft.

Begin with `document`. `shapes` checks the values of keywords, and `cycles` finds references that
lead back to themselves.
"""
