"""The parts that the adapters of grammar libraries share.

Each module of `backends` is a backend, so what several of them use is here. Begin with `to_native`,
by which matchers and vocabularies reach the C++ core, and `self_test`, which a native adapter must
pass. `python_matcher` is used where it does not pass. `schema_numbers` and `whitespace` spell parts
of JSON, alike for all libraries.
"""
