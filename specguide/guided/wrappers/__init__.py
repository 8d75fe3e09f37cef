"""Compiled grammars with another one inside: each adds what the grammar of a backend cannot have.

Begin with `keys`, whose guard allows an object's keys in any order, and `key_order`, which makes
the guide for that; `distinct` guards arrays of distinct items. `endings` sees that outputs end in
time, `call_grammar` compiles the arguments of a call when it comes, and `reasoning` puts a section
of free text in front.
"""
