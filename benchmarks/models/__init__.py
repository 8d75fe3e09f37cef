"""Models that benchmarks run.

Begin with `llama_8b`: shapes, formats of weights, and functions that make random ones. `qwen3_30b`
has the shapes of a model with experts, and `by_name` has all shapes. `small` makes a smaller model
of the shipped one. `logits` computes the logits of a text, and `expert_use` counts the experts that
a text uses.
"""
