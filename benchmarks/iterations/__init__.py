"""Iterations of the engine's executor, without a scheduler, for benchmarks.iteration and
benchmarks.mixed_iterations.

Begin with `run`, which runs one of the `modes` over a `workload`; `figures` makes figures of its
times. `mixed_case` runs iterations in which prompts are computed beside decoding, and `mixed_loop`
whole engines in which such iterations occur by themselves.
"""
