"""The complete programs of docs/examples, run against the service: web processes, the engine, real sockets."""

import base64
import hashlib
import hmac
import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.conf import settings

from codservice.accounts.actor import Actor, Role
from orders import lifecycle
from orders.models import Order
from tests.factories import AccountFactory, make_order, order_body
from tests.harness.background import PATIENCE
from tests.harness.client import new_key
from tests.harness.npm import program
from tests.harness.processes import free_port
from tests.harness.service import Service
from webhooks import events, registry, resending
from webhooks.engine import Engine
from webhooks.models import Delivery
from webhooks.openapi import example_of

EXAMPLES = settings.BASE_DIR / "docs/examples"
SHOPS = {"python": [sys.executable, "shop.py"], "php": ["php", "shop.php"]}
RECEIVERS = {
    "python": [sys.executable, "shop.py", "receive"],
    "php": ["php", "-S", "127.0.0.1:{port}", "shop.php"],
    "node": ["node", "receiver.mjs"],
}

pytestmark = pytest.mark.django_db(transaction=True)


# --- Importing: through a front that loses requests and answers, as the internet does --------------------------------


class Front:
    """A front to the service. The first requests meet `troubles` in turn; all later ones pass."""

    def __init__(self, port: int, troubles: list[str]) -> None:
        self.seen: list[tuple[str, str]] = []
        front = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                trouble = troubles.pop(0) if troubles else ""
                front.seen.append((trouble, self.headers["Idempotency-Key"]))
                if trouble.isdigit():
                    return self._answer(int(trouble), {"Retry-After": "1"}, b"{}")
                if trouble == "dated":  # as some proxies do
                    return self._answer(503, {"Retry-After": "Wed, 21 Oct 2037 07:28:00 GMT"}, b"{}")
                if trouble == "cut503":  # the front dies in the middle of saying so
                    self._answer(503, {"Retry-After": "1"}, b"<html>bad ", length=500)
                    return self.connection.shutdown(socket.SHUT_RDWR)
                passed = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
                passed.request("POST", self.path, body, dict(self.headers.items()))
                answer = passed.getresponse()
                content = answer.read()
                passed.close()
                if trouble == "lost":  # the service has done it, but nobody hears of it
                    return self.connection.shutdown(socket.SHUT_RDWR)
                return self._answer(answer.status, {}, content)

            def _answer(self, status: int, headers: dict[str, str], content: bytes, length: int | None = None) -> None:
                self.send_response(status)
                size = len(content) if length is None else length
                for name, value in {**headers, "Location": "/there", "Content-Length": str(size)}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            def do_GET(self) -> None:  # as a redirect makes of a POST
                front.seen.append((f"GET {self.path}", ""))
                self._answer(200, {}, b'{"data":[]}')

            def log_message(self, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def front(service: Service) -> Iterator[Callable[..., Front]]:
    made: list[Front] = []

    def make(*troubles: str) -> Front:
        made.append(Front(service.port, list(troubles)))
        return made[-1]

    yield make
    for each in made:
        each.server.shutdown()
        each.server.server_close()


@pytest.fixture(params=sorted(SHOPS))
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a shop's import of these orders against this address."""
    for path in EXAMPLES.glob("shop.*"):
        shutil.copy(path, tmp_path)

    def run(orders: Any, url: str, key: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "orders.json").write_text(json.dumps(orders))
        first, script = SHOPS[request.param]
        return subprocess.run(
            [program(first), script, "import", "orders.json"],
            cwd=tmp_path, env=os.environ | {"URL": url, "KEY": key}, capture_output=True, text=True, check=False,
        )  # fmt: skip

    return run


def test_orders_are_imported_once_through_all_troubles(shop: Callable[..., Any], front: Callable[..., Front]) -> None:
    account = AccountFactory()
    troubled = front("503", "lost", "429")
    orders = [order_body(external_id="1042"), order_body(external_id="1043")]

    done = shop(orders, troubled.url, new_key(account))

    assert done.returncode == 0, done.stderr
    imported = Order.objects.filter(account=account).order_by("created_at", "id")
    assert done.stdout.splitlines() == [f"{order.external_id} {order.id}" for order in imported]
    assert [order.external_id for order in imported] == ["1042", "1043"]
    (one, *others), other = [key for _, key in troubled.seen[:4]], troubled.seen[4][1]
    assert others == [one] * 3
    assert other != one
    assert [trouble for trouble, _ in troubled.seen] == ["503", "lost", "429", "", ""]


def test_a_slow_line_and_a_dated_pause_are_no_end(shop: Callable[..., Any], front: Callable[..., Front]) -> None:
    account = AccountFactory()
    troubled = front("408", "dated")

    done = shop([order_body(external_id="1042")], troubled.url, new_key(account))

    assert done.returncode == 0, done.stderr
    assert Order.objects.get(account=account).external_id == "1042"
    assert [trouble for trouble, _ in troubled.seen] == ["408", "dated", ""]


def test_an_answer_that_breaks_off_is_no_end(shop: Callable[..., Any], front: Callable[..., Front]) -> None:
    account = AccountFactory()
    troubled = front("cut503")

    done = shop([order_body(external_id=number) for number in ("1042", "1043")], troubled.url, new_key(account))

    assert done.returncode == 0, done.stderr
    assert set(Order.objects.filter(account=account).values_list("external_id", flat=True)) == {"1042", "1043"}
    assert [trouble for trouble, _ in troubled.seen] == ["cut503", "", ""]


def test_an_order_that_is_there_already_counts_as_imported(
    shop: Callable[..., Any], front: Callable[..., Front]
) -> None:
    account = AccountFactory()
    there = make_order(account, external_id="1042")
    sent = order_body(external_id="1042")

    again = shop([sent, order_body(external_id="1043")], front().url, new_key(account, scopes=["orders:write"]))
    wrong = shop([sent | {"customer_wilaya": "Atlantis"}], front().url, new_key(account))

    assert again.returncode == 0, again.stderr
    assert again.stdout.splitlines() == [f"1042 {there.id}", f"1043 {Order.objects.latest('created_at').id}"]
    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert "customer_wilaya" in wrong.stderr


def test_what_is_refused_is_told_and_not_sent_again(shop: Callable[..., Any], front: Callable[..., Front]) -> None:
    account = AccountFactory()
    calm = front()
    orders = [order_body(external_id="1", customer_wilaya="Atlantis"), order_body(external_id="2")]

    done = shop(orders, calm.url, new_key(account))

    assert done.returncode == 1
    assert "customer_wilaya" in done.stderr
    assert len(calm.seen) == 2
    assert Order.objects.get(account=account).external_id == "2"


def test_an_order_without_its_number_is_told_and_the_next_has_its_turn(
    shop: Callable[..., Any], front: Callable[..., Front]
) -> None:
    account = AccountFactory()
    calm = front()
    nameless = order_body()
    orders = [nameless, nameless | {"external_id": None}, nameless | {"external_id": ""}, order_body(external_id="2")]

    done = shop(orders, calm.url, new_key(account))

    assert done.returncode == 1
    assert done.stderr.splitlines() == [f"order {place} has no external_id; not sent" for place in (1, 2, 3)]
    assert done.stdout == f"2 {Order.objects.get(account=account).id}\n"
    assert len(calm.seen) == 1


def test_a_key_that_is_refused_ends_it(shop: Callable[..., Any], front: Callable[..., Front]) -> None:
    orders = [order_body(external_id=number) for number in ("1", "2", "3")]
    for key, status in (("cod_live_wrong", 401), (new_key(AccountFactory(), scopes=["orders:read"]), 403)):
        calm = front()

        done = shop(orders, calm.url, key)

        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(f"The key is refused, no more orders are sent: {status} ")
        assert len(calm.seen) == 1


def test_what_is_no_list_of_orders_is_told(shop: Callable[..., Any], front: Callable[..., Front]) -> None:
    calm = front()

    done = shop({"orders": [order_body(external_id="1")]}, calm.url, new_key(AccountFactory()))

    assert (done.returncode, done.stdout) == (1, "")
    assert "list of orders" in done.stderr
    assert done.stderr.count("\n") == 1
    assert shop([1, order_body(external_id="2")], calm.url, "x").stderr.startswith("order 1 has no external_id")
    assert len(calm.seen) == 1


def test_what_was_refused_is_taken_when_it_has_been_corrected(
    shop: Callable[..., Any], front: Callable[..., Front]
) -> None:  # fmt: skip
    account = AccountFactory()
    url, key = front().url, new_key(account)
    wrong, right = order_body(external_id="1", customer_wilaya="Atlantis"), order_body(external_id="1")

    refused, done, again = [shop([order], url, key) for order in (wrong, right, right)]

    assert (refused.returncode, refused.stdout) == (1, "")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == again.stdout == f"1 {Order.objects.get(account=account).id}\n"


def test_an_order_is_sent_as_the_file_has_it(shop: Callable[..., Any], front: Callable[..., Front]) -> None:
    account = AccountFactory()
    body = order_body(external_id="طلب 1042", total_amount=0.1)
    body["items"] = [body["items"][0] | {"attributes": attributes} for attributes in ({}, {"0": "M"})]

    done = shop([body], front().url, new_key(account))

    assert (done.returncode, done.stderr) == (0, "")
    order = Order.objects.get(account=account)
    assert (order.external_id, str(order.total_amount)) == ("طلب 1042", "0.10")
    assert [item.attributes for item in order.items.order_by("id")] == [{}, {"0": "M"}]


def test_a_redirect_is_no_place_to_take_the_key_to(shop: Callable[..., Any], front: Callable[..., Front]) -> None:
    moved = front("301")

    done = shop([order_body(external_id="1")], moved.url, new_key(AccountFactory()))

    assert (done.returncode, done.stdout) == (1, "")
    assert "301" in done.stderr
    assert [trouble for trouble, _ in moved.seen] == ["301"]


@pytest.mark.parametrize("page", ["docs/programs.md", "docs/fr/programs.md"])
def test_the_page_shows_the_commands_that_are_run_here(page: str) -> None:
    shown = (settings.BASE_DIR / page).read_text(encoding="utf-8").splitlines()

    for first, *rest in [*([*each, "import", "orders.json"] for each in SHOPS.values()), *RECEIVERS.values()]:
        command = " ".join(["python3" if first == sys.executable else first, *rest])
        if [first, *rest] in RECEIVERS.values():
            command = f"STORE=deliveries.jsonl {command}" if "{port}" in command else f"PORT=9000 {command}"
        assert command.format(port=9000) in shown


# --- Receiving --------------------------------------------------------------------------------------------------------


class Running:
    """A receiver as a process, and what it has stored."""

    def __init__(
        self, command: list[str], folder: Path, secret: str | None, port: int, kept_in: str = "kept.jsonl"
    ) -> None:
        self.port, self.store = port, folder / kept_in
        self._command = [program(command[0]), *(part.format(port=port) for part in command[1:])]
        self._folder = folder
        self._environ = os.environ | {"PORT": str(port), "STORE": kept_in and str(self.store)}
        if secret is not None:
            self._environ["SECRET"] = secret
        self.start()

    def start(self) -> None:
        with (self._folder / "log").open("ab") as log:
            self.process = subprocess.Popen(self._command, cwd=self._folder, env=self._environ, stdout=log, stderr=log)
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                assert self.process.poll() is None, (self._folder / "log").read_text()
                assert time.monotonic() < deadline, "the receiver does not listen"
                time.sleep(0.05)

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def kept(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.store.read_text().splitlines()]

    def post(self, body: bytes, headers: dict[str, str]) -> int:
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        client.request("POST", "/", body, headers)
        status = client.getresponse().status
        client.close()
        return status


@pytest.fixture
def secret_and_url(settings: Any) -> tuple[Any, str, int]:
    """A webhook that leads to a free port of this machine."""
    settings.WEBHOOK_ALLOW_PRIVATE = True
    port = free_port()
    webhook, secret = registry.register(
        AccountFactory().id, url=f"http://127.0.0.1:{port}/", events=["order.confirmed"]
    )  # fmt: skip
    return webhook, secret, port


@pytest.fixture(params=sorted(RECEIVERS))
def running(request: pytest.FixtureRequest, tmp_path: Path, secret_and_url: Any) -> Iterator[Running]:
    for path in EXAMPLES.iterdir():
        shutil.copy(path, tmp_path)
    _, secret, port = secret_and_url
    started = Running(RECEIVERS[request.param], tmp_path, secret, port)
    yield started
    started.stop()


def confirm_an_order(account: Any) -> Order:
    order = make_order(account, customer_name="سميرة 🎁")
    lifecycle.confirm(order.id, actor=Actor(Role.SUPERVISOR, "Samira"))
    return order


def signed(secret: str, body: bytes, delivery_id: str, sent_at: int) -> dict[str, str]:
    key = base64.b64decode(secret.removeprefix("whsec_"))
    digest = hmac.new(key, f"{delivery_id}.{sent_at}.".encode() + body, hashlib.sha256).digest()
    return {
        "Content-Type": "application/json",
        "X-Service-Event": "order.confirmed",
        "X-Service-Delivery": delivery_id,
        "webhook-timestamp": str(sent_at),
        "webhook-signature": "v1," + base64.b64encode(digest).decode(),
    }


def test_a_delivery_is_kept_once_however_often_it_comes(
    running: Running, secret_and_url: Any, engine: Engine
) -> None:  # fmt: skip
    webhook, _, _ = secret_and_url
    order = confirm_an_order(webhook.account)
    engine.drain()
    (sent,) = Delivery.objects.all()
    assert sent.status == "delivered"

    resending.resend([sent.id])
    engine.drain()
    running.stop()
    running.start()
    resending.resend([sent.id])
    engine.drain()

    sent.refresh_from_db()
    assert (sent.status, sent.attempt_count) == ("delivered", 3)
    (kept,) = running.kept()
    assert kept["delivery"] == str(sent.id)
    assert kept["body"]["data"]["id"] == str(order.id)
    assert kept["body"]["data"]["customer_name"] == "سميرة 🎁"


def test_an_example_is_acknowledged_and_nothing_else(running: Running, secret_and_url: Any, engine: Engine) -> None:
    webhook, _, _ = secret_and_url
    example = events.ping(webhook.account_id, webhook.id, kind="order.confirmed", example=example_of("order.confirmed"))
    engine.drain()
    confirm_an_order(webhook.account)
    engine.drain()
    running.stop()

    assert [sent.status for sent in Delivery.objects.all()] == ["delivered"] * 2
    assert [kept["delivery"] for kept in running.kept()] == [str(Delivery.objects.exclude(id=example).get().id)]
    assert str(example) not in (running.store.parent / "log").read_text()


def test_both_secrets_are_accepted_after_a_rotation(
    running: Running, secret_and_url: Any, engine: Engine
) -> None:  # fmt: skip
    webhook, _, _ = secret_and_url
    registry.rotate_secret(webhook.account_id, webhook.id)
    confirm_an_order(webhook.account)

    engine.drain()

    assert Delivery.objects.get().status == "delivered"  # the receiver still has the old secret


def test_forgeries_and_old_recordings_are_refused(running: Running, secret_and_url: Any) -> None:
    _, secret, _ = secret_and_url
    body, now, id_ = b'{"event":"order.confirmed","data":{}}', int(time.time()), str(uuid4())
    good = signed(secret, body, id_, now)

    assert running.post(body + b" ", good) == 401
    assert running.post(body, good | {"X-Service-Delivery": str(uuid4())}) == 401
    assert running.post(body, signed(secret[:-4] + "AAA=", body, id_, now)) == 401
    assert running.post(body, signed(secret, body, id_, now - 600)) == 401
    assert running.post(body, signed(secret, body, id_, now + 600)) == 401
    assert running.post(body, {"Content-Type": "application/json"}) == 401
    assert running.post(body, good) == 200
    assert [kept["delivery"] for kept in running.kept()] == [id_]


@pytest.mark.parametrize("secret", [None, "", "whsec_…"])
@pytest.mark.parametrize("receiver", sorted(RECEIVERS))
def test_without_its_secret_a_receiver_takes_nothing_and_says_why(
    receiver: str, secret: str | None, tmp_path: Path, secret_and_url: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in EXAMPLES.iterdir():
        shutil.copy(path, tmp_path)
    monkeypatch.delenv("SECRET", raising=False)
    try:
        started = Running(RECEIVERS[receiver], tmp_path, secret, secret_and_url[2])
    except AssertionError:
        pass  # it is not listening yet
    else:
        body = b'{"event":"order.confirmed","data":{}}'
        assert started.post(body, signed("whsec_", body, str(uuid4()), int(time.time()))) == 500
        started.stop()

    assert "Set SECRET to the signing_secret of your webhook." in (tmp_path / "log").read_text()
    assert not (tmp_path / "kept.jsonl").exists()


def test_shop_php_takes_nothing_before_it_is_told_where_to_keep_it(tmp_path: Path, secret_and_url: Any) -> None:
    """Under Apache or FPM a default would lie beside the script, and be served to anybody."""
    shutil.copy(EXAMPLES / "shop.php", tmp_path)
    _, secret, port = secret_and_url
    started = Running(RECEIVERS["php"], tmp_path, secret, port, kept_in="")
    body = b'{"event":"order.confirmed","data":{}}'

    assert started.post(body, signed(secret, body, str(uuid4()), int(time.time()))) == 500

    started.stop()
    assert "Set STORE to a file outside the web root." in (tmp_path / "log").read_text()
    assert {path.name for path in tmp_path.iterdir()} == {"shop.php", "log"}


def test_half_a_line_of_before_makes_nothing_of_what_comes_after(running: Running, secret_and_url: Any) -> None:
    _, secret, _ = secret_and_url
    body, now = '{"event":"order.confirmed","data":{"customer_name":"سميرة"}}'.encode(), int(time.time())
    ids = [str(uuid4()), str(uuid4())]
    assert running.post(body, signed(secret, body, ids[0], now)) == 200
    running.stop()
    with running.store.open("ab") as store:
        store.write('{"delivery":"of which the machine stopped","body":{"customer_name":"سم'.encode()[:-1])

    running.start()
    assert running.post(body, signed(secret, body, ids[1], now)) == 200
    running.stop()
    running.start()
    assert [running.post(body, signed(secret, body, id_, now)) for id_ in ids] == [200, 200]

    assert [kept["delivery"] for kept in running.kept()] == ids


def test_who_goes_away_in_the_middle_takes_nothing_along(running: Running, secret_and_url: Any) -> None:
    _, secret, _ = secret_and_url
    body, id_ = b'{"event":"order.confirmed","data":{}}', str(uuid4())
    with socket.create_connection(("127.0.0.1", running.port)) as gone:
        gone.sendall(b"POST / HTTP/1.1\r\nHost: shop\r\nContent-Length: 100\r\n\r\nhalf")
    time.sleep(0.3)

    assert running.post(body, signed(secret, body, id_, int(time.time()))) == 200
    assert running.process.poll() is None
