"""One line per event, the ids that lead from a request to its deliveries, and nothing that a log must not hold."""

import contextlib
import io
import json
import logging
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote
from uuid import UUID, uuid4

import psycopg
import pytest
from django.db import OperationalError, connection
from django.test import Client
from django.urls import reverse
from django.utils.safestring import SafeString
from kombu import Queue

from codservice import logs
from codservice.accounts.security_log import Action, Outcome
from codservice.celery import app
from codservice.operations import tasks
from tests.factories import AccountFactory, UserFactory, order_body
from tests.harness.background import eventually, held_up
from tests.harness.client import new_key
from tests.harness.database import orders_refused
from tests.harness.processes import CHECKOUT, free_port
from tests.harness.receivers import answer

ORDERS = "/api/v1/orders"
CUSTOMERS = [
    ("Yacine Bouzidi-Haddad", "0551 23 45 67", "551234567"),
    ("Nour El Houda Ziani", "+213 662 34 56 78", "662345678"),
    ("أمين بن علي", "٠٧٧٣٤٥٦٧٨٩", "773456789"),
    ("Tinhinane Ait Ouali", "021 64 75 86", "21647586"),
]


def test_a_run_over_the_api_leaves_no_key_secret_telephone_number_or_name_in_any_line(start, receiver):
    receiver.behaviours["/fails"] = answer("500 Internal Server Error", body=b"Yacine Bouzidi-Haddad 0551234567")
    web, worker = start("web", LOG_LEVEL="DEBUG"), start("worker", LOG_LEVEL="DEBUG")
    account = AccountFactory(rate_limit=1000)
    key = new_key(account)
    wrong_key = key[:-1] + ("a" if key[-1] != "a" else "b")
    secrets = []
    for url in (receiver.url("/"), receiver.url("/fails"), f"http://127.0.0.1:{free_port()}/refused"):
        body = {"url": url, "events": ["order.cancelled", "inventory.updated"]}
        secrets.append(web.send("POST", "/api/v1/webhooks", body, key=key).json()["signing_secret"])

    for name, phone, subscriber in CUSTOMERS:
        order = order_body(customer_name=name, customer_phone=phone, notes=f"{name}, {phone}\n\nThe above")
        made = web.send("POST", ORDERS, order, {"X-Request-Id": f"import-0{subscriber}"}, key=key)
        assert made.status == 201
        for query in (f"phone={quote(phone)}", f"q={quote(name)}", f"status={quote(name)}"):
            assert web.send("GET", f"{ORDERS}?{query}", key=key).status in (200, 422)
        assert web.send("POST", ORDERS, {**order, "customer_wilaya": name, "items": []}, key=key).status == 422
        assert web.send("POST", ORDERS, b'{"customer_name": "' + name.encode(), key=key).status == 415
        assert web.send("GET", f"{ORDERS}/{quote(phone)}", key=key).status == 404
        cancel = f"{ORDERS}/{made.json()['id']}/cancel"
        assert web.send("POST", cancel, {"reason": name}, {"X-Request-Id": "the-cancel"}, key=key).status == 200
        with orders_refused():
            assert web.send("POST", ORDERS, {**order, "external_id": f"again-{name}"}, key=key).status == 500
    agent = {"User-Agent": f"shop {key}", "Cookie": f"session={key}", "Referer": f"/?phone={CUSTOMERS[0][1]}"}
    assert web.send("GET", f"/nowhere%0d%0a%1b[31m/{key}/{secrets[0]}", headers=agent).status == 404
    assert web.send("GET", ORDERS, headers=agent, key=wrong_key).status == 401
    assert web.send("GET", f"{ORDERS}?key={key}").status == 401
    failed = eventually(lambda: _failed(worker, at_least=2 * len(CUSTOMERS)))
    web.stop()
    worker.stop()

    lines = web.lines() + worker.lines()
    assert len([line for line in lines if "exception" in line]) >= len(CUSTOMERS)
    assert {line["request_id"] for line in failed} == {"the-cancel"}
    said = json.dumps(lines, ensure_ascii=False)
    for secret in (key, wrong_key, *secrets):
        assert secret[:20] not in said
    digits = re.sub(r"[\s.+()-]", "", said)
    for name, phone, subscriber in CUSTOMERS:
        assert name not in said
        assert name.split()[0] not in said
        assert phone not in said
        assert subscriber not in digits


