"""What the adapters of grammar libraries have in common.

Each module of `backends` is a backend, so what several of them use is here. Begin with `to_native`,
by which matchers and vocabularies reach the C++ core, and `self_test`, which a native adapter must
pass; `python_matcher` serves where it does not. `schema_numbers` and `whitespace` spell parts of
JSON, the same for every library.
"""
