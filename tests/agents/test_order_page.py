"""One order on one page."""

import re
from datetime import timedelta
from decimal import Decimal

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from agents.desk import claims, shown
from codservice.accounts.actor import Actor
from codservice.accounts.models import Account, User
from orders import editing, lifecycle
from orders.models import CallNote, Order, OrderEdit
from tests.agents.screens import order_page, sums
from tests.factories import make_order, order_line
from tests.harness.client import browser_of


def test_everything_is_on_it(alice: Account, agent: User, colleague: User) -> None:
    order = make_order(
        alice,
        phone="٠٥٥٠١٢٣٤٥٦",
        customer_wilaya="W. d'Alger",
        customer_commune="bab ezouar",
        shipping_fee=Decimal("400.00"),
        notes="Après 17 h",
        external_id="CMD-9",
        customer_phone_2="021 55 66 77",
        delivery_type="desk",
        source="facebook",
        items=[
            order_line(
                quantity=3, product_name="Robe kabyle", unit_price=Decimal("2050.25"), attributes={"Taille": "M"}
            )
        ],
    )
    lifecycle.add_call_note(
        order.id, lifecycle.Call(agent=colleague, outcome=CallNote.Outcome.BUSY, note="Occupé deux fois")
    )
    lifecycle.cancel(order.id, actor=Actor.of_staff(colleague), reason="Trop cher")
    text = browser_of(agent).get(order_page(order)).content.decode()
    pieces = [
        "Amine Benali", 'href="tel:+213550123456"', "0550 12 34 56", "٠٥٥٠١٢٣٤٥٦", "12 rue Didouche Mourad",
        "Alger", "الجزائر", "W. d&#x27;Alger", "Bab Ezzouar", "باب الزوار", "bab ezouar",
        "Robe kabyle", "<li><bdi>Taille</bdi>: <bdi>M</bdi></li>",
        "2\u202f050.25", "6\u202f150.75", "400", "4\u202f500.50",
        "Alice&#x27;s shop", "CMD-9", "Après 17 h", 'href="tel:+21321556677"', "021 55 66 77", "Stop desk", "facebook",
        "Busy", "Nadia", "Occupé deux fois", "Canceled", "Trop cher", "Imported",
    ]  # fmt: skip
    assert [piece for piece in pieces if piece not in text] == []


@pytest.mark.parametrize(
    ("total", "said"),
    [
        ("4300.50", "Shipping fee 400 DA Discount \N{MINUS SIGN}200 DA To pay on delivery 4 300.50 DA"),
        ("4500.50", "Shipping fee 400 DA To pay on delivery 4 500.50 DA"),
        ("4600", "Shipping fee 400 DA Supplement 99.50 DA To pay on delivery 4 600 DA"),
    ],
    ids=["below the sum", "the sum", "above it"],
)
def test_the_shops_own_discount_or_supplement_is_told(alice: Account, agent: User, total: str, said: str) -> None:
    order = make_order(alice, shipping_fee=400, total_amount=Decimal(total))
    assert sums(browser_of(agent).get(order_page(order)).content.decode()) == [said]


def test_what_was_sent_is_not_repeated_when_it_says_the_same(alice: Account, agent: User) -> None:
    order = make_order(alice, customer_wilaya="ALGER", phone="+213 550 12 34 56")
    assert "Sent as" not in browser_of(agent).get(order_page(order)).content.decode()


def test_the_latest_call_and_change_stand_first(order: Order, agent: User) -> None:
    for note in ("First call", "Second call"):
        lifecycle.add_call_note(order.id, lifecycle.Call(agent=agent, outcome=CallNote.Outcome.BUSY, note=note))
    lifecycle.confirm(order.id, actor=Actor.of_staff(agent))
    text = browser_of(agent).get(order_page(order)).content.decode()
    assert text.index("Second call") < text.index("First call")
    assert text.index("<strong>Confirmed") < text.index("<strong>Imported")


