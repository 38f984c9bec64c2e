"""The folder that holds an installation's data: where its files are, who may own it, how its servers are reached.

Apart from those that make, keep and lock a folder, these are pure functions of it. Settings call them, so they start no
process and import nothing slow. `codservice.onebox` starts the servers behind the URLs.
"""

import fcntl
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
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
        """The folder of the sockets.

        It is inside the data folder where a socket's path fits, so that the two are found together. Otherwise it has a
        short name derived from the data folder; also if the path has a comma, which separates hosts for libpq, and for
        root, whose servers run as another user that may not enter root's folders.
        """
        inside = self.data / "run"
        fits = len(os.fsencode(_postgres_socket(inside))) <= SOCKET_PATH_LIMIT and "," not in str(inside)
        if os.geteuid() != 0 and fits:
            return inside
        digest = hashlib.sha256(os.fsencode(self.data)).hexdigest()[:16]
        return Path("/tmp") / f"codservice-{os.geteuid()}-{digest}"  # noqa: S108 - owner is checked, see refuse_anothers

    @property
    def postgres_socket(self) -> Path:
        return _postgres_socket(self.runtime)

    @property
    def valkey_socket(self) -> Path:
        return self.runtime / "valkey" / "valkey.sock"


def _postgres_socket(runtime: Path) -> Path:
    return runtime / "postgres" / ".s.PGSQL.5432"


def is_set(name: str) -> bool:
    """Whether the environment has a setting, directly or as the path of a file."""
    return bool(os.environ.get(name) or os.environ.get(f"{name}_FILE"))


def data_dir() -> Path:
    """Return the data folder: `DATA_DIR`, or the user's folder for application data. Raises `CannotStart`.

    The path is absolute and without links, so that a folder's servers are found by whichever path it is reached.
    """
    chosen = os.environ.get("DATA_DIR")
    # Neither systemd units nor files of variables expand ~ or strip line ends, and nobody wants a new folder of that
    # literal name.
    if chosen and (chosen.startswith("~") or chosen != chosen.strip()):
        raise CannotStart(f"DATA_DIR {chosen!r} must be a path without ~ and without spaces around it.")
    path = Path(chosen).absolute() if chosen else _users_folder()
    for each in (path, *path.parents):
        if os.path.islink(each) and not os.path.exists(each):  # such as to a disk that is not mounted
            raise CannotStart(f"DATA_DIR {path}: {each} is a link to {os.path.realpath(each)}, which is not there.")
    return Path(os.path.realpath(path))


def _users_folder() -> Path:
    from platformdirs import user_data_path

    try:
        return user_data_path("codservice")
    except RuntimeError:
        raise CannotStart("DATA_DIR is not set, and this user has no home folder. Set it to a folder.") from None


def database_url(data_dir: Path) -> str:
    """Return the URL of the embedded PostgreSQL of `data_dir`, for dj-database-url and libpq alike.

    Raises CannotStart if somebody else has put the folder of the sockets there, as `redis_url` does.
    """
    refuse_anothers(Layout(data_dir).runtime)
    # The port only names the socket file. It is given so that PGPORT in the environment cannot change it.
    return f"postgresql://codservice@{quote(str(Layout(data_dir).postgres_socket.parent), safe='')}:5432/codservice"


def redis_url(data_dir: Path) -> str:
    """Return the URL of the embedded Valkey of `data_dir`, for redis-py."""
    refuse_anothers(Layout(data_dir).runtime)
    return f"unix://{quote(str(Layout(data_dir).valkey_socket))}?db=0"


def refuse_anothers(path: Path, *, owner: int | None = None) -> None:
    """Raise CannotStart if `path` is anything but a folder of `owner` (default: us) or not there.

    Anyone can make a folder in /tmp. While no service runs there may be one, with servers of somebody else's.
    """
    owner = os.geteuid() if owner is None else owner
    try:
        found = os.lstat(path)
    except OSError:  # not there, or in a folder that we may not enter
        return
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != owner:
        raise CannotStart(
            f"{path} is not a folder owned by user id {owner}. Remove it, or set DATA_DIR to another folder."
        )


def own_folder(path: Path, *, mode: int = 0o700, owner: int | None = None) -> Path:
    """Make `path` a folder of `owner` (default: us) with exactly `mode`, or refuse.

    A folder or a link that somebody else put there first, as anyone can in /tmp, is never used.
    """
    owner = os.geteuid() if owner is None else owner
    try:
        os.mkdir(path, 0o700)
        if owner != os.geteuid():
            os.chown(path, owner, -1)
    except FileExistsError:
        pass
    except OSError as error:
        raise CannotStart(f"The folder {path} cannot be created: {error.strerror}.") from error
    refuse_anothers(path, owner=owner)
    if stat.S_IMODE(os.lstat(path).st_mode) != mode:
        os.chmod(path, mode)
    return path


def make_data_folder(layout: Layout) -> None:
    """Make the data folder (0700 if it is new) and make sure that it is writable."""
    try:
        layout.data.parent.mkdir(parents=True, exist_ok=True)
        layout.data.mkdir(mode=0o700, exist_ok=True)
    except FileExistsError as error:
        raise CannotStart(f"DATA_DIR {layout.data} is not a folder.") from error
    except OSError as error:
        raise CannotStart(f"DATA_DIR {layout.data} cannot be created: {error.strerror}.") from error
    if not os.access(layout.data, os.W_OK | os.X_OK):
        raise CannotStart(f"DATA_DIR {layout.data} is not writable for user id {os.geteuid()}.")


def keep_name(path: Path) -> None:
    """Write the folder that has this name to the disk. Otherwise it may be gone after a power failure."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextmanager
def kept_from_cleaners(layout: Layout) -> Iterator[None]:
    """Keep systemd-tmpfiles from the runtime folder while the block runs.

    Where that is in /tmp, it would delete programs that were not started for ten days. It passes over locked folders.
    """
    try:
        folder = os.open(layout.runtime, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:  # all servers are others'
        yield
        return
    try:
        fcntl.flock(folder, fcntl.LOCK_SH)
        yield
    finally:
        os.close(folder)


def hold(layout: Layout) -> IO[str] | None:
    """Make the folder if needed, and lock it until the returned file is closed or the process ends, however it ends.

    Returns None when a service holds it already.
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