def _failed(worker: Any, at_least: int) -> list[dict[str, Any]]:
    lines = [line for line in worker.lines() if line["event"] == "attempt failed"]
    return lines if len(lines) >= at_least else []


def test_a_request_is_one_line_that_leads_to_its_deliveries(start, receiver):
    receiver.default = answer("410 Gone")
    web, worker = start("web"), start("worker")
    account = AccountFactory(rate_limit=1000)
    key = new_key(account)
    body = {"url": receiver.url(), "events": ["order.cancelled"]}
    webhook = web.send("POST", "/api/v1/webhooks", body, key=key).json()["data"]["id"]
    order = web.send("POST", ORDERS, order_body(), key=key).json()["id"]
    request_id = web.send("POST", f"{ORDERS}/{order}/cancel", key=key).headers["X-Request-Id"]
    pinged = web.send("POST", f"/api/v1/webhooks/{webhook}/ping", headers={"X-Request-Id": "the-ping"}, key=key)
    attempts = {line["request_id"]: line for line in eventually(lambda: _failed(worker, at_least=2))}

    (line,) = [line for line in web.lines() if line.get("request_id") == request_id]
    assert (line["event"], line["level"], line["logger"]) == ("request", "info", "codservice.access")
    assert (line["method"], line["route"], line["status"]) == ("POST", "api/v1/orders/<id:id>/cancel", 200)
    assert line["account_id"] == str(account.id)
    assert line["api_key_id"]
    assert line["ms"] > 0
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+\+00:00", line["timestamp"])
    assert attempts.keys() == {request_id, "the-ping"}
    attempt = attempts["the-ping"]
    assert attempt["delivery_id"] == pinged.json()["delivery_id"]
    assert (attempt["webhook_id"], attempt["account_id"]) == (webhook, str(account.id))
    assert (attempt["outcome"], attempt["status"], attempt["attempt"]) == ("status", 410, 1)
    assert attempts[request_id]["event_kind"] == "order.cancelled"


def test_probes_recurring_tasks_and_stops_are_silent(start):
    web, worker = start("web"), start("worker")
    for path in ("/healthz", "/readyz", "/metrics"):
        web.send("GET", path)
    from webhooks.tasks import deliver

    before = worker.metrics()["codservice_delivery_sweeps_total"]
    deliver.delay()
    eventually(lambda: worker.metrics()["codservice_delivery_sweeps_total"] > before)
    web.stop()
    worker.stop()
    assert web.lines() == []
    assert worker.lines() == []


def test_a_message_that_comes_while_a_worker_stops_goes_back_silently(lines):
    queue = f"stopping-{uuid4()}"
    with app.connection_for_read() as connection:
        consumer = connection.Consumer([Queue(queue)], callbacks=[])
        consumer.consume()
        with contextlib.suppress(TimeoutError):
            connection.drain_events(timeout=0.1)  # asks Redis for the next message, which is later than this
        consumer.cancel()
        app.connection_for_write().Producer().publish("late", routing_key=queue)
        consumer.channel.close()
    assert lines() == []
    with app.connection_for_read() as connection, connection.SimpleQueue(queue) as again:
        late = again.get(timeout=5)
        late.ack()
        assert late.payload == "late"


def test_access_lines_are_off_above_info(start):
    web = start("web", LOG_LEVEL="WARNING")
    assert web.send("GET", "/api/v1/nothing").status == 401
    assert web.lines() == []


def test_who_is_signed_in_is_named_by_id(client, lines, db):
    user = UserFactory(is_superuser=True, is_staff=True)
    client.force_login(user)
    client.get("/console/")
    (line,) = [line for line in lines() if line["logger"] == "codservice.access"]
    assert line["user_id"] == str(user.pk)
    assert user.username not in json.dumps(line)


def test_what_its_sender_has_wrong_is_no_error_of_ours(client, lines, db):
    client.force_login(UserFactory(is_superuser=True, is_staff=True))
    answers = [
        client.get("/console/orders/order/?status__exact="),
        client.post("/console/moves/", {f"field-{number}": "" for number in range(1001)}),
        client.get("/account/login", headers={"Host": "elsewhere.example"}),
    ]
    assert [answer.status_code for answer in answers] == [400] * 3
    said = [line for line in lines() if line["logger"].startswith("django.")]
    assert [line["logger"].rpartition(".")[2] for line in said] == [
        "DisallowedModelAdminLookup", "TooManyFieldsSent", "DisallowedHost",
    ]  # fmt: skip
    assert {line["level"] for line in said} == {"warning"}
    assert not any("exception" in line for line in said)


