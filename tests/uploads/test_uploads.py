"""Files of orders that merchants upload: read, matched, and imported once by the API's rules."""

import hashlib
import re
import time
from collections import Counter
from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import OperationalError, connection
from django.db.models import Q, QuerySet
from django.db.models.functions import Now
from django.test import Client
from django.test.client import BOUNDARY, MULTIPART_CONTENT, encode_multipart
from django.test.utils import CaptureQueriesContext

from codservice.accounts import merchants
from codservice.accounts.models import Account, Membership
from codservice.files.tables import Table
from codservice.retention import SWEEPS
from codservice.run import gateway
from codservice.uploads import arrival, processing
from codservice.uploads.models import Block, Piece, RefusedRow, Upload
from codservice.wire import MAX_BODY
from orders.models import CallState, Order, OrderItem, StatusChange
from orders.order_files.rows import UploadedOrderRows
from tests.factories import UserFactory
from tests.harness.background import Background, open_transaction
from tests.harness.client import browser_of
from tests.harness.database import database_url, wait_for_lock
from tests.harness.memory import most_memory
from tests.harness.sheets import workbook
from tests.uploads.files import (
    HEADER,
    HEADINGS,
    PAGE,
    announce,
    chosen,
    csv_of,
    downloaded,
    next_steps,
    row,
    send,
    send_piece,
    take_in,
    xlsx_of,
)

Status = Upload.Status


@pytest.mark.parametrize("kind", ["csv", pytest.param("xlsx", marks=pytest.mark.process)])
def test_a_file_becomes_orders_as_an_import_makes_them(browser: Client, alice: Account, kind: str) -> None:
    rows = [row("A1"), row("A1", product="Sac", quantity="1", price="99"), row("A2", name="فاطمة", phone="550123457")]
    upload = send(browser, csv_of(rows) if kind == "csv" else xlsx_of(rows), f"orders.{kind}")
    assert (upload.status, upload.row_count, upload.titles) == (Status.MATCHING, 3, list(HEADER))
    assert Order.objects.count() == Piece.objects.count() == 0

    upload = take_in(browser, upload)

    assert (upload.status, upload.rows_done, upload.position) == (Status.DONE, 3, 4)
    assert upload.counts == {"imported": 2, "refused": 0}
    first = Order.objects.get(account=alice, external_id="A1")
    lines = list(first.items.order_by("position").values_list("product_name", "quantity", "unit_price"))
    assert lines == [("Robe", 2, Decimal("2500.50")), ("Sac", 1, Decimal("99.00"))]
    assert (first.total_amount, first.phone_e164, first.wilaya_code) == (Decimal("5100.00"), "+213550123456", "16")
    assert first.status_changes.get().actor == alice.holder.display_name
    assert Order.objects.get(external_id="A2").phone_e164 == "+213550123457"
    assert Block.objects.count() == 0, "the file is not kept"
    page = browser.get(f"/account/uploads/{upload.id}").content.decode()
    assert next_steps(page) == {"Orders": "primary", "Another file": "plain"}


@pytest.mark.process
def test_of_several_sheets_the_one_that_is_read_is_named(browser: Client) -> None:
    table = [list(HEADER), row("A1")]
    for sheets, named, status in (
        ({"Août <b>": table, "Juillet": table}, ["Août &lt;b&gt;"] * 2, Status.DONE),
        ({"Août": table}, [], Status.DONE),
        ({"Couverture": [list(HEADER)], "Août": table}, ["Couverture"], Status.FAILED),
    ):
        upload = send(browser, workbook(sheets), "orders.xlsx")
        pages = [browser.get(f"/account/uploads/{upload.id}").content.decode()]
        if upload.status == Status.MATCHING:
            upload = take_in(browser, upload)
            pages.append(browser.get(f"/account/uploads/{upload.id}").content.decode())
        said = [
            name for page in pages for name in re.findall("visible sheet of the file is read.*<bdi>(.*?)</bdi>", page)
        ]
        assert (said, upload.status) == (named, status)

    empty = send(browser, workbook({"Résumé": [], "Août": table}), "orders.xlsx")
    assert (
        "The first visible sheet of the file, Résumé, is empty"
        in browser.get(f"/account/uploads/{empty.id}").content.decode()
    )


def test_a_small_file_may_come_without_scripts(browser: Client) -> None:
    answer = browser.post(PAGE, {"file": SimpleUploadedFile("C:\\orders.CSV", csv_of([row()]))})
    upload = Upload.objects.get()
    assert (answer.url, upload.name) == (f"/account/uploads/{upload.id}", "orders.CSV")
    processing.go_on()
    assert "Nom du client" in browser.get(answer.url).content.decode()


