"""What the rows of a file of orders say, and which orders they become."""

from decimal import Decimal
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from codservice.accounts.models import Account
from codservice.files.intake import NO_NUMBER
from inventory.models import Product
from orders.models import Order, OrderItem
from tests.factories import ProductFactory, make_order
from tests.harness import plans
from tests.orders.files import COLUMNS, mended, products_of, row, run


@pytest.mark.parametrize(
    ("delimiter", "encoding"), [(",", "utf-8"), (";", "utf-8-sig"), (";", "cp1256"), ("\t", "utf-16")]
)
def test_rows_of_one_number_become_one_order(alice: Account, write: Any, delimiter: str, encoding: str) -> None:
    item = {"external_id": "A1", "product_name": "Foulard", "quantity": "1", "unit_price": "0"}
    second = dict.fromkeys(COLUMNS, "") | item
    path = write(
        [row(attributes='{"taille": "M"}'), second, row(external_id="A2", customer_name="فاطمة")],
        delimiter=delimiter,
        encoding=encoding,
    )

    result, status = run(path, alice)

    assert (result["imported"], result["refused"], status) == (2, 0, 0)
    first = Order.objects.get(external_id="A1")
    lines = list(first.items.order_by("position").values_list("product_name", "quantity", "attributes"))
    assert lines == [("Robe", 2, {"taille": "M"}), ("Foulard", 1, {})]
    assert Order.objects.get(external_id="A2").customer_name == "فاطمة"


def test_numbers_may_be_written_with_the_digits_of_an_arabic_keyboard(alice: Account, write: Any) -> None:
    said = {"customer_phone": "٠٥٥٠١٢٣٤٥٦", "quantity": "٢", "unit_price": "٢٬٠٠٠٫٥", "total_amount": "٤٥٠١ د.ج"}
    result, _ = run(write([row(**said), row(external_id="A2", quantity="²")]), alice)

    assert (result["imported"], [set(each["errors"]) for each in result["errors"]]) == (1, [{"items.0.quantity"}])
    order = Order.objects.get(external_id="A1")
    assert (order.total_amount, order.phone_e164) == (Decimal(4501), "+213550123456")
    assert order.items.values_list("quantity", "unit_price").get() == (2, Decimal("2000.50"))


@pytest.mark.parametrize("mark", ["p:", "P: ", "'"])
def test_a_phone_may_have_the_mark_of_a_list_of_leads_or_of_a_spreadsheet(
    alice: Account, write: Any, mark: str
) -> None:
    rows = [
        row(customer_phone=f"{mark}+213550123456"),
        row(external_id="A2", customer_phone_2=f"{mark}0661 23 45 67"),
        row(external_id="A3", customer_phone=f"{mark}x"),
        row(external_id="A4", customer_phone=f"p:{mark}0550123456"),
    ]
    result, _ = run(write(rows), alice)
    assert (result["imported"], result["refused"]) == (2, 2)
    assert Order.objects.get(external_id="A1").customer_phone == "+213550123456"
    assert Order.objects.get(external_id="A2").customer_phone_2 == "0661 23 45 67"


def test_a_phone_may_have_come_through_a_column_of_numbers(alice: Account, write: Any) -> None:
    said = ("550123456.0", "213550123456,00", "0550.12.34.00", "550123456.5")
    run(write([row(external_id=f"A{n}", customer_phone=phone) for n, phone in enumerate(said)]), alice)
    phones = Order.objects.order_by("external_id").values_list("phone_e164", flat=True)
    assert list(phones) == ["+213550123456", "+213550123456", "+213550123400"]


def test_a_place_may_have_come_through_a_column_of_numbers(alice: Account, write: Any) -> None:
    said = ("16.0", "1621.0"), ("9,00", "901"), ("6.5", "601")
    places = [{"customer_wilaya": wilaya, "customer_commune": commune} for wilaya, commune in said]
    result, _ = run(write([row(external_id=f"A{n}", **place) for n, place in enumerate(places)]), alice)
    assert [set(each["errors"]) for each in result["errors"]] == [{"customer_wilaya"}]
    assert set(Order.objects.values_list("wilaya_code", "commune_code")) == {("16", "1621"), ("09", "0901")}


