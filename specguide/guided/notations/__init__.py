"""The notations in which users write grammars: what is checked and repaired before a library reads
one.

Begin with `grammar_form`, which distinguishes EBNF and Lark. Each module `ebnf_…` handles one
construct that libraries read differently, or that crashes them. `tag_form` checks structural tags,
and uses `held_texts` to find texts in others; `tag_starts` finds where JSON begins in one. Lark and
regular expressions, which are parsed in full, have folders beside this one.
"""
