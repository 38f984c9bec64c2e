import time
from collections.abc import Iterator
from types import SimpleNamespace

import django_otp.oath
import django_otp.plugins.otp_totp.models
import pytest

from codservice.celery import app


@pytest.fixture
def worker() -> Iterator[None]:
    """Run tasks at once, instead of leaving them to a worker."""
    app.conf.task_always_eager = True
    yield
    app.conf.task_always_eager = False


@pytest.fixture
def lasting_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    """One-time codes that do not expire during the test: the clock that they go by stands still."""
    now = time.time()
    monkeypatch.setattr(django_otp.oath, "time", lambda: now)
    monkeypatch.setattr(django_otp.plugins.otp_totp.models, "time", SimpleNamespace(time=lambda: now))
