"""A server under load: `specguide serve` with the shipped model, and streaming clients that check
all answers.

    python -m benchmarks.load [--seconds 120] [--concurrency 64] [--max-tokens 128]

Server and clients are two processes of this machine. A third of the requests asks for free text, a
third for answers in a JSON schema, a third for tool calls. Each guided request has a schema of its
own, with a marker that no other answer has. Exits with 1 if an answer is refused, lost, invalid or
crossed with another. Prints a table, then one JSON line. To load a server that already runs, or
one of another engine, use `specguide bench serve --url …`.
"""

from __future__ import annotations

import sys
from dataclasses import asdict, replace

from benchmarks.common import argument_parser, emit
from benchmarks.services.process import ServiceProcess
from specguide.bench.config import Load, ServerAddress
from specguide.bench.figures import is_good, table
from specguide.bench.samples import KINDS, built_in
from specguide.bench.serve import Target, measure
from specguide.bench.workload import Workload

_WARM_UP_REQUESTS = 64


def main() -> None:
    """Run the benchmark."""
    parser = argument_parser(__doc__)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("--no-save", action="store_true")
    args = parser.parse_args()
    with ServiceProcess("--max-batch-size", str(args.concurrency)) as service:
        target = Target.reach(ServerAddress(f"{service.url}/v1"))
        workload = Workload(built_in(), dict.fromkeys(KINDS, 1.0), target.model, args.max_tokens)
        measure(
            target, replace(workload, seed=1), Load(args.concurrency, requests=_WARM_UP_REQUESTS)
        )
        measured = measure(target, workload, Load(args.concurrency, args.seconds))
    result = {**asdict(measured.load), **measured.figures}
    print("\n".join(table([result])))
    for fault in measured.faults[:20]:
        print(fault, file=sys.stderr)
    emit("load", vars(args), result, save=not args.no_save)
    raise SystemExit(0 if is_good(result) and not result["refused"] else 1)


if __name__ == "__main__":
    main()
