"""What shops and agents send, each by its own dice and until it is answered, as they would; and a record of it all."""

import html
import http.client
import json
import random
import re
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import urlencode

from tests.harness.background import PATIENCE

from .record import Answer, Cancel, Counted, Decision, Import, Record, Row, StockPut

RETRIED = (0, 500, 503)  # no answer, a crash, not now
AT_ONCE = 12  # requests of a burst; the service has four threads
DRAWN_OUT = 5  # seconds that a client may be behind its rate, before it skips the rest
SKUS = [f"SKU-{number}" for number in range(40)]
PASSWORD = "a horse is no battery"


class Pace:
    """The steps of a client at a steady rate, which it catches up with after a pause."""

    def __init__(self, rate: float, is_over: threading.Event) -> None:
        self.rate, self.is_over = rate, is_over
        self.due = time.monotonic()

    def step(self) -> bool:
        """Wait until the next step is due. False when the run is over."""
        self.due = max(self.due + 1 / self.rate, time.monotonic() - DRAWN_OUT)
        return not self.is_over.wait(max(self.due - time.monotonic(), 0))


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        with suppress(ValueError):
            return json.loads(self.body)
        return None


NOTHING = Reply(0, {}, b"")


class Client:
    """Sends requests to one address, and records the answer to each."""

    def __init__(self, who: str, port: int, record: Record, is_over: threading.Event, seed: str) -> None:
        self.who, self.port, self.record, self.is_over = who, port, record, is_over
        self.dice = random.Random(f"{seed} {who}")

    def send(self, method: str, path: str, body: str | None = None, **headers: str) -> Reply:
        began = time.monotonic()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            got = {name.lower(): value for name, value in response.getheaders() if name.lower() != "set-cookie"}
            got["set-cookie"] = "\n".join(response.headers.get_all("Set-Cookie") or [])
            reply = Reply(response.status, got, response.read())
        except (OSError, http.client.HTTPException):
            reply = NOTHING
        finally:
            connection.close()
        what = f"{method} {re.sub(r'[0-9a-f-]{36}', '…', path)}"
        content_type, retry_after = reply.headers.get("content-type", ""), reply.headers.get("retry-after", "")
        ended = time.monotonic()
        self.record.answers.append(Answer(self.who, what, began, ended, reply.status, content_type, retry_after))
        return reply

    def until_answered(self, send: Callable[[], Reply], retried: Sequence[int] = RETRIED) -> Reply:
        """The first answer whose status is not `retried`, or NOTHING if the run is over before."""
        while (reply := send()).status in retried:
            if self.is_over.wait(0.1 + self.dice.random() / 5):
                return NOTHING
        return reply


