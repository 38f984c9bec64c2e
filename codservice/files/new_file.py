"""Writing a file that appears only when it is complete."""

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def draft_of(path: Path) -> Path:
    """What is written until the file is complete."""
    return path.with_name(f"{path.name}.part")


@contextmanager
def new_file(path: Path, *, replaces: bool = False) -> Iterator[Path]:
    """Yield the path of a draft that only we can read, which becomes `path` at the end of the block.

    An exception in the block removes the draft. A process that is killed leaves it, and the next one that writes `path`
    clears it away. Raises OSError, and FileExistsError if another process writes `path` at this moment or, unless it
    `replaces` files, if anything has that name, even a link that leads nowhere.
    """
    if not path.name:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    draft = draft_of(path)
    held = _hold(draft)
    try:
        if not replaces and os.path.lexists(path):
            raise _exists(path)
        yield draft
        with draft.open("rb") as written:
            os.fsync(written.fileno())
        draft.replace(path)
        _keep_name(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    finally:
        os.close(held)


def _hold(draft: Path) -> int:
    """Make the draft, locked until the returned descriptor is closed, at the latest when this process ends."""
    with suppress(FileNotFoundError):
        left = os.open(draft, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        try:
            _lock(left, draft)
            draft.unlink()
        finally:
            os.close(left)
    held = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    _lock(held, draft)
    return held


def _lock(file: int, draft: Path) -> None:
    """Lock the open file. Raises FileExistsError if another process has locked or replaced it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_still_there = os.path.samestat(os.fstat(file), draft.lstat())
    except (BlockingIOError, FileNotFoundError):
        is_still_there = False
    if not is_still_there:
        raise _exists(draft)


def _exists(path: Path) -> FileExistsError:
    return FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))


def _keep_name(path: Path) -> None:
    """Write the folder to the disk. Otherwise the file may be gone after a power failure, although we reported it."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
