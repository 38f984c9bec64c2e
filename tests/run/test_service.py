"""The real service, as `make run` starts it."""

import contextlib
import os
import re
import shutil
import signal
import sys
import threading
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from codservice.data_folder import Layout
from codservice.onebox import __main__ as onebox
from codservice.onebox.service import processes
from codservice.run.web import Web
from tests.harness.background import PATIENCE, eventually
from tests.harness.processes import descendants, free_port, is_alive

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def status(service, path: str) -> int:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{service.port}{path}", timeout=PATIENCE) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def named(service, name: str) -> int:
    """Return the first process that `ps` shows as `name`."""
    for pid in descendants(service.popen.pid):
        with contextlib.suppress(OSError):  # it may have ended since
            if Path(f"/proc/{pid}/comm").read_text().strip() == name:
                return pid
    return 0


def test_service_from_nothing_to_its_second_start(run):
    service = run(module="codservice.onebox").wait_until_up()
    assert len(re.findall("password", service.said())) == 1
    assert f"  Data      {service.data} (new)\n" in service.said()
    assert status(service, "/readyz") == 200
    assert status(service, "/api/v1/orders") == 401

    for name in ("cod-web", "cod-worker", "cod-beat", "cod-application"):
        killed = named(service, name)
        os.kill(killed, signal.SIGKILL)
        eventually(lambda name=name, killed=killed: named(service, name) not in (0, killed))
        eventually(lambda: status(service, "/readyz") == 200)

    below = descendants(service.popen.pid)
    assert service.stop() == 0
    assert not [line for pid, line in below.items() if is_alive(pid)]

    # As at boot, behind a proxy with HTTPS: at localhost it now answers 400.
    service = run(module="codservice.onebox", HTTPS="true", ALLOWED_HOSTS="cod.example.dz", TRUSTED_PROXIES="1")
    service.wait_until_up()
    assert "password" not in service.said()
    assert "  Console   https://cod.example.dz/console/\n" in service.said()
    assert f"  Data      {service.data}\n" in service.said()
    assert service.stop() == 0


def test_a_demo_starts_with_its_orders_and_tells_its_password(run):
    """Its data are made by a fork of the process that counts for /metrics, with the counters of that process."""
    service = run(module="codservice.onebox", DEMO="1").wait_until_up()

    assert len(re.findall("the password of each is", service.said())) == 1
    assert "Traceback" not in service.said()
    assert service.query("SELECT count(*) FROM orders_order") == 200
    assert service.stop() == 0


def test_pages_of_a_production_have_their_styles_from_the_first_start_on(run, tmp_path):
    where = {"DJANGO_SETTINGS_MODULE": "tests.harness.patient", "STATIC_ROOT": str(tmp_path / "static")}
    key = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
    service = run(
        module="codservice.onebox", SECRET_KEY="abcde" * 10, ENCRYPTION_KEYS=key, HTTPS="false", **where
    ).wait_until_up()

    with urllib.request.urlopen(f"http://127.0.0.1:{service.port}/console/login/", timeout=PATIENCE) as answer:
        styles = re.findall(r'href="(/static/[^"]+\.css)"', answer.read().decode())

    assert styles
    assert [status(service, path) for path in styles] == [200] * len(styles)
    assert service.stop() == 0


def test_each_thread_of_web_has_room_in_the_database(tmp_path, monkeypatch):
    layout, web = Layout(tmp_path), Web("127.0.0.1", 8000, workers=16, threads=4)
    monkeypatch.delenv("DATABASE_URL")
    monkeypatch.setenv("REDIS_URL", "redis://elsewhere")
    try:
        database, _ = processes(layout, web)
    finally:
        shutil.rmtree(layout.runtime)

    (most,) = re.findall(r"max_connections=(\d+)", " ".join(database.command))
    assert int(most) >= 16 * 4 + 20  # the worker and commands need some too


def test_where_ipv6_is_turned_off_all_addresses_are_asked_at_one_of_ipv4():
    class Here(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"here")

    with HTTPServer(("127.0.0.1", 0), Here) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            assert Web("::", server.server_port, workers=1, threads=1).get("/healthz") == (200, "here")
        finally:
            server.shutdown()
            thread.join()


def test_what_is_not_ready_is_said_with_the_command_that_says_why(tmp_path, monkeypatch, capsys):
    """At HOST=<LAN address>, /readyz does not tell us what is wrong, as it tells no stranger."""
    monkeypatch.setattr(onebox, "PATIENCE_SECONDS", -1.0)
    web = Web("127.0.0.1", free_port(), workers=1, threads=1)
    is_up = onebox._announce(web, Layout(tmp_path))
    assert not is_up()
    said = f"Not ready yet: {web.url}/readyz answers nothing. `manage.py check_service` says more."
    assert said in "".join(capsys.readouterr())
    assert not is_up()
    assert "".join(capsys.readouterr()) == ""


def test_wrong_setting_is_one_sentence(run):
    service = run(module="codservice.onebox", API_RATE_LIMIT="many")
    assert service.wait() == 1
    assert "API_RATE_LIMIT" in service.said()
    assert service.said().count("\n") == 1
