"""A sign of life of processes that answer nobody, worker and beat: `python -m codservice.run.pulse` looks at it.

They write the time to PULSE_FILE each time that their work has come round; what hangs writes nothing more. A worker
whose database is away comes round: it waits for it, which a restart would not shorten. The image names a file, so that
a container's health check knows; elsewhere nothing is written unless PULSE_FILE is set.
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
    """Raises CannotStart where no sign could be written, which would pass for a process that hangs. A full disk may be
    freed."""
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
    """Say that the work has come round; at most once a second. A full disk hinders no work, nor a path gone wrong."""
    global _noted
    now = time.monotonic()
    path = os.environ.get(VARIABLE)
    if not path or now - _noted < REST_SECONDS:
        return
    _noted = now
    with suppress(OSError):
        file = _open(path)
        try:
            os.pwrite(file, b"%020d" % int(now * 1000), 0)  # of one length, so that nobody reads half of it
        finally:
            os.close(file)


def _open(path: str) -> int:
    return os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)


def problem() -> str:
    """What is wrong; empty when there was a sign within MOST_SECONDS. By the host's own clock, which nobody sets."""
    path = os.environ.get(VARIABLE)
    if not path:
        return f"{VARIABLE} names no file to look at"
    try:
        with open(path, "rb") as file:
            age = time.monotonic() - int(file.read(64)) / 1000
    except FileNotFoundError:
        return "no sign of life yet"
    except (OSError, ValueError) as error:
        return f"{path} cannot be read: {error}"
    if 0 <= age <= MOST_SECONDS:
        return ""
    return f"the last sign of life was {age:.0f} s ago" if age > 0 else "the last sign of life is of another start"


if __name__ == "__main__":
    if said := problem():
        sys.exit(f"codservice: {said}")
