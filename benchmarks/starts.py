"""How soon `make run` is ready, from nothing and from its data, and what it holds in memory when nobody asks.

    make bench-starts

In a fresh clone, whose packages are in pip's cache after the first turn, which is not counted.
"""

import json
import os
import signal
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from benchmarks import command_line, service

TURNS = 3
IDLE = 20.0  # seconds after which it is idle


def main() -> None:
    command_line(__doc__).parse_args()
    rows = [measure() for _ in range(TURNS + 1)][1:]
    first, again, memory = (round(statistics.median(column), 1) for column in zip(*rows, strict=True))
    print(json.dumps({"start_seconds": first, "start_again_seconds": again, "idle_mb": memory}))


def measure() -> tuple[float, float, float]:
    with tempfile.TemporaryDirectory(prefix="codservice-bench-") as folder:
        subprocess.run(["git", "clone", "-q", service.CHECKOUT, folder], check=True)
        first, _ = start(Path(folder), idle=0.0)
        again, memory = start(Path(folder), idle=IDLE)
    print(f"from nothing {first:.1f} s, again {again:.1f} s, idle {memory:.0f} MB", flush=True)
    return first, again, memory


def start(folder: Path, *, idle: float) -> tuple[float, float]:
    """Seconds from the command until it is ready, and what its processes hold after some more."""
    running = service.Service(folder / "data", service.free_port())
    began = time.perf_counter()
    with (folder / "said.log").open("w") as said:
        process = subprocess.Popen(
            ["make", "run"], cwd=folder, env=running.environ, stdout=said, stderr=said, start_new_session=True
        )
    try:
        while not running.is_ready():
            if process.poll() is not None:
                raise SystemExit(f"The service did not start:\n{Path(said.name).read_text()}")
            time.sleep(0.02)
        seconds = time.perf_counter() - began
        time.sleep(idle)
        return seconds, service.memory_mb()
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGINT)
            process.wait(60)


if __name__ == "__main__":
    main()
