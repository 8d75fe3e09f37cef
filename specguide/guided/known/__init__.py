"""Facts about a guide that its text cannot say, since a grammar alone cannot express them. Plain
data, which goes from the writer of a grammar's text to the wrappers of the compiled grammar.

Begin with `keys`: objects that may have their keys in any order. `items` is about arrays of
distinct items, and `call_texts` about calls of many tools.
"""
