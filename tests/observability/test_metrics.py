"""/metrics sums the counts of all processes of a host, asks the database little, and answers only who may ask."""

import json
import os
import pickle
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from datetime import timedelta
from pathlib import Path
from smtplib import SMTPRecipientsRefused, SMTPSenderRefused
from typing import Any
from wsgiref.simple_server import make_server

import pytest
import redis
import yaml
from django.conf import settings as django_settings
from django.core.cache import cache
from django.db import connection
from django.utils import timezone

from codservice import mails, metrics
from codservice.celery import app
from codservice.errors import CannotStart
from codservice.operations import duties
from codservice.run import counters
from orders import metrics as orders_metrics
from orders.models import Order
from tests.factories import AccountFactory, make_order, order_body
from tests.harness.background import PATIENCE, eventually
from tests.harness.client import new_key
from tests.harness.database import environment
from tests.harness.deliveries import write
from tests.harness.disk import needs_root, small_disk
from tests.harness.processes import CHECKOUT, free_port
from tests.harness.python import run_python
from tests.harness.receivers import answer, hang
from tests.observability.part import figures_in
from webhooks import queue
from webhooks.models import Claim, Delivery, Webhook

ORDERS = "/api/v1/orders"
OPERATIONS = django_settings.BASE_DIR / "docs/operations"


def figures(client: Any, **kwargs: Any) -> dict[str, float]:
    answer = client.get("/metrics", **kwargs)
    assert answer.status_code == 200, answer.content
    return figures_in(answer.content.decode())


# --- Several processes ---------------------------------------------------------------------------------------------


def test_whichever_process_is_asked_it_tells_of_all(start, receiver):
    receiver.behaviours |= {"/fails": answer("500 Oops"), "/hangs": hang}
    web, worker = start("web", WEB_WORKERS="2"), start("worker", module="tests.observability.patient")
    key = new_key(AccountFactory(rate_limit=1000))
    limited = new_key(AccountFactory(rate_limit=2))
    for _ in range(20):
        assert web.send("POST", ORDERS, order_body(), key=key).status == 201
    for path in ("/nowhere", "/else/where", "/api/v1/nothing", "/static/nothing.css"):
        web.send("GET", path)
    web.send("PROPFIND", "/nowhere")
    statuses = list[int]()
    while statuses.count(429) < 3:  # a minute may end in between
        statuses.append(web.send("GET", ORDERS, key=limited).status)
        assert len(statuses) < 20
    for path in ("/", "/fails", "/hangs"):
        body = {"url": receiver.url(path), "events": ["order.cancelled"]}
        assert web.send("POST", "/api/v1/webhooks", body, key=key).status == 201
    order = web.send("POST", ORDERS, order_body(), key=key).json()["id"]
    assert web.send("POST", f"{ORDERS}/{order}/cancel", key=key).status == 200

    attempts = 'codservice_delivery_attempts_total{outcome="%s"}'
    eventually(
        lambda: (
            {attempts % "delivered", attempts % "status"} <= (told := worker.metrics()).keys()
            and told["codservice_sends_in_flight"] == 1
        )
    )
    for _ in range(6):
        told = web.metrics()
        assert told['codservice_http_requests_total{method="POST",route="api/v1/orders",status="201"}'] == 21
        assert told['codservice_http_request_duration_seconds_count{method="POST",route="api/v1/orders"}'] == 21
    assert told['codservice_http_requests_total{method="GET",route="unmatched",status="404"}'] == 2
    assert told['codservice_http_requests_total{method="other",route="unmatched",status="404"}'] == 1
    assert told['codservice_http_requests_total{method="GET",route="static",status="404"}'] == 1
    assert told['codservice_rate_limit_refusals_total{limit="api-key"}'] == statuses.count(429)
    assert told['codservice_events_total{kind="order.cancelled"}'] == 1
    assert told['codservice_delivery_attempts_total{outcome="delivered"}'] == 1
    assert told['codservice_delivery_attempts_total{outcome="status"}'] == 1
    assert told["codservice_claims"] >= 1
    assert told["codservice_sends_in_flight"] == 1
    assert not [series for series in told if "healthz" in series or "metrics" in series]

    os.kill(worker.popen.pid, signal.SIGKILL)
    worker.popen.wait()
    told = web.metrics()
    assert "codservice_sends_in_flight" not in told or told["codservice_sends_in_flight"] == 0
    assert told['codservice_delivery_attempts_total{outcome="delivered"}'] == 1, "what it counted has happened"


