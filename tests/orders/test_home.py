"""The merchant's home: today, a period, what needs them, charts with tables, and files; of their own orders alone."""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import formats, timezone
from django.utils.html import escape

from agents.desk import claims, decisions
from agents.supervision import review
from codservice import charts, days
from codservice.accounts.actor import Actor, Role
from codservice.accounts.models import Account, ApiKey, Membership, User
from codservice.charts import Bar
from codservice.i18n_tags import moment
from codservice.uploads.models import RefusedRow, Upload
from inventory import catalog
from orders import daily, editing, home_page, lifecycle, needs
from orders.cancel_reasons import CancelReason
from orders.models import CallNote, ChangedDay, DayFigure, Order, OrderCount, OrderEdit, StatusChange, SummedUp
from orders.tasks import sum_up_days
from tests import factories
from tests.factories import make_order, order_line
from tests.harness.client import browser_of
from tests.harness.database import one
from tests.harness.sheets import read_csv, read_records
from tests.orders.life import date_back
from tests.orders.moves import bring
from tests.uploads.files import HEADER, csv_of, downloaded, row, send, take_in
from webhooks import registry
from webhooks.models import Webhook

HOME = "/account/"
FILE = "/account/figures.csv"
SUPERVISOR = Actor(Role.SUPERVISOR, "Samira")
HOSTILE = "<script>alert(1)</script>{{ 7|add:7 }}=1+1"
pytestmark = pytest.mark.django_db


@pytest.fixture
def agent(db: None) -> User:
    return factories.AgentFactory()


def page(browser: Client, query: str = "", status: int = 200) -> str:
    answer = browser.get(HOME + query)
    assert answer.status_code == status
    return " ".join(answer.content.decode().split())


def tiles(browser: Client, query: str = "") -> list[tuple[str, str, str]]:
    found = re.findall(
        r'<dt><span class="status \w+">([^<]*)</span></dt><dd><strong><bdi dir="ltr">(\d+)</bdi></strong>'
        r' <bdi class="whole">([^<]*)</bdi>',
        page(browser, query),
    )
    return [(label, count, amount.replace("\N{NARROW NO-BREAK SPACE}", " ")) for label, count, amount in found]


def file(browser: Client, by: str) -> list[dict[str, str]]:
    answer = browser.get(f"{FILE}?by={by}")
    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
    return read_records(answer.getvalue())


def lived(account: Account, agent: User) -> None:
    """Six orders of 1000 dinars each: one waits, one is canceled, the others are confirmed and on their way."""
    orders = [make_order(account, total_amount=Decimal(1000), source="facebook") for _ in range(6)]
    for order in orders[1:]:
        lifecycle.add_call_note(order.id, lifecycle.Call(agent=agent, outcome=CallNote.Outcome.ANSWERED))
    lifecycle.cancel(orders[1].id, actor=SUPERVISOR, reason=CancelReason.DUPLICATE.kept_as("of Monday's"))
    for order, status in zip(orders[2:], ("confirmed", "shipped", "delivered", "returned"), strict=True):
        bring(order, status)


@pytest.mark.parametrize(
    ("by", "header"),
    [
        ("reason", "Motifs d’annulation;Annulée;Annulée (DA)"),
        ("wait", "De (minutes);À (minutes);Commandes"),
        ("product", "Par produit;Quantité;Nouvelle;Nouvelle (DA);Confirmée;Confirmée (DA);Annulée;Annulée (DA);"
            "Annulée avant confirmation;Annulée avant confirmation (DA);Expédiée;Expédiée (DA);Livrée;Livrée (DA);"
            "Retournée;Retournée (DA);Taux de confirmation;Taux de livraison;Taux de retour"),
    ],
)  # fmt: skip
def test_the_file_has_the_pages_words_and_semicolons_in_french(browser: Client, by: str, header: str) -> None:
    browser.cookies["django_language"] = "fr"
    assert browser.get(f"{FILE}?by={by}").getvalue().decode("utf-8-sig").splitlines()[0] == header


def test_today_and_the_period_in_counts_and_dinars(browser: Client, alice: Account, agent: User) -> None:
    lived(alice, agent)
    week = [
        ("New", "6", "6 000 DA"), ("Confirmed", "4", "4 000 DA"), ("Canceled", "1", "1 000 DA"),
        ("Shipped", "3", "3 000 DA"), ("Delivered", "1", "1 000 DA"), ("Returned", "1", "1 000 DA"),
    ]  # fmt: skip
    waiting = ("Waiting now", "1", "1 000 DA")
    assert tiles(browser) == [week[0], waiting, *week[1:], *week]
    date_back(timedelta(days=3))
    nothing = [(label, "0", "0 DA") for label, _count, _amount in week]
    for _ in range(2):
        assert tiles(browser) == [nothing[0], waiting, *nothing[1:], *week]
        sum_up_days()
    assert DayFigure.objects.exists()
    yesterday = days.today() - timedelta(days=1)
    assert tiles(browser, f"?first={yesterday}&last={yesterday}")[7:] == nothing


