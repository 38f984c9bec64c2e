"""Refused rows of uploaded files: why, in whose words, and how they are sent again."""

import re
from html import unescape
from io import BytesIO

import pytest
from django.test import Client
from django.utils.translation import override
from python_calamine import CalamineWorkbook

from codservice import wording
from codservice.accounts.models import Account, SecurityEntry
from codservice.files import intake
from codservice.uploads import arrival
from codservice.uploads.models import RefusedRow, Upload
from orders.models import Order
from orders.serializers import read_order
from tests.harness.memory import most_memory
from tests.harness.sheets import Failed, read_csv, workbook
from tests.orders.files import products_of
from tests.uploads.files import (
    HEADER,
    PAGE,
    announce,
    chosen,
    csv_of,
    downloaded,
    row,
    send,
    take_in,
    xlsx_of,
)

Status = Upload.Status


BAD = [
    row("A1"),
    row("A2", phone="12", quantity="two"),
    row("A3"),
    row("A3", product="Sac", quantity="0"),
    row("A1", product="Apart"),
    row("A4", address="=HYPERLINK(1)", wilaya="Atlantis"),
    [*row("A5"), "", "surplus"],
    row("A6"),
]


@pytest.mark.parametrize("kind", ["csv", pytest.param("xlsx", marks=pytest.mark.process)])
def test_refused_rows_come_back_with_their_reasons_and_are_sent_again(browser: Client, kind: str) -> None:
    upload = take_in(browser, send(browser, csv_of(BAD)))
    assert upload.counts == {"imported": 2, "refused": 5}
    page = browser.get(f"/account/uploads/{upload.id}").content.decode()
    assert "<bdi>Téléphone</bdi>: Must be an Algerian phone number" in page
    assert "<bdi>A3</bdi> · <bdi>Amine</bdi> · " in page, "each cell is read in its own direction"

    data = downloaded(browser, f"/account/uploads/{upload.id}/refused.{kind}")
    if kind == "csv":
        header, *rows = read_csv(data)
    else:
        header, *rows = CalamineWorkbook.from_filelike(BytesIO(data)).get_sheet_by_index(0).to_python()
    assert header[:10] == ["line", "refused", *HEADER]
    assert [(str(int(cells[0])), cells[1]) for cells in rows] == [
        ("3", "Téléphone: Must be an Algerian phone number, such as 0550 12 34 56. Qté: Must be a whole number."),
        ("4", "This row is fine. See line 5 of the same order."),
        ("5", "Qté: Must be from 1 to 10\N{NARROW NO-BREAK SPACE}000."),
        ("6", "N° commande: Line 2 has the same order number, with other orders in between. Put an order's rows"
              " next to each other."),
        ("7", "Wilaya: “Atlantis” is not a wilaya."),
        ("8", "The row has more cells than the first line has columns. Put text with commas in quotes."),
    ]  # fmt: skip
    assert rows[4][6] == ("'=HYPERLINK(1)" if kind == "csv" else "=HYPERLINK(1)")

    still = take_in(browser, send(browser, csv_of([list(map(str, rows[0]))], header), "still.csv"))
    page = browser.get(f"/account/uploads/{still.id}").content.decode()
    assert page.count("Must be an Algerian phone number") == 1, "why it was refused before is not what the file holds"

    mended = [[*cells[:4], "0550 12 34 56", "Oran", cells[6], cells[7], "3", cells[9]] for cells in rows]
    mended[3][2] = "A7"
    again = send(browser, csv_of(mended, header) if kind == "csv" else xlsx_of(mended, header), f"again.{kind}")
    assert (chosen(browser, again)["customer_name"], again.fingerprint) == ("3", upload.fingerprint)
    assert take_in(browser, again).counts == {"imported": 5, "refused": 0}
    assert Order.objects.count() == 7
    assert Order.objects.get(external_id="A4").customer_address == "=HYPERLINK(1)"


