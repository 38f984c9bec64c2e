"""Each address of the URL configuration while the database takes no writes, or while its tables have another column."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from django.apps import apps
from django.db import connection
from django.test import Client
from django.utils import timezone

from agents.models import Claim
from codservice.accounts import authentication, sessions
from codservice.accounts.models import Account, ApiKey
from tests import factories
from tests.harness.addresses import addresses
from tests.harness.client import ApiClient
from tests.harness.database import database_url
from tests.harness.deliveries import write_delivery
from webhooks.models import Webhook

pytestmark = pytest.mark.django_db(transaction=True)
API = "/api/v1/"
ALL = [address for address in addresses() if "^" not in address.route]


class World:
    """A merchant with something at every address, and everybody who may ask for it."""

    def __init__(self, alice: Account, webhook_to: Callable[..., Webhook]) -> None:
        Account.objects.update(rate_limit=1_000_000)
        people = {
            "holder": alice.holder,
            "agent": factories.AgentFactory(),
            "supervisor": factories.AgentFactory(role="Supervisors"),
            "operator": factories.UserFactory(is_staff=True, is_superuser=True),
        }
        product = factories.ProductFactory(account=alice, sku="ROB-01")
        factories.open_always()
        self.order = factories.make_order(alice)
        self.webhook = webhook_to("https://shop.example/hooks")
        self.delivery = write_delivery(self.webhook, "failed", attempts=4)
        self.agent = people["agent"]
        self.browsers = {"nobody": Client(raise_request_exception=False)}
        for name, person in people.items():
            self.browsers[name] = Client(raise_request_exception=False)
            self.browsers[name].force_login(person)
        self.browsers["agent"].post("/console/desk/next/")
        key, text = ApiKey.issue(alice, name="Shop")
        self.api = ApiClient(text)
        self.testing = ApiClient(ApiKey.issue(alice, name="Trial", is_test=True)[1])
        self.ids = {
            "claim_id": Claim.objects.get().id,
            "order_id": self.order.id,
            "user_id": self.agent.id,
            "account_id": alice.id,
            "name": "orders",
            "uidb64": "x",
            "token": "x-y",
            "app_label": "accounts",
            "content_type_id": 1,
        }
        self.objects = {"orders": self.order, "webhooks": self.webhook, "deliveries": self.delivery, "keys": key}
        self.objects |= {
            "user": people["holder"],
            "account": alice,
            "apikey": key,
            "product": product,
            "products": product,
        }

    def path_of(self, route: str) -> str:
        """Return the address of something that exists."""

        def fill(match: re.Match[str]) -> str:
            before = [self.objects[word] for word in re.findall(r"\w+", route[: match.start()]) if word in self.objects]
            return str(self.ids.get(match[1]) or (before[-1].pk if before else "x"))

        return re.sub(r"<(?:\w+:)?(\w+)>", fill, route)

    def addresses(self, *people: str) -> list[tuple[str, str]]:
        """Return who may ask for which page: strangers for all but those behind a login, each person for their own."""
        paths = sorted({self.path_of(each.route) for each in ALL if not each.is_api})
        houses = {"nobody": "", "holder": "/account/", "agent": "/console/", "supervisor": "/console/"}
        houses["operator"] = "/console/"
        return [
            (name, path)
            for name in people or houses
            for path in paths
            if path.startswith(houses[name]) and (name != "nobody" or not path.startswith(("/account/o", "/console/")))
        ]

    def pages(self, *people: str) -> dict[tuple[str, str], int]:
        """Return the status of a GET of each page, by person and address."""
        return {(name, path): self.browsers[name].get(path).status_code for name, path in self.addresses(*people)}

    def reads(self) -> dict[str, int]:
        """Return the status of each GET of the API."""
        authentication._trusted.clear()
        paths = [self.path_of(each.route) for each in ALL if each.is_api and "GET" in each.methods]
        paths += [f"{API}orders?q=amine", f"{API}inventory?q=rob", f"{API}inventory?page=1"]
        paths = [path + "?wilaya=16" if path.endswith("lookup") else path for path in paths]
        return {path: self.api.get(path).status_code for path in paths}

    def writes(self, number: int = 0) -> dict[tuple[str, str], Any]:
        """Return the answers to each call of the API that changes something."""
        bodies = {
            ("post", f"{API}orders"): factories.order_body(external_id=f"n{number}"),
            ("post", f"{API}orders/batch"): {"orders": [factories.order_body(external_id=f"b{number}")]},
            ("post", f"{API}webhooks/{self.webhook.id}/recover"): {"since": timezone.now().isoformat()},
            ("put", f"{API}shipping-fees"): {"fees": [{"wilaya": "16", "home": number}]},
            ("put", f"{API}inventory"): {"updates": [{"sku": "ROB-01", "quantity": number}]},
            ("put", f"{API}products"): {"products": [{"sku": "ROB-01", "name": f"Robe {number}", "price": 1}]},
            ("post", f"{API}webhooks"): {"url": f"https://shop.example/{number}", "events": ["order.confirmed"]},
        }
        calls = [
            (verb.lower(), self.path_of(each.route))
            for each in ALL
            if each.is_api
            for verb in each.methods - {"GET", "HEAD"}
        ]
        sent = {"content_type": "application/json", "headers": {"Idempotency-Key": f"key-{number}"}}
        return {
            call: getattr(self.testing if "/test/" in call[1] else self.api, call[0])(
                call[1], {"outcome": "busy"} if call[1].endswith("/call") else bodies.get(call, {}), **sent
            )
            for call in sorted(calls)
        }

    def all(self, number: int) -> list[dict[Any, int]]:
        """Return the statuses of all calls of the API, and of the pages of a holder and an agent."""
        written = {call: answer.status_code for call, answer in self.writes(number).items()}
        return [self.reads(), self.pages("holder", "agent"), written]


@pytest.fixture
def world(alice: Account, webhook_to: Callable[..., Webhook], names: dict[str, Any]) -> World:
    return World(alice, webhook_to)


@contextmanager
def database_that_takes_no_writes() -> Iterator[None]:
    def become(state: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"SET default_transaction_read_only = {state}")

    become("on")
    try:
        yield
    finally:
        become("off")


def test_the_api_is_read_where_the_database_takes_no_writes(world: World) -> None:
    """This holds even for a key whose last use would be noted."""
    with database_that_takes_no_writes():
        answers = world.reads()
    assert len(answers) > 6
    assert {path: status for path, status in answers.items() if status != 200} == {}
    assert not ApiKey.objects.exclude(last_used_at=None).exists()


def test_calls_that_write_are_503_where_the_database_takes_no_writes(world: World) -> None:
    with database_that_takes_no_writes():
        answers = world.writes()
    assert len(answers) > 6
    for call, answer in answers.items():
        assert (answer.status_code, answer.headers.get("Retry-After")) == (503, "1"), (call, answer.content)
        assert answer.json()["error"] == "unavailable"


def test_pages_are_read_where_the_database_takes_no_writes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "_NOTED_EVERY", 0)  # so that everybody's last sign of life is due to be noted
    with database_that_takes_no_writes():
        now = world.pages()
    assert 200 in now.values()
    others = {page: status for page, status in now.items() if status != 200}
    assert others == {(name, path): world.browsers[name].get(path).status_code for name, path in others}


def test_forms_of_pages_are_503_where_the_database_takes_no_writes(world: World) -> None:
    with database_that_takes_no_writes():
        answers = {(name, path): world.browsers[name].post(path) for name, path in world.addresses()}
        login = Client(raise_request_exception=False).post(
            "/account/login", {"username": world.agent.username, "password": factories.PASSWORD}
        )
    statuses = {key: answer.status_code for key, answer in answers.items()}
    assert 503 in statuses.values()
    assert {key: status for key, status in statuses.items() if status == 500} == {}
    assert (login.status_code, login.headers["Retry-After"]) == (503, "1")
    assert b"Reload this page to send it again" in login.content


def test_ready_says_that_the_database_takes_no_writes(world: World) -> None:
    with database_that_takes_no_writes():
        answer = world.browsers["nobody"].get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["database"].startswith("accepts no writes")
    assert world.browsers["nobody"].get("/readyz").json()["database"] == "ok"


def test_a_new_column_breaks_nothing_that_was_prepared_before(world: World) -> None:
    """Migrations run beside the old code, whose statements the database has prepared."""
    tables = [model._meta.db_table for model in apps.get_models() if model._meta.managed and not model._meta.proxy]
    for number in (1, 2):  # a statement is prepared the second time
        before = world.all(number)
    with psycopg.connect(database_url(), autocommit=True) as migration:
        try:
            for table in tables:
                migration.execute(f"ALTER TABLE {table} ADD COLUMN added_by_a_test integer")
            now = world.all(3)
        finally:
            for table in tables:
                migration.execute(f"ALTER TABLE {table} DROP COLUMN IF EXISTS added_by_a_test")
    assert now == before