def test_large_counts_are_read_in_groups_of_three(browser: Client, alice: Account, agent: User) -> None:
    lived(alice, agent)
    date_back(timedelta(days=3))
    sum_up_days()
    DayFigure.objects.filter(dimension="all").update(new_count=12345)
    DayFigure.objects.filter(dimension="reason").update(canceled_count=23456)
    OrderCount.objects.create(account=alice, status="shipped", delta=34567)
    text = browser.get(HOME).content.decode()
    for piece in ('<bdi dir="ltr">12 345<', 'data-label="New">12 345<', "23 456 · 100", 'data-label="Orders">23 456<'):
        assert piece.replace("2 3", "2\u202f3").replace("3 4", "3\u202f4") in text
    tabs = browser.get("/account/orders").content.decode()
    assert re.search(r'Shipped <span class="count">34\u202f5\d\d</span>', tabs)


def test_a_rate_of_few_cases_is_shown_as_counts(browser: Client, alice: Account, agent: User) -> None:
    lived(alice, agent)
    assert "<bdi>4 of 5</bdi>" in page(browser)
    assert " %" not in page(browser, "?by=wilaya")
    assert "5 · 5 of 5" not in page(browser), "the bar of a first call's wait says its count once"
    for _ in range(25):
        lifecycle.confirm(make_order(alice).id, actor=SUPERVISOR)
    assert "<bdi>96.7 %</bdi>" in page(browser)
    assert "<bdi>1 of 2</bdi>" in page(browser), "still few parcels"


@pytest.mark.parametrize("by", home_page.FILES)
def test_each_has_its_file(by: str, browser: Client, alice: Account, agent: User) -> None:
    lived(alice, agent)
    rows = file(browser, by)
    assert rows
    match by:
        case "reason":
            assert rows == [{"Why orders were canceled": "Duplicate", "Canceled": "1", "Canceled (DA)": "1000.00"}]
        case "wait":
            assert rows == [{"From (minutes)": "", "To (minutes)": "5", "Orders": "5"}]
        case _:
            names = {"day": str(days.today()), "wilaya": "16 Alger", "product": "Robe kabyle", "source": "facebook"}
            (row,) = rows
            assert (row[f"By {by}"], row["New"], row["Confirmed"]) == (names[by], "6", "4")
            assert (row["Canceled before confirmation"], row["Confirmation rate"]) == ("1", ""), "of few cases"


def test_products_and_lines_without_one_are_told_apart(browser: Client, alice: Account) -> None:
    product = factories.ProductFactory(account=alice, name="Robe")
    lines = [order_line(product_id=product.id, quantity=2), order_line(product_name="Robe", quantity=1, unit_price=5)]
    make_order(alice, items=lines)
    assert [(row["By product"], row["Quantity"], row["New (DA)"]) for row in file(browser, "product")] == [
        ("Robe", "2", "3000.00"), ("Robe", "1", "5.00"),
    ]  # fmt: skip
    product.name = "Robe kabyle"
    product.save()
    assert "Robe kabyle" in page(browser, "?by=product")


def test_the_page_says_why_products_do_not_add_up(browser: Client, alice: Account) -> None:
    lines = [order_line(product_name=name, quantity=1, unit_price=5) for name in ("Robe", "Sac")]
    make_order(alice, items=lines)
    said = "By product, an order counts once for each product in it"
    assert said in page(browser, "?by=product")
    assert said not in page(browser)


def test_a_line_that_is_called_as_a_product_is_only_a_name(browser: Client, alice: Account, charlie: Account) -> None:
    own, foreign = (factories.ProductFactory(account=each, name="Robe kabyle").id for each in (alice, charlie))
    for id_ in (own, foreign):
        make_order(alice, items=[order_line(product_name=str(id_), quantity=1, unit_price=5)])
    assert {row["By product"] for row in file(browser, "product")} == {str(own), str(foreign)}
    assert "Robe kabyle" not in page(browser, "?by=product")


