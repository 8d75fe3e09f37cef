"""Guided decoding: from a Guide to bitmask rows beside the forward passes.

Begin with `compile`: a guide in, a compiled grammar out. `backend` says what such a grammar is, and
`matcher` what walks it for one request. `select` chooses the backend, `limits` and `budget` refuse
what would take too much, and `finite` and `ends` look at a grammar for the engine. Each folder is a
room of its own:

- `regex`, `schema`, `lark` and `notations` read what guides say, each in its own language.
- `tools` writes the guides of tool calls, and `reading` reads outputs by what their guides fix.
- `known` is what is known of a guide beside its text.
- `backends` has the grammar libraries, and `adapters` what their adapters have in common.
- `wrappers` has grammars around those of a backend, and `compiling` makes it all of a guide.
- `grammar_stream` walks the matchers while tokens come. No other folder imports it.
"""
