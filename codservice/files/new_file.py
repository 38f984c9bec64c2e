"""Writing a file that appears only when it is complete."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from codservice.data_folder import keep_name
from codservice.stops import stops_wait


def draft_of(path: Path) -> Path:
    """What is written until the file is complete."""
    return path.with_name(f"{path.name}.part")


@contextmanager
def new_file(path: Path, *, replaces: bool = False) -> Iterator[Path]:
    """Yield the path of a draft that only we can read, which becomes `path` at the end of the block.

    An exception in the block removes the draft. A process that is killed leaves it. Raises OSError, and unless it
    `replaces` files, FileExistsError if anything has either name, even a link that leads nowhere. If the draft is
    removed meanwhile, or replaced by another that `replaces`, OSError is raised and that other is left as it is.
    """
    if not path.name:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    draft = draft_of(path)
    if replaces:
        draft.unlink(missing_ok=True)
    ours: int | None = None
    try:
        with stops_wait():
            ours = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        if not replaces and os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        yield draft
        os.fsync(ours)
        if not _is_at(draft, ours):
            raise OSError(errno.ESTALE, "its draft was removed or replaced by another run", str(path))
        draft.replace(path)
        keep_name(path)
    except BaseException:
        if ours is not None and _is_at(draft, ours):
            draft.unlink()
        raise
    finally:
        if ours is not None:
            os.close(ours)


def _is_at(path: Path, file: int) -> bool:
    """Whether `path` names this open file, and not one that was put in its place."""
    try:
        return os.path.samestat(path.lstat(), os.fstat(file))
    except FileNotFoundError:
        return False