def test_a_large_one_is_told_what_may_come_without_scripts(browser: Client) -> None:
    """The gateway cuts it, and a form whose file has no end comes without it."""
    whole = encode_multipart(BOUNDARY, {"mode": "live", "file": SimpleUploadedFile("orders.csv", b"x" * MAX_BODY)})
    answer = browser.generic("POST", PAGE, whole[: MAX_BODY + 1], MULTIPART_CONTENT)
    assert answer.status_code == 422
    assert "Without scripts a file can have at most 900 KB." in answer.content.decode()


def test_a_piece_arrives_over_a_slow_mobile_line() -> None:
    """At EDGE's 60 kbit/s, of which protocols take a tenth, before a body is given up."""
    assert arrival.PIECE_BYTES * 8 / 54_000 < gateway.BODY_SECONDS


def test_a_file_of_several_pieces_may_come_without_scripts(browser: Client) -> None:
    data = csv_of(row(number, address="x" * 100) for number in range(1500))
    assert arrival.PIECE_BYTES < len(data) < 4 * arrival.PIECE_BYTES
    assert browser.post(PAGE, {"file": SimpleUploadedFile("orders.csv", data)}).status_code == 302
    processing.go_on()
    upload = Upload.objects.get()
    assert (upload.status, upload.row_count) == (Status.MATCHING, 1500)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"\n\n", "The file is empty. Its first line must name the columns."),
        (b"a,b\n", "The file has no rows below its first line."),
        ("name\nCafé".encode("cp850"), "characters cannot be read"),
        (b'a,b\n1,"2\n', "The file is not a CSV file: the row at line 2 cannot be read."),
        (b"a\n" + b'"' + b"x" * (1 << 20), "The row at line 2 of the file does not end"),
        (b",".join([b"x"] * 121) + b"\n1\n", "The file has 121 columns. It can have at most 120."),
        (b"a\n" + b'"' + b"x\n" * 600_000, "The row at line 2 of the file does not end"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_in_words(browser: Client, data: bytes, says: str) -> None:
    upload = send(browser, data)
    assert upload.status == Status.FAILED
    page = browser.get(f"/account/uploads/{upload.id}").content.decode()
    assert says in page
    assert next_steps(page) == {"Orders": "plain", "Another file": "primary"}
    assert (Piece.objects.count(), Block.objects.count()) == (0, 0)


@pytest.mark.process
def test_a_spreadsheet_that_is_none_is_refused_in_words(browser: Client) -> None:
    upload = send(browser, b"PK no spreadsheet", "orders.xlsx")
    text = browser.get(f"/account/uploads/{upload.id}").content.decode()
    assert "The file is not a spreadsheet that we can read. Open it in a spreadsheet program" in text


@pytest.mark.parametrize(
    ("name", "size", "says"),
    [
        ("orders.exe", "5", "must be CSV or XLSX"),
        ("orders.xls", "5", "such as .xls, in its program and save it as XLSX."),
        ("", "5", "Choose a file."),
        ("a\x00.csv", "5", "Choose a file."),
        ("orders.csv", "0", "The file is empty."),
        ("orders.csv", "-1", "The file is empty."),
        ("orders.csv", str(arrival.MAX_BYTES + 1), " MB. Send it in parts"),
    ],
)
def test_what_cannot_be_taken_is_said_before_it_is_sent(browser: Client, name: str, size: str, says: str) -> None:
    answer = browser.post(PAGE, {"name": name, "size": size})
    assert answer.status_code == 422
    assert says in answer.json()["error"]
    assert not Upload.objects.exists()


@pytest.mark.parametrize(("name", "encoding"), [("Commandes.TXT", "utf-16"), ("commandes.tsv", "utf-8")])
def test_a_text_with_tabs_is_taken_as_excel_and_google_call_it(browser: Client, name: str, encoding: str) -> None:
    data = csv_of([row(name="Élodie")], delimiter="\t").decode().encode(encoding)
    assert take_in(browser, send(browser, data, name)).counts == {"imported": 1, "refused": 0}
    assert Order.objects.get().customer_name == "Élodie"


def test_of_a_long_name_the_end_is_kept(browser: Client) -> None:
    """Composed, this letter is two characters."""
    assert browser.post(PAGE, {"name": "\u0958" * 251 + ".csv", "size": 5}).status_code == 200
    assert Upload.objects.get().name == "\u093c" + "\u0915\u093c" * 125 + ".csv"


def test_few_files_are_under_way_at_a_time(browser: Client) -> None:
    """Whatever is in them. The page leads to each of them, also to those of products."""
    files = [announce(browser, b"a\n1\n", f"{n}.csv", "/account/products/upload") for n in range(arrival.MAX_OPEN)]
    answer = browser.post(PAGE, {"name": "a.csv", "size": 5})
    assert (answer.status_code, answer.json()["error"]) == (
        422,
        "Earlier files are not finished. Match their columns, wait for them, or stop one.",
    )
    page = browser.get(PAGE).content.decode()
    assert all(f"/account/uploads/{file.id}" in page for file in files)


def test_a_file_of_long_rows_is_not_held_in_memory(browser: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A spreadsheet of some kilobytes may have a text of maximal length in each cell."""
    monkeypatch.setattr(arrival, "PIECE_BYTES", 4 << 20)  # arrives in ten requests instead of 280
    rows = [[f"SKU-{number}", *["x" * 125_000] * 8] for number in range(36)]
    header = ["SKU", "Name", *"abcdefg"]
    upload = send(browser, csv_of(rows, header), "products.csv", "/account/products/upload")
    answer = browser.post(f"/account/uploads/{upload.id}", {"sku": "0", "name": "1", "script": "2"})
    assert answer.status_code == 302
    _, most = most_memory(processing.go_on)
    upload.refresh_from_db()
    assert (upload.counts, RefusedRow.objects.count()) == ({"refused": 36}, 36)
    assert most < 32 << 20


def test_an_order_of_more_text_than_is_held_ends_its_file(browser: Client) -> None:
    rows = [row("A1"), *(row("A2", product="x" * 125_000) for _ in range(40))]
    upload = take_in(browser, send(browser, csv_of(rows)))
    assert (upload.status, upload.counts) == (Status.FAILED, {})
    page = browser.get(f"/account/uploads/{upload.id}").content.decode()
    assert "The file has too much text in row 36." in page


# --- Arriving, and resuming after a kill -----------------------------------------------------------------------------


def test_pieces_come_in_any_order_and_twice(browser: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrival, "PIECE_BYTES", 64)
    data = csv_of([row("A1"), row("A2")])
    upload = announce(browser, data)
    count = arrival.piece_count(upload)
    for number in [*range(count - 1, 0, -1), 1]:
        assert send_piece(browser, upload, number, data).json() == {"whole": False}
    assert send_piece(browser, upload, count, data).status_code == 422
    assert send_piece(browser, upload, 0, data[1:40]).status_code == 422
    assert send_piece(browser, upload, 0, data).json() == {"whole": True}
    assert send_piece(browser, upload, 0, data).json() == {"whole": True}
    processing.go_on()
    assert take_in(browser, Upload.objects.get()).counts == {"imported": 2, "refused": 0}


class Killed(BaseException):
    pass


@pytest.mark.parametrize("committed", [True, False])
def test_what_was_killed_goes_on_behind_the_last_batch(
    browser: Client, monkeypatch: pytest.MonkeyPatch, committed: bool
) -> None:
    """Rows without a number, too; and what was said about numbers before is still known."""
    monkeypatch.setattr(UploadedOrderRows, "batch", 10)
    rows = [row("first"), *(row("") for _ in range(30)), row("A2"), row("first"), row("A3", phone="1")]
    upload = send(browser, csv_of(rows))
    whole, batches = processing._take_batch, []

    def killed(*args: Any) -> None:
        batches.append(args)
        if len(batches) == 1 or committed:
            whole(*args)
        if len(batches) == 2:
            raise Killed

    monkeypatch.setattr(processing, "_take_batch", killed)
    with pytest.raises(Killed):
        take_in(browser, upload)
    assert 0 < Order.objects.count() < 30
    monkeypatch.setattr(processing, "_take_batch", whole)
    assert processing.go_on() == 0, "somebody may still be at it"
    Upload.objects.update(claimed_until=Now() - timedelta(seconds=1))

    assert processing.go_on() == 1

    upload.refresh_from_db()
    assert (upload.status, upload.counts) == (Status.DONE, {"imported": 32, "refused": 2})
    assert Order.objects.count() == OrderItem.objects.count() == StatusChange.objects.count() == 32
    assert list(RefusedRow.objects.order_by("line").values_list("line", flat=True)) == [34, 35]


def test_a_file_goes_on_at_once_if_its_worker_is_killed_just_after_it_was_read(browser: Client) -> None:
    upload = announce(browser, data := csv_of([row()]))
    send_piece(browser, upload, 0, data)
    processing._work_at(processing._claim())  # and killed then
    browser.post(f"/account/uploads/{upload.id}", chosen(browser, upload))

    assert processing.go_on() == 1

    upload.refresh_from_db()
    assert (upload.status, upload.counts) == (Status.DONE, {"imported": 1, "refused": 0})


@pytest.mark.django_db(transaction=True)
def test_a_worker_goes_on_after_a_newer_version_has_added_a_column(browser: Client) -> None:
    upload = announce(browser, data := csv_of([row()]))
    send_piece(browser, upload, 0, data)

    def claimed() -> Upload | None:
        Upload.objects.update(claim=None, claimed_until=None)
        return processing._claim()

    assert {claimed() for _ in range(10)} == {upload}  # by then the statement is prepared
    with psycopg.connect(database_url(), autocommit=True) as migrating:
        migrating.execute("ALTER TABLE uploads_upload ADD COLUMN added integer")
        try:
            assert claimed() == upload
        finally:
            migrating.execute("ALTER TABLE uploads_upload DROP COLUMN added")


def test_who_has_lost_their_claim_writes_nothing(browser: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(UploadedOrderRows, "batch", 10)
    upload = send(browser, csv_of(row("") for _ in range(30)))
    whole = UploadedOrderRows.take

    def late(self: UploadedOrderRows, entries: Any) -> Any:
        taken = whole(self, entries)
        if Order.objects.count() == 20:
            Upload.objects.update(claim=uuid4())  # this worker was paused, and another has begun
        return taken

    monkeypatch.setattr(UploadedOrderRows, "take", late)
    take_in(browser, upload)
    upload.refresh_from_db()
    assert (upload.status, Order.objects.count(), upload.rows_done) == (Status.RUNNING, 20, 20)


@pytest.mark.parametrize("claim", [None, uuid4()])
def test_a_clock_that_is_set_back_by_hours_holds_no_file_up_for_as_long(browser: Client, claim: UUID | None) -> None:
    upload = send(browser, csv_of([row()]))
    browser.post(f"/account/uploads/{upload.id}", chosen(browser, upload))
    Upload.objects.update(claim=claim, claimed_until=Now() + timedelta(hours=1))

    assert processing.go_on() == 1

    assert Upload.objects.get().status == Status.DONE


def test_a_file_that_nobody_gets_on_with_is_given_up(browser: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    upload = send(browser, csv_of([row()]))
    monkeypatch.setattr(UploadedOrderRows, "take", lambda self, entries: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        take_in(browser, upload)
    Upload.objects.update(claimed_until=None, tries=processing.MOST_TRIES)
    processing.go_on()
    assert Upload.objects.get().status == Status.FAILED
    assert "We could not continue with this file." in browser.get(f"/account/uploads/{upload.id}").content.decode()


@pytest.mark.parametrize(
    "newer", [{"mapping": {"weight": 6}}, {"constants": {"weight": "2"}}, {"kind": "later"}], ids=str
)
def test_a_worker_takes_in_no_file_with_what_it_does_not_know(browser: Client, newer: dict[str, Any]) -> None:
    """The column or the kind is from a newer version, started beside this one or run before a downgrade."""
    upload = send(browser, csv_of([row()]))
    browser.post(f"/account/uploads/{upload.id}", chosen(browser, upload))
    upload.refresh_from_db()
    as_matched = {name: getattr(upload, name) for name in newer}
    Upload.objects.update(**newer)

    with pytest.raises(processing._OfAnotherVersion, match=r"weight|later"):
        processing.go_on()
    assert (Order.objects.count(), processing.go_on()) == (0, 0), "it waits for another worker"

    Upload.objects.update(**as_matched, claimed_until=Now() - timedelta(seconds=1))  # what this version knows
    processing.go_on()
    assert (Order.objects.count(), Upload.objects.get().status) == (1, Status.DONE)


def test_a_page_shows_no_file_of_a_kind_that_it_does_not_know(browser: Client) -> None:
    """Nor does one count that nobody could stop here."""
    shown = send(browser, csv_of([row("A1")]))
    for _ in range(arrival.MAX_OPEN):
        Upload.objects.create(
            id=uuid4(), account_id=shown.account_id, kind="later", name="later.csv", size=1, user_id=shown.user_id,
            status=shown.status,
        )  # fmt: skip
    answer = browser.get(PAGE)
    assert (answer.status_code, [each for each, _ in answer.context["uploads"]]) == (200, [shown])
    assert announce(browser, b"a\n1\n").account_id == shown.account_id


def test_a_file_whose_rows_are_gone_is_not_done(browser: Client) -> None:
    upload = send(browser, csv_of([row("A1"), row("A2")]))
    form = chosen(browser, upload)
    Block.objects.all().delete()
    browser.post(f"/account/uploads/{upload.id}", form)
    processing.go_on()
    upload.refresh_from_db()
    assert (upload.status, upload.rows_done) == (Status.FAILED, 0)


def test_a_long_file_takes_turns_with_others(browser: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(UploadedOrderRows, "batch", 5)
    monkeypatch.setattr(processing, "SECONDS", 0.0)
    first, second = (send(browser, csv_of(row("", name=name) for _ in range(12))) for name in ("Amine", "Nadia"))
    seen: list[Any] = []
    whole = processing._work_at
    monkeypatch.setattr(processing, "_work_at", lambda upload: seen.append(upload.id) or whole(upload))
    Upload.objects.update(status=Status.RUNNING, mapping={name: place for place, name in enumerate(HEADINGS)})
    third = announce(browser, data := csv_of([row("A1")]))
    send_piece(browser, third, 0, data)
    processing.go_on()
    assert seen[:5] == [first.id, second.id, third.id, first.id, second.id], "the one that has just come waits too"
    assert Order.objects.count() == 24


@pytest.mark.parametrize("seconds", [20.0, 0.0])
def test_a_file_comes_to_the_same_however_many_turns_it_takes(
    browser: Client, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    """The number of a row that was never tried is free for a later one."""
    monkeypatch.setattr(UploadedOrderRows, "batch", 2)
    monkeypatch.setattr(processing, "SECONDS", seconds)
    rows = [[*row("A1"), "surplus"], *(row(number) for number in ("A2", "A3", "A4", "A1"))]
    upload = take_in(browser, send(browser, csv_of(rows)))
    assert (upload.status, upload.counts) == (Status.DONE, {"imported": 4, "refused": 1})


def test_an_upload_can_be_stopped(browser: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(UploadedOrderRows, "batch", 10)
    upload = send(browser, csv_of(row("") for _ in range(30)))
    whole = processing._take_batch

    def stopped(*args: Any) -> None:
        whole(*args)
        asked = browser.get(f"/account/uploads/{upload.id}/stop").content.decode()
        assert "Stop this upload?" in asked
        assert "What is already imported stays." in asked
        browser.post(f"/account/uploads/{upload.id}/stop")

    monkeypatch.setattr(processing, "_take_batch", stopped)
    upload = take_in(browser, upload)
    assert (upload.status, upload.counts["imported"], Order.objects.count()) == (Status.STOPPED, 10, 10)
    assert Block.objects.count() == 0


@pytest.mark.parametrize("arrive", [announce, send])
def test_a_file_of_which_nothing_is_imported_is_discarded(browser: Client, arrive: Any) -> None:
    upload = arrive(browser, csv_of([row("A1")]))
    asked = browser.get(f"/account/uploads/{upload.id}/stop").content.decode()
    assert "Discard this file?" in asked
    assert "Nothing of it is imported yet." in asked
    assert "already imported" not in asked
    browser.post(f"/account/uploads/{upload.id}/stop")
    assert Upload.objects.get(id=upload.id).status == Status.STOPPED


@pytest.mark.django_db(transaction=True)
def test_nobody_sees_a_file_stopped_before_it_is_forgotten(browser: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker killed in between has not stopped it, and a customer erased then does not remain in its rows."""
    upload = send(browser, csv_of([row()]))
    end, seen = Upload.end, []

    def looked_at(self: Upload, *args: Any) -> None:
        end(self, *args)
        seen.append(Background(lambda: (Upload.objects.get(id=self.id).status, Block.objects.count())).result())

    monkeypatch.setattr(Upload, "end", looked_at)
    browser.post(f"/account/uploads/{upload.id}/stop")
    upload.refresh_from_db()
    assert (seen, upload.status, Block.objects.count()) == ([(Status.MATCHING, 1)], Status.STOPPED, 0)


@pytest.mark.parametrize("mode", ["live", "test"])
@pytest.mark.parametrize("closed", ["account", "holder"])
def test_the_file_of_an_account_that_is_closed_is_stopped(
    browser: Client, alice: Account, twin: Account, monkeypatch: pytest.MonkeyPatch, closed: str, mode: str
) -> None:
    monkeypatch.setattr(UploadedOrderRows, "batch", 10)
    browser.post("/account/mode", {"to": mode})
    upload, waiting = (send(browser, csv_of([row("", name=name)] * 30)) for name in ("Amine", "Nadia"))
    browser.post(f"/account/uploads/{waiting.id}", chosen(browser, waiting))
    Upload.objects.filter(id=waiting.id).update(claimed_until=Now() + timedelta(minutes=1))
    whole = processing._take_batch

    def closing(*args: Any) -> None:
        whole(*args)
        merchants.deactivate(alice.id) if closed == "account" else alice.holder.deactivate()

    monkeypatch.setattr(processing, "_take_batch", closing)
    upload = take_in(browser, upload)
    Upload.objects.filter(id=waiting.id).update(claimed_until=None)
    processing.go_on()
    waiting.refresh_from_db()
    assert (upload.status, upload.rows_done, Order.objects.count()) == (Status.STOPPED, 10, 10)
    assert (waiting.status, waiting.rows_done, Block.objects.count()) == (Status.STOPPED, 0, 0)


def test_the_very_same_file_is_recognised_and_known_numbers_are_left(browser: Client) -> None:
    data = csv_of([row("A1"), row("A2")])
    first = take_in(browser, send(browser, data))
    second = send(browser, data)
    page = browser.get(f"/account/uploads/{second.id}").content.decode()
    assert "You already sent this file" in page
    assert str(first.id) in page
    assert take_in(browser, second).counts == {"already_there": 2, "refused": 0}


def test_a_file_that_a_colleague_sends_at_once_is_asked_about_once(browser: Client, alice: Account) -> None:
    data = csv_of([row(""), row("")])
    colleague = browser_of(Membership.objects.create(account=alice, user=UserFactory(), role="manager").user)
    first = send(colleague, data)
    form = chosen(colleague, first)
    second = send(browser, data)
    assert "You already sent this file" in browser.get(f"/account/uploads/{second.id}").content.decode()
    take_in(browser, second)

    answer = colleague.post(f"/account/uploads/{first.id}", form)
    page = answer.content.decode()
    assert (answer.status_code, Order.objects.count()) == (422, 2)
    assert "Press the button again if you want to import these rows anyway" in page
    (seen,) = re.findall(r'name="seen" value="(.+?)"', page)
    assert seen == str(second.id)

    assert colleague.post(f"/account/uploads/{first.id}", form | {"seen": seen}).status_code == 302
    processing.go_on()
    assert Order.objects.count() == 4


def test_a_file_of_which_nothing_came_is_not_asked_about(browser: Client) -> None:
    data = csv_of([row()])
    stopped = send(browser, data)
    browser.post(f"/account/uploads/{stopped.id}/stop")
    assert browser.get(f"/account/uploads/{send(browser, data).id}").context["same"] is None
    Upload.objects.filter(id=stopped.id).update(rows_done=1)
    assert browser.get(f"/account/uploads/{Upload.objects.latest('id').id}").context["same"] == stopped


SENT_AGAIN = "The file was sent again: the newer one takes its place."


def test_a_try_that_is_sent_again_before_it_has_arrived_ends(browser: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrival, "PIECE_BYTES", 64)
    data = csv_of([row("A1"), row("A2")])
    for _ in range(arrival.MAX_OPEN + 1):  # over a line that breaks
        upload = announce(browser, data)
        send_piece(browser, upload, 0, data)
    other = announce(browser, data, "other.csv")
    statuses = dict(Upload.objects.order_by("id").values_list("id", "status"))
    assert list(statuses.values()) == [*[Status.STOPPED] * arrival.MAX_OPEN, Status.ARRIVING, Status.ARRIVING]
    assert Piece.objects.get().upload == upload

    first = next(iter(statuses))
    assert send_piece(browser, Upload.objects.get(id=first), 1, data).json() == {"whole": True}
    assert SENT_AGAIN in browser.get(f"/account/uploads/{first}").content.decode()
    assert Upload.objects.get(id=other.id).status == Status.ARRIVING


@pytest.mark.parametrize("earlier", [Status.READING, Status.MATCHING])
def test_of_a_file_that_is_sent_twice_the_later_one_is_matched(browser: Client, earlier: str) -> None:
    data, theirs = csv_of([row("A1")]), csv_of([row("B1")])
    first, second = (announce(browser, data, name) for name in ("orders.csv", "orders (1).csv"))
    other = send(browser, theirs)
    if earlier == Status.MATCHING:
        send_piece(browser, first, 0, data)
        processing.go_on()
    send_piece(browser, second, 0, data)
    processing.go_on()
    if earlier == Status.READING:
        send_piece(browser, first, 0, data)
        processing.go_on()

    shown = browser.get(f"/account/uploads/{first.id}").content.decode()
    assert SENT_AGAIN in shown
    assert (take_in(browser, second).counts, Order.objects.count()) == ({"imported": 1, "refused": 0}, 1)
    assert browser.get(f"/account/uploads/{other.id}").context["upload"].status == Status.MATCHING
    assert set(Block.objects.values_list("upload", flat=True)) == {other.id}


def test_rows_are_written_for_as_long_as_reading_may_take(browser: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the process that reads a spreadsheet took: another worker would begin again with it."""
    upload = announce(browser, csv_of([row()]))
    send_piece(browser, upload, 0, csv_of([row()]))
    write_blocks = processing._write_blocks
    until = []

    class Slow(Table):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            Upload.objects.update(claimed_until=Now() + timedelta(seconds=1))
            super().__init__(*args, **kwargs)

    def look(upload: Upload, table: Table) -> int:
        until.append(Upload.objects.filter(claimed_until__gt=Now() + processing.LEASE).count())
        return write_blocks(upload, table)

    monkeypatch.setattr(processing, "Table", Slow)
    monkeypatch.setattr(processing, "_write_blocks", look)
    processing.go_on()

    assert until == [1]


@pytest.mark.parametrize("is_away", [False, True])
def test_what_fails_while_a_file_is_read_holds_it_up_for_seconds(
    browser: Client, monkeypatch: pytest.MonkeyPatch, is_away: bool
) -> None:
    """It was left for the minutes that reading may take, though nobody read it any more."""
    upload = announce(browser, csv_of([row()]))
    send_piece(browser, upload, 0, csv_of([row()]))

    def fail(id: UUID) -> None:
        if is_away:
            monkeypatch.setattr(QuerySet, "update", lambda *args, **fields: fail(id))
        raise OperationalError("canceling statement due to lock timeout")

    monkeypatch.setattr(Account, "lock", fail)
    with pytest.raises(OperationalError, match="lock timeout"):
        processing.go_on()
    monkeypatch.undo()

    within = Q(claimed_until__lte=Now() + processing.LEASE, claimed_until__gt=Now())
    assert Upload.objects.filter(within).exists() == (not is_away)


def test_of_a_file_that_two_workers_read_at_once_the_later_one_is_matched(
    browser: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = csv_of([row("A1")])
    first, second = (announce(browser, data, name) for name in ("orders.csv", "orders (1).csv"))
    for upload in (first, second):
        send_piece(browser, upload, 0, data)
    write_blocks = processing._write_blocks

    def meanwhile(upload: Upload, table: Table) -> int:
        if upload.id == first.id:
            processing.go_on()  # another worker
        return write_blocks(upload, table)

    monkeypatch.setattr(processing, "_write_blocks", meanwhile)
    processing.go_on()

    read = Upload.objects.order_by("id").values_list("status", "problem")
    assert list(read) == [(Status.STOPPED, SENT_AGAIN), (Status.MATCHING, "")]
    assert set(Block.objects.values_list("upload", flat=True)) == {second.id}


@pytest.mark.django_db(transaction=True)
def test_a_worker_that_has_read_a_file_waits_for_another_that_has_read_the_same(alice: Account) -> None:
    browser, data = browser_of(alice.holder), csv_of([row("A1")])
    first, second = (announce(browser, data, name) for name in ("orders.csv", "orders (1).csv"))
    send_piece(browser, first, 0, data)

    def read_the_other() -> None:
        Account.lock(alice.pk)
        Upload.objects.filter(id=second.id).update(
            status=Status.MATCHING, digest=hashlib.sha256(data).hexdigest(), user_id=first.user_id
        )

    with open_transaction(read_the_other):
        worker = Background(processing.go_on)
        wait_for_lock()
    worker.result()

    assert [*Upload.objects.order_by("id").values_list("status", flat=True)] == [Status.STOPPED, Status.MATCHING]


@pytest.mark.parametrize("is_colleague", [False, True])
def test_a_file_that_is_taken_in_ends_when_the_later_one_is(
    browser: Client, alice: Account, monkeypatch: pytest.MonkeyPatch, is_colleague: bool
) -> None:
    """And no sooner: merely looking at the later file's columns loses nothing."""
    monkeypatch.setattr(UploadedOrderRows, "batch", 10)
    again = Client()
    again.force_login(
        Membership.objects.create(account=alice, user=UserFactory(), role="manager").user
        if is_colleague
        else alice.holder
    )
    data = csv_of(row(f"A{number}") for number in range(40))
    first, later = send(browser, data), []
    whole = processing._take_batch

    def sent_again(upload: Upload, *args: Any) -> None:
        whole(upload, *args)
        if upload.id == first.id and upload.position <= 21:
            if not later:
                later.append(send(again, data, "again.csv"))
            else:
                form = {"seen": str(first.id)} | chosen(again, later[0])
                assert again.post(f"/account/uploads/{later[0].id}", form).status_code == 302

    monkeypatch.setattr(processing, "_take_batch", sent_again)
    first = take_in(browser, first)
    (second,) = Upload.objects.exclude(id=first.id)

    assert (second.status, Order.objects.count()) == (Status.DONE, 40)
    if is_colleague:
        assert (first.status, first.rows_done, first.problem) == (Status.DONE, 40, "")
    else:
        assert (first.status, first.rows_done, first.problem) == (Status.STOPPED, 20, SENT_AGAIN)
        assert second.counts == {"already_there": 20, "imported": 20, "refused": 0}


# --- Test mode, costs, and retention ---------------------------------------------------------------------------------


def test_in_test_mode_a_file_becomes_test_orders(browser: Client, alice: Account, twin: Account) -> None:
    browser.post("/account/mode", {"to": "test"})
    upload = take_in(browser, send(browser, csv_of([row()])))
    assert upload.account == twin
    assert Order.objects.get().call_state == CallState.TEST
    browser.post("/account/mode", {"to": "live"})
    assert browser.get(f"/account/uploads/{upload.id}").status_code == 404


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (Status.MATCHING, "The file has 123\N{NARROW NO-BREAK SPACE}456 rows."),
        (Status.RUNNING, "12\N{NARROW NO-BREAK SPACE}345 of 123\N{NARROW NO-BREAK SPACE}456 rows are done."),
        (Status.DONE, "Done: 123\N{NARROW NO-BREAK SPACE}456 rows."),
    ],
)
def test_a_page_counts_in_groups_of_three(browser: Client, status: str, says: str) -> None:
    upload = send(browser, csv_of([row("A1")]))
    Upload.objects.update(status=status, row_count=123_456, rows_done=12_345)
    assert says in browser.get(f"/account/uploads/{upload.id}").content.decode()


def test_a_page_costs_the_same_however_large_the_file_is(browser: Client) -> None:
    counts = []
    for rows in (2, 400):
        upload = send(browser, csv_of(row(number, phone="1") for number in range(rows)))
        take_in(browser, upload)
        for path in (PAGE, f"/account/uploads/{upload.id}", f"/account/uploads/{upload.id}/progress"):
            with CaptureQueriesContext(connection) as queries:
                assert browser.get(path).status_code == 200
            counts.append(len(queries))
    assert counts[:3] == counts[3:]


def test_the_page_that_matches_columns_costs_the_same_however_large_the_rows_are(
    browser: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """20 rows of a spreadsheet may be 20 megabytes in as many blocks."""
    monkeypatch.setattr(arrival, "PIECE_BYTES", 4 << 20)  # arrives in one request instead of 31
    counts = []
    for address in ("rue 1", "x" * 200_000):
        upload = send(browser, csv_of(row(number, address=address) for number in range(20)))
        with CaptureQueriesContext(connection) as queries:
            assert browser.get(f"/account/uploads/{upload.id}").status_code == 200
        counts.append(sum("uploads_" in each["sql"] for each in queries))
    assert counts[1] <= counts[0] <= 6


def test_files_and_refused_rows_are_forgotten(browser: Client) -> None:
    done = take_in(browser, send(browser, csv_of([row("A1", phone="1")])))
    waiting = send(browser, csv_of([row("A2")]))
    arriving = announce(browser, csv_of([row("A3")] * 9000))
    send_piece(browser, arriving, 0, csv_of([row("A3")] * 9000))

    def forget(days: int) -> None:
        ago = Now() - timedelta(days=days)
        Upload.objects.update(created_at=ago)
        Upload.objects.exclude(finished_at=None).update(finished_at=ago)
        assert {k for counts in SWEEPS["uploads"](time.time(), dry_run=True) for k in counts}  # type: ignore[arg-type]
        list(SWEEPS["uploads"](time.time(), dry_run=False))  # type: ignore[arg-type]

    forget(1)
    assert (Piece.objects.count(), Block.objects.count(), RefusedRow.objects.count()) == (1, 1, 1)
    forget(3)
    assert (Piece.objects.count(), Block.objects.count(), RefusedRow.objects.count()) == (0, 0, 1)
    assert set(Upload.objects.filter(id__in=[waiting.id, arriving.id]).values_list("status", flat=True)) == {"stopped"}
    forget(31)
    assert (Upload.objects.count(), RefusedRow.objects.count()) == (3, 0)
    assert downloaded(browser, f"/account/uploads/{done.id}/refused.csv").count(b"\n") == 1
    forget(401)
    assert Upload.objects.count() == 0


def test_no_file_outlives_its_upload_wherever_a_sweep_ends(browser: Client) -> None:
    """Erasing a customer waits for files under way, and looks into no others."""
    data = csv_of([row("A1")] * 9000)
    send_piece(browser, announce(browser, data), 0, data)
    for number in range(2):
        send(browser, csv_of([row(number)]))
    Upload.objects.update(created_at=Now() - timedelta(days=3))
    counted: Counter[str] = Counter()
    for counts in SWEEPS["uploads"](time.time(), dry_run=False):  # type: ignore[arg-type]
        counted.update(counts)
        for model in (Piece, Block):
            assert not model.objects.exclude(upload__finished_at=None).exists()
    assert (counted["upload_pieces"], counted["upload_blocks"]) == (1, 2)
    assert (Piece.objects.count(), Block.objects.count()) == (0, 0)


def test_nobody_matches_a_file_whose_rows_are_being_forgotten(browser: Client) -> None:
    upload = send(browser, csv_of([row("A1"), row("A2")]))
    form = chosen(browser, upload)
    Upload.objects.update(created_at=Now() - timedelta(days=3))
    for counts in SWEEPS["uploads"](time.time(), dry_run=False):  # type: ignore[arg-type]
        if "upload_blocks" in counts:  # here a sweep may end, and another one go on a minute later
            browser.post(f"/account/uploads/{upload.id}", form)
    processing.go_on()
    upload.refresh_from_db()
    assert (upload.status, Block.objects.count()) == (Status.STOPPED, 0)
