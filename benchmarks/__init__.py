"""Measurements of this project: `python -m benchmarks.NAME`; --help says what each one measures.

Each module here except `common` is a command. It reads data sets and prints one JSON line, which is
kept in `results/`. LOG.md is the log of measurements, including changes that did not help. The
folders have the parts of which the commands are made; no folder imports a command:

- `iterations` runs iterations of the engine's executor without a scheduler.
- `kernel_cases` has the inputs of single kernels, and compares the kernels with their twins.
- `gpu` times what runs on a GPU, and `models` makes models of random weights to run there.
- `baselines` has parts of an engine that exist only for comparison.
- `guides` has guides, and texts that they allow.
- `services` has servers in processes of their own, and `attacks` what hostile clients send them.
- `soaks` runs an engine in this process under load for a long time, and watches it.
- `simulations` run the real scheduler, or routers, against a clock.
- `reports` makes the lines of docs/results.md from records.
"""
