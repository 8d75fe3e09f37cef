"""What a process may take of its machine is what its container may take; how processes end."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from specguide.host import machine
from specguide.host.processes import ended_by

GIB = 1 << 30
Limits = Callable[..., None]


@pytest.fixture
def limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Limits:
    """Have this process be in control groups with such files, of a machine of 8 cores that has 20
    GiB of memory free."""

    def set_limits(groups: str, **files: str) -> None:
        for name, text in files.items():
            file = tmp_path / "groups" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        (tmp_path / "cgroup").write_text(groups)
        (tmp_path / "meminfo").write_text(f"MemFree: 1 kB\nMemAvailable: {20 << 20} kB\n")

    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    monkeypatch.setattr(machine, "_CONTROL_GROUPS", tmp_path / "groups")
    monkeypatch.setattr(machine, "_PROCESS", tmp_path / "cgroup")
    monkeypatch.setattr(machine, "_MEMORY", tmp_path / "meminfo")
    return set_limits


def test_without_limits_it_is_all_that_the_machine_has(limits: Limits) -> None:
    limits("0::/\n")
    assert (machine.num_cores(), machine.free_memory()) == (8, 20 * GIB)
    limits("0::/a/b\n", **{"a/b/cpu.max": "max 100000\n", "a/b/memory.max": "max\n"})
    assert (machine.num_cores(), machine.free_memory()) == (8, 20 * GIB)


@pytest.mark.parametrize("folder", ["", "pod/box/"])
def test_the_limits_of_a_group_and_of_those_around_it_count(limits: Limits, folder: str) -> None:
    """A container sees its own group as the root."""
    limits(
        "0::/pod/box\n",
        **{
            f"{folder}cpu.max": "150000 100000\n",
            f"{folder}memory.max": f"{4 * GIB}\n",
            f"{folder}memory.current": f"{3 * GIB}\n",
            f"{folder}memory.stat": f"anon {GIB}\ninactive_file {2 * GIB}\n",
        },
    )
    assert (machine.num_cores(), machine.free_memory()) == (2, 3 * GIB)


def test_the_least_of_several_limits_counts(limits: Limits) -> None:
    limits("0::/pod/box\n", **{"pod/cpu.max": "100 100\n", "pod/box/cpu.max": "400 100\n"})
    assert machine.num_cores() == 1


def test_groups_of_version_1_have_a_folder_for_each_controller(limits: Limits) -> None:
    limits(
        "3:cpuacct,cpu:/docker/x\n2:memory:/docker/x\n1:name=systemd:/\n0::/\n",
        **{
            "cpu/cpu.cfs_quota_us": "300000\n",
            "cpu/cpu.cfs_period_us": "100000\n",
            "memory/memory.limit_in_bytes": f"{5 * GIB}\n",
            "memory/memory.usage_in_bytes": f"{6 * GIB}\n",
        },
    )
    assert (machine.num_cores(), machine.free_memory()) == (3, 0)
    limits("3:cpu:/\n", **{"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"})
    assert machine.num_cores() == 8


@pytest.mark.parametrize(
    "exit_code, words",
    [
        (3, "ended with exit code 3"),
        (-9, "was ended by SIGKILL"),
        (-40, "was ended by signal 40"),  # a real-time signal, which has no name
    ],
)
def test_how_a_process_has_ended(exit_code: int, words: str) -> None:
    assert ended_by(exit_code) == words
