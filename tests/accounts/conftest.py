from collections.abc import Iterator

import pytest

from codservice.celery import app


@pytest.fixture
def worker() -> Iterator[None]:
    """What is left to the worker is done at once."""
    app.conf.task_always_eager = True
    yield
    app.conf.task_always_eager = False
