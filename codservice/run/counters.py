"""Where the processes of one host count what /metrics tells: prometheus-client's folder of files that they all map."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

VARIABLE = "PROMETHEUS_MULTIPROC_DIR"


@contextmanager
def folder() -> Iterator[None]:
    """A folder of our own while we run, unless the environment names one that others share."""
    if os.environ.get(VARIABLE):
        yield
        return
    with tempfile.TemporaryDirectory(prefix="codservice-counters-") as made:
        os.environ[VARIABLE] = made
        yield
