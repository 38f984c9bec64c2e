"""Errors: each is `{"error": code, "message": sentence}`, in JSON for whatever happens under /api/."""

import json
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from uuid import uuid4

import psycopg
import pytest
from django.db import connection, transaction

from codservice import logs
from orders.models import Order
from tests.factories import AccountFactory, make_order, order_body
from tests.harness.background import asleep, eventually
from tests.harness.client import ApiClient, new_key
from tests.harness.database import database_url, session

ORDERS = "/api/v1/orders"
NOBODYS = "0199d9a0-0000-7000-8000-000000000000"
pytestmark = pytest.mark.django_db


def assert_error(answer, status, code):
    assert answer.status_code == status
    assert answer.headers["Content-Type"] == "application/json"
    body = answer.json()
    assert body["error"] == code
    assert body["message"].endswith((".", "?"))
    assert body.keys() == ({"error", "message", "errors"} if status == 422 else {"error", "message"})
    assert answer.headers["X-Request-Id"]


def test_each_row_of_the_table_of_errors(alice, api, api_for, stranger):
    shipped = make_order(alice)
    Order.objects.filter(id=shipped.id).update(status="shipped")
    assert_error(api.post(ORDERS, b"["), 400, "malformed_json")
    assert_error(stranger.get(ORDERS), 401, "unauthenticated")
    assert_error(api_for(alice, scopes=[]).get(ORDERS), 403, "insufficient_scope")
    assert_error(api.get(f"{ORDERS}/{NOBODYS}"), 404, "not_found")
    assert_error(api.get("/api/v1/nothing"), 404, "not_found")
    assert_error(api.get("/api/nothing"), 404, "not_found")
    assert_error(api.delete(ORDERS), 405, "method_not_allowed")
    assert_error(api.post(ORDERS, b" " * 1_048_577), 413, "payload_too_large")
    assert_error(api.post(ORDERS, b"x", content_type="text/plain"), 415, "unsupported_media_type")
    assert_error(api.post(ORDERS, {}), 422, "validation_failed")
    assert_error(api.post(f"{ORDERS}/{shipped.id}/cancel"), 422, "order_not_cancellable")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("get", "/api/v1/nothing"),
        ("get", f"{ORDERS}/"),
        ("get", f"{ORDERS}/not-an-id"),
        ("delete", ORDERS),
        ("options", ORDERS),
        ("put", ORDERS),
        ("post", ORDERS),
        ("post", f"{ORDERS}/{NOBODYS}/cancel"),
    ],
)
def test_a_stranger_hears_401_whatever_else_is_wrong(stranger, method, path):
    answer = (
        getattr(stranger, method)(path, b"<xml/>", content_type="text/xml") if method != "get" else stranger.get(path)
    )
    assert_error(answer, 401, "unauthenticated")
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert answer.headers["Cache-Control"] == "no-store"
    assert "X-RateLimit-Limit" not in answer.headers


@pytest.mark.parametrize("method", ["put", "delete", "options", "trace"])
@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        (ORDERS, "GET, HEAD, POST"),
        (f"{ORDERS}/0199d9a0-0000-7000-8000-000000000000", "GET, HEAD, PATCH"),
        (f"{ORDERS}/0199d9a0-0000-7000-8000-000000000000/cancel", "POST"),
        ("/api/v1/me", "GET, HEAD"),
        ("/api/schema", "GET, HEAD"),
    ],
)
def test_other_methods_are_405_and_allow_says_which_there_are(api, method, path, allowed):
    answer = getattr(api, method)(path)
    assert_error(answer, 405, "method_not_allowed")
    assert answer.headers["Allow"] == allowed


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"])
@pytest.mark.parametrize("path", ["/api/docs", "/api/schema"])
def test_the_pages_of_the_api_refuse_other_methods_as_its_calls_do(method, path):
    answer = ApiClient(enforce_csrf_checks=True).generic(method, path)
    assert_error(answer, 405, "method_not_allowed")
    assert answer.headers["Allow"] == "GET, HEAD"


def test_get_is_no_way_to_cancel(api, alice):
    order = make_order(alice)
    assert_error(api.get(f"{ORDERS}/{order.id}/cancel"), 405, "method_not_allowed")
    assert Order.objects.get().status == "pending_confirmation"


@pytest.mark.parametrize("accept", ["text/html", "application/xml", "*/*;q=0", "application/json;q=0", "x", "", "*"])
@pytest.mark.parametrize(("path", "status"), [(ORDERS, 200), (f"{ORDERS}?format=html", 200), ("/api/v1/nothing", 404)])
def test_it_is_json_whatever_is_asked_for(api, accept, path, status):
    answer = api.get(path, headers={"Accept": accept})
    assert answer.status_code == status
    assert answer.headers["Content-Type"] == "application/json"


