from collections.abc import Iterator

import pytest

from codservice.celery import app


@pytest.fixture
def worker() -> Iterator[None]:
    """Run tasks at once, instead of leaving them to a worker."""
    app.conf.task_always_eager = True
    yield
    app.conf.task_always_eager = False
