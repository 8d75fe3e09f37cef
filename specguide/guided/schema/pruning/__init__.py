"""The fourth pass: what has no instance is taken out.

Begin with `prune`. Where nothing is left of a whole schema, `contradiction` and `no_value` say why.
"""
