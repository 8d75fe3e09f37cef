"""Guided decoding: turns a Guide into a compiled grammar, and fills bitmask rows from it beside the
forward passes.

Begin with `compile`: it takes a guide and gives a compiled grammar. `backend` defines compiled
grammars, and `matcher` defines the grammar state of one request. `select` chooses the backend,
`limits` and `budget` refuse guides that would take too much, and `finite` and `ends` tell the
engine which outputs a grammar has and where one may end. Each folder is a room of its own:

- `regex`, `schema`, `lark` and `notations` read the languages in which guides are written.
- `tools` writes the guides of tool calls, and `reading` reads outputs by their guides.
- `known` has facts about a guide that its text cannot say.
- `backends` has the grammar libraries, and `adapters` has the parts that their adapters share.
- `wrappers` has grammars around those of a backend, and `compiling` runs the compiles.
- `grammar_stream` walks the matchers while tokens come. No other folder imports it.
"""
