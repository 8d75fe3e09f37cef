"""Models that benchmarks run.

Begin with `llama_8b`: shapes, formats of weights, and what makes random ones; `qwen3_30b` has the
shapes of a model of experts. `logits` has a model read a text, which `expert_use` looks at.
"""