COUNTS = """
import os, sys
from codservice.run import counters
with counters.folder():
    print(os.environ[counters.VARIABLE], flush=True)
    sys.stdin.read()
"""


def test_the_counters_of_a_process_that_was_killed_are_deleted_by_the_next(tmp_path):
    environ = os.environ | {"PROMETHEUS_MULTIPROC_DIR": "", "TMPDIR": str(tmp_path)}
    of_older_version = tmp_path / "codservice-counters-older"  # without a lock, whether it is used or not
    of_older_version.mkdir()
    with ExitStack() as stack:

        def started() -> tuple[subprocess.Popen[bytes], Path]:
            process = subprocess.Popen(
                [sys.executable, "-c", COUNTS],
                cwd=CHECKOUT, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            )  # fmt: skip
            stack.enter_context(process)
            return process, Path(process.stdout.readline().decode().strip())

        (killed, left), (_, used) = started(), started()
        assert {*tmp_path.iterdir()} == {left, used, of_older_version}
        killed.kill()
        killed.wait()
        _, new = started()
        assert {*tmp_path.iterdir()} == {used, new, of_older_version}
    assert {*tmp_path.iterdir()} == {of_older_version}


def test_where_no_folder_for_counters_can_be_made_it_is_a_sentence(tmp_path, monkeypatch):
    monkeypatch.delenv(counters.VARIABLE, raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(CannotStart, match=r"\(No such file or directory\)\. Free some space, or set TMPDIR\.$"):
        counters.folder().__enter__()
    assert counters.VARIABLE not in os.environ


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("command", ["manage.py deliveries --limit 1", "-m codservice.run.prepare"])
def test_what_commands_do_is_not_counted_and_leaves_no_file(tmp_path, command):
    folder = tmp_path / "counters"
    environ = environment(PROMETHEUS_MULTIPROC_DIR=str(folder))
    done = run_python(*command.split(), env=environ)
    assert done.returncode == 0, done.stderr
    assert not folder.exists()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("module", ["web", "worker"])
def test_a_folder_of_counters_that_cannot_be_used_is_a_sentence(tmp_path, module):
    folder = tmp_path / "counters"
    folder.write_text("")
    environ = environment(PROMETHEUS_MULTIPROC_DIR=str(folder), PORT=str(free_port()))
    done = run_python("-m", f"codservice.run.{module}", env=environ)
    said = f"codservice: PROMETHEUS_MULTIPROC_DIR {folder} cannot be used: File exists.\n"
    assert (done.returncode, done.stderr) == (1, said)


COUNTING = """
import os, sys
vars(os).pop("memfd_create", None)  # which Pythons that are built for any Linux lack
from django.conf import settings
settings.configure(STATIC_URL="/static/", METRICS_TOKEN="")
from codservice import metrics
def count(numbers):
    for number in numbers:
        metrics.count_request("GET", f"route/{number}", 200, 0.01)
count(range(10))
print("counted", flush=True)
sys.stdin.readline()
count(range(2000))
if os.fork() == 0:
    count(range(2000))
    os._exit(7)
print(os.waitstatus_to_exitcode(os.wait()[1]))
"""


@needs_root
def test_a_full_disk_ends_no_process_that_counts(tmp_path, monkeypatch):
    """Neither a process that needs more room for its counters, nor one that starts then."""
    with small_disk(tmp_path / "disk", 2) as disk:
        folder = disk.folder / "counters"
        environ = os.environ | {"PROMETHEUS_MULTIPROC_DIR": str(folder)}
        with subprocess.Popen(
            [sys.executable, "-c", COUNTING], cwd=django_settings.BASE_DIR, env=environ, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        ) as counting:  # fmt: skip
            assert counting.stdout.readline() == "counted\n"
            assert max(file.stat().st_size for file in folder.iterdir()) <= 64 << 10  # they outlive it
            disk.fill()
            assert counting.communicate("go\n", timeout=PATIENCE)[0] == "7\n"
        assert counting.returncode == 0
        monkeypatch.setattr(metrics, "_FOLDER", str(folder))
        _, _, told = metrics._tell({"REMOTE_ADDR": "127.0.0.1"})
    assert b'codservice_http_requests_total{method="GET",route="route/9",status="200"}' in told


@pytest.mark.django_db(transaction=True)
def test_a_change_that_is_rolled_back_is_no_event(api, client, alice, webhook_to, monkeypatch):
    webhook_to("http://127.0.0.1:9/", events=["order.cancelled"])
    order = make_order(alice)
    name = 'codservice_events_total{kind="order.cancelled"}'
    before = figures(client)[name]
    with monkeypatch.context() as broken:
        broken.setattr("webhooks.wakeup.after_commit", lambda: 1 / 0)
        assert api.post(f"{ORDERS}/{order.id}/cancel").status_code == 500
    assert figures(client)[name] == before
    assert api.post(f"{ORDERS}/{order.id}/cancel").status_code == 200
    assert figures(client)[name] == before + 1


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (None, "sent"),
        (SMTPRecipientsRefused({"gone@example.com": (550, b"No such user")}), "refused"),  # a wrong address is no alarm
        (SMTPRecipientsRefused({"slow@example.com": (451, b"Greylisted")}), "failed"),
        (SMTPSenderRefused(530, b"STARTTLS first", "cod@example.com"), "failed"),
        (ConnectionRefusedError(), "failed"),
    ],
)
def test_mails_are_counted_by_what_became_of_them(client, db, monkeypatch, error, outcome):
    def send_messages(self, messages):
        if error:
            raise error

    monkeypatch.setattr("django.core.mail.backends.locmem.EmailBackend.send_messages", send_messages)
    series = [f'codservice_mails_total{{outcome="{each}"}}' for each in ("sent", "refused", "failed")]
    before = figures(client)
    with nullcontext() if error is None else pytest.raises(type(error)):
        mails.send("Subject", "Text", "to@example.com")
    after = figures(client)
    assert [each for each in series if after[each] != before[each]] == [
        f'codservice_mails_total{{outcome="{outcome}"}}'
    ]


