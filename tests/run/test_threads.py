"""Whatever would end a process when two threads do it at once is done before there are threads."""

import re
import signal
import subprocess
import sys
from collections.abc import Callable

import msgspec
import pytest

from codservice.wire import converter
from tests.harness.background import PATIENCE
from tests.harness.database import environment
from tests.harness.deliveries import write
from tests.harness.processes import CHECKOUT, free_port
from tests.harness.receivers import Receiver
from tests.harness.source import ROOMS, files_of
from webhooks.models import Webhook

# C owns the environment: `getenv` in one thread and `setenv` in another end the process. Python audits each write.
WATCHED_WORKER = """
import os, runpy, sys, threading
def watch(event, given):
    if event in ("os.putenv", "os.unsetenv") and threading.active_count() > 1:
        os.write(2, b"%r is written beside threads\\n" % (given[0],))
        os._exit(70)
sys.addaudithook(watch)
runpy.run_module("codservice.run.worker", run_name="__main__")
"""


@pytest.mark.django_db(transaction=True)
def test_a_worker_writes_nothing_to_its_environment_beside_threads(
    receiver: Receiver, webhook_to: Callable[..., Webhook]
) -> None:
    write(webhook_to(receiver.url().replace("127.0.0.1", "localhost")), 3)
    worker = subprocess.Popen(
        [sys.executable, "-c", WATCHED_WORKER],
        cwd=CHECKOUT, env=environment(METRICS_PORT=str(free_port())), stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        receiver.wait_for(3)
    finally:
        worker.send_signal(signal.SIGTERM)
        _, said = worker.communicate(timeout=PATIENCE)
    assert worker.returncode == 0, said


def test_a_lookup_ends_while_an_attempt_still_waits() -> None:
    told = subprocess.run(
        [sys.executable, "-c", "import os, django; django.setup(); print(os.environ['RES_OPTIONS'])"],
        cwd=CHECKOUT, env=environment(DJANGO_SETTINGS_MODULE="codservice.settings"),
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert told.stdout.strip() == "timeout:1 attempts:2"


def test_a_converter_knows_its_class_before_it_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    class Line(msgspec.Struct):
        quantity: int

    class Body(msgspec.Struct):
        lines: list[Line]

    convert = converter(Body)
    monkeypatch.setattr("msgspec._utils._get_class_mro_and_typevar_mappings", lambda _: pytest.fail("it asks now"))
    assert convert({"lines": [{"quantity": 2}]}) == Body([Line(2)])


def test_nothing_converts_to_a_class_that_has_still_to_be_looked_at() -> None:
    said = re.compile(r"\bfrom msgspec import .*\bconvert\b|\bmsgspec\.convert\b")
    found = [
        str(path.relative_to(CHECKOUT))
        for room in ROOMS
        for path in files_of(room)
        if said.search(path.read_text(encoding="utf-8"))
    ]
    assert found == ["codservice/wire.py"]
