"""The console's list: what it shows, what its search finds, and what it costs."""

import re
from datetime import timedelta
from itertools import product
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import formats, timezone

from agents.admin import OrderAdmin
from codservice.accounts.actor import Actor
from codservice.accounts.models import Account, User
from codservice.days import ALGIERS
from codservice.long_lists import BoundedPaginator
from orders import lifecycle
from orders.models import CallNote, CallState, Order, Status
from tests.factories import make_order, make_orders
from tests.harness.plans import copy, explain, rows_read

LIST = "/console/orders/order/"
Outcome = CallNote.Outcome


def shown(response: Any) -> list[str]:
    assert response.status_code == 200
    return [order.customer_name for order in response.context["cl"].result_list]


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


def assert_finds(browser: Any, names: list[str], *typed: str) -> None:
    """Each search finds these customers."""
    assert {each: shown(browser.get(LIST, {"q": each})) for each in typed} == dict.fromkeys(typed, names)


def test_search_finds(alice: Account, charlie: Account, browser: Any) -> None:
    wanted = make_order(alice, customer_name="Amine Benali بن علي", external_id="CMD-77")
    make_order(charlie, customer_name="Lynda Aït", phone="0770 98 76 54", external_id="CMD-78")
    typed = (
        "0550 12 34 56", "0550123456", "+213 550 12 34 56", "00213550123456", "٠٥٥٠١٢٣٤٥٦", "3456", "12 34 56",
        "0550 12", "benali", "Amine", "benali amine", "CMD-77", "  0550-12-34-56  ", "بن علي",
        "\u200eCMD-77\u200f", "\u2067بن علي\u2069",
    )  # fmt: skip
    assert_finds(browser, [wanted.customer_name], *typed)


def test_search_finds_a_number_as_people_type_it(alice: Account, charlie: Account, browser: Any) -> None:
    make_order(alice, customer_name="Lynda", phone="0770 98 76 54", external_id="#1004")
    make_order(alice, customer_name="Karim", phone="0770 98 76 56", external_id="2004")
    make_order(charlie, customer_name="Sara", phone="0770 98 76 55", external_id="DEMO-1-12")
    assert_finds(browser, ["Karim"], "2004", "#2004")
    assert_finds(browser, ["Lynda"], "1004", "#1004")
    assert_finds(browser, ["Sara"], "demo-1-12", "Demo-1-12", "DEMO-1-12")


def test_search_finds_our_id(alice: Account, charlie: Account, browser: Any) -> None:
    """Also beside a shop's number that is the same."""
    assert "or our id</p>" in browser.get(LIST).content.decode()
    wanted = make_order(alice, customer_name="Lynda")
    make_order(alice, customer_name="Karim")
    typed = (str(wanted.id), str(wanted.id).upper(), f"\u200e{wanted.id}\u200f")
    assert_finds(browser, ["Lynda"], *typed)
    make_order(charlie, customer_name="Sara", external_id=str(wanted.id))
    assert_finds(browser, ["Sara", "Lynda"], *typed)


def test_our_ids_cost_no_query_and_are_looked_up_in_their_index(alice: Account, browser: Any) -> None:
    orders = make_orders(alice, ({"external_id": f"#{number}"} for number in range(1000, 1300)))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE orders_order")  # on an empty table all plans would cost the same
    with CaptureQueriesContext(connection) as of_number:
        assert len(shown(browser.get(LIST, {"q": "1277"}))) == 1
    with CaptureQueriesContext(connection) as of_id:
        assert len(shown(browser.get(LIST, {"q": str(orders[277].id)}))) == 1
    assert len(of_id) == len(of_number)
    found = [query["sql"] for query in of_id if "to_tsquery" in query["sql"]]
    assert len(found) == 2  # the count and the page
    for sql in found:
        plan = explain(sql, without=["seqscan"])
        assert "Index Scan on orders_order_pkey" in plan, plan