@pytest.mark.parametrize("kind", ["csv", pytest.param("xlsx", marks=pytest.mark.process)])
@pytest.mark.parametrize("number", ["first", "last"])
def test_a_row_that_is_sent_again_is_a_line_of_its_own_order_and_of_no_other(
    browser: Client, kind: str, number: str
) -> None:
    """The good order between them is not among the refused rows."""
    merged = row("", name="", phone="", wilaya="", address="", product="Sac")
    rows = [row("A1", phone="1"), [*merged[:5], "Foulard", *merged[6:]], row("", name="Nadia"), merged]
    header = list(HEADER)
    if number == "last":  # a row whose last cell is empty ends before it
        header, *rows = [[*cells[1:], *([cells[0]] if cells[0] else [])] for cells in (header, *rows)]
    upload = take_in(browser, send(browser, csv_of(rows, header)))
    assert upload.counts == {"imported": 1, "refused": 1}
    assert products_of(Order.objects.get()) == ["Robe", "Sac"]

    header, *rows = read_csv(downloaded(browser, f"/account/uploads/{upload.id}/refused.csv"))
    phone = header.index("Téléphone")
    mended = [[*cells[:phone], "0550 12 34 56" if cells[phone] else "", *cells[phone + 1 :]] for cells in rows]
    again = send(browser, csv_of(mended, header) if kind == "csv" else xlsx_of(mended, header), f"again.{kind}")

    assert take_in(browser, again).counts == {"imported": 1, "refused": 0}
    assert products_of(Order.objects.get(external_id="A1")) == ["Robe", "Foulard"]


@pytest.mark.parametrize("kind", ["csv", pytest.param("xlsx", marks=pytest.mark.process)])
def test_a_row_without_a_number_that_is_sent_again_is_refused_with_the_order_above(browser: Client, kind: str) -> None:
    """It may be a line of that order or of a stranger's. Earlier versions kept it like this."""
    merged = row("", name="", phone="", wilaya="", address="", product="Sac")
    rows = [["2", "x", *row("A1")], ["3", "x", *merged], ["5", "x", *merged], ["6", "x", *row("A2")]]
    header = ["line", "refused", *HEADER]
    for imported in (1, 0):
        data = csv_of(rows, header) if kind == "csv" else xlsx_of(rows, header)
        upload = take_in(browser, send(browser, data, f"refused{imported}.{kind}"))
        assert (upload.counts["refused"], upload.counts.get("imported", 0)) == (1, imported)
        header, *rows = read_csv(downloaded(browser, f"/account/uploads/{upload.id}/refused.csv"))
        assert [cells[1].startswith("N° commande: Enter the order number in each") for cells in rows] == [True] * 3
    assert Order.objects.get().external_id == "A2"


def test_surplus_cells_are_said_of_their_own_row_and_the_order_stays_whole(browser: Client) -> None:
    merged = row("", name="", phone="", wilaya="", address="")
    upload = take_in(browser, send(browser, csv_of([row("A1"), merged, [*merged, "surplus"], row("A2")])))

    assert upload.counts == {"imported": 1, "refused": 1}
    refused = RefusedRow.objects.order_by("line")
    see_last = [["", ["See line 4."]]]
    assert [each.faults for each in refused] == [see_last, see_last, [["", [intake.SURPLUS]]]]
    assert [each.cells[0] for each in refused] == ["A1"] * 3
    header, *rows = read_csv(downloaded(browser, f"/account/uploads/{upload.id}/refused.csv"))
    again = send(browser, csv_of([cells[: 2 + len(HEADER)] for cells in rows], header), "again.csv")
    assert take_in(browser, again).counts == {"imported": 1, "refused": 0}
    assert Order.objects.get(external_id="A1").items.count() == 3