def test_a_request_that_does_not_arrive_whole_is_counted(start, tmp_path):
    """And what a killed process leaves half-written is passed over."""
    web = start("web")
    (tmp_path / "counters" / "counter_999999.db").touch()
    chunked = b"POST /api/v1/orders HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n"
    assert b" 400 " in web.send_raw(chunked)
    told = web.metrics()
    assert told["codservice_database_up"] == 1
    assert told['codservice_http_requests_total{method="other",route="unread",status="400"}'] == 1


def test_a_worker_whose_port_is_taken_says_so(start, tmp_path):
    web = start("web")
    done = run_python("-m", "codservice.run.worker", env=os.environ | {"METRICS_PORT": str(web.port)})
    assert done.returncode == 1
    assert f"METRICS_PORT {web.port} on 127.0.0.1 cannot be used" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("host", [b"a..b", b"caf\xe9.example"])
def test_a_worker_whose_host_is_no_name_says_so(host):
    environ = environment() | {"METRICS_PORT": str(free_port()), "HOST": os.fsdecode(host)}
    done = run_python("-m", "codservice.run.worker", env=environ)
    assert done.returncode == 1
    assert "cannot be used" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_worker_serves_its_figures_at_a_name_that_has_only_an_address_of_ipv6(names, monkeypatch):
    names["six.example"] = lambda: ["::1"]
    made = []

    def make(*args, **named):
        made.append(make_server(*args, **named))
        return made[-1]

    monkeypatch.setattr(metrics, "make_server", make)
    metrics.serve("six.example", 0)
    (server,) = made
    try:
        with socket.socket(socket.AF_INET6) as connection:
            connection.connect(("::1", server.server_port))
            connection.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            assert connection.recv(12) == b"HTTP/1.0 200"
    finally:
        server.shutdown()
        server.server_close()