def test_ten_thousand_changes_are_read_page_by_page(alice: Account, order: Order, agent: User) -> None:
    """All of them made a page of 13 MB."""
    lifecycle.add_call_note(order.id, lifecycle.Call(agent=agent, outcome=CallNote.Outcome.BUSY))
    made, now = {"account": alice, "order": order, "field": "notes", "actor": "Shop"}, timezone.now()
    OrderEdit.objects.bulk_create(
        OrderEdit(**made, old=f"[{n}]".ljust(500, "x"), new="y" * 500, at=now - timedelta(seconds=n))
        for n in range(editing.MOST_EDITS)
    )
    browser = browser_of(agent)
    for query, first in {"": 0, "?edits=2": 100, "?edits=100": 9900, "?edits=soon": 0}.items():
        text = browser.get(order_page(order) + query).content.decode()
        assert len(text.encode()) < 200_000
        assert re.findall(r"<del><bdi>\[(\d+)\]x", text) == [str(n) for n in range(first, first + 100)]
        assert f"Changes {first + 1} to {first + 100} of 10000, latest first." in text
        assert re.findall(rf'rel="(\w+)" href="{order_page(order)}\?edits=(\d+)#edits"', text) == [
            *([("prev", str(first // 100))] if first else []),
            *([("next", str(first // 100 + 2))] if first < 9900 else []),
        ]


def test_thousands_of_calls_are_read_page_by_page(alice: Account, order: Order, agent: User) -> None:
    now = timezone.now()
    CallNote.objects.bulk_create(
        CallNote(account=alice, order=order, outcome="note", note=f"[{n}]", created_at=now - timedelta(seconds=n))
        for n in range(1050)
    )
    browser = browser_of(agent)
    for query, first, last in ("", 0, 100), ("?calls=2&edits=2", 100, 200), ("?calls=11", 1000, 1050):
        text = browser.get(order_page(order) + query).content.decode()
        assert re.findall(r"\[(\d+)\]", text) == [str(n) for n in range(first, last)]
        assert f"Calls {first + 1} to {last} of 1050, latest first." in text
    assert re.findall(r'rel="\w+" href="([^"]+)#calls"', text) == [f"{order_page(order)}?calls=10"]
    lifecycle.confirm(order.id, actor=Actor.of_staff(agent))
    refused = browser.post(order_page(order, "note"), {"outcome": "x"})
    assert refused.status_code == 422
    (older,) = re.findall(r'rel="\w+" href="([^"]+)#calls"', refused.content.decode())
    assert browser.get(older).status_code == 200


@pytest.mark.parametrize(
    ("language", "said"),
    [("en", "1 July 2026, 23:30"), ("fr", "1 juil. 2026, 23:30"), ("ar-dz", "1 جويلية 2026، 23:30")],
)
def test_times_are_algerias_and_written_as_in_the_language(order: Order, agent: User, language: str, said: str) -> None:
    Order.objects.update(created_at="2026-07-01T22:30:00Z")
    assert said in browser_of(agent, headers={"Accept-Language": language}).get(order_page(order)).content.decode()


def test_why_an_order_is_canceled_runs_as_it_is_written(order: Order, supervisor: User) -> None:
    lifecycle.confirm(order.id, actor=Actor.of_staff(supervisor))
    browser = browser_of(supervisor)
    for page in (order_page(order), reverse("admin:bulk") + f"?action=cancel&chosen={order.id}"):
        (field,) = re.findall(r'<input type="text" name="details"[^>]*>', browser.get(page).content.decode())
        assert 'dir="auto"' in field


def test_pages_are_not_stored_framed_or_scripted_from_elsewhere(order: Order, agent: User) -> None:
    for path in (order_page(order), "/console/orders/order/", "/console/login/"):
        headers = browser_of(agent).get(path, follow=True).headers
        assert "no-store" in headers["Cache-Control"]
        assert headers["X-Frame-Options"] == "DENY"
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
        assert "unsafe" not in headers["Content-Security-Policy"]


def test_both_screens_that_decide_rest_as_long(
    order: Order, agent: User, supervisor: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shown, "SETTLED_MS", 1234)
    call = reverse("admin:call", args=[claims.take(order.id, agent=agent)])
    assert 'data-settles="1234"' in browser_of(agent).get(call).content.decode()
    lifecycle.confirm(order.id, actor=Actor.of_staff(agent))
    assert 'data-settles="1234"' in browser_of(supervisor).get(order_page(order)).content.decode()


def test_an_unknown_order_is_not_found(db: None, agent: User) -> None:
    browser = browser_of(agent)
    assert browser.get("/console/orders/order/01980000-0000-7000-8000-000000000000/").status_code == 404
    assert browser.get("/console/orders/order/1/").status_code == 404
    missing = "/console/orders/order/01980000-0000-7000-8000-000000000000/confirm/"
    assert browser.post(missing, {"version": 1}).status_code == 404


def test_a_hundred_items_and_fifty_notes_cost_no_more_queries(alice: Account, agent: User) -> None:
    small, large = (
        make_order(
            alice, items=[order_line(quantity=1, product_name=f"P{n}", unit_price=Decimal(9)) for n in range(count)]
        )
        for count in (1, 100)
    )
    lifecycle.add_call_note(small.id, lifecycle.Call(agent=agent, outcome=CallNote.Outcome.NO_ANSWER))
    for _ in range(50):
        lifecycle.add_call_note(large.id, lifecycle.Call(agent=agent, outcome=CallNote.Outcome.NO_ANSWER))
    browser = browser_of(agent)
    counts = []
    for order in (small, large):
        with CaptureQueriesContext(connection) as queries:
            assert browser.get(order_page(order)).status_code == 200
        counts.append(len(queries))
    assert counts[0] == counts[1]
    assert counts[1] <= 8
