"""The public lists find nothing. Here each document is tried as every body, a share of both lists in other places."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from codservice.accounts.models import Account
from inventory.models import Product
from tests.attack import lists
from tests.factories import ProductFactory, make_order
from tests.harness.client import ApiClient
from tests.harness.deliveries import write_delivery
from tests.harness.description import generated
from webhooks import delivery
from webhooks.models import Webhook

pytestmark = pytest.mark.django_db
# Each place gets one in so many, and the next place different ones.
STRIDE = 20


def share(everything: list[Any], number: int) -> list[Any]:
    return everything[number % STRIDE :: STRIDE]


@pytest.fixture
def attack(
    alice: Account, api_for: Callable[..., ApiClient], webhook_to: Callable[..., Webhook], monkeypatch: Any
) -> lists.Attack:
    """An attack by Alice, whose products have the naughty strings as SKUs and names."""
    # The first webhook that is deleted sets it until the test's transaction ends, and looking names up takes seconds.
    monkeypatch.setattr(delivery, "HELD_OFF_FOR", "0")
    alice.rate_limit = 1_000_000
    alice.save()
    names = {lists.kept(text)[:64].strip() for text in lists.naughty_strings()} - {""}
    Product.objects.bulk_create([ProductFactory.build(account=alice, sku=name, name=name) for name in sorted(names)])
    webhook = webhook_to("https://receiver.invalid/")
    client = api_for(alice)

    def send(method: str, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        kind = headers.pop("Content-Type", "application/json")
        answer = client.generic(method, path, body, content_type=kind, headers=headers)
        return answer.status_code, b"".join(answer) if answer.streaming else answer.content

    order, failed = make_order(alice), write_delivery(webhook, "failed", attempts=1)
    return lists.Attack(send, orders=str(order.id), webhooks=str(webhook.id), deliveries=str(failed.id))


def test_the_lists_are_whole() -> None:
    documents = lists.json_documents()
    kinds = [sum(name.startswith(kind) for name in documents) for kind in ("y_", "n_", "i_")]
    assert (len(documents), kinds) == (340, [95, 188, 35])
    assert len(lists.naughty_strings()) == 485


def test_the_places_are_all_that_the_description_names() -> None:
    found = {str(place).removeprefix("POST /api/v1/orders ") for place in lists.places(generated())}
    assert {"body items.0.attributes.key (key)", "body items.0.attributes.key", "body notes"} <= found
    assert {"header Idempotency-Key", "GET /api/v1/orders query status", "GET /api/v1/orders/{id} path id"} <= found


def test_nothing_of_the_lists_crashes_slips_through_or_is_changed(attack: lists.Attack) -> None:
    tried, found = 0, []
    for case in lists.cases(generated(), share):
        tried += 1
        if problem := attack(case):
            found.append(problem)
    assert found == []
    assert tried > 3000


def spoilt(attack: lists.Attack, **changes: Callable[[bytes], bytes]) -> lists.Attack:
    """The same attack, with requests or answers changed on the way."""
    send = attack.send

    def changed(method: str, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        status, content = send(method, path, changes.get("sent", bytes)(body), headers)
        return status, changes.get("answered", bytes)(content)

    return lists.Attack(changed, **attack.ids)


@pytest.mark.parametrize(
    ("changes", "of", "expected"),
    [
        ({"sent": lambda body: body.replace(b",]", b"]")}, "document", "n_array_extra_comma: taken for JSON"),
        ({"sent": lambda body: body.replace(b"\x00", b"")}, "document", "n_string_unescaped_ctrl_char: taken for JSON"),
        ({"answered": lambda content: content.replace("​".encode(), b"")}, "text", "the text is not in the answer"),
        ({"answered": lambda content: b"<h1>Oops</h1>"}, "document", "with a body that is no JSON"),
        ({"answered": lambda content: b'{"detail": "x"}'}, "document", "without error and message"),
    ],
)
def test_a_reader_that_forgives_or_changes_is_found(attack: lists.Attack, changes: Any, of: str, expected: str) -> None:
    every = spoilt(attack, **changes)
    tried = lists.cases(generated(), at=lambda place: str(place).endswith(("orders body", "notes")))
    document, _, taken = expected.partition(": taken")
    assert any(expected in every(case) for case in tried if (case.document == document if taken else getattr(case, of)))


def test_a_crash_is_found(attack: lists.Attack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orders.views.OrderViewSet.get_queryset", lambda view: 1 / 0)
    case = next(lists.cases(generated(), at=lambda place: place.where == "query" and "orders" in place.path))
    assert attack(case).endswith(": 500")


def test_text_that_is_stored_changed_is_found() -> None:
    tried = lists.cases(generated(), at=lambda place: str(place).endswith("notes"))
    case = next(case for case in tried if case.is_kept and case.text == "undefined")
    assert lists.wrong(case, 201, json.dumps({"notes": "undefined"}).encode()) == ""
    assert (
        lists.wrong(case, 201, json.dumps({"notes": "Undefined"}).encode()) == "201, and the text is not in the answer"
    )
