"""What `kill -9` does to `specguide serve` under load: fronts, and then the core, are killed over
and over, while clients compare each answer with the right one for its prompt.

    python -m benchmarks.kills [--times N] [-- OPTIONS OF SERVE]

Exits with 1 if an answer was wrong or crossed, if a request of a living front failed, if a new core
took more than 2 s longer to be ready than the first one, or if processes or descriptors of killed
ones are left. It also prints the CPU seconds that a core takes until it is ready, since the elapsed
time depends on the machine's other work.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from functools import partial
from typing import Any

from benchmarks.common import argument_parser, emit
from benchmarks.services.checked_clients import CheckedClients, is_ready, references
from benchmarks.services.process import CORE, ServiceProcess, cpu_s, num_in_group, wait_for

_SLACK_S = 2.0
_LONGEST_S = 300.0
_ANSWERS = 12
"""Between two kills."""


def kill_fronts(service: ServiceProcess, load: CheckedClients, times: int) -> None:
    """Kills the fronts, one after another."""
    for _ in range(times):
        service.kill_front()
        load.go_on(_ANSWERS)


def kill_cores(
    service: ServiceProcess, load: CheckedClients, times: int
) -> tuple[list[float], list[float]]:
    """One after another. Returns the seconds until each was followed by one that is ready, and
    those of CPU that this one took."""
    took_s: list[float] = []
    took_cpu_s: list[float] = []
    for _ in range(times):
        since_s, num_before = time.monotonic(), service.errors.count("serving again")
        service.kill_core()
        wait_for(partial(_is_back, service, num_before), _LONGEST_S)
        took_s.append(time.monotonic() - since_s)
        took_cpu_s.append(cpu_s(service.process.pid, CORE))
        load.go_on(_ANSWERS)
    return took_s, took_cpu_s


def _is_back(service: ServiceProcess, num_before: int) -> bool:
    return service.errors.count("serving again") > num_before and is_ready(service.url)


def left(service: ServiceProcess) -> dict[str, int]:
    """What there is of processes, and of the supervisor's descriptors."""
    states = num_in_group()
    descriptors = os.listdir(f"/proc/{service.process.pid}/fd")
    return {"alive": states["alive"], "zombies": states["Z"], "descriptors": len(descriptors)}


def measure(service: ServiceProcess, times: int, num_clients: int) -> dict[str, Any]:
    """Figures of a service that is being started."""
    since_s = time.monotonic()
    service.wait_until_ready()
    start_s = time.monotonic() - since_s
    start_cpu_s = cpu_s(service.process.pid, CORE)
    expected, before = references(service.url), left(service)
    with CheckedClients(service, expected, num_clients) as fronts:
        kill_fronts(service, fronts, times)
    with CheckedClients(service, expected, num_clients) as cores:
        recovery_s, recovery_cpu_s = kill_cores(service, cores, times)
    return {
        "start_s": round(start_s, 2),
        "recovery_s": [round(one, 2) for one in sorted(recovery_s)],
        "start_cpu_s": round(start_cpu_s, 2),
        "recovery_cpu_s": [round(one, 2) for one in sorted(recovery_cpu_s)],
        "before": before,
        "after": left(service),
        "wrong": len(fronts.wrong) + len(cores.wrong),
        "statuses_while_fronts_die": Counter(fronts.statuses),
        "statuses_while_cores_die": Counter(cores.statuses),
    }


def is_good(result: dict[str, Any], times: int, num_clients: int) -> bool:
    """A front takes no more along than the connections that there are."""
    fronts = result["statuses_while_fronts_die"]
    return (
        not result["wrong"]
        and set(fronts) <= {0, 200}
        and fronts[0] <= times * num_clients
        and set(result["statuses_while_cores_die"]) <= {200, 503}
        and all(result["after"][name] <= number for name, number in result["before"].items())
        and max(result["recovery_s"]) <= result["start_s"] + _SLACK_S
    )


def main() -> None:
    """Run the benchmark."""
    parser = argument_parser(__doc__)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--no-save", action="store_true")
    parser.add_argument("options", nargs="*", help="of serve, behind --")
    args = parser.parse_args()
    fixed = ("--api-servers", "2", "--restart", "--served-model-name", "small")
    service = ServiceProcess(*fixed, *args.options)
    try:
        result = measure(service, args.times, args.clients)
    finally:
        service.process.kill()
    for name, value in result.items():
        print(f"{name:28} {value}")
    emit("kills", vars(args), result, save=not args.no_save)
    raise SystemExit(0 if is_good(result, args.times, args.clients) else 1)


if __name__ == "__main__":
    main()
