"""The folder that holds an installation's data: which file lies where, who may own it, how its servers are reached.

Pure functions of the folder, but for those that make and hold one: settings call them, no process is started and
nothing slow is imported. `codservice.onebox` starts the servers that the addresses lead to.
"""

import fcntl
import hashlib
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.parse import quote

from codservice.errors import CannotStart

# sun_path holds 108 bytes on Linux and 104 on macOS, the closing NUL included.
SOCKET_PATH_LIMIT = 100


@dataclass(frozen=True)
class Layout:
    """Paths of one data folder. Pure: the same folder and user always give the same paths."""

    data: Path

    @property
    def cluster(self) -> Path:
        return self.data / "postgres"

    @property
    def secrets(self) -> Path:
        return self.data / "secrets.env"

    @property
    def lock(self) -> Path:
        return self.data / "lock"

    @property
    def runtime(self) -> Path:
        """Folder of the sockets.

        Inside the data folder where a socket's path fits, so that the two are found together. Elsewhere, where a
        comma in it would part two hosts for libpq, and for root (whose servers run as another user that may not
        look into root's folders), a short name derived from the data folder.
        """
        inside = self.data / "run"
        fits = len(os.fsencode(_postgres_socket(inside))) <= SOCKET_PATH_LIMIT and "," not in str(inside)
        if os.geteuid() != 0 and fits:
            return inside
        digest = hashlib.sha256(os.fsencode(self.data)).hexdigest()[:16]
        return Path("/tmp") / f"codservice-{os.geteuid()}-{digest}"  # noqa: S108 - owner is checked, see own_folder

    @property
    def postgres_socket(self) -> Path:
        return _postgres_socket(self.runtime)

    @property
    def valkey_socket(self) -> Path:
        return self.runtime / "valkey" / "valkey.sock"


def _postgres_socket(runtime: Path) -> Path:
    return runtime / "postgres" / ".s.PGSQL.5432"


def is_set(name: str, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether the environment gives a setting, directly or by a file that holds it."""
    return bool(environ.get(name) or environ.get(f"{name}_FILE"))


def data_dir() -> Path:
    """The absolute data folder: `DATA_DIR`, else the user's own folder for application data. Raises `CannotStart`."""
    if chosen := os.environ.get("DATA_DIR"):
        # Neither a unit of systemd nor a file of variables puts a home there or cuts a line's end off, and a new folder
        # of that very name would be no one's wish.
        if chosen.startswith("~") or chosen != chosen.strip():
            raise CannotStart(f"DATA_DIR {chosen!r} must be a path without ~ and without blanks at its ends.")
        return Path(chosen).absolute()
    from platformdirs import user_data_path

    return user_data_path("codservice")


def database_url(data_dir: Path) -> str:
    """URL of the embedded PostgreSQL over `data_dir`, for dj-database-url and libpq alike."""
    # The port only names the socket file; written out so that PGPORT in the environment cannot change it.
    return f"postgresql://codservice@{quote(str(Layout(data_dir).postgres_socket.parent), safe='')}:5432/codservice"


def redis_url(data_dir: Path) -> str:
    """URL of the embedded Valkey over `data_dir`, for redis-py."""
    return f"unix://{quote(str(Layout(data_dir).valkey_socket))}?db=0"


def own_folder(path: Path, *, mode: int = 0o700, owner: int | None = None) -> Path:
    """Make `path` a folder of `owner` (default: us) with exactly `mode`, or refuse.

    A folder or a link that somebody else has put there first, as anyone may in /tmp, is never used.
    """
    owner = os.geteuid() if owner is None else owner
    try:
        os.mkdir(path, 0o700)
        if owner != os.geteuid():
            os.chown(path, owner, -1)
    except FileExistsError:
        pass
    except OSError as error:
        raise CannotStart(f"The folder {path} cannot be made: {error.strerror}.") from error
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != owner:
        raise CannotStart(f"{path} is not a folder of user id {owner}; remove it, or set DATA_DIR to another folder.")
    if stat.S_IMODE(found.st_mode) != mode:
        os.chmod(path, mode)
    return path


def make_data_folder(layout: Layout) -> None:
    """Make the data folder (0700 when it is new) and make sure that it can be written to."""
    try:
        layout.data.parent.mkdir(parents=True, exist_ok=True)
        layout.data.mkdir(mode=0o700, exist_ok=True)
    except FileExistsError as error:
        raise CannotStart(f"DATA_DIR {layout.data} is not a folder.") from error
    except OSError as error:
        raise CannotStart(f"DATA_DIR {layout.data} cannot be made: {error.strerror}.") from error
    if not os.access(layout.data, os.W_OK | os.X_OK):
        raise CannotStart(f"DATA_DIR {layout.data} cannot be written to by user id {os.geteuid()}.")


def hold(layout: Layout) -> IO[str] | None:
    """Make the folder if there is none, and hold it alone until this file is closed, or we end, however we end.

    None: a service holds it.
    """
    make_data_folder(layout)
    try:
        file = layout.lock.open("w")
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return None
    except OSError as error:
        raise CannotStart(f"DATA_DIR {layout.data} cannot be locked: {error.strerror}.") from error
    return file