@pytest.mark.parametrize(
    "preference", [{"Accept-Language": "fr"}, {"Accept-Language": "ar"}, {"Cookie": "django_language=fr"}]
)
def test_the_sentences_are_english_whatever_a_browser_prefers(api, preference):
    in_english = api.post(ORDERS, {"items": []}).json()
    assert api.post(ORDERS, {"items": []}, headers=preference).json() == in_english
    answer = api.get(f"{ORDERS}?sort=x&status=y", headers=preference)
    assert answer.json() == api.get(f"{ORDERS}?sort=x&status=y").json()
    assert answer.headers["Vary"] == "Authorization"


def test_the_language_of_a_page_does_not_stay_with_the_thread(api, client):
    in_english = api.post(ORDERS, {"items": []}).json()
    client.get("/account/login", headers={"Accept-Language": "fr"})
    assert api.post(ORDERS, {"items": []}).json() == in_english


def test_422_names_each_field_by_its_dotted_path(api):
    answer = api.post(
        ORDERS, order_body(customer_name=" ", items=[{"product_name": "a", "quantity": "2", "unit_price": 1}])
    )
    assert answer.json()["errors"].keys() == {"customer_name", "items.0.quantity"}
    for sentences in answer.json()["errors"].values():
        assert isinstance(sentences, list)
        assert all(sentence.endswith(".") for sentence in sentences)


# --- Ids of other accounts --------------------------------------------------------------------------------------------


def test_anothers_id_an_unknown_id_and_a_malformed_one_are_the_same_404(alice, charlies_api):
    """Charlie must not learn which ids Alice has."""
    order = make_order(alice)
    answers = [
        getattr(charlies_api, method)(f"{ORDERS}/{name}{suffix}")
        for suffix, method in (("", "get"), ("/cancel", "post"))
        for name in (order.id, uuid4(), "not-an-id")
    ]
    nothing = charlies_api.get("/api/v1/nothing")
    assert {(answer.status_code, answer.content) for answer in answers} == {(404, nothing.content)}
    order.refresh_from_db()
    assert order.status == "pending_confirmation"


def test_the_headers_of_anothers_id_and_of_an_unknown_one_are_the_same(alice, charlies_api):
    order = make_order(alice)
    foreign, unknown = charlies_api.get(f"{ORDERS}/{order.id}"), charlies_api.get(f"{ORDERS}/{NOBODYS}")
    assert unvarying(foreign) == unvarying(unknown)


def unvarying(answer):
    """Return the headers but those that count or name each request."""
    return {
        name: value for name, value in answer.headers.items() if name not in ("X-Request-Id", "X-RateLimit-Remaining")
    }


@pytest.mark.parametrize(
    "form",
    ["{{{0}}}", "urn:uuid:{0}", "{0}0", "0{0}", " {0}", "{0}%20", "{0}%0a", "{0}%00", "{0}/", "{0}.json", "{0}%2f"],
)
def test_an_id_has_one_form(alice, api, form):
    order = make_order(alice)
    assert_error(api.get(f"{ORDERS}/{form.format(order.id)}"), 404, "not_found")
    assert_error(api.get(f"{ORDERS}/{str(order.id).replace('-', '')}"), 404, "not_found")


def test_an_id_may_be_written_in_capitals(alice, api):
    order = make_order(alice)
    answer = api.get(f"{ORDERS}/{str(order.id).upper()}")
    assert answer.json()["id"] == str(order.id)


# --- Our own faults -----------------------------------------------------------------------------------------------


@pytest.fixture
def crash(monkeypatch):
    def view(*args, **kwargs):
        raise ValueError("a secret detail, 0550 12 34 56\r\n\x1b[2JERROR forged")

    monkeypatch.setattr("orders.views.OrderViewSet.initial", view)


@pytest.mark.parametrize("path", [ORDERS, f"{ORDERS}/{NOBODYS}"])
def test_a_crash_tells_nothing_but_the_id_that_finds_it_in_the_log(crash, api, caplog, path):
    answer = api.get(path, headers={"X-Request-Id": "find-me"})
    assert_error(answer, 500, "server_error")
    assert b"secret" not in answer.content
    assert b"ValueError" not in answer.content
    assert answer.headers["X-Request-Id"] == "find-me"
    assert answer.headers["X-RateLimit-Remaining"] == "59"
    assert answer.headers["Cache-Control"] == "no-store"
    assert any(record.exc_info and "a secret detail" in str(record.exc_info[1]) for record in caplog.records)