# --- Who may ask ---------------------------------------------------------------------------------------------------


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("address", "headers", "status"),
    [
        ("127.0.0.1", {}, 200),
        ("::1", {}, 200),
        ("::ffff:127.0.0.1", {}, 200),
        ("192.0.2.7", {}, 403),
        ("10.0.0.7", {}, 403),
        ("", {}, 403),
        ("127.0.0.1", {"X-Forwarded-For": "127.0.0.1"}, 403),
        ("127.0.0.1", {"Forwarded": "for=192.0.2.7"}, 403),
        ("127.0.0.1", {"X-Real-IP": "127.0.0.1"}, 403),
        ("192.0.2.7", {"X-Forwarded-For": "127.0.0.1"}, 403),
        ("192.0.2.7", {"Authorization": "Bearer a-token-of-some-length"}, 200),
        ("127.0.0.1", {"Authorization": "bearer a-token-of-some-length", "X-Forwarded-For": "192.0.2.7"}, 200),
        ("192.0.2.7", {"Authorization": "Bearer a-token-of-some-lengtH"}, 403),
        ("192.0.2.7", {"Authorization": "Bearer "}, 403),
        ("192.0.2.7", {"Authorization": "Bearer é"}, 403),
        ("192.0.2.7", {"Authorization": "Basic a-token-of-some-length"}, 403),
    ],
)
def test_only_this_host_or_the_token_is_told(client, settings, address, headers, status):
    settings.METRICS_TOKEN = "a-token-of-some-length"
    assert client.get("/metrics", REMOTE_ADDR=address, headers=headers).status_code == status


@pytest.mark.django_db
def test_without_a_token_nobody_else_is_told(client, settings):
    settings.METRICS_TOKEN = ""
    answer = client.get("/metrics", REMOTE_ADDR="192.0.2.7", headers={"Authorization": "Bearer "})
    assert answer.status_code == 403
    assert b"METRICS_TOKEN" in answer.content


def test_the_worker_tells_the_same_people_and_nothing_else(start):
    worker = start("worker", METRICS_TOKEN="a-token-of-some-length")
    proxied = {"X-Forwarded-For": "192.0.2.7"}
    assert worker.send("GET", "/metrics").status == 200
    assert worker.send("GET", "/metrics", headers=proxied).status == 403
    token = {"Authorization": "Bearer a-token-of-some-length"}
    assert worker.send("GET", "/metrics", headers=proxied | token).status == 200
    assert worker.send("GET", "/anything").status == 404


# --- Figures of the database -----------------------------------------------------------------------------------------


SERVING = """
import sys, threading
from django.conf import settings
settings.configure(METRICS_TOKEN="")
from codservice import metrics
metrics._Server.patience, metrics._Server._free = float(sys.argv[2]), threading.Semaphore(int(sys.argv[3]))
metrics.REFUSALS.labels("x" * int(sys.argv[4]))
metrics.serve("127.0.0.1", int(sys.argv[1]))
print(flush=True)
sys.stdin.read()
"""


@contextmanager
def serving(patience: float, *, at_once: int = 20, size: int = 0) -> Iterator[Callable[[], socket.socket]]:
    """Serve /metrics as a worker does, with some patience for clients, some of them at once, and at least `size` bytes
    to read. Gives what connects to it, and sees at the end that it has said nothing."""
    port = free_port()
    arguments = [sys.executable, "-c", SERVING, str(port), str(patience), str(at_once), str(size)]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(arguments, cwd=CHECKOUT, **pipes) as server, ExitStack() as connections:
        server.stdout.readline()
        yield lambda: connections.enter_context(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE))
        assert server.communicate()[1] == b""


def test_who_connects_to_a_worker_and_is_silent_holds_nothing_of_it():
    with serving(patience=0.2) as connect:
        for said in (b"", b"GET /met", b"GET /metrics HTTP/1.1\r\nHost: a\r\n"):
            connection = connect()
            connection.sendall(said)
            assert connection.recv(1) == b""


def test_who_sends_a_byte_now_and_then_is_left_all_the_same():
    with serving(patience=0.5) as connect:
        connection = connect()
        connection.settimeout(0.1)

        def is_left() -> bool:
            try:
                connection.sendall(b"G")
                return connection.recv(1) == b""
            except TimeoutError:
                return False
            except ConnectionError:
                return True

        eventually(is_left)