def test_numbers_are_looked_up_in_their_index(alice: Account, browser: Any) -> None:
    make_orders(alice, ({"external_id": f"#{number}"} for number in range(1000, 1300)))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE orders_order")  # on an empty table all plans would cost the same
    with CaptureQueriesContext(connection) as queries:
        assert len(shown(browser.get(LIST, {"q": "1277"}))) == 1
    (sql,) = [query["sql"] for query in queries if '"external_id" IN' in query["sql"]]
    plan = explain(sql, without=["seqscan"])
    assert re.search(r"Index Scan using one_order_per_external_id.*\n.*external_id", plan), plan


def test_search_does_not_guess(alice: Account, browser: Any) -> None:
    make_order(alice, external_id="CMD-77")
    typed = ("0551 12 34 56", "345", "9999", "benali lynda", "CMD", "%", "_", "12345")
    assert_finds(browser, [], *typed)


def test_search_finds_who_calls_back_from_the_second_phone(alice: Account, browser: Any) -> None:
    make_order(alice, customer_name="Lynda", customer_phone_2="06 61-11-22-33")
    make_order(alice, customer_name="Sara", phone="0661112233")
    make_order(alice, customer_name="Amine", customer_phone_2="0662 11 22 33")
    typed = ("0661 11 22 33", "+213 661 11 22 33", "661112233", "٠٦٦١١١٢٢٣٣", "0661 11")
    assert_finds(browser, ["Sara", "Lynda"], *typed)


def test_each_phone_is_looked_up_in_its_own_index(alice: Account, browser: Any) -> None:
    numbers = [f"05{number * 333_333:08}" for number in range(300)]
    make_orders(alice, ({"phone": phone, "customer_phone_2": phone} for phone in numbers))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE orders_order")  # on an empty table all plans would cost the same
    for typed in ("0502 33 33 31", "0502 33"):
        with CaptureQueriesContext(connection) as queries:
            assert shown(browser.get(LIST, {"q": typed}))
        found = [query["sql"] for query in queries if 'phone_2_e164" ' in query["sql"]]
        assert len(found) == 2  # the count and the page
        for sql in found:
            plan = explain(sql, without=["seqscan"])
            assert "Index Scan on order_by_phone" in plan, plan
            assert "Index Scan on order_by_second_phone" in plan, plan


@pytest.mark.parametrize(
    ("name", "typed"),
    [("Aïcha Bénali", "aicha benali"), ("AÏCHA", "Aïc"), ("Aicha", "aïcha"), ("Ai\u0308cha", "aicha"),
     ("François", "FRANCOIS"), ("أحمد بن علي", "احمد"), ("احمد", "أحمد"),
     ("فاطمة", "فاطمه"), ("مصطفى", "مصطفي"), ("مُحَمَّد", "محمد"), ("محمد", "مُحَمَّد"),
     ("محـــمد", "محمد"), ("رؤوف", "رووف")],
)  # fmt: skip
def test_search_finds_a_name_however_it_is_written(name: str, typed: str, alice: Account, browser: Any) -> None:
    wanted = make_order(alice, customer_name=name)
    make_order(alice, customer_name="Lynda Ait")
    assert shown(browser.get(LIST, {"q": typed})) == [wanted.customer_name]


def test_names_are_looked_up_in_their_index(alice: Account, browser: Any) -> None:
    make_orders(alice, ({"customer_name": f"Aïcha {number}"} for number in range(300)))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE orders_order")  # on an empty table all plans would cost the same
    with CaptureQueriesContext(connection) as queries:
        assert shown(browser.get(LIST, {"q": "aicha 277"})) == ["Aïcha 277"]
    found = [query["sql"] for query in queries if "to_tsquery" in query["sql"]]
    assert len(found) == 2  # the count and the page
    for sql in found:
        assert "order_by_folded_name" in explain(sql, without=["seqscan"])


def test_search_looks_into_every_status_unless_one_is_chosen(alice: Account, browser: Any) -> None:
    make_order(alice)
    Order.objects.update(status="shipped")
    assert shown(browser.get(LIST, {"q": "3456"})) == ["Amine Benali"]
    assert shown(browser.get(LIST, {"q": "3456", "status": "confirmed"})) == []
    assert shown(browser.get(LIST, {"q": "\u200e"})) == shown(browser.get(LIST))  # nothing is looked for


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