@pytest.mark.parametrize("number", ["1,23457E+11", "2026-12-11", "x" * 65])
@pytest.mark.parametrize("is_merged", [True, False])
def test_a_refused_number_is_mended_in_each_row_or_the_order_stays_out(
    browser: Client, number: str, is_merged: bool
) -> None:
    merged = row("" if is_merged else number, name="", phone="", wilaya="", address="", product="Sac")
    upload = take_in(browser, send(browser, csv_of([row(number), merged])))
    header, *rows = read_csv(downloaded(browser, f"/account/uploads/{upload.id}/refused.csv"))
    assert [cells[1].partition(":")[0] for cells in rows] == ["N° commande"] * 2
    place = header.index("N° commande")

    for times, counts in ((1, {"refused": 1}), (2, {"imported": 1, "refused": 0})):
        for cells in rows[:times]:
            cells[place] = "123456789012"
        again = take_in(browser, send(browser, csv_of(rows, header), f"again{times}.csv"))
        assert again.counts == counts

    assert products_of(Order.objects.get()) == ["Robe", "Sac"]


@pytest.mark.parametrize("kind", ["csv", pytest.param("xlsx", marks=pytest.mark.process)])
def test_a_formula_that_has_failed_is_nothing_that_was_left_out(browser: Client, kind: str) -> None:
    header = (*HEADER, "Frais de livraison", "Total")
    rows = [
        [*row("A1"), "400", Failed("#REF!")],
        [*row("A2"), Failed("#N/A"), ""],
        [*row("A3"), "", ""],
        [*row("A3", product=Failed("#VALEUR !")), "", ""],
        [*row("A4"), "", ""],
    ]
    data = csv_of(rows, header) if kind == "csv" else workbook({"1": [[*header], *rows]})
    upload = take_in(browser, send(browser, data, f"orders.{kind}"))
    assert upload.counts == {"imported": 1, "refused": 3}
    assert [order.external_id for order in Order.objects.all()] == ["A4"]
    assert [[column for column, _said in each.faults] for each in RefusedRow.objects.order_by("line")] == [
        ["total_amount"], ["shipping_fee"], [""], ["product_name"],
    ]  # fmt: skip
    browser.cookies["django_language"] = "fr"
    refused = read_csv(downloaded(browser, f"/account/uploads/{upload.id}/refused.csv"), ";")
    assert refused[1][1].startswith("Total\u202f: C’est une formule qui donne une erreur")
    assert refused[1][-1] == "#REF!"


def test_reasons_are_in_the_persons_language(browser: Client) -> None:
    many = [row("A7")] * 101
    upload = take_in(browser, send(browser, csv_of([*BAD, *many, row("A8", phone="5,50123E+08")])))
    browser.cookies["django_language"] = "fr"
    rows = read_csv(downloaded(browser, f"/account/uploads/{upload.id}/refused.csv"), ";")
    assert "Téléphone\u202f: Le tableur a abrégé ce numéro, dont les derniers chiffres sont perdus." in rows[-1][1]
    assert "Une commande a 100 articles au plus." in rows[-102][1]
    english = {"Must", "must", "Line ", "The "}
    assert [cells[1] for cells in rows[1:] if any(word in cells[1] for word in english)] == []


@pytest.mark.parametrize(
    "details",
    [{str(number): "x" for number in range(21)}, {"k" * 65: "x"}, {"": "x"}, {"k": "x", "k ": "y"}, {"k": "x" * 256}],
)
def test_what_is_wrong_with_details_is_said_in_the_persons_language(details: dict[str, str]) -> None:
    line = {"product_name": "Robe", "quantity": 1, "unit_price": 1, "attributes": details}
    _order, errors = read_order({"items": [line]})
    (said,) = [sentence for path, sentences in errors.items() if path.startswith("items.") for sentence in sentences]
    with override("fr"):
        assert wording.in_words(said) != said


