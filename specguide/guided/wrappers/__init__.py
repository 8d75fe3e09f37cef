"""Compiled grammars around another compiled grammar: each adds what a backend's grammar cannot
express.

Begin with `keys`, whose guard allows an object's keys in any order, and `key_order`, which prepares
the guide for it. `distinct` guards arrays of distinct items. `endings` makes outputs end in time,
`call_grammar` compiles the arguments of a call when the call comes, and `reasoning` puts a section
of free text in front.
"""
