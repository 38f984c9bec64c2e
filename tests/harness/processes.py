"""Processes of this machine, free ports, and the folder in which processes start."""

import contextlib
import os
import secrets
import socket
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
_CLAIMS: list[socket.socket] = []  # kept open


def free_port() -> int:
    """A free port below those that the system hands out, so that nobody gets it before our service listens.

    While this process lives, no other call gets the same port, in this or another run: two services would share it.
    """
    while True:
        port = 20_000 + secrets.randbelow(12_000)
        _CLAIMS.append(claim := socket.socket(socket.AF_UNIX))
        with socket.socket() as probe, contextlib.suppress(OSError):
            claim.bind(f"\0codservice tests: port {port}")  # an abstract name, which goes with this process (Linux)
            probe.bind(("127.0.0.1", port))
            return port


def is_alive(pid: int) -> bool:
    try:
        # A zombie has ended, even if nobody has collected it yet.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def command_line(pid: int) -> str:
    """The process's command line. Empty when it has ended or is ending."""
    with contextlib.suppress(OSError):
        return os.fsdecode(Path(f"/proc/{pid}/cmdline").read_bytes()).replace("\0", " ")
    return ""


def descendants(pid: int) -> dict[int, str]:
    """The running processes below `pid`, with their command lines."""
    found: dict[int, str] = {}
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # it may end while we look
            for child in map(int, task.read_text().split()):
                if line := command_line(child):
                    found[child] = line
                    found |= descendants(child)
    return found
