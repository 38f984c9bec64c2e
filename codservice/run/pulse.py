"""A sign of life of worker and beat, which answer no requests. `python -m codservice.run.pulse` checks it.

They write the time to PULSE_FILE at each round of their work; a process that hangs writes nothing more. A worker whose
database is away still makes rounds: it waits, and a restart would not help. The image sets PULSE_FILE for containers'
health checks; elsewhere nothing is written unless it is set.
"""

import errno
import os
import sys
import time
from contextlib import suppress

from codservice.errors import CannotStart

VARIABLE = "PULSE_FILE"
MOST_SECONDS = 60.0
REST_SECONDS = 1.0  # between two signs

_noted = -REST_SECONDS


def need_file() -> None:
    """Raises CannotStart if the file cannot be written, which would look like a process that hangs.

    A full disk is no reason, since it may be freed."""
    path = os.environ.get(VARIABLE)
    if not path:
        return
    is_new = not os.path.lexists(path)
    try:
        os.close(_open(path))
        if is_new:
            os.unlink(path)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise CannotStart(f"{VARIABLE} {path} cannot be written: {(error.strerror or '').lower()}.") from error


def note() -> None:
    """Note a round of work, at most once a second. A full disk or a bad path does not disturb the work."""
    global _noted
    now = time.monotonic()
    path = os.environ.get(VARIABLE)
    if not path or now - _noted < REST_SECONDS:
        return
    _noted = now
    with suppress(OSError):
        file = _open(path)
        try:
            os.pwrite(file, b"%020d" % int(now * 1000), 0)  # a fixed length, so that nobody reads half of it
        finally:
            os.close(file)


def _open(path: str) -> int:
    return os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)


def problem() -> str:
    """Describe what is wrong; empty if there was a sign within MOST_SECONDS. Uses the host's monotonic clock."""
    path = os.environ.get(VARIABLE)
    if not path:
        return f"{VARIABLE} is not set"
    try:
        with open(path, "rb") as file:
            age = time.monotonic() - int(file.read(64)) / 1000
    except FileNotFoundError:
        return "no sign of life yet"
    except (OSError, ValueError) as error:
        return f"{path} cannot be read: {error}"
    if 0 <= age <= MOST_SECONDS:
        return ""
    return (
        f"the last sign of life was {age:.0f} s ago"
        if age > 0
        else "the last sign of life is from before the host restarted"
    )


if __name__ == "__main__":
    if said := problem():
        sys.exit(f"codservice: {said}")
