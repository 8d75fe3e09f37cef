"""What measures the project itself: `python -m benchmarks.NAME`, and --help says what it measures.

Each module here is a command, but for `common`: data sets in, one JSON line out, which is kept in
`results/`. The log of measurements, with what did not help, is LOG.md. What commands are made of
stands in folders, none of which imports a command:

- `iterations` runs iterations of the engine's executor without a scheduler.
- `kernel_cases` has the inputs of single kernels, and compares the kernels with their twins.
- `gpu` times what runs on a GPU, and `models` makes models of random weights to run there.
- `baselines` has what an engine can be built of for comparison alone.
- `guides` has guides, and texts that they allow.
- `services` has servers in processes of their own, and `attacks` what hostile clients send them.
- `soaks` puts an engine in this process under load for long, and watches it.
- `simulations` run the real scheduler, or routers, against a clock.
- `reports` makes the lines of docs/results.md of records.
"""
