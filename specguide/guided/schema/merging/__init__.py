"""The third pass: what holds at once becomes one node.

Begin with `merge`. `clashes` says before what plainly has no instance together; `merge_kinds`
merges nodes for one type of value at a time.
"""
