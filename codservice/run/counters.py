"""The folder of files in which the processes of a host count for /metrics (prometheus-client's multiprocess mode)."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

VARIABLE = "PROMETHEUS_MULTIPROC_DIR"


@contextmanager
def folder() -> Iterator[None]:
    """Provide a folder of our own while the block runs, unless the environment names a shared one."""
    if os.environ.get(VARIABLE):
        yield
        return
    with tempfile.TemporaryDirectory(prefix="codservice-counters-") as made:
        os.environ[VARIABLE] = made
        yield