def test_what_there_is_too_much_of_is_together(
    browser: Client, alice: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This holds for the shares of the whole, too."""
    monkeypatch.setattr(daily, "MOST_KEYS", 2)
    product = factories.ProductFactory(account=alice, name="Robe")
    for count, name in enumerate(("Sac", "Bague", "Voile", "Foulard")):
        lines = [order_line(product_name=name, quantity=2, unit_price=5), order_line(product_id=product.id, quantity=1)]
        for _ in range(count + 1):
            order = make_order(alice, items=lines, source=name)
            lifecycle.cancel(order.id, actor=SUPERVISOR, reason=name)
    for _ in range(2):
        sources = [(row["By source"], row["New"]) for row in file(browser, "source")]
        assert sources == [("Foulard", "4"), ("Voile", "3"), ("All others", "3")]
        products = [(row["By product"], row["Quantity"], row["New (DA)"]) for row in file(browser, "product")]
        assert [row[:2] for row in products] == [
            ("Robe", "10"), ("Foulard", "8"), ("Voile", "6"), ("All others", "6")
        ]  # fmt: skip
        assert products[-1][2] == "30.00"
        reasons = [(row["Why orders were canceled"], row["Canceled"]) for row in file(browser, "reason")]
        assert reasons == sources
        assert "4 of 10" in page(browser)
        sum_up_days()


def test_the_page_says_how_many_reasons_only_the_file_has(browser: Client, alice: Account) -> None:
    for number in range(home_page.MOST_ROWS + 2):
        lifecycle.cancel(make_order(alice).id, actor=SUPERVISOR, reason=f"reason {number}")
    text = page(browser)
    assert text.count('data-label="Share"') == home_page.MOST_ROWS
    assert "2 more are in the file.</p> </details>" in text, "below the table, not the picture"
    assert "3.0 %" in text, "of all"
    assert len(file(browser, "reason")) == home_page.MOST_ROWS + 2


@pytest.mark.parametrize(
    "query", ["?first=x", "?first=2026-02-02&last=2026-01-01", "?first=2020-01-01&last=2026-01-01"]
)
def test_a_period_that_is_none_is_said_and_nothing_else_goes_wrong(query: str, browser: Client, alice: Account) -> None:
    make_order(alice)
    text = page(browser, query, status=422)
    assert 'role="alert"' in text
    assert text.count('aria-invalid="true" aria-describedby="id_first_error"') == (query == "?first=x")
    assert browser.get(FILE + query).status_code == 422


def test_downloads_that_are_called_alike_are_told_apart(browser: Client, alice: Account) -> None:
    make_order(alice)
    sum_up_days()
    text = page(browser)
    labels = re.findall(r'id="(\w+)-csv" aria-labelledby="(.*?)"', text)
    assert labels == [(name, f"{name}-csv {name}-title") for name in re.findall(r'id="(reason|wait)-csv"', text)]
    assert len(labels) == text.count("Download as CSV") - 1


def test_a_division_that_there_is_none_of_is_by_day(browser: Client, alice: Account) -> None:
    make_order(alice)
    assert "By day</a>" in page(browser, "?by=reason")
    assert page(browser, "?by=customer", status=422)


# --- What needs the merchant -----------------------------------------------------------------------------------------


def test_wrong_numbers_need_the_merchant_until_they_are_corrected(browser: Client, alice: Account, agent: User) -> None:
    order = make_order(alice, customer_name="Nadia", customer_phone="00213550123456")
    make_order(alice, customer_name="Karim")
    assert "Needs your attention" not in page(browser)
    for outcome in (CallNote.Outcome.WRONG_NUMBER, CallNote.Outcome.NO_ANSWER):
        lifecycle.add_call_note(order.id, lifecycle.Call(agent=agent, outcome=outcome))
    shown = page(browser)
    assert "1 order has a wrong phone number" in shown
    link = f'<a href="/account/orders/{order.id}/correct"><bdi>Nadia</bdi></a>'
    assert f'{link} <bdi dir="ltr" class="whole">0550 12 34 56</bdi>' in shown
    first = days.start_of(days.today() - timedelta(days=30))
    for at, is_shown in ((first - timedelta(seconds=1), False), (first, True)):
        CallNote.objects.filter(outcome="wrong_number").update(created_at=at)
        assert ("1 order has a wrong phone number" in page(browser)) == is_shown, "Algeria's days"
    Order.objects.filter(id=order.id).update(call_state="review")
    lifecycle.add_call_note(order.id, lifecycle.Call(agent=agent, outcome=CallNote.Outcome.NOTE, note="Whose is it?"))
    assert "1 order has a wrong phone number" in page(browser), "a remark says nothing of the number"
    Order.objects.filter(id=order.id).update(call_state="retry")
    assert "Needs your attention" not in page(browser), "a supervisor has put it back into the queue"
    editing.edit(order.id, editing.Edit(customer_phone="0661223344", phone_e164="+213661223344"), actor=SUPERVISOR)
    assert "Needs your attention" not in page(browser)


def test_a_number_at_which_somebody_was_reached_since_is_wrong_no_more(
    browser: Client, alice: Account, agent: User
) -> None:
    order = make_order(alice)
    lifecycle.add_call_note(order.id, lifecycle.Call(agent=agent, outcome=CallNote.Outcome.WRONG_NUMBER))
    lifecycle.add_call_note(order.id, lifecycle.Call(agent=agent, outcome=CallNote.Outcome.CALLBACK))
    assert "Needs your attention" not in page(browser)
    lifecycle.add_call_note(order.id, lifecycle.Call(agent=agent, outcome=CallNote.Outcome.WRONG_NUMBER))
    assert "1 order has a wrong phone number" in page(browser)


@pytest.mark.parametrize(
    "edit",
    [
        editing.Edit(customer_phone_2="0661223344", phone_2_e164="+213661223344"),
        editing.Edit(customer_phone="+213 550 12 34 56", phone_e164="+213550123456"),
    ],
)
def test_a_wrong_number_that_the_order_still_has_is_wrong(
    edit: editing.Edit, browser: Client, alice: Account, agent: User
) -> None:
    """The call center sees it the same way: the order goes on waiting for a supervisor."""
    factories.open_always()
    order = make_order(alice, customer_phone="0550123456")
    call = lifecycle.Call(agent, CallNote.Outcome.WRONG_NUMBER)
    decisions.note_call(decisions.Screen(claims.take(order.id, agent=agent), agent, {order.id: order.version}), call)
    editing.edit(order.id, edit, actor=Actor.of_merchant(alice.holder))
    assert [waiting.id for waiting in review.waiting()] == [order.id]
    assert "1 order has a wrong phone number" in page(browser)
    new = editing.Edit(customer_phone="0661223344", phone_e164="+213661223344")
    editing.edit(order.id, new, actor=Actor.of_merchant(alice.holder))
    assert not review.waiting()
    assert "wrong phone number" not in page(browser)
    for _ in range(6):
        call = lifecycle.Call(agent, CallNote.Outcome.NO_ANSWER)
        decisions.note_call(
            decisions.Screen(claims.take(order.id, agent=agent), agent, {order.id: order.version + 2}), call
        )
    assert [waiting.id for waiting in review.waiting()] == [order.id]
    assert "wrong phone number" not in page(browser)


def test_more_wrong_numbers_than_are_counted_are_said_to_be_more(
    browser: Client, alice: Account, agent: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(needs, "MOST", 3)
    for name in ("Nadia", "Karim", "Amel", "Lina"):
        order = make_order(alice, customer_name=name)
        lifecycle.add_call_note(order.id, lifecycle.Call(agent=agent, outcome=CallNote.Outcome.WRONG_NUMBER))
    assert "3+ orders have a wrong phone number" in page(browser)
    new = editing.Edit(customer_phone="0661223344", phone_e164="+213661223344")
    for count, order in enumerate(Order.objects.order_by("-id")[:2]):
        editing.edit(order.id, new, actor=SUPERVISOR)
        Order.objects.filter(id=order.id).update(call_state="review")  # nobody answers at the new one either
        left = ("2+ orders have", "1+ order has")[count]
        assert f"{left} a wrong phone number" in page(browser), "of three that were looked at"


def test_an_order_that_was_often_called_and_changed_is_looked_at_once(alice: Account, agent: User) -> None:
    """A test order takes 1 000 calls and 10 000 changes. Two such orders made Home take four seconds."""
    order, now = make_order(alice), timezone.now()
    CallNote.objects.bulk_create(
        CallNote(account=alice, order=order, outcome="wrong_number", created_at=now - timedelta(minutes=number))
        for number in range(40)
    )
    OrderEdit.objects.bulk_create(
        OrderEdit(account=alice, order=order, field="notes", old=number, new=number + 1, at=now) for number in range(50)
    )
    read = "SELECT idx_tup_fetch + seq_tup_read FROM pg_stat_xact_user_tables WHERE relname = 'orders_orderedit'"
    before = one(read)
    assert needs.wrong_numbers(alice, days.today())
    assert one(read) - before <= 50


def test_stock_that_will_not_last_needs_the_merchant(
    browser: Client, alice: Account, charlie: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = factories.ProductFactory(account=alice, name=HOSTILE, stock_quantity=3)
    plenty = factories.ProductFactory(account=alice, stock_quantity=30)
    gone = factories.ProductFactory(account=alice, stock_quantity=0, is_active=False)
    for product in (short, plenty, gone):
        make_order(alice, items=[order_line(product_id=product.id, quantity=4)])
    foreign = factories.ProductFactory(account=charlie, stock_quantity=0)
    make_order(charlie, items=[order_line(product_id=foreign.id, quantity=4)])
    date_back(timedelta(days=2))
    sum_up_days()
    shown = page(browser)
    assert '<a href="/account/products?only=running-out">1 product is running out' in shown
    listed = browser.get("/account/products?only=running-out")
    assert [product.id for product in listed.context["products"]] == [short.id]
    with monkeypatch.context() as patch:
        many = [short.id, *(uuid4() for _ in range(70_000))]
        patch.setitem(catalog.CHOICES, "running-out", catalog.Choice("Many", lambda account: many))
        again = browser.get("/account/products?only=running-out")
        assert again.context["products"] == listed.context["products"]
    assert "Running out: fewer are left" in listed.content.decode()
    table = b"".join(browser.get("/account/products/download.csv?only=running-out").streaming_content)
    assert table.count(b"\n") == 2
    assert len(browser.get("/account/products?only=nothing").context["products"]) == 3
    assert "<bdi>&lt;script&gt;alert(1)&lt;/script&gt;{{ 7|add:7 }}=1+1</bdi> <bdi>3 left, 4 ordered</bdi>" in shown
    short.stock_quantity = 4
    short.save()
    assert "running out" not in page(browser)


@pytest.mark.django_db(transaction=True)
def test_what_needs_the_merchant_is_counted_as_tables_are(browser: Client, alice: Account) -> None:
    product = factories.ProductFactory(account=alice, stock_quantity=1200)
    make_order(alice, items=[order_line(product_id=product.id, quantity=10_000)])
    date_back(timedelta(days=2))
    sum_up_days()
    made = {"account": alice, "kind": "orders", "size": 1, "actor": "x", "user_id": alice.holder_id, "status": "done"}
    upload = Upload.objects.create(**made, name="old.csv", finished_at=Now())
    RefusedRow.objects.bulk_create(
        RefusedRow(account=alice, upload=upload, line=line, cells=["x"], faults=[]) for line in range(2, 1236)
    )
    shown = page(browser)
    assert "<bdi>1 200 left, 10 000 ordered</bdi>" in shown
    assert "1 234 rows of files were refused" in shown
    assert "<bdi>1 234</bdi>" in shown


@pytest.mark.django_db(transaction=True)
def test_the_last_week_has_seven_days_with_today(
    browser: Client, alice: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A piece was ordered on each of eight days, but only seven of them count for how long the stock lasts."""
    monkeypatch.setattr(daily, "SET_BACK", timedelta(0))
    product = factories.ProductFactory(account=alice, stock_quantity=7)
    for _ in range(8):
        date_back(timedelta(days=1))
        make_order(alice, items=[order_line(product_id=product.id, quantity=1)])
    sum_up_days()
    assert "running out" not in page(browser)
    product.stock_quantity = 6
    product.save()
    assert "<bdi>6 left, 7 ordered</bdi>" in page(browser)


def test_refused_rows_need_the_merchant_until_they_send_such_a_file_again(browser: Client, alice: Account) -> None:
    make_order(alice)
    made = {"account": alice, "kind": "orders", "size": 1, "actor": "x", "user_id": alice.holder_id, "status": "done"}
    upload = Upload.objects.create(**made, name=HOSTILE, finished_at=Now())
    assert "refused" not in page(browser)
    for line in (2, 3):
        RefusedRow.objects.create(account=alice, upload=upload, line=line, cells=["x"], faults=[])
    shown = page(browser)
    assert "2 rows of files were refused" in shown
    assert f'<a href="/account/uploads/{upload.id}"><bdi>&lt;script&gt;' in shown
    Upload.objects.create(**made, name="mended.csv", finished_at=Now())
    assert "refused" not in page(browser)


def test_refused_rows_stay_when_a_file_comes_from_elsewhere(browser: Client, alice: Account) -> None:
    uploads = []
    for name, header, number in (
        ("list.csv", HEADER, "A1"),
        ("shop.csv", ["Order Number", *HEADER[1:]], "B1"),
        ("next.csv", ["Order Number", *HEADER[1:]], "B2"),
    ):
        rows = [row(number), row("", name="Yacine Brahimi", phone="x")]
        uploads.append(take_in(browser, send(browser, csv_of(rows, header), name)))
    assert re.findall(r"<bdi>(\w+\.csv)</bdi>", page(browser)) == ["next.csv", "list.csv"]
    header, refused = read_csv(downloaded(browser, f"/account/uploads/{uploads[0].id}/refused.csv"))
    mended = [[cell if cell != "x" else "0550 12 34 56" for cell in refused]]
    assert take_in(browser, send(browser, csv_of(mended, header), "mended.csv")).counts == {"imported": 1, "refused": 0}
    assert re.findall(r"<bdi>(\w+\.csv)</bdi>", page(browser)) == ["next.csv"]


def test_refused_orders_need_the_merchant_until_they_are_imported(browser: Client, alice: Account) -> None:
    """A shop exports every day, under the same headings."""

    def sent(name: str, *rows: list[str], header: Sequence[str] = HEADER) -> Upload:
        return take_in(browser, send(browser, csv_of([[*each] for each in rows], header), name))

    def told() -> list[tuple[str, str]]:
        return re.findall(r"<bdi>(\w+\.csv)</bdi></a> <bdi>(\d)</bdi>", page(browser))

    monday = sent("monday.csv", row("A1"), row("A2", phone="x"), row("A3", phone="x"), row("A4", phone="x"))
    sent("tuesday.csv", row("B1"))
    assert told() == [("monday.csv", "3")]
    sent("mended.csv", row("A2"), header=["Order Number", *HEADER[1:]])
    assert told() == [("monday.csv", "2")]
    wednesday = sent("wednesday.csv", row("A3", phone="x"))
    assert told() == [("wednesday.csv", "1"), ("monday.csv", "1")]
    make_order(alice, external_id="A4")
    assert told() == [("wednesday.csv", "1")]
    browser.post(f"/account/uploads/{wednesday.id}/discard")
    assert told() == []
    assert list(RefusedRow.objects.values_list("upload", "name")) == [(monday.id, "A2"), (monday.id, "A4")]


def test_an_order_that_was_there_needs_the_merchant_until_its_rows_come_again(browser: Client, alice: Account) -> None:
    make_order(alice, external_id="A1", phone="0661 00 00 00")
    for phone, expected in (("0550 12 34 56", ["first.csv"]), ("0661 00 00 00", [])):
        upload = take_in(browser, send(browser, csv_of([row("A1", phone=phone)]), "first.csv"))
        assert upload.counts["refused"] == len(expected)
        assert re.findall(r"<bdi>(\w+\.csv)</bdi>", page(browser)) == expected


def test_a_products_rows_and_an_orders_of_one_name_are_told_apart(browser: Client, alice: Account) -> None:
    make_order(alice)
    made = {"account": alice, "size": 1, "actor": "x", "user_id": alice.holder_id, "status": "done"}
    for kind in ("orders", "products"):
        upload = Upload.objects.create(**made, kind=kind, name=f"{kind}.csv", finished_at=Now())
        RefusedRow.objects.create(account=alice, upload=upload, line=2, name="1001", cells=["x"], faults=[])
    assert re.findall(r"<bdi>(\w+\.csv)</bdi>", page(browser)) == ["products.csv", "orders.csv"]
    browser.post(f"/account/uploads/{upload.id}/discard")
    assert re.findall(r"<bdi>(\w+\.csv)</bdi>", page(browser)) == ["orders.csv"]


def test_refused_rows_stay_when_another_file_is_not_taken_in(browser: Client, alice: Account) -> None:
    make_order(alice)
    made = {"account": alice, "kind": "orders", "size": 1, "actor": "x", "user_id": alice.holder_id}
    statuses = ("done", "failed", "stopped", "failed")
    uploads = [
        Upload.objects.create(**made, status=status, name=f"{number}.csv", finished_at=Now())
        for number, status in enumerate(statuses)
    ]
    for upload in (uploads[0], uploads[2]):  # the latter was stopped in the middle of its rows
        RefusedRow.objects.create(account=alice, upload=upload, line=2, cells=["x"], faults=[])
    shown = page(browser)
    assert "2 rows of files were refused" in shown
    assert re.findall(r"<bdi>(\d\.csv)</bdi>", shown) == ["2.csv", "0.csv"]
    Upload.objects.create(**made | {"kind": "products"}, status="done", name="other", finished_at=Now())
    assert "2 rows of files were refused" in page(browser)
    Upload.objects.create(**made, status="done", name="mended.csv", finished_at=Now())
    assert "refused" not in page(browser)


def test_of_files_that_are_under_way_at_once_neither_brings_the_refused_rows_of_the_other_again(
    browser: Client, alice: Account
) -> None:
    make_order(alice)
    made = {"account": alice, "kind": "orders", "size": 1, "actor": "x", "user_id": alice.holder_id, "status": "done"}
    uploads = [Upload.objects.create(**made, name=f"{number}.csv") for number in range(2)]
    for upload in reversed(uploads):
        Upload.objects.filter(id=upload.id).update(finished_at=Now())
        RefusedRow.objects.create(account=alice, upload=upload, line=2, cells=["x"], faults=[])
    shown = page(browser)
    assert "2 rows of files were refused" in shown
    assert re.findall(r"<bdi>(\d\.csv)</bdi>", shown) == ["1.csv", "0.csv"]
    Upload.objects.create(**made, name="mended.csv", finished_at=Now())
    assert "refused" not in page(browser)


def test_a_reader_is_led_where_they_may_look(browser: Client, alice: Account) -> None:
    order = make_order(alice)
    upload = Upload.objects.create(
        account=alice, kind="orders", name="orders.csv", size=1, actor="x", user_id=alice.holder_id, status="done",
        titles=["Nom"], finished_at=Now(),
    )  # fmt: skip
    RefusedRow.objects.create(account=alice, upload=upload, line=2, cells=["x"], faults=[["", ["Must not be empty."]]])
    lifecycle.add_call_note(
        order.id, lifecycle.Call(agent=factories.AgentFactory(), outcome=CallNote.Outcome.WRONG_NUMBER)
    )
    assert f'href="/account/orders/{order.id}/correct"' in page(browser)
    reader = factories.UserFactory()
    Membership.objects.create(account=alice, user=reader, role="reader")
    theirs = browser_of(reader)

    shown = page(theirs)

    led = re.findall(r'<li><a href="([^"]+)"><bdi>', shown)
    assert led == [f"/account/orders/{order.id}", f"/account/uploads/{upload.id}"]
    assert [theirs.get(href).status_code for href in led] == [200, 200]
    text = theirs.get(led[1]).content.decode()
    assert f"/account/uploads/{upload.id}/refused.csv" in text
    assert "/account/orders/upload" not in text
    assert theirs.get(f"/account/uploads/{upload.id}/refused.csv").status_code == 200


def test_a_webhook_that_fails_needs_the_merchant(browser: Client, alice: Account, charlie: Account) -> None:
    make_order(alice)
    webhook = registry.register(alice.id, url="https://203.0.114.1/hooks", events=["order.confirmed"])[0]
    registry.register(charlie.id, url="https://203.0.114.2/hooks", events=["order.confirmed"])
    assert "webhook does not answer" not in page(browser)
    Webhook.objects.update(is_failing=True, failing_since=timezone.now() - timedelta(minutes=59))
    assert "webhook does not answer" not in page(browser)  # no mail has been sent yet, either
    Webhook.objects.update(failing_since=timezone.now() - timedelta(minutes=61))
    shown = page(browser)
    assert "1 webhook does not answer" in shown
    assert f'<a href="/account/webhooks/{webhook.id}"><bdi>https://203.0.114.1/hooks</bdi></a>' in shown


def test_a_key_in_use_that_ends_soon_or_has_just_ended_needs_the_merchant(
    browser: Client, alice: Account, charlie: Account
) -> None:
    def day(number: int) -> datetime:
        return timezone.now() + timedelta(days=number, minutes=1)

    def key(name: str, **at: Any) -> ApiKey:
        row = {"account": alice, "prefix": "cod_live_abc", "digest": name.encode(), "last_used_at": day(-1)}
        return ApiKey.objects.create(name=name, **row | at)

    make_order(alice)
    key("lasts")
    key("ends later", expires_at=day(7))
    key("ended long ago", expires_at=day(-8), last_used_at=day(-9))
    key("nobody uses", expires_at=day(3), last_used_at=day(-31))
    key("never used", expires_at=day(3), last_used_at=None)
    key("revoked", expires_at=day(3), revoked_at=day(-1))
    key("theirs", expires_at=day(3), account=charlie)
    assert "API key in use" not in page(browser)
    key(HOSTILE, expires_at=days.end_of(days.today() + timedelta(days=5)), last_used_at=day(-29))
    shown = page(browser)
    assert "1 API key in use ends soon or has ended" in shown
    assert "<script>alert" not in shown
    ended = key("just ended", expires_at=day(-7), last_used_at=day(-8))

    shown = page(browser)

    assert '<a href="/account/keys">2 API keys in use end soon or have ended' in shown
    with timezone.override(days.ALGIERS):
        said = f"expired {moment(ended.expires_at)}; last used {moment(ended.last_used_at)}"
    last_day = formats.date_format(days.today() + timedelta(days=5), "j N Y")
    first, second = f"just ended</bdi> <bdi>{said}", f"{escape(HOSTILE)}</bdi> <bdi>works until {last_day}; "
    assert f"<li><bdi>{first}</bdi></li><li><bdi>{second}" in shown
    reader = factories.UserFactory()
    Membership.objects.create(account=alice, user=reader, role="reader")
    assert "in use end soon" not in page(browser_of(reader)), "who may not open the page of keys"
    Membership.objects.update(role="manager")
    assert "in use end soon" in page(browser_of(reader))


# --- Who may look ----------------------------------------------------------------------------------------------------


def test_a_twin_shows_its_own(browser: Client, alice: Account, twin: Account) -> None:
    make_order(alice, total_amount=Decimal(1))
    browser.post("/account/mode", {"to": "test"})
    assert browser.get(HOME).url == "/account/quick-start"
    for _ in range(2):
        make_order(twin, total_amount=Decimal(5))
    assert tiles(browser)[0] == ("New", "2", "10 DA")
    browser.post("/account/mode", {"to": "live"})
    assert tiles(browser)[0] == ("New", "1", "1 DA")


def test_only_the_holder_looks(alice: Account, charlie: Account) -> None:
    make_order(alice)
    make_order(charlie, source="Charlie's secret")
    browser = browser_of(charlie.holder)
    assert file(browser, "source")[0]["By source"] == "Charlie's secret"
    browser.force_login(alice.holder)
    assert [row["By source"] for row in file(browser, "source")] == ["Not specified"]
    for path in (HOME, FILE):
        assert Client().get(path).url == f"/account/login?next={path}"
        assert browser.post(path).status_code == 405


def test_the_number_of_statements_is_the_same_however_much_there_is(
    browser: Client, alice: Account, agent: User
) -> None:
    def statements(by: str) -> int:
        with CaptureQueriesContext(connection) as asked:
            page(browser, f"?by={by}")
        return len(asked)

    lived(alice, agent)
    make_order(alice, items=[order_line(product_id=factories.ProductFactory(account=alice).id, quantity=1)])
    few = {by: statements(by) for by in home_page.DIVISIONS}
    assert max(few.values()) <= 11
    for number in range(20):
        product = factories.ProductFactory(account=alice)
        lines = [order_line(product_id=product.id, quantity=40), order_line(product_name=f"n{number}", quantity=1)]
        lines[1]["unit_price"] = 1
        make_order(alice, source=f"s{number}", customer_wilaya=str(number + 1), items=lines)
    date_back(timedelta(days=1))
    sum_up_days()
    lived(alice, agent)
    ChangedDay.objects.create(account=alice, day=days.today() - timedelta(days=9))
    assert {by: statements(by) for by in home_page.DIVISIONS} == few


def test_where_more_waits_to_be_counted_than_a_page_has_time_for_it_says_so(
    browser: Client, alice: Account, charlie: Account, agent: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It used to be read for half a minute, during which nothing could be saved."""
    lived(alice, agent)
    moves = StatusChange.objects.filter(account=alice).count()
    date_back(timedelta(days=1))
    monkeypatch.setattr(daily, "MOST_UNSUMMED", moves)
    lived(charlie, agent)
    page(browser)
    monkeypatch.setattr(daily, "MOST_UNSUMMED", moves - 1)
    monkeypatch.setattr(daily, "read", None)
    for path in (HOME, FILE):
        answer = browser.get(path)
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "60")
        assert "Your orders are being counted" in answer.content.decode()
    monkeypatch.undo()
    monkeypatch.setattr(daily, "MOST_UNSUMMED", moves - 1)
    sum_up_days()
    page(browser)


def test_what_others_wrote_is_shown_and_never_run(browser: Client, alice: Account) -> None:
    order = make_order(alice, source=HOSTILE[:64], items=[order_line(product_name=HOSTILE, quantity=1, unit_price=1)])
    lifecycle.cancel(order.id, actor=SUPERVISOR, reason=HOSTILE)
    for by in home_page.DIVISIONS:
        assert "<script>" not in page(browser, f"?by={by}")
        assert "14" not in page(browser, f"?by={by}").split("add:7")[-1][:10]
    assert "&lt;script&gt;alert(1)&lt;/script&gt;{{ 7|add:7 }}" in page(browser, "?by=source")
    rows = [*file(browser, "source"), *file(browser, "product"), *file(browser, "reason")]
    assert not [row for row in rows if next(iter(row.values())).startswith("=")]


def test_a_year_of_days_is_a_small_page(browser: Client, alice: Account) -> None:
    make_order(alice)
    today = days.today()
    DayFigure.objects.bulk_create(
        DayFigure(
            account=alice, day=today - timedelta(days=number), dimension=dimension, key=key, new_count=99_999,
            new_amount=10**8, confirmed_count=55_555 + number, refused_count=33_333, delivered_count=44_444,
            returned_count=11_111, canceled_count=44_444,
        )
        for number in range(1, 366)
        for dimension, key in [("all", ""), *(("source", f"source {number} {'x' * 40}") for number in range(40))]
    )  # fmt: skip
    SummedUp.objects.create(account=alice, until=days.start_of(today))
    for language in ("en", "fr", "ar-dz"):
        browser.cookies["django_language"] = language
        for by in home_page.DIVISIONS:
            answer = browser.get(f"{HOME}?by={by}&first={today - timedelta(days=365)}&last={today}")
            assert answer.status_code == 200
            assert len(answer.content) < 80_000, (language, by)


def test_bars_are_as_long_as_what_they_count() -> None:
    chart = charts.days([Bar("1", [30, 10]), Bar("2", [0, 0])])
    assert [label.text for label in chart.scale] == ["0", "20", "40"]
    assert chart.paths == [("good", "M0.15 61.5h.7v130.5h-.7z"), ("bad", "M0.15 18.0h.7v43.5h-.7z")]
    assert [label.x for label in chart.names] == [35.5, 78.5]
    long, short = charts.rows([Bar("a", [3, 1]), Bar("b", [1, 1])])
    assert (long.parts, short.parts) == (
        [("good", 0, 75), ("bad", 75, 25)],
        [("good", 0, 25), ("bad", 25, 25)],
    )
    assert (charts.days([]).paths, charts.rows([])) == ([("good", ""), ("bad", "")], [])
