"""The places of a core at which guards watch over what grammars cannot say.

Begin with `distinct`, for arrays of distinct items, and `key_places`, for objects whose keys come
in any order; `spread` writes out the objects that a schema lists.
"""
