"""The pages where a merchant takes data out and has customers erased, and the commands that do the same."""

import io
import json
import zipfile
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.apps import apps
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.utils import timezone

from codservice.accounts.actor import Actor
from codservice.accounts.models import Account, ApiKey, SecurityEntry
from codservice.accounts.security_log import Action, By
from codservice.files import account_export
from codservice.files.account_export import TABLES
from codservice.files.sheets import MAX_ROW
from codservice.uploads.models import REFUSED_BYTES, RefusedRow, Upload
from codservice.wire import MAX_BODY
from inventory.models import StockMovement
from orders import anonymising, customer_data, editing
from orders.models import Erasure, Order, OrderEdit, OrderItem, Status
from tests import factories
from tests.harness.disk import needs_root, small_disk
from tests.harness.manage import output
from tests.harness.memory import most_memory
from tests.harness.plans import read_so_far
from tests.harness.sheets import read_records
from tests.harness.world import make_world
from webhooks import registry

PAGE, PHONE, E164 = "/account/data", "0661 22 33 44", "+213661223344"
ERASE_LINK = 'href="/account/data/erase?phone=%2B213661223344"'
# Tables of accounts that the export leaves out, and why.
LEFT_OUT = {
    "accounts.Invitation": "mails under way",
    "accounts.Membership": "who works for the account, which is about them",
    "api.IdempotencyRecord": "answers to the account's own requests, for a day",
    "orders.OrderCount": "sums of the orders",
    "orders.OrderTrigrams": "an index of the orders",
    "orders.SearchChange": "work under way",
    "orders.Searchable": "work under way",
    "orders.ChangedDay": "work under way",
    "orders.DayFigure": "sums of the orders",
    "orders.SummedUp": "work under way",
    "uploads.Block": "files that are being taken in",
    "uploads.Piece": "files that arrive",
    "webhooks.Recovery": "work under way",
}


def order_of(account: Account, status: Status = Status.DELIVERED, **changes: Any) -> Order:
    order = factories.make_order(account, customer_name="Nadia Cherif", phone=PHONE, **changes)
    Order.objects.filter(id=order.id).update(status=status)
    return order


def unzipped(answer: Any) -> dict[str, list[dict[str, str]]]:
    """Return name → the rows."""
    with zipfile.ZipFile(io.BytesIO(b"".join(answer))) as archive:
        assert archive.testzip() is None
        return {name: read_records(archive.read(name)) for name in archive.namelist()}


# --- The export of everything ----------------------------------------------------------------------------------------


def test_each_table_of_an_account_is_in_the_export_or_says_why_not() -> None:
    owned = {model for model in apps.get_models() if any(field.name == "account" for field in model._meta.fields)}
    given = {table.model for table in TABLES.values()}
    assert {model._meta.label for model in owned - given} == LEFT_OUT.keys()


def test_everything_is_in_it_and_nothing_of_others(db: None) -> None:
    world = make_world()
    twin = ApiKey.issue(world.alice, name="Trial", is_test=True)[0].account
    order_of(twin)
    files = unzipped(account_export.stream(world.alice))

    assert {f"{name}.csv" for name in TABLES} == {name for name in files if "/" not in name}
    for name, table in TABLES.items():
        keys = {row[account_export.columns(table)[0]] for row in files[f"{name}.csv"]}
        assert len(keys) == len(files[f"{name}.csv"]) > 0, name
        for folder, account in (("", world.alice), ("test/", twin)):
            mine = table.model._default_manager.filter(table.where)
            if "account" in {field.name for field in table.model._meta.fields}:
                assert mine.filter(account=account).count() == len(files[f"{folder}{name}.csv"]), name
    text = "".join(str(rows) for rows in files.values())
    assert str(world.alice.id) in text
    assert str(world.charlie.id) not in text
    assert "Charlie" not in text


def test_no_secret_is_in_it(alice: Account) -> None:
    key = ApiKey.issue(alice, name="Shop")[1]
    _webhook, secret = registry.register(alice.id, url="https://203.0.114.1/hooks", events=["order.confirmed"])
    raw = b"".join(account_export.stream(alice))
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        text = "".join(archive.read(name).decode() for name in archive.namelist())
    assert key[:12] in text
    for hidden in (key, key[12:], secret, alice.holder.password):
        assert hidden not in text
    for name in TABLES:
        found = set(account_export.columns(TABLES[name])) & {"password", "secret", "previous_secret", "key"}
        assert found == set(), name


