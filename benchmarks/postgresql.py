"""PostgreSQL's own programs, beside which ours is measured."""

import os
import re
import subprocess
import tempfile
from pathlib import Path

from codservice.onebox.binaries import ServerUser, find_postgres

PROGRAMS = find_postgres(
    major=None, user=ServerUser(os.getuid(), os.getgid()), copies=Path(tempfile.gettempdir())
).folder
CLIENTS = 8  # of pgbench, and of ours beside it


def psql(url: str, sql: str) -> str:
    """What it prints: a line for each row, `|` between columns."""
    command = [str(PROGRAMS / "psql"), url, "-XAtqc", sql]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def pgbench(url: str, script: str, seconds: float) -> float:
    """Transactions of this script a second, by `CLIENTS` clients."""
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as file:
        file.write(script)
        file.flush()
        command = [str(PROGRAMS / "pgbench"), "-n", "-M", "prepared", "-c", str(CLIENTS), "-j", "1"]
        done = subprocess.run(
            [*command, "-T", str(int(seconds)), "-f", file.name, url], check=True, capture_output=True, text=True
        )
    return float(re.search(r"tps = ([0-9.]+)", done.stdout)[1])  # type: ignore[index]
