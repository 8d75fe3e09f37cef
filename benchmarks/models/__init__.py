"""Models that benchmarks run.

Begin with `llama_8b`: shapes, formats of weights, and what makes random ones; `qwen3_30b` has the
shapes of a model of experts, and `by_name` all of them. `small` makes a smaller one of the shipped
model. `logits` has a model read a text, and `expert_use` counts the experts that it needs for that.
"""
