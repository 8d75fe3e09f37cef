"""Single kernels and products: calls on inputs of their own, with the bytes that each must move.

Begin with `inputs`; `experts`, `float8` and `int4` have calls with such weights, all at `shapes` of
published models. `checks` compares all kernels with their plain-torch twins, and `tiles` compares
the tiles of one product with each other.
"""