def test_an_order_may_say_how_it_is_delivered_where_it_came_from_and_a_second_phone(alice: Account, write: Any) -> None:
    said = {"customer_phone_2": "021 55 66 77", "delivery_type": "desk", "source": "facebook"}
    result, _ = run(write([row(**said), row(external_id="A2"), row(external_id="A3", delivery_type="x")]), alice)

    assert (result["imported"], [set(each["errors"]) for each in result["errors"]]) == (2, [{"delivery_type"}])
    assert Order.objects.filter(external_id="A1", phone_2_e164="+21321556677", **said).exists()
    plain = Order.objects.get(external_id="A2")
    assert (plain.delivery_type, plain.source, plain.customer_phone_2) == ("home", None, None)


@pytest.mark.parametrize(
    "changes",
    [
        {"customer_name": "Nadia"},
        {"customer_phone": "0661234567"},
        {"customer_address": "rue 2"},
        {"total_amount": "4000"},
        {"source": "facebook"},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_rows_of_one_number_that_contradict_each_other_are_refused(
    alice: Account, write: Any, changes: dict[str, str]
) -> None:
    out, path = StringIO(), write([row(), row(**changes), row(external_id="A2")])
    with pytest.raises(CommandError):
        call_command("import_orders", str(path), "--account", alice.holder.email, stdout=out, stderr=StringIO())
    (name,) = changes
    assert out.getvalue() == f"line 3: {name}: Line 2 of the same order has a different value.\n"
    assert [order.external_id for order in Order.objects.all()] == ["A2"]


def test_what_is_only_written_otherwise_is_no_contradiction(alice: Account, write: Any) -> None:
    same = {"customer_name": "AMINE", "customer_phone": "+213 550 12 34 56", "total_amount": "100,5 DA"}
    result, status = run(write([row(), row(**same)]), alice)
    assert (result["imported"], status) == (1, 0)


@pytest.mark.parametrize("mark", ["/", "-", "—", "N/A", "Néant", "AUCUN", "لا يوجد"])
def test_a_cell_that_marks_nothing_is_as_an_empty_one(alice: Account, write: Any, mark: str) -> None:
    optional = dict.fromkeys(("customer_phone_2", "customer_commune", "source", "attributes"), mark)
    two = {"customer_phone": "0550123456 / 0661234567", "customer_wilaya": "Alger / Bab Ezzouar"}
    second = {"external_id": "A1", "product_name": "Sac", "quantity": "1", "unit_price": "0", "source": "n/a"}
    rows = [row(**optional | two), dict.fromkeys(COLUMNS, "") | second]
    result, _ = run(write(rows), alice)

    assert result["errors"] == []
    order = Order.objects.get(external_id="A1")
    assert (order.customer_phone_2, order.commune_code, order.source) == ("0661234567", "1621", None)
    assert [*order.items.values_list("attributes", flat=True)] == [{}, {}]


@pytest.mark.parametrize("column", ["customer_phone", "customer_wilaya", "quantity", "unit_price", "total_amount"])
def test_where_something_must_be_said_it_is_refused(alice: Account, write: Any, column: str) -> None:
    result, _ = run(
        write([row(external_id=f"A{n}", **{column: mark}) for n, mark in enumerate(("/", "-", "N/A"))]), alice
    )
    assert [column in str(each["errors"]) for each in result["errors"]] == [True] * 3


def test_no_second_phone_may_be_written_as_0_and_no_size_is_0(alice: Account, tmp_path: Path) -> None:
    (tmp_path / "orders.csv").write_text(
        "Nom;Téléphone;Téléphone 2;Wilaya;Adresse;Produit;Quantité;Prix;Taille;Couleur;Remarque\n"
        "Amine;0550123456;0;Alger;rue 1;Robe;1;900;0;-;/\n"
    )
    result, _ = run(tmp_path / "orders.csv", alice)

    assert result["errors"] == []
    order = Order.objects.get()
    assert (order.customer_phone_2, order.notes) == (None, "")
    assert order.items.get().attributes == {"taille": "0"}


def test_a_fee_that_marks_nothing_is_0_if_that_is_certain(alice: Account, tmp_path: Path) -> None:
    """`-   DA` is how Excel's accounting format writes 0; with the sum to pay, an empty fee is 0 as well."""
    said = [("- ", ""), ("inclus", ""), ("N/A", ""), (" -   DA ", ""), ("-", "1500"), ("Inclus", "1500"), ("/", "1500")]
    (tmp_path / "orders.csv").write_text(
        "Nom;Téléphone;Wilaya;Adresse;Produit;Quantité;Prix;Livraison;Total\n"
        + "".join(f"Amine;0550123456;Alger;rue 1;Robe;1;900;{fee};{total}\n" for fee, total in said)
    )
    result, _ = run(tmp_path / "orders.csv", alice)

    assert [(each["line"], list(each["errors"])) for each in result["errors"]] == [
        (2, ["shipping_fee"]), (3, ["shipping_fee"]), (4, ["shipping_fee"])
    ]  # fmt: skip
    amounts = Order.objects.order_by("id").values_list("shipping_fee", "total_amount")
    assert sorted(amounts) == [(0, 900), (0, 1500), (0, 1500), (0, 1500)]


@pytest.mark.parametrize("number", ["2,02611E+11", "2.02611e+11", "2E+11", "-2,02611E+11"])
def test_a_number_that_a_spreadsheet_has_shortened_is_refused(alice: Account, write: Any, number: str) -> None:
    result, status = run(write([row(external_id=number), row(external_id=number)]), alice)
    assert (result["imported"], result["refused"], status) == (0, 1, 1)
    assert "Format the column as text" in result["errors"][0]["errors"]["external_id"][0]


def test_a_sku_with_invisible_marks_around_it_names_the_product(alice: Account, write: Any) -> None:
    robe = ProductFactory(account=alice, sku="SKU1")
    marked = ProductFactory(account=alice, sku="\u200fSKU2")  # the API stores what it is sent
    rows = [
        row(external_id=f"A{number}", product_name="", sku=sku)
        for number, sku in enumerate(["\u200fSKU1", "\u202aSKU1\u202c", "\u200fSKU2"])
    ]
    result, _ = run(write(rows), alice)
    assert result["imported"] == 3
    lines = OrderItem.objects.order_by("order__external_id").values_list("product_id", "product_name")
    assert list(lines) == [(each.id, each.name) for each in (robe, robe, marked)]


def test_invisible_marks_around_a_number_are_the_spreadsheets_unless_an_order_has_them(
    alice: Account, write: Any
) -> None:
    for number in ("1001", "\u200f1002"):  # the API stores what it is sent
        make_order(alice, external_id=number, customer_phone="0550123456")
    numbers = ("\u200f1001", "\u200f1002", "\u202a1003\u202c")

    results = [run(write([row(external_id=number) for number in numbers]), alice)[0] for _ in range(2)]

    assert [(each["imported"], each["already_there"], each["refused"]) for each in results] == [(1, 2, 0), (0, 3, 0)]
    assert set(Order.objects.values_list("external_id", flat=True)) == {"1001", "\u200f1002", "1003"}


def test_rows_whose_numbers_differ_only_by_invisible_marks_are_one_order(alice: Account, write: Any) -> None:
    rows = [row(external_id=number) for number in ("\u200f1001", "1001", "1001\ufeff", "1002", "\u200f1001")]
    result, _ = run(write(rows), alice)
    assert (result["imported"], result["refused"]) == (2, 1), "the last row lies apart"
    assert Order.objects.get(external_id="1001").items.count() == 3


def test_so_is_a_sku_unless_a_product_has_it(alice: Account, charlie: Account, write: Any) -> None:
    robe = ProductFactory(account=alice, sku="6,13E+12")
    ProductFactory(account=charlie, sku="6,14E+12")
    said = (("6,13E+12", "", ""), ("6,14E+12", "", ""), ("6,14E+12", "Robe", ""), ("6,14E+12", "", str(robe.id)))
    rows = [
        row(external_id=f"A{number}", sku=sku, product_name=name, product_id=product)
        for number, (sku, name, product) in enumerate(said)
    ]
    result, _ = run(write(rows), alice)
    assert [each["errors"] for each in result["errors"]] == [{"items.0.sku": [NO_NUMBER]}] * 2
    lines = OrderItem.objects.order_by("order__external_id").values_list("order__external_id", "product_id")
    assert list(lines) == [("A0", robe.id), ("A3", robe.id)]


@pytest.mark.parametrize("number", ["5,50123E+08", "2.13550E+11"])
def test_a_phone_that_a_spreadsheet_has_shortened_is_told_as_such(alice: Account, write: Any, number: str) -> None:
    rows = [row(customer_phone=number), row(external_id="A2", customer_phone_2=number, quantity="x")]
    result, _ = run(write(rows), alice)
    first, second = (each["errors"] for each in result["errors"])
    assert (set(first), set(second)) == ({"customer_phone"}, {"customer_phone_2", "items.0.quantity"})
    for said in (first["customer_phone"], second["customer_phone_2"]):
        assert ["last digits are lost. Format the column as text" in each for each in said] == [True]


@pytest.mark.parametrize(
    ("number", "meant"),
    [("5.50123456E8", "+213550123456"), ("5,50123456e+08", "+213550123456"), ("2.13550123456E+11", "+213550123456"),
     ("5.5012345E8", None), ("5.501234567E8", None)],
)  # fmt: skip
def test_of_a_phone_in_the_scientific_form_all_digits_must_be_there(
    alice: Account, write: Any, number: str, meant: str | None
) -> None:
    result, _ = run(write([row(customer_phone=number)]), alice)
    assert list(Order.objects.values_list("phone_e164", flat=True)) == ([meant] if meant else []), result


def test_a_row_whose_number_is_merged_with_the_one_above_is_of_its_order(alice: Account, write: Any) -> None:
    nobody = dict.fromkeys(COLUMNS, "")
    merged = nobody | {"product_name": "Sac", "quantity": "1", "unit_price": "4000"}
    bad = row(external_id="A2", total_amount="")
    result, _ = run(write([row(total_amount=""), merged, merged, bad, merged | {"quantity": "x"}]), alice)

    assert (result["imported"], result["refused"]) == (1, 1), "and no half order"
    order = Order.objects.get()
    assert (order.external_id, order.items.count(), order.total_amount) == ("A1", 3, Decimal("8100.50"))

    rows = [merged, row(external_id="A3"), nobody | {"total_amount": "9000"}, row(external_id=""), merged]
    result, _ = run(write(rows), alice)
    assert (result["imported"], [each["line"] for each in result["errors"]]) == (2, [2, 4]), "below nothing; a sum"
    assert Order.objects.get(external_id=None).items.count() == 2


@pytest.mark.parametrize("column", ["product_name", "customer_wilaya", "external_id", "customer_name"])
@pytest.mark.parametrize("word", ["TOTAL", "Total général :", "Sous-total", "المجموع", "الإجمالي", "مجموع"])
def test_a_total_at_the_foot_is_no_line_of_the_last_order(alice: Account, write: Any, word: str, column: str) -> None:
    nobody = dict.fromkeys(COLUMNS, "")
    sums = nobody | {"quantity": "3", "unit_price": "51.25"}
    merged = nobody | {"product_name": "Total look", "quantity": "1", "unit_price": "1"}
    result, _ = run(write([row(total_amount=""), merged, sums | {column: word}, sums]), alice)

    assert (result["imported"], [each["line"] for each in result["errors"]]) == (1, [4, 5])
    assert result["errors"][0]["errors"] == {"": ["Is a total of the rows above, not an order."]}
    order = Order.objects.get()
    assert (order.items.count(), order.total_amount) == (2, Decimal("101.50"))


FEET = {
    "of the column of amounts": [{"product_name": "Total", "total_amount": "9 102,50 DA"}],
    "with how many pieces": [{"product_name": "TOTAL", "quantity": "6", "total_amount": "9102.5"}],
    "with what the lines amount to": [{"product_name": "Total", "quantity": "6", "unit_price": "9 102,50 DA"}],
    "with the column of prices summed up": [{"product_name": "Total", "quantity": "6", "unit_price": "4551.25"}],
    "with tax": [
        {"product_name": "Total HT", "unit_price": "7649.16"},
        {"product_name": "TVA 19 %", "unit_price": "1453.34"},
        {"product_name": "Total TTC", "unit_price": "9102.50"},
    ],
}


@pytest.mark.parametrize("foot", FEET.values(), ids=FEET)
def test_a_foot_in_the_column_of_products_keeps_no_order_out(
    alice: Account, write: Any, foot: list[dict[str, str]]
) -> None:
    nobody = dict.fromkeys(COLUMNS, "")
    second = row(external_id="A2", quantity="2", unit_price="1", total_amount="9002")
    merged = nobody | {"product_name": "Sac", "quantity": "2", "unit_price": "4500"}
    result, _ = run(write([row(), second, merged, *(nobody | cells for cells in foot)]), alice)

    assert (result["imported"], [each["line"] for each in result["errors"]]) == (2, [*range(5, 5 + len(foot))])
    assert products_of(Order.objects.get(external_id="A2")) == ["Robe", "Sac"]


def test_tax_may_be_a_line(alice: Account, write: Any) -> None:
    tax = dict.fromkeys(COLUMNS, "") | {"product_name": "TVA 19 %", "quantity": "1", "unit_price": "19"}
    run(write([row(total_amount=""), tax]), alice)
    assert products_of(Order.objects.get()) == ["Robe", "TVA 19 %"]


def test_nor_does_a_total_below_each_order(alice: Account, write: Any) -> None:
    """Only the first total is the sum of all the file's lines above it."""
    nobody = dict.fromkeys(COLUMNS, "")
    rows = []
    for number, prices in (("A1", [2500, 4000]), ("A2", [100, 200, 200]), ("A3", [300]), ("A4", [100, 100])):
        lines = [nobody | {"product_name": f"P{price}", "quantity": "1", "unit_price": str(price)} for price in prices]
        lines[0] = row(**{name: cell for name, cell in lines[0].items() if cell}, external_id=number, total_amount="")
        sums = {"quantity": str(len(prices)), "unit_price": str(sum(prices))}
        rows += [*lines, nobody | {"product_name": "Total"} | sums]
    rows.append(nobody | {"product_name": "Total général", "quantity": "8", "unit_price": "7500"})

    result, _ = run(write(rows), alice)

    assert (result["imported"], len(result["errors"])) == (4, 5)
    assert {each["errors"][""][0] for each in result["errors"]} == {"Is a total of the rows above, not an order."}
    assert [order.items.count() for order in Order.objects.order_by("external_id")] == [2, 3, 1, 2]


@pytest.mark.parametrize("below", [["Sac"], []])
def test_a_total_that_may_be_a_product_keeps_the_order_out(
    alice: Account, write: Any, tmp_path: Path, below: list[str]
) -> None:
    """There is a brand named Total. The order used to go in without this line and those below it."""
    nobody = dict.fromkeys(COLUMNS, "")
    total, *sac = (nobody | {"product_name": name, "quantity": "1", "unit_price": "10"} for name in ("Total", *below))
    path, report = write([row(total_amount=""), total, *sac, row(external_id="A2")]), tmp_path / "refused.csv"

    for imported in (1, 0):  # however often it is imported
        result, _ = run(path, alice, "--report", str(report))
        assert (result["imported"], [each["line"] for each in result["errors"]]) == (imported, [2])
        assert "it is a product" in result["errors"][0]["errors"]["external_id"][0]
        path, report = report, tmp_path / "again.csv"

    mended(path, lambda cells: cells.update(external_id="A1") if cells["product_name"] == "Sac" else None)
    assert run(path, alice)[0]["imported"] == 0, "nor without this line alone"
    mended(path, lambda cells: cells.update(external_id="A1"))
    assert run(path, alice)[0]["imported"] == 1
    assert products_of(Order.objects.get(external_id="A1")) == ["Robe", "Total", *below]


def test_no_total_of_a_report_is_told_by_its_sums(alice: Account, write: Any, tmp_path: Path) -> None:
    """In the file it was not the sum of the lines above. The report lacks some of these."""
    nobody = dict.fromkeys(COLUMNS, "")
    total = nobody | {"product_name": "Total", "quantity": "2", "unit_price": "9"}
    one = {"quantity": "1", "total_amount": ""}
    refused = row(external_id="A2", unit_price="8", customer_phone="1", **one)
    rows = [row(), refused, row(external_id="A3", unit_price="1", **one), total]
    path, report = write(rows), tmp_path / "refused.csv"

    assert run(path, alice, "--report", str(report))[0]["imported"] == 1
    assert run(report, alice)[0]["imported"] == 0


def test_an_empty_row_ends_an_order_and_a_cell_of_several_lines_does_not(alice: Account, write: Any) -> None:
    nobody = dict.fromkeys(COLUMNS, "")
    merged = nobody | {"product_name": "Sac", "quantity": "1", "unit_price": "1"}
    first = row(customer_address="rue 1\n\n\nAlger\n\n", total_amount="")
    result, _ = run(write([first, merged, nobody, nobody, merged, merged]), alice)

    assert (result["imported"], len(result["errors"])) == (1, 2)
    assert Order.objects.get().items.count() == 2


def test_an_empty_row_below_each_row_ends_none(alice: Account, write: Any) -> None:
    """As in a file whose line ends were doubled by some program."""
    merged = dict.fromkeys(COLUMNS, "") | {"product_name": "Sac", "quantity": "1", "unit_price": "1"}
    path = write([row(total_amount=""), merged, row(external_id="A2", total_amount="")])
    path.write_text(path.read_text().replace("\n", "\n\n"))

    assert run(path, alice)[0]["imported"] == 2
    assert products_of(Order.objects.get(external_id="A1")) == ["Robe", "Sac"]


def test_rows_without_a_number_are_orders_of_their_own(alice: Account, write: Any) -> None:
    result, _ = run(write([row(external_id=""), row(external_id="")]), alice)

    assert result["imported"] == Order.objects.count() == 2


def test_a_total_that_is_left_out_is_made_of_the_catalogs_prices_too(
    alice: Account, charlie: Account, write: Any
) -> None:
    mine, theirs = (ProductFactory(account=account, price=Decimal("1200.50")) for account in (alice, charlie))
    left_out = dict.fromkeys(("total_amount", "product_name", "unit_price"), "")
    bad = row(external_id="A2", product_id=str(theirs.id), **left_out)
    result, status = run(write([row(product_id=str(mine.id).upper(), **left_out), bad]), alice)
    assert (status, result["imported"]) == (1, 1)
    assert result["errors"] == [
        {"line": 3, "external_id": "A2", "errors": {"items.0.product_id": ["No product of this account has this id."]}}
    ]
    assert Order.objects.get().total_amount == Decimal("2401.00")


@pytest.mark.parametrize("believed", plans.UNCOUNTED)
def test_of_the_catalog_only_what_the_rows_name_is_read(alice: Account, write: Any, believed: str) -> None:
    """This also holds before PostgreSQL has analyzed the table, as when a new service takes in its first files."""
    plans.fill_uncounted(ProductFactory(account=alice, sku="0"), believed, number="sku")
    by_id = Product.objects.exclude(sku__in=range(51)).values_list("id", flat=True)[:50]
    left_out = dict.fromkeys(("total_amount", "product_name", "unit_price"), "")
    named = [{"sku": str(number)} for number in range(50)] + [{"product_id": str(each)} for each in by_id]
    path = write([row(external_id=f"A{number}", **left_out, **each) for number, each in enumerate(named)])
    before = plans.read_so_far("inventory_product")

    result, _ = run(path, alice)

    assert result["imported"] == len(named)
    assert plans.read_so_far("inventory_product") - before <= 2 * len(named)  # by the file, then by the import


def test_good_orders_are_kept_and_each_bad_one_is_reported_with_its_line(alice: Account, write: Any) -> None:
    path = write([row(), row(external_id="A2", customer_phone="12", quantity="two"), row(external_id="A3")])

    result, status = run(path, alice)

    assert (result["imported"], result["refused"], status) == (2, 1, 1)
    (refused,) = result["errors"]
    assert refused["line"] == 3
    assert set(refused["errors"]) == {"customer_phone", "items.0.quantity"}


def test_a_negative_quantity_is_out_of_bounds_and_not_said_to_be_no_number(alice: Account, write: Any) -> None:
    result, _ = run(write([row(quantity="-2")]), alice)

    assert result["errors"][0]["errors"] == {"items.0.quantity": ["Must be from 1 to 10000."]}


def test_a_row_of_an_order_that_is_there_is_not_refused_however_bad(alice: Account, write: Any) -> None:
    run(write([row()]), alice)

    result, status = run(write([row(customer_phone="12", quantity="0")]), alice)

    assert (result["already_there"], result["refused"], status) == (1, 0, 0)


def test_rows_of_one_order_that_lie_apart_are_refused_and_not_lost(alice: Account, write: Any) -> None:
    path = write([row(), row(external_id="A2"), row(product_name="Foulard")])

    for _ in range(2):
        result, status = run(path, alice)
        (refused,) = result["errors"]
        assert (refused["line"], status) == (4, 1)
        assert "Line 2 has the same external_id" in refused["errors"]["external_id"][0]
    assert Order.objects.count() == 2


def test_a_row_with_more_cells_than_columns_is_refused(alice: Account, tmp_path: Path) -> None:
    path = tmp_path / "orders.csv"
    names = ("external_id", "customer_name", "customer_phone", "customer_address", "customer_wilaya", "total_amount",
             "product_name", "quantity", "unit_price")  # fmt: skip
    path.write_text(f"{','.join(names)}\nA1,Amine,0550123456,12 rue 1, Alger,Alger,100,Robe,1,100\n")

    result, _ = run(path, alice, "--report", str(tmp_path / "refused.csv"))

    assert "quotes" in result["errors"][0]["errors"][""][0]
    assert (tmp_path / "refused.csv").read_text().endswith(",12 rue 1,Alger,Alger,100,Robe,1,100\n")
