"""PostgreSQL's own programs, with which ours is compared."""

import os
import re
import subprocess
import tempfile
from pathlib import Path

from codservice.onebox.binaries import ServerUser, find_postgres

PROGRAMS = find_postgres(
    major=None, user=ServerUser(os.getuid(), os.getgid()), copies=Path(tempfile.gettempdir())
).folder
CLIENTS = 8  # of pgbench, and of ours


def psql(url: str, sql: str) -> str:
    """What psql prints: a line for each row, with `|` between columns."""
    command = [str(PROGRAMS / "psql"), url, "-XAtqc", sql]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def pgbench(url: str, script: str, seconds: float) -> float:
    """Transactions per second of this script, with CLIENTS clients."""
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as file:
        file.write(script)
        file.flush()
        command = [str(PROGRAMS / "pgbench"), "-n", "-M", "prepared", "-c", str(CLIENTS), "-j", "1"]
        done = subprocess.run(
            [*command, "-T", str(int(seconds)), "-f", file.name, url], check=True, capture_output=True, text=True
        )
    return float(re.search(r"tps = ([0-9.]+)", done.stdout)[1])  # type: ignore[index]