def test_nothing_in_a_file_is_run_or_breaks_a_page(browser: Client) -> None:
    hostile = "<script>alert(1)</script>{{ 7|add:7 }}"
    header = [*HEADER[:7], hostile]
    upload = send(
        browser,
        csv_of([row(hostile, name=hostile, wilaya=hostile, phone=hostile)], header),
        f"{'x' * 300}{hostile}.csv",
    )
    for _ in range(2):
        page = browser.get(f"/account/uploads/{upload.id}").content.decode()
        assert "&lt;script&gt;alert(1)" in page
        assert "<script>alert" not in page
        if upload.status == Status.MATCHING:
            upload = take_in(browser, upload, unit_price="7")
    assert upload.counts == {"refused": 1}


def test_the_refused_rows_of_all_earlier_files_can_be_reached(browser: Client) -> None:
    first = take_in(browser, send(browser, csv_of([row("A1", phone="1")])))
    for number in range(30):
        Upload.objects.create(
            account=first.account, kind=first.kind, name=f"{number}.csv", size=1, status="done", user_id=first.user_id
        )
    address, shown = PAGE, list[str]()
    for _page in range(2):
        page = browser.get(address).content.decode()
        shown += re.findall('href="/account/uploads/([^"]+)"', page)
        older = re.search(r'href="(\?before=[^"]+)">Older', page)
        address = PAGE + unescape(older[1]) if older else ""
    assert (len(shown), shown[-1], address) == (31, str(first.id), "")


def test_refused_rows_can_be_discarded(browser: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """An account that keeps too much of them sends no file before it does."""
    upload = take_in(browser, send(browser, csv_of([row("A1", phone="1"), row("A2")])))
    page, discard = f"/account/uploads/{upload.id}", f"/account/uploads/{upload.id}/discard"
    assert f'href="{discard}"' in browser.get(page).content.decode()
    assert "1 row of a file was refused" in browser.get("/account/").content.decode()
    assert "Discard the refused rows?" in browser.get(discard).content.decode()
    assert RefusedRow.objects.count() == 1
    monkeypatch.setattr(arrival, "MAX_REFUSED", 0)
    refused = browser.post(PAGE, {"name": "a.csv", "size": 5})
    assert (refused.status_code, refused.json()["error"][:42]) == (422, "Too many refused rows of earlier files are")
    answer = browser.post(discard, follow=True).content.decode()
    assert "The refused rows are discarded." in answer
    assert f'href="{discard}"' not in answer
    assert "refused" not in browser.get("/account/").content.decode()
    assert (RefusedRow.objects.count(), Order.objects.count()) == (0, 1)
    assert browser.post(discard, follow=True).redirect_chain == [(page, 302)]
    assert SecurityEntry.objects.filter(action="rows_discarded", target_id=upload.id).count() == 1
    announce(browser, b"a\n1\n")


@pytest.mark.parametrize(
    ("cells", "rows", "megabytes"),
    [(["😀" + "a" * 32_766] * 31, 60, 30), (["ab"] * 350_000, 10, 90)],
    ids=["of long cells", "of many cells"],
)
def test_of_long_rows_few_are_in_memory(
    browser: Client, alice: Account, cells: list[str], rows: int, megabytes: int
) -> None:
    """A client may take the first piece of a file, and then nothing for hours."""
    made = {"kind": "orders", "name": "a.csv", "size": 1, "actor": "A", "user_id": alice.holder_id}
    upload = Upload.objects.create(account=alice, status=Status.DONE, titles=["Nom"], **made)
    for line in range(2, rows + 2):
        RefusedRow.objects.create(account=alice, upload=upload, line=line, cells=cells, faults=[])
    address = f"/account/uploads/{upload.id}"
    _, file = most_memory(lambda: next(iter(browser.get(f"{address}/refused.csv").streaming_content)))
    answer, page = most_memory(lambda: browser.get(address))
    assert answer.content.decode().count(f"<bdi>{cells[0][:1]}") >= min(rows, 50)
    assert max(file, page) < megabytes << 20
