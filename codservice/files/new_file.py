"""A file that is there only when it is whole."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """Gives the path of a draft to write to, readable by us alone, which becomes `path` when the block is over.

    An exception in the block takes it away; who is killed leaves it, as PATH.part. Raises OSError, FileExistsError when
    there is something of either name, such as a link that leads nowhere.
    """
    if not path.name:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    draft = path.with_name(f"{path.name}.part")
    os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))  # while it is there both names are ours
    try:
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        yield draft
        with draft.open("rb") as written:
            os.fsync(written.fileno())
        draft.replace(path)
        _keep_name(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def _keep_name(path: Path) -> None:
    """Write the folder to the disk: else a file that is said to be there may be gone when the machine ends suddenly."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
