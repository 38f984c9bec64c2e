"""Reports of refused rows: a file's own columns after two that say where and why, to be corrected and read again."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from codservice.files.new_file import draft_of, new_file
from codservice.files.safe_csv import BOM, SafeWriter
from codservice.files.tables import Row, Table

ADDED = ("line", "refused")  # columns that a report adds to the file's own


def is_of_report(cells: Mapping[str, str]) -> bool:
    """Whether a row comes from a report, which may lack rows that preceded it in the file."""
    return all(name in cells for name in ADDED)


def why_not_at(path: Path, file: Path) -> str:
    """Why a report about `file` cannot be written to `path`, or an empty string.

    It would replace a folder, a pipe, a device or the file that is read.
    """
    try:
        if path.exists() and not path.is_file():
            return f"--report: {path} already exists and is not a file."
        if path.exists() and file.exists() and path.samefile(file):
            return "--report must not be the file that is read."
        draft = draft_of(Path(os.path.realpath(path)))
        if draft.exists() and file.exists() and draft.samefile(file):
            return f"--report is first written to {draft}, which is the file that is read. Choose another name."
    except OSError as error:
        return f"{path} cannot be used: {error.strerror}."
    return ""


@contextmanager
def written(path: Path | None, table: Table) -> Iterator[Callable[[Row, str], None]]:
    """Yield a function that adds a row of `table` and a reason to the report at `path`, or does nothing without a path.

    The report replaces an earlier one only when it is complete, and an exception leaves none behind. A symbolic link
    stays, and its target is written. Raises OSError.
    """
    if path is None:
        yield lambda row, reason: None
        return
    columns = [
        (title, name) for title, name in zip(table.header, table.names, strict=True) if name and name not in ADDED
    ]
    with (
        new_file(Path(os.path.realpath(path)), replaces=True) as draft,
        draft.open("w", encoding="utf-8", newline="") as file,
    ):
        file.write(BOM)
        writer = SafeWriter(file, table.delimiter)
        writer.write([*ADDED, *(title for title, _ in columns)])
        yield lambda row, reason: writer.write(
            [row.line, reason, *(row.cells.get(name) for _, name in columns), *row.surplus]
        )
