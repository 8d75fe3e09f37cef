"""What benchmarks.report writes: lines of docs/results.md, and their plot.

Begin with `lines`, which has those of each kind of record; those of iterations are in `iterations`.
`records` reads what benchmarks kept, and `plot` draws.
"""
