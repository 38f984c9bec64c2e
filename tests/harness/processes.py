"""Processes of this machine, and where they are started."""

import contextlib
import secrets
import socket
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
_CLAIMS: list[socket.socket] = []  # kept open


def free_port() -> int:
    """One of those that the system gives to nobody who asks for any, and who might have it before it is listened at.

    Nor is it given to others who ask us, of this and other runs, while this process lives: two services would share it.
    """
    while True:
        port = 20_000 + secrets.randbelow(12_000)
        _CLAIMS.append(claim := socket.socket(socket.AF_UNIX))
        with socket.socket() as probe, contextlib.suppress(OSError):
            claim.bind(f"\0codservice tests: port {port}")  # a name that ends with us (Linux)
            probe.bind(("127.0.0.1", port))
            return port


def is_alive(pid: int) -> bool:
    try:
        # A zombie that nobody collects has ended all the same.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def command_line(pid: int) -> str:
    """What it was started as; empty when it has ended, and while it ends."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    return ""


def descendants(pid: int) -> dict[int, str]:
    """Process ids below `pid` that have not ended, with their command lines."""
    found: dict[int, str] = {}
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # it may end while we look
            for child in map(int, task.read_text().split()):
                if line := command_line(child):
                    found[child] = line
                    found |= descendants(child)
    return found