def test_who_does_not_read_its_figures_holds_nothing_of_a_worker_and_is_no_news():
    with serving(patience=2, at_once=1, size=8 << 20) as connect:

        def begins() -> bool:
            connection = connect()
            connection.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            with suppress(ConnectionResetError):
                return connection.recv(12) == b"HTTP/1.0 200"
            return False

        for _ in range(3):
            eventually(begins)


def test_a_worker_serves_its_figures_to_a_few_at_once():
    with serving(patience=PATIENCE * 2) as connect:
        silent = [connect() for _ in range(30)]

        def is_left() -> bool:
            connection = connect()
            connection.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            with suppress(ConnectionResetError):
                return connection.recv(12) == b"HTTP/1.0 200"
            return False

        eventually(lambda: not is_left())
        for connection in silent:
            connection.close()
        eventually(is_left)


def test_a_fault_of_ours_in_a_workers_figures_is_logged_and_answered(tmp_path, monkeypatch, caplog):
    (tmp_path / "counter_1.db").write_bytes(b"no counters")
    monkeypatch.setattr(metrics, "_FOLDER", str(tmp_path))
    asked, said = {"PATH_INFO": "/metrics", "REMOTE_ADDR": "127.0.0.1"}, []
    assert metrics._application(asked, lambda *begun: said.append(begun[0])) == [b""]
    assert said == ["500 Internal Server Error"]
    assert [record.message for record in caplog.records if record.exc_info] == ["the figures could not be told"]


def test_it_asks_the_database_a_constant_number_of_questions(client, alice, webhook_to, django_assert_num_queries):
    for number in range(3):
        write(webhook_to(f"http://127.0.0.1:9/{number}"), 5)
    with django_assert_num_queries(5):
        figures(client)


def test_due_deliveries_of_both_lanes_are_counted_up_to_a_bound(client, webhook_to):
    one, other, gone = (webhook_to(f"http://127.0.0.1:9/{number}") for number in range(3))
    first = [*write(one, 3, age=20), *write(other, 2, age=5)]
    write(one, 4, attempts=1, age=90)
    write(gone, 1, age=1000)
    Webhook.objects.filter(id=gone.id).update(deleted_at=timezone.now())
    Delivery.objects.filter(id=first[0]).update(next_attempt_at=timezone.now() + timedelta(hours=1))
    told = figures(client)
    assert told["codservice_deliveries_due"] == 9
    assert 90 <= told["codservice_oldest_due_seconds"] < 90 + PATIENCE
    write(one, queue.MOST_COUNTED)
    assert queue.count_due() == queue.MOST_COUNTED


def test_claims_count_while_their_workers_are_believed_to_live(client, webhook_to):
    webhook = webhook_to("http://127.0.0.1:9/")
    ids = write(webhook, 3)
    for id_, seconds in zip(ids, (30, 30, -1), strict=True):
        until = timezone.now() + timedelta(seconds=seconds)
        Claim.objects.create(delivery_id=id_, webhook=webhook, token=webhook.id, until=until)
    assert figures(client)["codservice_claims"] == 2


def test_pending_orders_by_age_are_those_of_the_last_count(client, alice):
    for hours in (0, 2, 3, 5, 23.9, 25, 900):
        order = make_order(alice)
        Order.objects.filter(id=order.id).update(created_at=timezone.now() - timedelta(hours=hours))
    Order.objects.filter(id=make_order(alice).id).update(status="confirmed")
    assert "codservice_orders_pending" not in " ".join(figures(client))
    orders_metrics.count_pending()
    make_order(alice)
    told = figures(client)
    counts = [told[f'codservice_orders_pending{{age="{age}"}}'] for age in orders_metrics.AGES]
    assert counts == [1, 2, 2, 2]


def test_beats_sign_of_life_has_an_age(client, db):
    duties.note("beat")
    assert 0 <= figures(client)['codservice_duty_age_seconds{duty="beat"}'] < PATIENCE  # in seconds


