"""A table of loads: `specguide serve` of a checkpoint folder under each load of a list.

    python -m benchmarks.serve_table [FOLDER] [--concurrency 1,16,64,128] [--rounds 3]
        [--prompt-len 512] [--output-len 128] [--prompt-ids 1000:127000] [--processes 4]
        [--loads free,chat,guided,mixed] [--out table.jsonl] [-- OPTIONS OF serve …]

Starts the server on a free port, waits until it is ready, and puts it under each load as `specguide
bench serve` does: completions and chat, free, guided by one schema, and one in five guided. Prints
a table for each, then one JSON line. Exits with 1 where an answer was lost or wrong. A chat
template may show the schema: guided prompts of the shipped model take `--prompt-len 1856`.

Random weights never agree with a draft head: `-- --head HEAD --synthetic-acceptance 2.67` accepts
as many drafts as are asked for.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from benchmarks.common import argument_parser, emit
from benchmarks.services.process import ServiceProcess
from specguide.bench.config import Load, RequestSizes, ServerAddress
from specguide.bench.figures import is_good, table
from specguide.bench.serve import Target, fitted, measure

LOADS: dict[str, dict[str, Any]] = {
    "free": {"api": "completions"},
    "chat": {"api": "chat"},
    "guided": {"api": "chat", "guided_share": 1.0},
    "mixed": {"api": "chat", "guided_share": 0.2},
}
_WARM_UP_LEN = 24


def measured(
    target: Target, sizes: RequestSizes, args: argparse.Namespace, first_seed: int
) -> list[dict[str, Any]]:
    """Figures of one load at each number of clients. Connections, kernels and the grammar are there
    before any is timed."""
    rows = []
    workload = fitted(target, sizes, first_seed)
    for index, clients in enumerate(map(int, args.concurrency.split(","))):
        load = Load(clients, rounds=args.rounds, processes=args.processes)
        short = replace(sizes, output_len=min(_WARM_UP_LEN, sizes.output_len))
        seed = first_seed + 2 * index
        measure(target, replace(workload, sizes=short, seed=seed), replace(load, rounds=1))
        found = measure(target, replace(workload, seed=seed + 1), load)
        rows.append({**asdict(load), **found.figures})
    return rows


def main() -> None:
    """Run the benchmark."""
    parser = argument_parser(__doc__)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--concurrency", default="1,16,64,128")
    parser.add_argument("--rounds", type=int, default=3, help="requests of each client")
    parser.add_argument("--prompt-len", type=int, default=512)
    parser.add_argument("--output-len", type=int, default=128)
    parser.add_argument("--prompt-ids", help="LO:HI, token ids of completions' prompts")
    parser.add_argument("--processes", type=int, default=4, help="of clients")
    parser.add_argument("--loads", default=",".join(LOADS))
    parser.add_argument("--out", type=Path, help="write the JSON line there too")
    words = sys.argv[1:]
    split = words.index("--") if "--" in words else len(words)
    args = parser.parse_args(words[:split])
    model = [] if args.folder is None else [str(args.folder)]
    found: dict[str, list[dict[str, Any]]] = {}
    with ServiceProcess(*model, *words[split + 1 :]) as service:
        target = Target.reach(ServerAddress(f"{service.url}/v1"))
        for number, name in enumerate(args.loads.split(",")):
            sizes = RequestSizes(
                args.prompt_len, args.output_len, prompt_ids=args.prompt_ids, **LOADS[name]
            )
            found[name] = measured(target, sizes, args, 1000 * number)
            print("\n".join((name, *table(found[name]))), flush=True)
    config = {name: str(value) for name, value in vars(args).items()}
    config["serve_options"] = " ".join(words[split + 1 :])
    if args.out is not None:
        args.out.write_text(json.dumps({"config": config, "loads": found}) + "\n")
    emit("serve_table", config, found, save=False)
    raise SystemExit(0 if all(is_good(row) for rows in found.values() for row in rows) else 1)


if __name__ == "__main__":
    main()