class AtNight(datetime):
    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:
        return datetime(2026, 11, 29, 23, 30, tzinfo=UTC).astimezone(tz)


def test_its_files_were_written_when_it_was_so_by_the_clock_in_algeria(
    alice: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a ZIP file, times have no zone."""
    monkeypatch.setattr(account_export, "datetime", AtNight)
    raw = b"".join(account_export.stream(alice))
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        assert {each.date_time for each in archive.infolist()} == {(2026, 11, 30, 0, 30, 0)}


def test_of_who_works_here_it_has_neither_name_nor_address(alice: Account) -> None:
    entry = {"account": alice, "action": Action.KEY_REVOKED, "outcome": "done", "target": "Shop"}
    for by, actor, address in [
        (By.STAFF, "op-karim", "198.51.100.1"),
        (By.COMMAND, "manage.py revoke_api_key", ""),
        (By.PERSON, "alice-herself", "198.51.100.2"),
        (By.KEY, "Shop's key", "198.51.100.3"),
    ]:
        SecurityEntry.objects.create(**entry, by=by, actor=actor, actor_id=uuid4(), address=address)
    rows = unzipped(account_export.stream(alice))["security_log.csv"]
    told = {row["by"]: (row["actor"], bool(row["actor_id"]), row["address"]) for row in rows if row["target"] == "Shop"}
    assert told == {
        "staff": ("", False, ""),
        "command": ("", False, ""),
        "person": ("alice-herself", True, "198.51.100.2"),
        "key": ("Shop's key", True, "198.51.100.3"),
    }


@pytest.mark.parametrize("what", ["account", "customer", "erasure"])
def test_rows_that_are_long_are_not_all_in_memory(alice: Account, what: str) -> None:
    """Where one row may have a megabyte, a thousand are a gigabyte."""
    made = {"kind": "orders", "name": "a.csv", "size": 1, "actor": "A", "user_id": uuid4()}
    upload = Upload.objects.create(account=alice, status=Upload.Status.DONE, **made)
    RefusedRow.objects.bulk_create(
        RefusedRow(account=alice, upload=upload, line=line, cells=[PHONE, "x" * 50_000], faults=[])
        for line in range(2, 402)
    )
    if what == "account":
        size, most = most_memory(lambda: sum(map(len, account_export.stream(alice))))
        assert size > 0
    elif what == "customer":
        size, most = most_memory(lambda: sum(map(len, customer_data.export(alice, E164))))
        assert size > 400 * 50_000
    else:
        _, most = most_memory(lambda: customer_data.erase(alice, E164, actor=Actor.of_merchant(alice.holder)))
    assert most < 14 << 20, "of twenty megabytes"
    assert max(TABLES["refused_rows"].most * MAX_ROW * 4, REFUSED_BYTES) < 64 << 20
    assert TABLES["events"].most * MAX_BODY < 128 << 20


def test_while_the_rows_of_one_are_read_none_of_all_are_held(alice: Account) -> None:
    """They are asked for with those of ever fewer others, down to the one that has so many."""
    orders = factories.make_orders(alice, [{}] * 64)
    first = min(orders, key=lambda order: order.id)
    details = {f"{number}": "v" * 255 for number in range(20)}
    OrderItem.objects.bulk_create(
        OrderItem(
            account=alice, order=first, position=n, quantity=1, product_name="Robe", unit_price=5, attributes=details
        )
        for n in range(1000, 1299)
    )
    table = TABLES["order_items"]._replace(most=100)
    rows = OrderItem.objects.values("pk", *account_export.columns(table), *table.key)

    def read(above: list[UUID]) -> tuple[int, int]:
        return most_memory(lambda: sum(map(len, account_export._of(rows, table, above))))

    (count, alone), (same, halved) = read([first.id]), read(sorted(order.id for order in orders))
    _, page = most_memory(lambda: list(rows.filter(order=first).order_by(*table.key)[: table.most]))
    assert (count, same) == (300, 363)
    assert alone < 1.5 * page
    assert halved < 2 * alone


def test_a_customers_orders_are_given_out_one_by_one(alice: Account) -> None:
    """One order may have ten megabytes, and two hundred of them used to be read at once."""
    details = {f"{n}".ljust(64, "k"): "v" * 255 for n in range(20)}
    line = factories.order_line(quantity=1, product_name="Robe", unit_price=5, attributes=details)
    for _ in range(20):
        factories.make_order(alice, phone=PHONE, items=[line] * 100)
    size, most = most_memory(lambda: sum(map(len, customer_data.export(alice, E164))))
    assert size > 12 << 20 > 2 * most


@pytest.mark.parametrize("page", [1, 2, 3, 1000])
def test_it_is_whole_however_it_is_paged(alice: Account, page: int, monkeypatch: pytest.MonkeyPatch) -> None:
    line = factories.order_line(quantity=1, product_name="=Robe", unit_price=5)
    for number in range(4):
        factories.make_order(alice, items=[line] * (number + 1))
    product, other = factories.ProductFactory(account=alice), factories.ProductFactory(account=alice)
    for number in range(5):
        StockMovement.objects.create(
            account=alice, product=product, old_quantity=number, new_quantity=number + 1,
            at=timezone.now(), actor="x",
        )  # fmt: skip
    for name, table in TABLES.items():
        monkeypatch.setitem(TABLES, name, table._replace(most=min(page, table.most)))

    files = unzipped(account_export.stream(alice))

    assert [len(files[f"{name}.csv"]) for name in ("orders", "order_items", "products", "stock_movements")] == [
        4, 10, 2, 5,
    ]  # fmt: skip
    assert {row["product_name"] for row in files["order_items.csv"]} == {"'=Robe"}
    assert {row["product_id"] for row in files["stock_movements.csv"]} == {str(product.id)}
    assert str(other.id) in {row["id"] for row in files["products.csv"]}


def test_deliveries_are_read_once(alice: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    """Millions of them would otherwise be sorted again and again, until the statement takes too long."""
    for number in range(2):
        registry.register(alice.id, url=f"https://203.0.114.{number + 1}/hooks", events=["order.confirmed"])
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO webhooks_event (id, account_id, kind, body, created_at)"
            " SELECT gen_random_uuid(), %s, 'order.confirmed', '{}', now() - n * interval '1 s'"
            " FROM generate_series(3000, 1, -1) n",
            [alice.id],
        )
        cursor.execute(
            "INSERT INTO webhooks_delivery (id, account_id, webhook_id, event_id, status, attempt_count, retries_left,"
            " created_at, finished_at)"
            " SELECT gen_random_uuid(), e.account_id, w.id, e.id, 'delivered', 1, 3, e.created_at, now()"
            " FROM webhooks_webhook w, webhooks_event e"
        )
        cursor.execute("ANALYZE webhooks_delivery")
    for name in TABLES.keys() - {"webhooks", "deliveries"}:
        monkeypatch.delitem(TABLES, name)
    before = read_so_far("webhooks_delivery")

    rows = unzipped(account_export.stream(alice))["deliveries.csv"]

    assert len({row["id"] for row in rows}) == len(rows) == 6000
    assert read_so_far("webhooks_delivery") - before < 1.5 * 6000


def test_the_page_gives_it_and_the_security_log_notes_it(browser: Client, alice: Account) -> None:
    order_of(alice)
    answer = browser.post(f"{PAGE}/export", {"mode": "live"})
    assert answer.headers["Content-Disposition"].startswith('attachment; filename="codservice-')
    assert unzipped(answer.streaming_content)["orders.csv"][0]["customer_name"] == "Nadia Cherif"
    assert SecurityEntry.objects.get(action="exported").actor == alice.holder.username
    assert browser.get(f"{PAGE}/export").url == PAGE


def test_the_holder_of_a_closed_account_takes_the_data_out_and_erases_nobody(browser: Client, alice: Account) -> None:
    order_of(alice, Status.PENDING)
    Account.objects.update(is_active=False)
    everything = browser.post(f"{PAGE}/export", {"mode": "live"})
    assert len(unzipped(everything.streaming_content)["orders.csv"]) == 1
    of_customer = browser.post(f"{PAGE}/customer", {"phone": PHONE})
    assert b"Nadia Cherif" in b"".join(of_customer.streaming_content)
    assert browser.post(f"{PAGE}/erase", {"phone": PHONE}).url == "/account/"
    assert Order.objects.get().customer_name == "Nadia Cherif"
    page = browser.get(PAGE, {"phone": PHONE}).content.decode()
    assert "This account is closed: ask us to erase this customer." in page
    assert "cancel it first" not in page


def test_in_test_mode_it_is_the_twins_alone(browser: Client, alice: Account, twin: Account) -> None:
    order_of(alice, external_id="live-1")
    order_of(twin, external_id="test-1")
    browser.post("/account/mode", {"to": "test"})
    files = unzipped(browser.post(f"{PAGE}/export").streaming_content)
    assert [row["external_id"] for row in files["orders.csv"]] == ["test-1"]
    assert not [name for name in files if "/" in name]
    browser.post(f"{PAGE}/erase", {"phone": PHONE})
    assert set(Order.objects.values_list("external_id", "customer_name")) == {("live-1", "Nadia Cherif"), (None, "—")}


def test_the_command_writes_it(alice: Account, tmp_path: Path) -> None:
    order_of(alice)
    file = tmp_path / "alice.zip"
    call_command("export_account", str(file), account=alice.holder.email, stdout=io.StringIO())
    assert len(unzipped([file.read_bytes()])["orders.csv"]) == 1
    assert SecurityEntry.objects.get(action="exported").by == "command"
    with pytest.raises(CommandError, match="exists"):
        call_command("export_account", str(file), account=alice.holder.email, stdout=io.StringIO())


def test_what_the_command_writes_is_nobody_elses_to_read(alice: Account, tmp_path: Path) -> None:
    file = tmp_path / "alice.zip"
    call_command("export_account", str(file), account=alice.holder.email, stdout=io.StringIO())
    assert file.stat().st_mode & 0o777 == 0o600


@needs_root
def test_a_disk_that_is_full_at_the_end_leaves_no_half_of_it(
    alice: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(account_export, "stream", lambda account: [b"what is written when the file is closed"])
    with small_disk(tmp_path / "disk", megabytes=1) as disk:
        disk.fill()
        file = disk.folder / "alice.zip"
        with pytest.raises(CommandError, match="No space left"):
            call_command("export_account", str(file), account=alice.holder.email, stdout=io.StringIO())
        assert not file.exists()
    assert not SecurityEntry.objects.filter(action="exported").exists(), "what nobody has got"


# --- One customer ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("written", [PHONE, E164, "00213661223344", "٠٦٦١٢٢٣٣٤٤"])
def test_a_customer_is_found_by_any_form_of_either_phone(browser: Client, alice: Account, written: str) -> None:
    order = order_of(alice)
    second = factories.make_order(alice, phone="0550998877", customer_phone_2=PHONE)
    text = browser.get(PAGE, {"phone": written}).content.decode()
    assert f"/account/orders/{order.id}" in text
    assert f"/account/orders/{second.id}" in text
    assert "1 order has not ended yet" in text
    assert "Erase this customer" not in text


def test_what_is_known_of_a_customer_is_given_out(browser: Client, alice: Account, twin: Account) -> None:
    orders = [order_of(alice), order_of(alice, notes="sonnette"), order_of(twin)]
    factories.make_order(alice, phone="0550998877")
    answer = browser.post(f"{PAGE}/customer", {"phone": PHONE})
    told = json.loads(b"".join(answer.streaming_content))
    assert told["phone"] == E164
    assert {order["id"]: order["mode"] for order in told["orders"]} == {
        str(order.id): "test" if order.account_id == twin.id else "live" for order in orders
    }
    assert {"notes", "call_notes", "status_history", "edits", "customer"} < told["orders"][0].keys()
    assert json.loads(output("export_customer", PHONE, account=alice.holder.email))["orders"] == told["orders"]
    noted = SecurityEntry.objects.filter(action="exported").order_by("id").values_list("by", "target_id")
    assert list(noted) == [("person", alice.id), ("command", alice.id)]


def test_refused_rows_are_given_out_though_no_order_has_the_number(
    browser: Client, alice: Account, twin: Account
) -> None:
    columns = {"external_id": 0, "customer_name": 1, "customer_phone": 2}
    hers = [["7", "Nadia", PHONE], ["7", "sa soeur", ""], ["9", "N.", "0661.22.33.44 (Ali)"]]
    rows = [*hers[:2], ["8", "Amine", "0550998877"], hers[2]]
    for account in (alice, twin):
        made = {"kind": "orders", "name": "mai.csv", "size": 1, "actor": "x", "user_id": uuid4(), "mapping": columns}
        upload = Upload.objects.create(account=account, status=Upload.Status.DONE, **made)
        for line, cells in enumerate(rows, start=2):
            RefusedRow.objects.create(account=account, upload=upload, line=line, cells=cells, faults=[])
    assert "Download this customer" in browser.get(PAGE, {"phone": PHONE}).content.decode()
    told = json.loads(b"".join(browser.post(f"{PAGE}/customer", {"phone": PHONE}).streaming_content))
    assert told["orders"] == []
    assert told["refused_rows"] == [
        {"mode": mode, "file": "mai.csv", "line": line, "cells": rows[line - 2]}
        for mode in ("live", "test")
        for line in (2, 3, 5)
    ]


def test_a_customer_is_erased_after_a_question_and_a_record_is_shown(browser: Client, alice: Account) -> None:
    order = order_of(alice)
    question = browser.get(f"{PAGE}/erase", {"phone": PHONE}).content.decode()
    assert "order numbers are free again" in question
    assert "1 order loses the customer" in question
    assert "including the names of products that are not in your list of products" in question
    order.refresh_from_db()
    assert order.customer_name == "Nadia Cherif"

    answer = browser.post(f"{PAGE}/erase", {"phone": E164}, follow=True)

    order.refresh_from_db()
    assert order.customer_name == "—"
    text = answer.content.decode()
    assert "The customer is erased from 1 order." in text
    record = Erasure.objects.get()
    assert (record.actor, record.user, record.order_count) == (alice.holder.display_name, alice.holder, 1)
    assert record.actor in text.partition("Erased so far")[2]
    assert "No orders have this number." in browser.get(PAGE, {"phone": PHONE}).content.decode()


def test_one_whose_number_was_replaced_is_erased_by_the_former_number(browser: Client, alice: Account) -> None:
    order, edit = order_of(alice, Status.PENDING), editing.Edit(customer_phone="0550998877", phone_e164="+213550998877")
    editing.edit(order.id, edit, actor=Actor.of_merchant(alice.holder))
    assert ERASE_LINK in browser.get(PAGE, {"phone": PHONE}).content.decode()
    assert "No orders have this number now." in browser.get(f"{PAGE}/erase", {"phone": PHONE}).content.decode()

    answer = browser.post(f"{PAGE}/erase", {"phone": E164}, follow=True)

    assert "What was still kept of this number is erased. No orders have it now." in answer.content.decode()
    assert set(OrderEdit.objects.filter(order=order).values_list("old", "new")) == {("", "")}
    assert Erasure.objects.get().order_count == 0
    order.refresh_from_db()
    assert order.phone_e164 == edit.phone_e164


def test_an_erasure_that_was_interrupted_after_the_orders_is_finished_on_the_page(
    browser: Client, alice: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = {"kind": "orders", "name": "a.csv", "size": 1, "actor": "A", "user_id": uuid4(), "status": "done"}
    upload = Upload.objects.create(account=alice, **made)
    RefusedRow.objects.create(account=alice, upload=upload, line=2, cells=["Nadia", PHONE], faults=[])
    order = order_of(alice)
    browser.raise_request_exception = False
    with monkeypatch.context() as interrupted:
        interrupted.setitem(anonymising.COPIES, "claims", lambda phone: 1 / 0)
        assert browser.post(f"{PAGE}/erase", {"phone": E164}).status_code == 500
    order.refresh_from_db()
    assert (order.customer_name, RefusedRow.objects.count()) == ("—", 1)

    assert ERASE_LINK in browser.get(PAGE, {"phone": PHONE}).content.decode()
    assert browser.post(f"{PAGE}/erase", {"phone": E164}).url == PAGE
    assert not RefusedRow.objects.exists()


def test_orders_that_are_counted_and_not_listed_are_said_to_be_test_orders(
    browser: Client, alice: Account, twin: Account
) -> None:
    for account in (alice, twin, twin):
        order_of(account)
    found = browser.get(PAGE, {"phone": PHONE}).content.decode()
    assert ("<strong>3 orders</strong>" in found, found.count('href="/account/orders/')) == (True, 1)
    question = browser.get(f"{PAGE}/erase", {"phone": PHONE}).content.decode()
    answer = browser.post(f"{PAGE}/erase", {"phone": PHONE}, follow=True).content.decode()
    assert "The customer is erased from 3 orders. 2 of them are test orders." in answer
    assert '<td class="number">1 order</td>' in answer
    for text in (found, question):
        assert "2 of them are test orders." in text
    order_of(twin)
    browser.post("/account/mode", {"to": "test"})
    text = browser.get(PAGE, {"phone": PHONE}).content.decode()
    assert "<strong>1 order</strong>" in text
    assert "test order" not in text


def test_one_whose_order_is_under_way_is_not(browser: Client, alice: Account) -> None:
    order = order_of(alice, Status.SHIPPED)
    for answer in (
        browser.get(f"{PAGE}/erase", {"phone": PHONE}, follow=True),
        browser.post(f"{PAGE}/erase", {"phone": PHONE}, follow=True),
    ):
        assert "1 order of this customer has not ended yet" in answer.content.decode()
    order.refresh_from_db()
    assert order.customer_name == "Nadia Cherif"
    with pytest.raises(CommandError, match="has not ended yet"):
        call_command("erase_customer", PHONE, account=alice.holder.email)


def test_one_who_may_stand_in_a_file_that_is_under_way_is_not(browser: Client, alice: Account) -> None:
    order = order_of(alice, Status.DELIVERED)
    Upload.objects.create(
        account=alice, kind="orders", name="<b>.csv", size=1, actor="x", user_id=alice.holder_id, status="running"
    )
    for answer in (
        browser.get(f"{PAGE}/erase", {"phone": PHONE}, follow=True),
        browser.post(f"{PAGE}/erase", {"phone": PHONE}, follow=True),
    ):
        assert "The file “&lt;b&gt;.csv” is under way" in answer.content.decode()
    order.refresh_from_db()
    assert order.customer_name == "Nadia Cherif"
    with pytest.raises(CommandError, match="is under way"):
        call_command("erase_customer", PHONE, account=alice.holder.email)


def test_what_is_no_number_is_said(browser: Client) -> None:
    assert browser.get(PAGE, {"phone": "12"}).status_code == 422
    for answer in (browser.post(f"{PAGE}/customer"), browser.get(f"{PAGE}/erase"), browser.post(f"{PAGE}/erase")):
        assert answer.url == PAGE
    with pytest.raises(CommandError, match="Algerian phone number"):
        call_command("erase_customer", "12", account="x")


def test_the_command_erases(alice: Account, twin: Account) -> None:
    order_of(alice)
    order_of(twin, Status.PENDING)

    def run(*options: str) -> dict[str, Any]:
        return json.loads(output("erase_customer", PHONE, *options, "--json", account=alice.holder.email))

    assert run("--dry-run") == {"orders": 1, "test_orders": 1, "dry_run": True}
    assert run() == {"orders": 1, "test_orders": 1, "dry_run": False}
    assert set(Order.objects.values_list("customer_name", flat=True)) == {"—"}
    assert run() == {"orders": 0, "test_orders": 0, "dry_run": False}
    assert set(Erasure.objects.values_list("actor", flat=True)) == {"erase_customer"}


def test_the_page_costs_the_same_for_one_order_and_for_many(
    browser: Client, alice: Account, django_assert_max_num_queries: Any
) -> None:
    for _ in range(12):
        order_of(alice)
    with django_assert_max_num_queries(9):
        browser.get(PAGE, {"phone": PHONE})
