"""The embedded PostgreSQL without the service around it, for a command that needs nothing but the data."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from codservice.data_folder import Layout, hold
from codservice.errors import CannotStart

from .postgres import postgres
from .process import becomes_ready, spawn

START_SECONDS = 600.0  # recovery after a crash may take its time


@contextmanager
def database_of(layout: Layout) -> Iterator[None]:
    """While the block runs, the database answers: that of a running service, else one that is started for the block.

    Makes the data folder and an empty cluster where there are none. Raises CannotStart.
    """
    if (lock := hold(layout)) is None:
        yield
        return
    with lock:
        process = postgres(layout)
        child = spawn(process)
        try:
            if not becomes_ready(process, child, seconds=START_SECONDS):
                raise CannotStart(f"PostgreSQL did not start; {process.log} says why.")
            yield
        finally:
            child.send_signal(process.stop[0][0])
            child.wait()
            shutil.rmtree(layout.runtime, ignore_errors=True)
