"""A merchant uploads a shop's invoices in a browser: counts are exact to the line, and no page breaks a rule."""

import csv
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from random import Random

import pytest
from django.utils import timezone
from playwright.sync_api import Page, Route, expect

from codservice.accounts.models import Account
from codservice.uploads import arrival, processing
from codservice.uploads.models import RefusedRow, Upload
from orders import demo
from orders.models import Order, OrderItem
from tests.harness.browser import IMPATIENT, OLDER, Visit, intercept
from tests.harness.client import browser_of
from tests.harness.service import Service
from tests.harness.sheets import read_csv
from tests.uploads.files import PAGE

pytestmark = pytest.mark.django_db(transaction=True)

HEADER = ["invoice_no", "stock_code", "description", "quantity", "invoice_date", "unit_price", "customer_id",
          "customer_name", "customer_phone", "customer_address", "customer_wilaya", "customer_commune"]  # fmt: skip


def invoices(path: Path) -> dict[str, int]:
    """Write a file such as shops have: lines of invoices, some returned or given away. Return its counts."""
    chance, counts = Random(20101201), {"rows": 0, "lines": 0, "orders": 0, "refused": 0}
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        write = csv.writer(file).writerow
        write(HEADER)
        for number in range(536365, 536765):
            customer, length = demo.customer(chance), chance.choice([1, 1, 2, 5, 12, 30])
            length = 101 if number % 150 == 0 else length  # more than an order may have
            quantities = [chance.randint(1, 48) for _ in range(length)]
            if number % 20 == 0:
                quantities[-1] *= -1
            is_good = length <= 100 and quantities[-1] > 0
            for place, quantity in enumerate(quantities):
                who = [customer.get(name, "") for name in HEADER[7:]] if place == 0 else [""] * 5
                price = Decimal(chance.randint(0, 5000)) / 100
                write([number, f"8512{place}A", f"T-LIGHT HOLDER, {place}", quantity, "2010-12-01", price, 17850, *who])
            counts["rows"] += length
            counts["lines"] += length if is_good else 0
            counts["orders" if is_good else "refused"] += 1
    return counts


def test_a_page_of_before_another_sign_in_is_read_anew(
    visit: Callable[..., Visit], alice: Account, tmp_path: Path
) -> None:
    path = tmp_path / "orders.csv"
    path.write_text("a;b\n1;2\n")
    person = visit()
    page = person.sign_in(alice.holder.email, "/account/login", to="/account/orders/upload")
    page.context.clear_cookies(name=re.compile("csrf"))  # as a sign-in in another tab changes it
    page.locator("#file").set_input_files(path)
    with page.expect_navigation(timeout=30_000):  # at once; it used to retry for more than a minute
        page.get_by_role("button", name="Send the file").click()
    person.wrongs.clear()  # the answer 403
    page.locator("#file").set_input_files(path)
    page.get_by_role("button", name="Send the file").click()
    page.wait_for_url("**/account/uploads/*")


@pytest.mark.process
def test_who_signs_out_in_another_tab_meanwhile_is_asked_to_sign_in(
    visit: Callable[..., Visit], service: Service, alice: Account, tmp_path: Path
) -> None:
    """A stranger's piece is not read: the answer is 413, in JSON, and not from the page's own view."""
    path = tmp_path / "orders.csv"
    path.write_text("a;b\n" + "1;2\n" * 5000)
    client = browser_of(alice.holder)
    person = visit(service.url)
    cookie = {"name": "sessionid", "value": client.cookies["sessionid"].value, "url": service.url}
    person.context.add_cookies([cookie])  # type: ignore[list-item]
    page = person.page
    page.goto("/account/orders/upload")
    page.locator("#file").set_input_files(path)
    pieces: list[Route] = []
    intercept(page, "**/piece", lambda route: pieces.append(route))
    with page.expect_request("**/piece"):
        page.get_by_role("button", name="Send the file").click()
    other = page.context.new_page()
    other.goto("/account")
    other.locator("header details summary").click()
    with other.expect_navigation():
        other.get_by_role("button", name="Sign out").click()

    with page.expect_navigation(url="**/login**"):
        pieces[0].continue_()

    person.wrongs.clear()  # the answer 413


