"""The third pass: it merges conjunctions into single nodes.

Begin with `merge`. `clashes` finds conjunctions without an instance before they are merged;
`merge_kinds` merges the constraints of one type of value at a time.
"""