@pytest.fixture
def lines() -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """What this process logs."""
    output = io.StringIO()
    handler = logging.StreamHandler(output)
    handler.setFormatter(logs.formatter(readable=False))
    logging.getLogger().addHandler(handler)
    yield lambda: list(map(json.loads, output.getvalue().splitlines()))
    logging.getLogger().removeHandler(handler)


def _line(message: str, *, readable: bool = False, **kwargs: Any) -> str:
    record = logging.LogRecord("test", logging.INFO, __file__, 1, message, (), kwargs.get("exc_info"))
    record.__dict__.update(kwargs.get("extra", {}))
    return logs.formatter(readable=readable).format(record)


FORBIDDEN = [
    "0551234567", "0551 23 45 67", "0551-23-45-67", "05.51.23.45.67", "+213551234567", "+213 551 23 45 67",
    "00213551234567", "213551234567", "+213 (0) 551 23 45 67", "٠٥٥١٢٣٤٥٦٧", "021234567", "021 23 45 67",
    "cod_live_0123456789abcdefghij", "cod_test_AbCdEfGhIjKlMnOpQrSt", "whsec_QUJD/+MTIz=",
]  # fmt: skip


@pytest.mark.parametrize("text", FORBIDDEN)
def test_the_net_takes_keys_secrets_and_telephone_numbers_out(text):
    readable = _line(f"x='{text}'", readable=True)
    for line in (readable, _line(f"Not found: /orders/{text}"), _line("a", extra={"request_id": text})):
        assert text not in line
        assert "[redacted]" in line


@pytest.mark.parametrize(
    "path",
    [reverse("invitation", args=["MadeUp-1:sig_2"]), reverse("password-new", args=["TWFkZVVw", "MadeUp-1-sig_2"])],
)
def test_a_mailed_link_that_is_refused_or_fails_stays_a_secret(path, lines, db, monkeypatch):
    Client(enforce_csrf_checks=True).post(path)
    for looked_up in ("team.find", "views.PasswordNew.get_user"):
        monkeypatch.setattr(f"codservice.accounts.{looked_up}", lambda *_: 1 / 0)
    Client(raise_request_exception=False).get(path)
    refused, failed = (line for line in lines() if line["logger"].startswith("django."))
    assert "Forbidden" in refused["event"]
    assert "ZeroDivisionError" in failed["exception"]
    assert not re.search("MadeUp|TWFkZVVw|sig_2", json.dumps([refused, failed]))


@pytest.mark.parametrize(
    "text",
    [
        "0199d9a0-0550-7123-8456-021234567890", "2026-01-02T03:04:05.066123Z", "127.0.0.1:54321", "took 0.055012 s",
        "10.20.30.40", "1000 of 250000 rows", "/tmp/codservice-0-27648178f9ddd1e0/valkey/valkey.sock",
        "unix://%2Ftmp%2Fcodservice-1000-f0551234567abcde",
    ],
)  # fmt: skip
def test_the_net_lets_ids_times_and_addresses_pass(text):
    assert json.loads(_line(f"before {text} after"))["event"] == f"before {text} after"


@pytest.mark.parametrize("readable", [True, False])
def test_the_words_that_alarms_look_for_are_in_the_lines(readable):
    """SECURITY.md names them for both kinds of lines."""
    manual = (CHECKOUT / "SECURITY.md").read_text()
    (alarm,) = re.findall(r"Set an\s+alarm(.*?)- \*\*", manual, re.S)
    as_json, as_text = (re.findall("`([^` ]*[:=\\[][^` ]*)`", each) for each in alarm.split("lines are text"))
    words = as_text if readable else as_json
    assert len(words) == 3
    record = logging.LogRecord("codservice.security", logging.WARNING, __file__, 1, "security", (), None)
    record.__dict__.update(action=Action.ROLE.value, outcome=Outcome.REFUSED.value)
    line = logs.formatter(readable=readable).format(record)
    assert all(word in line for word in words)