def test_the_example_comes_without_a_question_about_what_was_entered(
    visit: Callable[..., Visit], alice: Account, tmp_path: Path
) -> None:
    path = tmp_path / "orders.xls"
    path.write_text("not a spreadsheet")
    page = visit().sign_in(alice.holder.email, "/account/login", to="/account/orders/upload")
    asked: list[str] = []
    page.on("dialog", lambda dialog: (asked.append(dialog.type), dialog.accept()))
    page.locator("#file").set_input_files(path)

    with page.expect_download() as download:
        page.get_by_role("link", name="An example (XLSX)").click()

    assert (download.value.suggested_filename, asked) == ("orders.xlsx", [])


def test_invoices_are_uploaded_and_counted_to_the_line(
    visit: Callable[..., Visit], axe: Callable[[Page], None], alice: Account, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(arrival, "PIECE_BYTES", 40_000)
    path = tmp_path / "فواتير 2010.csv"
    counts = invoices(path)
    page = visit(locale="fr", viewport={"width": 390, "height": 844}).sign_in(alice.holder.email, "/account/login")

    page.goto("/account/orders")
    page.get_by_role("link", name="Depuis un fichier").click()
    axe(page)
    page.locator("#file").set_input_files(path)
    page.get_by_role("button", name="Envoyer le fichier").click()
    page.wait_for_url("**/account/uploads/*")
    assert Upload.objects.get().pieces.count() > 1
    processing.go_on()
    page.get_by_role("button", name="Importer les lignes").wait_for()  # the page has refreshed by itself
    axe(page)
    assert page.get_by_label("Commune", exact=True).locator("option:checked").inner_text() == "customer_commune"
    unread = page.locator("#unread li:visible")
    assert unread.all_inner_texts() == ["invoice_date", "customer_id"]
    page.get_by_label("Origine", exact=True).select_option("customer_id")
    assert unread.all_inner_texts() == ["invoice_date"]
    page.get_by_label("Deuxième téléphone", exact=True).select_option("invoice_date")
    assert unread.count() == page.locator("#unread:visible").count() == 0
    for label in ("Origine", "Deuxième téléphone"):
        page.get_by_label(label, exact=True).select_option("(absente du fichier)")
    assert unread.all_inner_texts() == ["invoice_date", "customer_id"]
    page.get_by_role("button", name="Importer les lignes").click()
    page.get_by_role("progressbar").wait_for()
    axe(page)
    processing.go_on()
    page.get_by_role("heading", name="Lignes refusées").wait_for()
    axe(page)

    facts = [int(text) for text in page.locator(".facts dd").all_inner_texts()]
    assert facts == [counts["orders"], counts["refused"]]
    assert (Order.objects.count(), OrderItem.objects.count()) == (counts["orders"], counts["lines"])
    assert Upload.objects.get().rows_done == counts["rows"]
    with page.expect_download() as download:
        page.get_by_role("link", name="Lignes refusées (CSV)").click()
    refused = read_csv(Path(download.value.path()).read_bytes(), ";")
    assert len(refused) == 1 + counts["rows"] - counts["lines"]
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_who_hears_the_page_is_told_ten_times_at_most_how_much_is_sent(
    visit: Callable[..., Visit], alice: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrival, "PIECE_BYTES", 500)
    path = tmp_path / "orders.csv"
    path.write_text("a;b\n" + "1;2\n" * 5000)
    page = visit().sign_in(alice.holder.email, "/account/login", to="/account/orders/upload")
    page.locator("#file").set_input_files(path)
    told: list[str] = []
    page.expose_function("tell", lambda text: told.append(text))
    page.evaluate("""() => {
        const span = document.querySelector("#upload-progress span");
        new MutationObserver(() => tell(span.textContent)).observe(span, { childList: true });
    }""")
    page.get_by_role("button", name="Send the file").press("Enter")
    page.wait_for_url("**/account/uploads/*")
    assert 5 <= len(told) <= 10


def test_a_piece_that_gets_no_answer_is_sent_again(visit: Callable[..., Visit], alice: Account, tmp_path: Path) -> None:
    path = tmp_path / "orders.csv"
    path.write_text("a;b\n1;2\n")
    person = visit()
    page = person.sign_in(alice.holder.email, "/account/login", to="/account/orders/upload")
    for _ in range(2):
        page.evaluate(IMPATIENT)
    held: list[Route] = []
    intercept(page, "**/piece", lambda route: held.append(route), times=1)
    page.locator("#file").set_input_files(path)
    page.get_by_role("button", name="Send the file").click()
    page.wait_for_url("**/account/uploads/*")
    assert len(held) == 1


@pytest.mark.parametrize(
    ("fail", "waits"),
    [
        (lambda route: route.fulfill(status=503), [1, 2, 4, 8, 16, 32, 64]),
        (lambda route: route.fulfill(status=503, headers={"Retry-After": "3"}), [3] * 7),
        (lambda route: route.abort(), [1, 2, 4, 8, 15, 15, 15]),
    ],
    ids=["503", "retry-after", "no answer"],
)
def test_after_the_last_try_it_says_at_once_that_it_has_failed(
    fail: Callable[[Route], None], waits: list[int], visit: Callable[..., Visit], alice: Account, tmp_path: Path
) -> None:
    """It used to pause once more, up to 128 seconds."""
    path = tmp_path / "orders.csv"
    path.write_text("a;b\n1;2\n")
    person = visit()
    page = person.sign_in(alice.holder.email, "/account/login", to=PAGE)
    page.evaluate("""() => {
        const later = setTimeout;
        window.waits = [];
        window.setTimeout = (done, ms) => { if (ms >= 1000) waits.push(ms / 1000); return later(done, 0) };
    }""")
    page.locator("#file").set_input_files(path)
    tries: list[Route] = []
    intercept(page, f"**{PAGE}", lambda route: (tries.append(route), fail(route)))
    page.get_by_role("button", name="Send the file").click()
    expect(page.get_by_role("alert")).to_be_visible()
    assert (page.evaluate("waits"), len(tries)) == (waits, 8)
    person.wrongs.clear()  # the failed tries


def test_of_a_file_that_is_stopped_while_it_is_sent_the_rest_stays(
    visit: Callable[..., Visit], alice: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrival, "PIECE_BYTES", 500)
    path = tmp_path / "orders.csv"
    path.write_text("a;b\n" + "1;2\n" * 500)
    page = visit().sign_in(alice.holder.email, "/account/login", to=PAGE)
    pieces: list[Route] = []

    def hold_the_first(route: Route) -> None:
        pieces.append(route)
        if len(pieces) > 1:
            route.continue_()

    intercept(page, "**/piece", hold_the_first)
    page.locator("#file").set_input_files(path)
    with page.expect_request("**/piece"):
        page.get_by_role("button", name="Send the file").click()
    other = page.context.new_page()
    other.goto(f"/account/uploads/{Upload.objects.get().id}/stop")
    other.get_by_role("button", name="Discard the file").click()
    other.get_by_text("The upload is stopped.").wait_for()
    pieces[0].continue_()
    page.wait_for_url("**/account/uploads/*")
    expect(page.get_by_text("Stopped.")).to_be_visible()
    assert len(pieces) == 1, "of five"


@pytest.mark.parametrize("browser", OLDER)
def test_an_older_browser_sends_a_file_too(
    browser: str, visit: Callable[..., Visit], alice: Account, tmp_path: Path
) -> None:
    path = tmp_path / "orders.csv"
    path.write_text("a;b\n1;2\n")
    page = visit().sign_in(alice.holder.email, "/account/login")
    page.add_init_script(OLDER[browser])
    page.goto("/account/orders/upload")
    page.locator("#file").set_input_files(path)
    page.get_by_role("button", name="Send the file").click()
    page.wait_for_url("**/account/uploads/*")
    processing.go_on()
    expect(page.get_by_role("heading", name="Match the columns")).to_be_visible()  # it looks again by itself


def test_a_page_that_has_sent_a_file_sends_another_when_it_is_gone_back_to(
    visit: Callable[..., Visit], alice: Account, tmp_path: Path
) -> None:
    """A browser may show the page as it was left. Playwright turns this off, so that only its event is tried."""
    path = tmp_path / "orders.csv"
    path.write_text("a;b\n1;2\n")
    page = visit().sign_in(alice.holder.email, "/account/login", to="/account/orders/upload")
    page.get_by_role("heading", level=1).click()  # or the browser would never ask
    page.locator("#file").set_input_files(path)
    page.evaluate("document.querySelector('#upload button').disabled = true")
    with page.expect_navigation():
        page.evaluate("dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))")
    page.locator("#file").set_input_files(path)
    page.get_by_role("button", name="Send the file").click()
    page.wait_for_url("**/account/uploads/*")


def test_a_file_that_is_chosen_and_not_sent_stays_chosen_when_its_page_is_gone_back_to(
    visit: Callable[..., Visit], alice: Account
) -> None:
    page = visit().sign_in(alice.holder.email, "/account/login", to="/account/orders/upload")
    page.get_by_role("heading", level=1).click()
    page.locator("#file").set_input_files(__file__)
    page.evaluate("dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))")
    page.wait_for_timeout(500)
    expect(page.locator("#file")).to_have_value(re.compile("test_browser.py$"))


def test_a_refused_file_is_chosen_anew_where_the_keyboard_is(
    visit: Callable[..., Visit], alice: Account, tmp_path: Path
) -> None:
    path = tmp_path / "orders.csv"
    path.touch()
    person = visit()
    page = person.sign_in(alice.holder.email, "/account/login", to="/account/orders/upload")
    page.locator("#file").set_input_files(path)
    page.get_by_role("button", name="Send the file").press("Enter")
    expect(page.get_by_role("alert")).to_have_text("The file is empty.")
    expect(page.locator("#file")).to_be_focused()
    page.locator("#file").set_input_files(__file__)
    expect(page.get_by_role("alert")).to_have_count(0)  # it was about the other file
    person.wrongs.clear()  # the answer 422


def test_a_second_try_begins_at_nothing(
    visit: Callable[..., Visit], alice: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrival, "PIECE_BYTES", 500)
    path = tmp_path / "orders.csv"
    path.write_text("a;b\n" + "1;2\n" * 250)
    person = visit()
    page = person.sign_in(alice.holder.email, "/account/login", to="/account/orders/upload")
    intercept(page, "**/piece", lambda route: route.fulfill(status=422, json={"error": "No room."}))
    intercept(page, "**/piece", lambda route: route.continue_(), times=1)  # the first one arrives
    page.locator("#file").set_input_files(path)
    page.get_by_role("button", name="Send the file").click()
    expect(page.get_by_role("alert")).to_have_text("No room.")
    intercept(page, "**/piece", lambda route: None)
    with page.expect_request("**/piece"):
        page.get_by_role("button", name="Send the file").click()
    expect(page.get_by_role("progressbar")).to_have_js_property("value", 0)
    expect(page.locator("#upload-progress")).to_have_text("")
    person.wrongs.clear()  # the answer 422


def test_a_number_says_on_a_phone_what_it_counts(visit: Callable[..., Visit], alice: Account) -> None:
    """There the tables' headings are not shown."""
    upload = Upload.objects.create(
        account=alice, kind="orders", name="a.csv", size=1, actor="x", user_id=alice.holder_id, status="done",
        row_count=14, finished_at=timezone.now(),
    )  # fmt: skip
    RefusedRow.objects.create(account=alice, upload=upload, line=6, cells=["x"], faults=[["", ["Must not be empty."]]])
    page = visit(viewport={"width": 360, "height": 780}).sign_in(alice.holder.email, "/account/login", to=PAGE)
    said = "cell => getComputedStyle(cell, '::before').content + cell.innerText"
    assert page.locator("td.number").evaluate(said) == '"Rows "14'
    page.get_by_role("link", name="a.csv").click()
    assert page.locator("tbody th").evaluate(said) == '"Line "6'


def test_while_the_page_looks_again_the_keyboard_stays_and_only_a_new_state_is_told(
    visit: Callable[..., Visit], alice: Account
) -> None:
    upload = Upload.objects.create(
        account=alice, user_id=alice.holder.id, name="a.csv", size=9, kind="orders", status="running", row_count=9
    )
    page = visit().sign_in(alice.holder.email, "/account/login", to=f"/account/uploads/{upload.id}")
    said = page.get_by_role("status").element_handle()
    page.get_by_role("link", name="Stop…").focus()
    Upload.objects.update(rows_done=4)
    page.get_by_text("4 of 9 rows are done.").wait_for()
    expect(page.get_by_role("link", name="Stop…")).to_be_focused()
    Upload.objects.update(counts={"imported": 4})
    page.get_by_text("Orders imported").wait_for()  # above the link
    expect(page.get_by_role("link", name="Stop…")).to_be_focused()
    assert said.inner_text() == "Being imported"
    Upload.objects.update(status="done", rows_done=9)
    page.get_by_text("Done: 9 rows.").wait_for()
    assert said.evaluate("e => e.isConnected && e.textContent") == "Done"  # a new element would be read out to few