class Shop(Client):
    """One of a merchant's systems: imports, cancels, sets stock, and reads."""

    def __init__(self, who: str, account: str, key: str, numbers: "Numbers", *more: Any) -> None:
        super().__init__(who, *more)
        self.account, self.key, self.numbers = account, key, numbers
        self.mine: list[str] = []

    def call(self, method: str, path: str, body: Row | None = None, **headers: str) -> Reply:
        headers |= {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        return self.send(method, f"/api/v1/{path}", json.dumps(body) if body is not None else None, **headers)

    def work(self, rate: float) -> None:
        pace = Pace(rate, self.is_over)
        steps = {self.import_order: 9, self.set_stock: 3, self.cancel: 3, self.import_once: 2, self.read: 1}
        while pace.step():
            self.dice.choices(list(steps), list(steps.values()))[0]()

    def order(self) -> Row:
        dice = self.dice
        lines = [
            {"product_name": f"Robe {n}", "quantity": dice.randint(1, 9), "unit_price": f"{dice.randint(1, 9999)}.25"}
            for n in range(dice.randint(1, 4))
        ]
        return {
            "customer_name": self.dice.choice(["Amine Benali", "أمين بن علي", "Zoé O'Brien"]),
            "customer_phone": f"055{self.dice.randrange(10**7):07}",
            "customer_address": "12 rue Didouche Mourad",
            "customer_wilaya": "16",
            "total_amount": self.dice.randint(1, 10**7) / 100,
            "notes": f"{self.who} {self.numbers.next()}",
            "items": lines,
        }

    def import_order(self) -> None:
        """Import with an Idempotency-Key until it is answered; sometimes once more, or with another body."""
        wanted = Import(self.account, self.order(), key=str(uuid.UUID(int=self.dice.getrandbits(128), version=4)))
        self.record.imports.append(wanted)
        first = self.send_keyed(wanted, wanted.body)
        if first.status != 201:
            return
        wanted.answer = first.json()
        self.mine.append(wanted.answer["id"])
        if self.dice.random() < 0.1:
            again = self.send_keyed(wanted, wanted.body)
            wanted.replays += [again.json()] if again.status else []
        if self.dice.random() < 0.05:
            other = self.send_keyed(wanted, {**wanted.body, "customer_address": "another"})
            wanted.reused += [other.status] if other.status else []

    def send_keyed(self, wanted: Import, body: Row) -> Reply:
        headers = {"Idempotency-Key": wanted.key}
        # 409: an earlier request with the key is still being processed.
        return self.until_answered(lambda: self.call("POST", "orders", body, **headers), (*RETRIED, 409))

    def import_once(self) -> None:
        """Import without a key, so only once, whatever the answer."""
        wanted = Import(self.account, self.order())
        self.record.imports.append(wanted)
        reply = self.call("POST", "orders", wanted.body)
        if reply.status == 201:
            wanted.answer = reply.json()
            self.mine.append(wanted.answer["id"])

    def cancel(self) -> None:
        if not self.mine:
            return
        cancel = Cancel(self.dice.choice(self.mine[-50:] if self.dice.random() < 0.5 else self.mine))
        self.record.cancels.append(cancel)
        cancel.status = self.until_answered(lambda: self.call("POST", f"orders/{cancel.order}/cancel")).status

    def set_stock(self) -> None:
        """Set the stock of some products, in any order. Sending again is another change, so with other quantities."""
        skus = self.dice.sample(SKUS, self.dice.choice([1, 2, 5, len(SKUS)]) if self.dice.random() < 0.1 else 2)

        def send() -> Reply:
            put = StockPut(self.account, {sku: self.numbers.next() for sku in skus})
            self.record.puts.append(put)
            updates = [{"sku": sku, "quantity": quantity} for sku, quantity in put.entries.items()]
            reply = self.call("PUT", "inventory", {"updates": updates})
            put.is_answered = reply.status == 200
            return reply

        self.until_answered(send)

    def read(self) -> None:
        self.call("GET", self.dice.choice(["orders?per_page=20", "orders?status=confirmed", "inventory", "webhooks"]))

    def burst(self, count: int) -> None:
        """Send `count` requests, AT_ONCE at a time, to reach the limit of the key."""

        def one() -> None:
            reply = self.call("GET", "orders?per_page=1")
            self.record.burst.append(Counted(reply.status, int(reply.headers.get("x-ratelimit-remaining", -1))))

        with ThreadPoolExecutor(AT_ONCE) as pool:
            for future in [pool.submit(one) for _ in range(count)]:
                future.result()


class Numbers:
    """Unique numbers, for all threads."""

    def __init__(self) -> None:
        self._last = 0
        self._lock = threading.Lock()

    def next(self) -> int:
        with self._lock:
            self._last += 1
            return self._last


READS = 1.1  # seconds that an agent looks at a screen: outcomes in its first second are refused
HIDDEN = re.compile(r'<input[^>]*\bname="(csrfmiddlewaretoken|note_id|seen|shown_at|seal|order)"[^>]*>')
VALUE = re.compile(r'\bvalue="([^"]*)"')


@dataclass
class Form:
    """The hidden fields of a page's form for the outcome of a call."""

    fields: list[tuple[str, str]] = field(default_factory=list)

    @classmethod
    def of(cls, page: bytes) -> "Form":
        found = [(match[1], VALUE.search(match[0])) for match in HIDDEN.finditer(page.decode())]
        return cls([(name, html.unescape(value[1])) for name, value in found if value])

    def __getitem__(self, name: str) -> str:
        return next((value for each, value in self.fields if each == name), "")


class Agent(Client):
    """A person at the desk: takes the next customer, calls, decides."""

    cookies: dict[str, str]

    def open(self, method: str, path: str, fields: Sequence[tuple[str, str]] = ()) -> Reply:
        headers = {"Cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())}
        if fields:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        reply = self.send(method, path, urlencode(fields) if fields else None, **headers)
        for line in filter(None, reply.headers.get("set-cookie", "").split("\n")):
            self.cookies |= {name: morsel.value for name, morsel in SimpleCookie(line).items()}
        return reply

    def sign_in(self) -> None:
        self.cookies = {}
        page = self.until_answered(lambda: self.open("GET", "/console/login/"))
        fields = [("username", self.who), ("password", PASSWORD)]
        fields += [("csrfmiddlewaretoken", Form.of(page.body)["csrfmiddlewaretoken"]), ("next", "/console/desk/")]
        self.until_answered(lambda: self.open("POST", "/console/login/", fields))

    def work(self, rate: float) -> None:
        self.sign_in()
        pace = Pace(rate, self.is_over)
        while pace.step():
            self.serve()

    def serve(self) -> None:
        """Serve one customer."""
        token = [("csrfmiddlewaretoken", self.cookies.get("csrftoken", ""))]
        at = self.until_answered(lambda: self.open("POST", "/console/desk/next/", token)).headers.get("location", "")
        if "/login/" in at:
            self.sign_in()
        elif re.search(r"[0-9a-f-]{36}", at):
            page = self.until_answered(lambda: self.open("GET", at))
            form = Form.of(page.body)
            if form["note_id"] and form["order"] and not self.is_over.wait(READS):
                self.decide(at, form)
        else:
            self.is_over.wait(0.2)  # nobody is due

    def decide(self, at: str, form: Form) -> None:
        order = self.dice.choice([value for name, value in form.fields if name == "order"])
        outcome = self.dice.choices(["confirm", "cancel", "no_answer", "busy"], [13, 4, 2, 1])[0]
        fields = [(name, value) for name, value in form.fields if name != "order"]
        fields += [("order", order), ("asked", order)]
        fields += [("outcome", "cancel:Duplicate" if outcome == "cancel" else outcome)]
        decision = Decision(order, outcome, note=f"{self.who} {form['note_id']}")
        fields += [("note", decision.note)]
        self.record.decisions.append(decision)
        reply = self.until_answered(lambda: self.open("POST", f"{at}outcome/", fields))
        if "/login/" in reply.headers.get("location", ""):
            self.sign_in()
        elif reply.status == 302:
            decision.is_done = True
        elif reply.status:
            decision.is_done = False