def test_a_crash_outside_the_views_is_json_as_well(api):
    with transaction.atomic():
        connection.cursor().execute("ALTER TABLE accounts_apikey RENAME TO nowhere")
        answer = api.get(ORDERS)
        transaction.set_rollback(True)
    assert (answer.status_code, answer.json()["error"]) == (500, "server_error")


def test_debug_is_off(settings):
    assert settings.DEBUG is False


@contextmanager
def row_locked(order):
    """Another connection holds a lock on the order's row."""
    with psycopg.connect(database_url()) as other:
        other.execute("SELECT 1 FROM orders_order WHERE id = %s FOR UPDATE", [order.id])
        yield
        other.rollback()


@pytest.mark.django_db(transaction=True)
def test_a_lock_that_is_not_to_be_had_is_503_within_the_limit(alice, api, monkeypatch):
    order = make_order(alice)
    with row_locked(order):
        began, before = time.monotonic(), asleep()
        answer = api.post(f"{ORDERS}/{order.id}/cancel")
        assert time.monotonic() - began > 1.9
        assert asleep() - before < 3
        assert_error(answer, 503, "unavailable")
        assert answer.headers["Retry-After"] == "1"
        assert answer.headers["X-RateLimit-Remaining"] == "59"
        assert api.get(f"{ORDERS}/{order.id}").json()["status"] == "pending_confirmation"
        assert api.post(ORDERS, order_body()).status_code == 201
    assert api.post(f"{ORDERS}/{order.id}/cancel").status_code == 200


def terminate(condition):
    """Cut off the service's connections that meet `condition`, wait for their ends, and return their number."""
    with psycopg.connect(database_url(), autocommit=True) as other:
        return other.execute(
            "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = current_database()"
            f" AND application_name = 'codservice' AND pid NOT IN (pg_backend_pid(), %s) AND {condition}",
            [session()],
        ).rowcount


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("waits_for", ["the key", "the order"])
def test_a_connection_that_dies_in_a_request_is_503_and_the_next_is_served(service, waits_for):
    account = AccountFactory(rate_limit=10_000)
    key, order = new_key(account), make_order(account)
    lock = "LOCK TABLE accounts_apikey" if waits_for == "the key" else "SELECT 1 FROM orders_order FOR UPDATE"
    with psycopg.connect(database_url()) as other, ThreadPoolExecutor(1) as pool:
        other.execute(lock)
        waiting = pool.submit(service.send, "POST", f"{ORDERS}/{order.id}/cancel", key=key)
        eventually(lambda: terminate("wait_event_type = 'Lock'"))
        answer = waiting.result()
        other.rollback()
    assert (answer.status, answer.json()["error"], answer.headers["Retry-After"]) == (503, "unavailable", "1")
    assert service.send("POST", f"{ORDERS}/{order.id}/cancel", key=key).status == 200


@pytest.mark.django_db(transaction=True)
def test_connections_cut_between_requests_are_never_noticed(service):
    key = new_key(AccountFactory(rate_limit=10_000))
    for _ in range(8):
        assert service.send("GET", ORDERS, key=key).status == 200
    assert terminate("true") > 0
    assert [service.send("POST", ORDERS, order_body(), key=key).status for _ in range(8)] == [201] * 8


@pytest.mark.django_db(transaction=True)
def test_without_a_database_it_is_503_at_once_and_recovers_alone(api, monkeypatch):
    connection.close()
    with monkeypatch.context() as away:
        away.setitem(connection.settings_dict, "HOST", "/nowhere")
        before = asleep()
        for path in (ORDERS, f"{ORDERS}/{NOBODYS}"):
            assert_error(api.get(path), 503, "unavailable")
        assert asleep() - before < 2
    assert api.get(ORDERS).status_code == 200


@pytest.mark.django_db(transaction=True)
def test_besides_the_access_line_of_a_503_one_line_says_why(alice, api, client, monkeypatch, caplog):
    caplog.handler.setFormatter(logs.formatter(readable=False))
    client.force_login(alice.holder)
    client.raise_request_exception = False
    paths = {ORDERS: api, "/account/orders": client}
    connection.close()
    with monkeypatch.context() as away:
        away.setitem(connection.settings_dict, "HOST", "/nowhere")
        for path, sender in paths.items():
            assert sender.get(path, headers={"X-Request-Id": path}).status_code == 503
    lines = [line for line in map(json.loads, caplog.text.splitlines()) if line["level"] in ("warning", "error")]
    assert [line["request_id"] for line in lines] == list(paths)
    assert all("because the database did not serve it: connection" in line["event"] for line in lines)
    assert not any("exception" in line for line in lines)


