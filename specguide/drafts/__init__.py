"""The shapes of drafts, as plain data; `speculation` drafts by them.

Begin with `layout`: the draft layout, which nodes there are behind a golden token. `tree` has the
shapes of trees that a caller can ask for, `tree_layout` how a tree is drafted step by step, and
`methods` what a configuration must know of each method.
"""
