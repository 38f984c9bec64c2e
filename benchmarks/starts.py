"""How soon `make run` is ready, from scratch and with existing data, and its memory when idle.

    make bench-starts

It runs in a fresh clone. The first turn fills pip's cache and does not count.
"""

import json
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from benchmarks import command_line, processes, service
from tests.harness.processes import CHECKOUT

TURNS = 3
IDLE = 20.0  # seconds after which it is idle


def main() -> None:
    command_line(__doc__).parse_args()
    rows = [measure() for _ in range(TURNS + 1)][1:]
    first, again, memory = (round(statistics.median(column), 1) for column in zip(*rows, strict=True))
    print(json.dumps({"start_seconds": first, "start_again_seconds": again, "idle_mb": memory}))


def measure() -> tuple[float, float, float]:
    with tempfile.TemporaryDirectory(prefix="codservice-bench-") as folder:
        subprocess.run(["git", "clone", "-q", CHECKOUT, folder], check=True)
        first, _ = start(Path(folder), idle=0.0)
        again, memory = start(Path(folder), idle=IDLE)
    print(f"from nothing {first:.1f} s, again {again:.1f} s, idle {memory:.0f} MB", flush=True)
    return first, again, memory


def start(folder: Path, *, idle: float) -> tuple[float, float]:
    """The seconds from the command until it is ready, and the memory of its processes after some more."""
    running = service.Service(folder / "data")
    began = time.perf_counter()
    with running.started("make", "run", folder=folder):
        seconds = time.perf_counter() - began
        time.sleep(idle)
        return seconds, processes.memory_mb(processes.family())


if __name__ == "__main__":
    main()
