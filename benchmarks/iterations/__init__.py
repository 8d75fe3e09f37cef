"""Iterations of the engine's executor, without a scheduler: what benchmarks.iteration and
benchmarks.mixed_iterations time.

Begin with `run`, one of the `modes` over a `workload`; `figures` are what its times come to.
`mixed_case` runs iterations in which prompts are computed beside decoding, and `mixed_loop` whole
engines in which these come by themselves.
"""
