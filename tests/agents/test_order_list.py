"""The console's list: what it shows, what its search finds, and what it costs."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from codservice.accounts.models import Account, User
from codservice.long_lists import BoundedPaginator
from orders.models import Order
from tests.factories import make_order

LIST = "/console/orders/order/"


def shown(response: Any) -> list[str]:
    assert response.status_code == 200
    return [order.customer_name for order in response.context["cl"].result_list]


@pytest.fixture
def browser(agent: User, browser_of: Any) -> Any:
    return browser_of(agent)


def test_what_waits_comes_first_the_oldest_on_top(alice: Account, browser: Any) -> None:
    for name in ("First", "Second", "Third"):
        make_order(alice, customer_name=name)
    Order.objects.filter(customer_name="Second").update(status="confirmed")
    assert shown(browser.get(LIST)) == ["First", "Third"]
    assert shown(browser.get(LIST, {"status": "confirmed"})) == ["Second"]
    assert shown(browser.get(LIST, {"status": "all"})) == ["Third", "Second", "First"]
    assert shown(browser.get(LIST, {"status": "no such status"})) == []


def test_a_row_tells_what_the_agent_needs(alice: Account, browser: Any) -> None:
    make_order(alice, external_id="CMD-1")
    text = browser.get(LIST).content.decode()
    for piece in (
        "Pending confirmation",
        "Amine Benali",
        "0550 12 34 56",
        "Alger",
        "4\u202f500.50",
        "Alice&#x27;s shop",
        "CMD-1",
    ):
        assert piece in text


@pytest.mark.parametrize(
    "typed",
    ["0550 12 34 56", "0550123456", "+213 550 12 34 56", "00213550123456", "٠٥٥٠١٢٣٤٥٦", "3456", "12 34 56", "0550 12",
     "benali", "Amine", "benali amine", "CMD-77", "  0550-12-34-56  ", "بن علي"],
)  # fmt: skip
def test_search_finds(typed: str, alice: Account, charlie: Account, browser: Any) -> None:
    wanted = make_order(alice, customer_name="Amine Benali بن علي", external_id="CMD-77")
    make_order(charlie, customer_name="Lynda Aït", phone="0770 98 76 54", external_id="CMD-78")
    assert shown(browser.get(LIST, {"q": typed})) == [wanted.customer_name]


@pytest.mark.parametrize("typed", ["0551 12 34 56", "345", "9999", "benali lynda", "CMD", "%", "_", "12345"])
def test_search_does_not_guess(typed: str, alice: Account, browser: Any) -> None:
    make_order(alice, external_id="CMD-77")
    assert shown(browser.get(LIST, {"q": typed})) == []


def test_search_looks_into_every_status_unless_one_is_chosen(alice: Account, browser: Any) -> None:
    make_order(alice)
    Order.objects.update(status="shipped")
    assert shown(browser.get(LIST, {"q": "3456"})) == ["Amine Benali"]
    assert shown(browser.get(LIST, {"q": "3456", "status": "confirmed"})) == []


@pytest.mark.parametrize("typed", ["\x00", "'", '"><b>', "\\", "0" * 5000, "²²²²", "\ud7ff\U0010ffff", "   "])
def test_any_search_is_answered(typed: str, alice: Account, browser: Any) -> None:
    make_order(alice)
    assert browser.get(LIST, {"q": typed}).status_code == 200


@pytest.mark.parametrize(
    "lookup",
    [
        "account__holder__password__startswith",
        "account__api_keys__digest",
        "call_notes__note__contains",
        "customer_phone__startswith",
        "status__regex",
        "id__gt",
    ],
)
def test_no_other_lookup_is_possible(lookup: str, alice: Account, browser: Any) -> None:
    assert browser.get(LIST, {lookup: "a"}).status_code == 400


@pytest.mark.parametrize(
    "query", ["p=0", "p=-1", "p=999", "p=abc", "p=" + "9" * 5000, "o=1.2", "all=", "e=1", "_popup=1"]
)
def test_odd_pages_are_no_crash(query: str, alice: Account, browser: Any) -> None:
    make_order(alice)
    assert browser.get(f"{LIST}?{query}", follow=True).status_code == 200


def test_the_number_of_queries_does_not_depend_on_the_rows(alice: Account, charlie: Account, browser: Any) -> None:
    make_order(alice)
    with CaptureQueriesContext(
        connection,
    ) as few:
        browser.get(LIST)
    for number in range(60):
        make_order(alice if number % 2 else charlie, customer_name=f"Customer {number}")
    with CaptureQueriesContext(connection) as many:
        assert len(shown(browser.get(LIST))) == 50
    assert len(many) == len(few)
    assert len(many) <= 8


def test_the_table_is_never_counted_as_a_whole(alice: Account, browser: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BoundedPaginator, "MOST", 3)
    for number in range(5):
        make_order(alice, customer_name=f"Customer {number}")
    with CaptureQueriesContext(connection) as queries:
        response = browser.get(LIST)
    counts = [query["sql"] for query in queries if "COUNT(" in query["sql"]]
    assert counts
    assert all("LIMIT 3" in sql for sql in counts)
    assert "The first 3 orders" in response.content.decode()