@pytest.mark.django_db(transaction=True)
def test_without_its_migrations_it_is_503_and_without_a_part_of_them_a_crash(api, alice, client):
    """As for a version that was started though `migrate` had failed."""
    client.force_login(alice.holder)
    api.raise_request_exception = client.raise_request_exception = False
    forgets = "DELETE FROM django_migrations WHERE app = 'webhooks' AND name = '0013_subscribed' RETURNING *"
    with connection.cursor() as cursor:
        cursor.execute("ALTER FUNCTION webhooks_subscribed RENAME TO not_there_yet")
        cursor.execute("ALTER TABLE orders_ordercount RENAME TO not_there_yet")
        try:
            assert_error(api.post(ORDERS, order_body()), 500, "server_error")
            cursor.execute(forgets)
            row = cursor.fetchone()
            assert_error(api.post(ORDERS, order_body()), 503, "unavailable")
            assert client.get("/account/orders").status_code == 503
        finally:
            cursor.execute("ALTER FUNCTION not_there_yet RENAME TO webhooks_subscribed")
            cursor.execute("ALTER TABLE not_there_yet RENAME TO orders_ordercount")
            cursor.execute("INSERT INTO django_migrations VALUES (%s, %s, %s, %s)", row)
    assert api.post(ORDERS, order_body()).status_code == 201


# --- Headers of every answer ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("sent", ["a", "0199d9a0-0000-7000-8000-000000000000", "A.b_c:d/e+f=g@h-i", "x" * 128])
def test_a_sane_request_id_is_echoed(api, stranger, sent):
    for client, path in ((api, ORDERS), (stranger, ORDERS), (stranger, "/api/nothing"), (stranger, "/healthz")):
        assert client.get(path, headers={"X-Request-Id": sent}).headers["X-Request-Id"] == sent


@pytest.mark.parametrize(
    "sent",
    ["", "x" * 129, "a b", "a\nERROR forged", "a\r\nSet-Cookie: x=1", "\x1b[31m", "é", "٠", "<script>", "%0a", "a\x00"],
)
def test_any_other_request_id_is_replaced(api, sent):
    answer = api.get(ORDERS, headers={"X-Request-Id": sent})
    assert len(answer.headers["X-Request-Id"]) == 36
    assert answer.headers["X-Request-Id"] != sent


@pytest.mark.parametrize("sent", ["whsec_a." * 16, "023456789." * 12, "req_0550123456"])
def test_a_request_id_that_no_line_may_have_is_replaced_and_hinders_nothing(api, sent):
    """Redacting it made it longer than it was, and longer than the events' column."""
    answer = api.post(ORDERS, order_body(), headers={"X-Request-Id": sent})
    assert answer.status_code == 201
    assert len(answer.headers["X-Request-Id"]) == 36


def test_the_request_id_is_in_the_log_lines_of_the_request(api, monkeypatch, caplog):
    caplog.handler.setFormatter(logs.formatter(readable=False))

    def view(self):
        logging.getLogger("orders").warning("inside")
        return Order.objects.none()

    monkeypatch.setattr("orders.views.OrderViewSet.get_queryset", view)
    api.get(ORDERS, headers={"X-Request-Id": "mine"})
    lines = map(json.loads, caplog.text.splitlines())
    assert [line["request_id"] for line in lines if line["event"] == "inside"] == ["mine"]


@pytest.mark.parametrize("path", [ORDERS, f"{ORDERS}?page=0", "/api/v1/nothing", f"{ORDERS}/{NOBODYS}"])
def test_no_cache_may_keep_an_answer(api, path):
    answer = api.get(path)
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Vary"] == "Authorization"
    assert "Set-Cookie" not in answer.headers


def test_a_crash_and_a_forged_path_make_one_line_in_the_log_each(crash, api, caplog):
    caplog.handler.setFormatter(logs.formatter(readable=False))
    api.get(f"{ORDERS}?q=a%0AERROR%20forged")
    api.get("/api/v1/orders%0d%0aERROR forged%1b[2J")
    lines = caplog.text.removesuffix("\n").split("\n")
    assert len(lines) == len(caplog.records)
    assert [line["status"] for line in map(json.loads, lines) if "status" in line] == [500, 404]
    assert sum("Traceback" in json.loads(line).get("exception", "") for line in lines) == 1
    assert not any(control in caplog.text for control in ("\r", "\x1b"))
