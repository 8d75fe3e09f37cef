"""Parts of benchmarks.report: the lines of docs/results.md, and their plot.

Begin with `lines`, which has the lines of each kind of record; those of iterations are in
`iterations`. `records` reads the kept results, and `plot` draws.
"""
