"""The notations in which users write grammars: what is checked and mended before a library reads
one.

Begin with `grammar_form`, which tells EBNF and Lark apart. The modules `ebnf_…` each see to one
thing that libraries read differently, or do not survive. `tag_form` checks structural tags, with
`held_texts` to find texts in others, and `tag_starts` says where JSON begins in one. Lark and
regular expressions, which are read to the end, have folders beside this one.
"""
