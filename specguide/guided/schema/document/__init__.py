"""A JSON Schema as it was given: a document with places, references and a draft.

Begin with `document`. `shapes` are what the values of keywords must look like, and `cycles` are
references that lead back to themselves.
"""
