"""The memory and processor time of processes, as the kernel counts them."""

import contextlib
import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def family(*roots: int, names: str = "") -> list[int]:
    """The processes among `roots` (by default this one) and all below them whose names begin with `names`."""
    below, found = list(roots or [os.getpid()]), []
    for pid in below:
        with contextlib.suppress(OSError):
            for children in Path(f"/proc/{pid}/task").glob("*/children"):
                below += map(int, children.read_text().split())
            if Path(f"/proc/{pid}/comm").read_text().startswith(names):
                found.append(pid)
    return found


def memory_mb(pids: Iterable[int]) -> float:
    """The memory of these processes together, except this one. What they share is counted once."""
    kilobytes = 0
    for pid in set(pids) - {os.getpid()}:
        with contextlib.suppress(OSError):
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
            kilobytes += sum(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
    return kilobytes / 1024


def worked(*roots: int) -> Counter[str]:
    """The seconds of processor time of the `family` so far, by name."""
    seconds: Counter[str] = Counter()
    for pid in family(*roots):
        with contextlib.suppress(OSError):
            name, _, rest = Path(f"/proc/{pid}/stat").read_text().partition("(")[2].rpartition(")")
            seconds[name] += sum(map(int, rest.split()[11:13])) / TICKS
    return seconds


def shares(before: Counter[str], count: int) -> dict[str, float]:
    """The milliseconds of processor time since `before` for each of `count`, by process name, without zeros."""
    each = {name: (seconds - before[name]) / count * 1000 for name, seconds in worked().items()}
    return {name: round(ms, 3) for name, ms in sorted(each.items(), key=lambda item: -item[1]) if ms >= 0.001}


def shares_of_service(before: Counter[str], count: int) -> dict[str, float]:
    """The same without `python`, which are the clients and receivers."""
    return {name: ms for name, ms in shares(before, count).items() if name != "python"}