@pytest.mark.parametrize("readable", [True, False])
def test_what_a_terminal_would_obey_is_escaped(readable):
    line = _line("a\r\nERROR forged \x1b[31m \x9b31m \u2028 \u202e", readable=readable)
    assert not re.search(r"[\r\n\x9b\u2028\u202e]|\x1b\[31m \\", line)
    assert "\x1b[31m " not in line


def test_an_error_of_the_database_keeps_what_it_is_and_loses_the_row():
    try:
        try:
            raise psycopg.IntegrityError(
                'violates "broken"\nDETAIL:  Failing row contains (Amine\nBenali, 12 rue Didouche).\nHINT:  Mend it.'
            )
        except psycopg.IntegrityError as cause:
            raise RuntimeError("outer") from cause
    except RuntimeError:
        line = _line("crash", exc_info=sys.exc_info())
    traceback = json.loads(line)["exception"].partition("psycopg.IntegrityError")[2]
    assert "\n" not in line
    assert 'violates "broken"' in traceback
    assert "HINT:  Mend it." in traceback
    assert "RuntimeError: outer" in traceback
    assert "Benali" not in traceback.partition("raise ")[0]
    assert "Didouche" not in traceback.partition("psycopg.IntegrityError(")[0]


@pytest.mark.parametrize("value", ["اسم", "\ud800", SafeString("plain"), 1j, 2**70])
def test_whatever_a_field_holds_is_one_line_of_ascii(value):
    line = _line("a", extra={"outcome": value})
    assert line.isascii()
    assert json.loads(line)["outcome"] in (value, str(value))


def test_only_our_fields_of_a_record_are_in_its_line():
    line = json.loads(_line("a", extra={"request": "GET /?phone=1", "status": 200, "customer": "Amine"}))
    assert line.keys() == {"event", "level", "logger", "timestamp", "status"}


def test_the_lines_of_a_library_have_the_same_form(lines):
    logs.begin("mine")
    logs.bind(account_id="ours")
    logging.getLogger("celery.worker").error("%s failed", "it")
    logs.end()
    logging.getLogger("celery.worker").error("it failed")
    during, after = lines()
    assert (during["event"], during["level"], during["request_id"]) == ("it failed", "error", "mine")
    assert "request_id" not in after
    assert "account_id" not in after


@pytest.mark.django_db(transaction=True)
def test_a_task_whose_database_is_away_says_one_sentence_and_any_other_error_is_told_whole(lines):
    """Whether a message or the worker's own clock starts the task, and also before the first `migrate`."""
    stop = "SELECT pg_terminate_backend(pg_backend_pid())"
    unwritable = "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY"
    empty = "SET search_path = pg_temp"
    for prepare in (stop, unwritable, empty, "SET lock_timeout = '50ms'"):
        with contextlib.suppress(OperationalError), connection.cursor() as cursor:
            cursor.execute(prepare)
        with held_up(tasks.note_beat) if "lock" in prepare else contextlib.nullcontext():
            tasks.note_beat.apply()
        connection.close()
    with connection.cursor() as cursor, contextlib.suppress(OperationalError):
        cursor.execute(stop)
    tasks.note_beat()
    connection.close()

    stopped, refused, behind, timed_out, by_clock = lines()
    assert [line["level"] for line in (stopped, refused, behind, by_clock)] == ["warning"] * 4
    assert refused["event"].endswith(
        "note_beat was not run, because the database cannot be used: cannot execute INSERT in a read-only transaction"
    )
    assert behind["event"].endswith(
        "note_beat was not run, because the database cannot be used: it is not up to date. Run `manage.py migrate`."
    )
    assert by_clock["event"] == stopped["event"]
    assert "exception" not in stopped | refused | behind | by_clock
    assert (timed_out["level"], "LockNotAvailable" in timed_out["exception"]) == ("error", True)


@pytest.mark.parametrize("text", FORBIDDEN)
def test_an_id_that_a_client_sends_goes_through_the_net_too(text):
    assert text not in logs.sane_request_id(f"a-{text}")


@pytest.mark.parametrize("write", [str, lambda id_: id_.hex], ids=["with hyphens", "without"])
def test_an_id_of_a_tracing_library_is_logged_as_it_is_echoed(write):
    """Its digits look like a phone number."""
    sent = write(UUID("f5bae32f-0566-4624-9f63-e3a599582f0b"))
    assert logs.sane_request_id(sent) == sent
    assert logs.redacted(f"of {sent}") == f"of {sent}"
