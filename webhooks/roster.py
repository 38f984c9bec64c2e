"""The workers of this machine by their tokens, to find those that died, however suddenly, and left claims behind.

Each worker holds a lock on a file named by its token. The system releases the lock only when the process ends, so a
file that can be locked means a dead worker. Where files do not outlive it, as in a container with a new /tmp, nothing
is known of the worker, and its claims run out.
"""

import contextlib
import fcntl
import hashlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, Self
from uuid import UUID

from codservice.data_folder import own_folder


class Roster:
    """The workers that deliver from the database that `database` names."""

    def __init__(self, database: str) -> None:
        digest = hashlib.sha256(database.encode()).hexdigest()[:16]
        # One folder per user: root's workers and another user's may not read each other's files.
        self.folder = Path(tempfile.gettempdir()) / f"codservice-workers-{os.geteuid()}-{digest}"

    @classmethod
    def of(cls, database: Mapping[str, Any]) -> Self:
        """The roster for a database by its settings, as in `connection.settings_dict`."""
        return cls(f"{database['HOST']}:{database['PORT']}/{database['NAME']}")

    def enter(self, token: UUID) -> IO[bytes]:
        """Show that `token` is alive until the returned file is closed or the process ends.

        Raises CannotStart or OSError when the file cannot be created.
        """
        own_folder(self.folder)
        partial = self.folder / f"{token}.new"
        file = partial.open("wb")
        fcntl.flock(file, fcntl.LOCK_EX)
        partial.rename(self.folder / str(token))  # so that it is locked from when others can find it
        return file

    def dead(self) -> list[UUID]:
        """Return the tokens of workers that entered and have died, and are not forgotten yet."""
        found = []
        for path in self.folder.iterdir():
            with contextlib.suppress(ValueError, OSError), path.open("rb") as file:  # not a token; lock is held
                token = UUID(path.name)
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                found.append(token)
        return found

    def forget(self, token: UUID) -> None:
        (self.folder / str(token)).unlink(missing_ok=True)
