"""The places of a core schema at which guards enforce what grammars cannot express.

Begin with `distinct`, for arrays of distinct items, and `key_places`, for objects whose keys come
in any order. `spread` writes out the objects that a schema enumerates.
"""
