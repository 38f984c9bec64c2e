"""The workers of this machine by their tokens: who has died, however suddenly, and left its claims behind.

Each holds a lock on a file of its name. The system lets go of the lock when the process ends, and at nothing else, so a
file that can be locked tells of a worker that is dead. Where files do not outlive it, as in a container whose /tmp is
made anew, nothing is known of it, and its claims run out.
"""

import contextlib
import fcntl
import hashlib
import os
import tempfile
from pathlib import Path
from typing import IO
from uuid import UUID

from codservice.data_folder import own_folder


class Roster:
    """The workers that deliver from one database, which `database` names."""

    def __init__(self, database: str) -> None:
        digest = hashlib.sha256(database.encode()).hexdigest()[:16]
        # Root's worker and another user's are strangers: neither may look at the other's files.
        self.folder = Path(tempfile.gettempdir()) / f"codservice-workers-{os.geteuid()}-{digest}"

    def enter(self, token: UUID) -> IO[bytes]:
        """Let the others know that `token` lives, until the file that this gives is closed or the process ends.

        Raises CannotStart and OSError when there is no such file to be had.
        """
        own_folder(self.folder)
        partial = self.folder / f"{token}.new"
        file = partial.open("wb")
        fcntl.flock(file, fcntl.LOCK_EX)
        partial.rename(self.folder / str(token))  # locked from the moment on at which others may find it
        return file

    def dead(self) -> list[UUID]:
        """The tokens of those who have entered and are dead, and were not forgotten yet."""
        found = []
        for path in self.folder.iterdir():
            with contextlib.suppress(ValueError, OSError), path.open("rb") as file:  # no token; a lock that is held
                token = UUID(path.name)
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                found.append(token)
        return found

    def forget(self, token: UUID) -> None:
        (self.folder / str(token)).unlink(missing_ok=True)
