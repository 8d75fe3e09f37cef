"""The shapes of drafts, as plain data; `speculation` drafts by them.

Begin with `layout`: where the nodes behind a golden token stand, and how many each iteration makes.
`tree` says a tree's shape as a caller gives it, `tree_layout` how such a tree grows, and `methods`
what a configuration must know of each way to draft.
"""