def test_a_page_that_is_no_longer_there_leads_to_the_first_of_what_was_asked_for(
    alice: Account, browser: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody has decided orders meanwhile."""
    monkeypatch.setattr(OrderAdmin, "list_per_page", 1)
    names = ["Oran", "Oran too", "Alger"]
    orders = [make_order(alice, customer_name=name) for name in names]
    Order.objects.filter(id__in=[order.id for order in orders[:2]]).update(wilaya_code="31")
    response = browser.get(LIST, {"wilaya": "31", "p": "3"}, follow=True)
    assert (response.request["QUERY_STRING"], shown(response)) == ("wilaya=31", ["Oran"])


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


# --- What stands beside the orders -------------------------------------------------------------------------------


def test_whose_orders_are_is_looked_up_for_what_is_shown_alone(alice: Account, agent: User, browser: Any) -> None:
    """Joined to all orders found, where PostgreSQL expects few, it would go through all users for each order."""
    make_order(alice)
    Order.objects.update(callback_agent=agent)
    with CaptureQueriesContext(connection) as asked:
        (order,) = browser.get(LIST).context["cl"].result_list
    (listed,) = [each["sql"] for each in asked if '"orders_order"."customer_address"' in each["sql"]]
    assert "JOIN" not in listed
    assert (order.merchant_name, order.callback_agent) == (alice.name, agent)


def tabs(response: Any) -> dict[str, int]:
    return {name: count for name, _label, count in response.context["tabs"] if count}


def test_tabs_say_how_many_there_are(alice: Account, charlie: Account, browser: Any, agent: User) -> None:
    for number, account in enumerate((alice, alice, charlie)):
        make_order(account, phone=f"055000000{number}")
    lifecycle.confirm(Order.objects.filter(account=alice)[0].id, actor=Actor.of_staff(agent))
    assert tabs(browser.get(LIST)) == {"pending_confirmation": 2, "confirmed": 1, "all": 3}
    assert tabs(browser.get(LIST, {"status": "shipped", "sort": "oldest"})) == tabs(browser.get(LIST))
    assert tabs(browser.get(LIST, {"merchant": "alice"})) == {"pending_confirmation": 1, "confirmed": 1, "all": 2}
    text = browser.get(LIST).content.decode()
    assert '<span class="count"><bdi>2</bdi></span>' in text


def rows_of_page(browser: Any, count: int, **asked: Any) -> int:
    """How many rows of orders are read for the list, which shows `count` of them."""
    with CaptureQueriesContext(connection) as queries:
        assert len(shown(browser.get(LIST, asked))) == count, asked
    (page,) = (query["sql"] for query in queries if "customer_address" in query["sql"])
    return rows_read(page, "orders_order")


def test_of_a_merchant_a_page_is_read_however_many_orders_it_has(
    alice: Account, charlie: Account, browser: Any
) -> None:
    """This holds for several merchants with a common part in their names, too: the largest have most of all orders."""
    make_order(charlie)
    order = make_order(alice)
    Order.objects.filter(id=order.id).update(status=Status.CONFIRMED)
    copy(order, 3000, days=300)
    Order.objects.filter(id=order.id).update(status=Status.PENDING)
    copy(order, 3000, days=300)
    for asked in product(["Alice", "shop"], ["all", "confirmed", "pending_confirmation"], ["oldest", "newest"]):
        merchant, status, sort = asked
        assert rows_of_page(browser, 50, merchant=merchant, status=status, sort=sort) < 500, asked


def test_of_some_days_long_ago_no_other_days_are_read(alice: Account, charlie: Account, browser: Any) -> None:
    make_order(charlie)
    order = make_order(alice)
    Order.objects.filter(id=order.id).update(status=Status.DELIVERED)
    copy(order, 10_000, days=500)
    day = timezone.localdate() - timedelta(days=200)
    of_day = {"first": day, "last": day, "status": "all"}
    for merchant, sort in product(["", "shop"], ["oldest", "newest"]):
        assert rows_of_page(browser, 20, merchant=merchant, sort=sort, **of_day) < 4000, (merchant, sort)


@pytest.mark.parametrize("query", [{"q": "Amine"}, {"wilaya": "16"}, {"merchant": "\0"}, {"did": "confirmed"}])
def test_no_tab_says_what_was_not_asked(query: dict[str, str], alice: Account, browser: Any) -> None:
    """The counters know only merchants and statuses."""
    make_order(alice)
    assert tabs(browser.get(LIST, query)) == {}


def test_counts_cost_no_look_at_the_orders(alice: Account, browser: Any) -> None:
    make_order(alice)
    with CaptureQueriesContext(connection) as queries:
        browser.get(LIST)
    (counts,) = [query["sql"] for query in queries if "SUM(" in query["sql"]]
    assert 'orders_order"' not in counts


def test_a_row_tells_tries_the_last_call_and_the_next(alice: Account, agent: User, browser: Any) -> None:
    order = make_order(alice)
    assert "Due" in row(browser, "next-call")

    def note(outcome: Outcome, plan: lifecycle.CallPlan | None = None, **said: Any) -> None:
        call = lifecycle.Call(agent, outcome, **said)
        lifecycle.add_call_notes([lifecycle.lock_one(order.id)], call, {order.id: plan} if plan else {})

    in_two_days = timezone.now() + timedelta(days=2)
    note(Outcome.BUSY, lifecycle.CallPlan(CallState.RETRY, in_two_days, attempts=3))
    note(Outcome.NOTE, note="a remark is no call")
    assert "3" in row(browser, "tries")
    assert "Busy" in row(browser, "last-call")
    assert formats.date_format(in_two_days.astimezone(ALGIERS), "j N, H:i") in row(browser, "next-call")
    promised = lifecycle.CallPlan(CallState.CALLBACK, in_two_days, attempts=0, agent_id=agent.id)
    note(Outcome.CALLBACK, promised, callback_at=in_two_days)
    assert "Call back later" in row(browser, "last-call")
    assert "Samira" in row(browser, "next-call")
    Order.objects.update(call_state=CallState.REVIEW)
    assert "review" in row(browser, "next-call")
    Order.objects.update(status="confirmed")
    assert "next-call" not in browser.get(LIST, {"status": "confirmed"}).content.decode()
    assert row(browser, "next-call", status="all") == ""


def row(browser: Any, cell: str, **query: str) -> str:
    """Return the text of a cell of the only row."""
    text = browser.get(LIST, query).content.decode()
    (found,) = re.findall(rf'<td class="[^"]*\b{cell}"[^>]*>(.*?)</td>', text)
    return re.sub(r"<[^>]*>", " ", found).strip()


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ({}, ["First", "Second", "Third"]),
        ({"sort": "newest"}, ["Third", "Second", "First"]),
        ({"status": "all", "sort": "oldest"}, ["First", "Second", "Third"]),
        ({"status": "all"}, ["Third", "Second", "First"]),
        ({"call": "retry", "sort": "next"}, ["Third", "First"]),
        ({"call": "retry", "sort": "newest"}, ["Third", "First"]),
        ({"call": "retry"}, ["First", "Third"]),
        ({"sort": "next"}, ["First", "Second", "Third"]),
        ({"sort": "total_amount"}, ["First", "Second", "Third"]),
        ({"sort": "-account__holder__password"}, ["First", "Second", "Third"]),
    ],
)
def test_the_list_is_sorted_by_what_an_index_gives(
    query: dict[str, str], names: list[str], alice: Account, browser: Any
) -> None:
    for number, name in enumerate(("First", "Second", "Third")):
        make_order(alice, customer_name=name, phone=f"055000000{number}")
    Order.objects.exclude(customer_name="Second").update(call_state=CallState.RETRY)
    Order.objects.filter(customer_name="Third").update(call_due_at="2026-01-01T00:00Z")
    assert shown(browser.get(LIST, query)) == names


def test_the_table_is_never_counted_as_a_whole(alice: Account, browser: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BoundedPaginator, "MOST", 3)
    for number in range(5):
        make_order(alice, customer_name=f"Customer {number}")
    with CaptureQueriesContext(connection) as queries:
        response = browser.get(LIST)
    counts = [query["sql"] for query in queries if "COUNT(" in query["sql"]]
    assert counts
    assert all("LIMIT 3" in sql for sql in counts)
    assert "Only the first 3 orders are shown." in response.content.decode()
