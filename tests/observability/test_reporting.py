"""Errors go to Sentry and traces to OpenTelemetry once somebody says where, without what a log line must not hold."""

import gzip
import json
import os
import subprocess
import sys
from typing import Any

import pytest
from django.conf import settings
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.factories import AccountFactory, order_body
from tests.harness.background import eventually
from tests.harness.client import new_key
from tests.harness.database import environment, orders_refused
from tests.harness.manage import manage
from tests.harness.python import run_python

ORDERS = "/api/v1/orders"
NAME, PHONE = "Yacine Bouzidi-Haddad", "0551 23 45 67"


def sent_to_sentry(receiver: Any) -> str:
    envelopes = eventually(lambda: receiver.of("/api/1/envelope/"))
    return "".join(
        (gzip.decompress(each.body) if each.headers.get("content-encoding") == "gzip" else each.body).decode()
        for each in envelopes
    )


def test_a_crash_goes_to_sentry_without_customer_key_and_query(start, receiver):
    web = start("web", SENTRY_DSN=f"http://public@127.0.0.1:{receiver.address[1]}/1")
    key = new_key(AccountFactory(rate_limit=1000))
    body = order_body(customer_name=NAME, customer_phone=PHONE)
    headers = {"X-Request-Id": "the-crash", "Cookie": f"a={key}"}
    with orders_refused():
        answer = web.send("POST", f"{ORDERS}?phone=0551234567", body, headers, key=key)
    assert answer.status == 500

    sent = sent_to_sentry(receiver)
    event = next(each for each in map(json.loads, sent.splitlines()) if "exception" in each)
    assert event["exception"]["values"][-1]["type"] == "IntegrityError"
    assert "broken" in event["exception"]["values"][-1]["value"]
    assert event["tags"]["request_id"] == "the-crash"
    assert event["request"] == {"method": "POST"}
    for secret in (NAME, "Bouzidi", PHONE, "0551234567", key[:20], "Didouche"):
        assert secret not in sent


def test_arguments_of_commands_stay_here(receiver, db):
    code = "import django, logging; django.setup(); logging.getLogger('codservice').error('it broke')"
    dsn = f"http://public@127.0.0.1:{receiver.address[1]}/1"
    done = run_python("-c", code, "--name", "the-argument", env=environment(SENTRY_DSN=dsn))
    assert done.returncode == 0, done.stderr

    sent = sent_to_sentry(receiver)
    assert "it broke" in sent
    assert "the-argument" not in sent


def test_requests_and_tasks_are_traced_by_route_alone(start, receiver):
    endpoint = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url(""), "OTEL_BSP_SCHEDULE_DELAY": "100"}
    web, _ = start("web", **endpoint), start("worker", **endpoint)
    key = new_key(AccountFactory(rate_limit=1000))
    assert web.send("POST", ORDERS, order_body(customer_name=NAME, customer_phone=PHONE), key=key).status == 201
    assert web.send("GET", f"{ORDERS}?phone=0551234567", key=key, headers={"User-Agent": key}).status == 200
    assert web.send("GET", f"{ORDERS}/0551234567", key=key).status == 404
    from webhooks.tasks import deliver

    deliver.delay()

    def names() -> set[str]:
        return {span.name for span in spans()}

    def spans():
        for each in receiver.of("/v1/traces"):
            assert b"0551234567" not in each.body
            assert key[:20].encode() not in each.body
            for resource in ExportTraceServiceRequest.FromString(each.body).resource_spans:
                for scope in resource.scope_spans:
                    yield from scope.spans

    eventually(lambda: {"POST api/v1/orders", "GET api/v1/orders", "run/webhooks.tasks.deliver"} <= names())
    keys = {attribute.key for span in spans() for attribute in span.attributes}
    assert {"http.route", "celery.task_name"} <= keys
    assert not [name for name in keys if "url" in name or "target" in name or "agent" in name or "peer" in name]


@pytest.mark.parametrize(
    ("name", "value", "module"),
    [
        ("SENTRY_DSN", "https://public@sentry.example/1", "sentry_sdk"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318", "opentelemetry"),
    ],
)
def test_without_the_packages_the_start_stops_and_says_what_to_install(name, value, module):
    lines = f"import runpy, sys; sys.modules[{module!r}] = None; sys.argv = ['manage.py', 'check']"
    done = subprocess.run(
        [sys.executable, "-c", f"{lines}; runpy.run_path('manage.py', run_name='__main__')"],
        env=os.environ | {name: value},
        cwd=settings.BASE_DIR,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert f"{name} needs more packages. Run `pip install -r codservice/observability/requirements.txt`." in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SENTRY_DSN", "sentry.example"),
        ("SENTRY_DSN", "https://sentry.example/1"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318"),
        ("METRICS_TOKEN", "short"),
        ("METRICS_PORT", "70000"),
    ],
)
def test_a_wrong_value_stops_the_start(name, value):
    result = manage("check", env={name: value})
    assert result.returncode != 0
    assert name in result.stderr
    assert "Traceback" not in result.stderr
    assert value not in result.stderr.replace("METRICS_PORT", "")
