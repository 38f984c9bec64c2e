"""The folder of files in which the processes of a host count for /metrics (prometheus-client's multiprocess mode)."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from codservice.errors import CannotStart

VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
_PREFIX = "codservice-counters-"
_LOCK = "lock"  # in the folder: locked as long as a process that uses it lives, for its children inherit the lock


@contextmanager
def folder() -> Iterator[None]:
    """Provide a folder of our own while the block runs, unless the environment names a shared one.

    Raises `CannotStart` where none can be made."""
    if os.environ.get(VARIABLE):
        yield
        return
    with ExitStack() as stack:
        try:
            _delete_left()
            made = stack.enter_context(tempfile.TemporaryDirectory(prefix=_PREFIX))
            file = stack.enter_context(Path(made, "locking").open("w"))
            fcntl.flock(file, fcntl.LOCK_EX)
            os.rename(file.name, f"{made}/{_LOCK}")  # only now, so that nobody sees it unlocked
        except OSError as error:
            raise CannotStart(
                f"No folder for temporary files can be used ({error.strerror}). Free some space, or set TMPDIR."
            ) from error
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
