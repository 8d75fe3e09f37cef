"""The fourth pass: it removes what has no instance.

Begin with `prune`. If nothing is left of a schema, `contradiction` and `no_value` say why.
"""
