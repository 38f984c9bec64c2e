"""The folder of files in which the processes of a host count for /metrics (prometheus-client's multiprocess mode)."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
_PREFIX = "codservice-counters-"
_LOCK = "lock"  # in the folder: locked as long as a process that uses it lives, for its children inherit the lock


@contextmanager
def folder() -> Iterator[None]:
    """Provide a folder of our own while the block runs, unless the environment names a shared one."""
    if os.environ.get(VARIABLE):
        yield
        return
    _delete_left()
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as made, Path(made, "locking").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        os.rename(file.name, f"{made}/{_LOCK}")  # only now, so that nobody sees it unlocked
        os.environ[VARIABLE] = made
        yield


def _delete_left() -> None:
    """Delete the folders of this user's processes that were killed: in Kubernetes they take a pod's memory."""
    for left in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):  # it is in use, or gone meanwhile
            if left.lstat().st_uid == os.geteuid():
                with (left / _LOCK).open() as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(left)