def test_without_redis_there_is_no_count_and_no_error(client, alice, monkeypatch, caplog):
    def away(*args):
        raise redis.ConnectionError("away")

    orders_metrics.count_pending()
    for name in ("get", "set"):
        monkeypatch.setattr(f"django.core.cache.cache.{name}", away)
    orders_metrics.count_pending()
    assert caplog.messages == ["pending orders were not counted, because Redis cannot be used: away"]
    assert caplog.records[0].exc_info is None
    told = figures(client)
    assert not [series for series in told if series.startswith("codservice_orders_pending")]
    assert told["codservice_database_up"] == 1


class _Bomb:
    def __reduce__(self):
        return os.mkdir, (os.environ["BOMB"],)


@pytest.mark.parametrize("kind", ["pickle", "text", "deep", "words", "more"])
def test_who_writes_to_redis_runs_nothing_here(client, db, monkeypatch, tmp_path, kind):
    monkeypatch.setenv("BOMB", str(tmp_path / "went-off"))
    planted = {
        "pickle": pickle.dumps(_Bomb()),
        "text": b"\xff\x00",
        "deep": b"[" * 100_000,
        "words": b'["1","2","3","4"]',
        "more": b"[1,2,3,4,5]",
    }
    key = cache.make_key(orders_metrics._KEY)
    redis.Redis.from_url(django_settings.REDIS_URL).set(key, planted[kind])
    assert not [series for series in figures(client) if series.startswith("codservice_orders_pending")]
    assert not (tmp_path / "went-off").exists()


def test_a_worker_takes_json_and_no_remote_control():
    assert not app.conf.worker_enable_remote_control
    assert (app.conf.accept_content, app.conf.task_serializer) == (["json"], "json")
    assert app.conf.result_accept_content in (None, ["json"])


@pytest.mark.django_db(transaction=True)
def test_without_the_database_it_tells_what_it_has_counted(client, monkeypatch):
    connection.close()
    with monkeypatch.context() as away:
        away.setitem(connection.settings_dict, "HOST", "/nowhere")
        told = figures(client)
    assert told["codservice_database_up"] == 0
    assert "codservice_deliveries_due" not in told
    assert 'codservice_events_total{kind="ping"}' in told


# --- What is built on them -------------------------------------------------------------------------------------------


def rules() -> list[dict[str, Any]]:
    return yaml.safe_load((OPERATIONS / "alerts.yml").read_text())["groups"][0]["rules"]


def panels() -> list[dict[str, Any]]:
    return json.loads((OPERATIONS / "grafana-dashboard.json").read_text())["panels"]


def test_dashboard_and_alerts_name_only_figures_that_there_are(start, alice):
    web = start("web")
    start("worker")
    orders_metrics.count_pending()
    duties.note("beat")
    eventually(lambda: "worker" in duties.ages())
    web.send("GET", ORDERS)
    told = web.send("GET", "/metrics").body.decode()
    known = {series.partition("{")[0].partition(" ")[0] for series in told.splitlines() if series[:1] not in "#"}

    expressions = [rule["expr"] for rule in rules()]
    expressions += [target["expr"] for panel in panels() for target in panel.get("targets", [])]
    named = {name for each in expressions for name in re.findall(r"\bcodservice_\w+", each)}
    assert len(named) > 10
    assert named - known == set()
    values = {label for each in expressions for label in re.findall(r'(?:outcome|age|duty)="(\w+)"', each)}
    assert {value for value in values if f'"{value}"' not in told} <= {"prune"}


def test_every_alert_says_what_it_is_and_what_to_do():
    for rule in rules():
        assert rule["annotations"].keys() == {"summary", "description"}
        assert rule["labels"]["severity"] in ("page", "ticket")


def test_panels_do_not_overlap_and_have_ids_of_their_own():
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells
    assert len({panel["id"] for panel in panels()}) == len(panels())


def test_every_figure_is_explained_in_the_operators_manual(client, db, alice):
    orders_metrics.count_pending()
    manual = (django_settings.BASE_DIR / "docs/operators.md").read_text()
    families = re.findall(r"^# TYPE (codservice_\w+) ", client.get("/metrics").content.decode(), re.M)
    ours = {name for name in families if not name.endswith("_created")}
    assert {name for name in ours if f"`{name}" not in manual} == set()
