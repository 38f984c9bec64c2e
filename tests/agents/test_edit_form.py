"""What calls change in an order: products, details, discount, second phone, delivery and fee; and how that is told."""

import re
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection
from django.http import HttpResponse
from django.test import Client
from django.test.utils import CaptureQueriesContext

from agents.desk.edit_form import MOST_ADDED
from codservice.accounts.actor import Actor, Role
from codservice.accounts.models import Account, User
from inventory.models import Product
from orders import amending, editing
from orders.models import Order, OrderItem, ShippingFee
from tests.agents.screens import order_page, sums, take
from tests.factories import ProductFactory, make_order, order_line
from tests.harness.background import Background, open_transaction
from tests.harness.client import browser_of
from tests.harness.database import wait_for_lock
from tests.orders.moves import edits


@pytest.fixture
def robe(alice: Account) -> Product:
    return ProductFactory(account=alice, sku="ROB-1", name="Robe kabyle", price=Decimal(2000), stock_quantity=7)


@pytest.fixture
def scarf(alice: Account) -> Product:
    return ProductFactory(account=alice, sku="FOU-1", name="Foulard soie", price=Decimal(900), stock_quantity=3)


@pytest.fixture
def order(alice: Account, robe: Product) -> Order:
    """Two robes at 2000, plus 400 for shipping, less 400."""
    line = order_line(quantity=2, product_id=robe.id, attributes={"Taille": "M", "Couleur": "bleu"})
    return make_order(
        alice, items=[line], shipping_fee=400, total_amount=4000, customer_commune="Bab Ezzouar", delivery_type="home"
    )


class Page:
    """The order's edit page, as a browser without JavaScript uses it."""

    def __init__(self, browser: Client, order: Order) -> None:
        self.browser, self.order = browser, order
        self.screen = take(browser, order)
        self.address = f"{self.screen.address}edit/{order.id}/"
        self.read(browser.get(self.address))

    def read(self, response: HttpResponse) -> None:
        self.response, self.text = response, response.content.decode()
        self.form = response.context["form"]
        self.fields: dict[str, Any] = {}
        for field in self.form:
            if (value := field.value()) not in (None, False):
                self.fields[field.html_name] = value

    def press(self, button: str, value: Any = "1", **typed: Any) -> None:
        response = self.browser.post(self.address, {**self.fields, **typed, button: value})
        assert response.status_code == 200
        self.read(response)

    def save(self, **typed: Any) -> HttpResponse:
        response = self.browser.post(self.address, {**self.fields, **typed})
        if response.status_code != 302:
            self.read(response)
        self.order.refresh_from_db()
        return response


@pytest.fixture
def page(browser: Client, order: Order) -> Page:
    return Page(browser, order)


def test_numbers_are_written_from_left_to_right_in_each_language(page: Page, order: Order) -> None:
    boxes = re.findall(r"<input[^>]+>", page.text)
    for name in (f"quantity-{key(order)}", "shipping_fee", "discount"):
        (box,) = (each for each in boxes if f'name="{name}"' in each)
        assert 'dir="ltr"' in box, name


def test_a_note_has_its_own_direction_and_not_our_words(alice: Account, browser: Client) -> None:
    page = Page(browser, make_order(alice, notes="Après 17 h"))
    assert "<strong>From the merchant</strong> <bdi>Après 17 h</bdi></p>" in page.text
    assert 'merchant-note free-text">' in page.text


def key(order: Order) -> str:
    return str(order.items.get().id)


def test_what_was_written_stays_on_a_page_that_is_no_longer_true(page: Page, alice: Account) -> None:
    amending.amend(alice.id, page.order.id, {"notes": "Call at five"}, actor=Actor(Role.MERCHANT, "shop"))
    assert page.save(customer_address="Cité 8 Mai, Bt 4").status_code == 422
    assert "The order has changed since you opened it." in page.text
    assert "Cité 8 Mai, Bt 4</textarea>" in page.text
    assert f'name="seen" value="{page.order.id}:1"' in page.text, "which its script compares with what is"
    assert page.save(customer_address="Cité 8 Mai, Bt 4").status_code == 422
    assert (page.order.version, page.order.notes) == (2, "Call at five")


def test_that_it_is_no_longer_true_is_all_that_is_said_when_its_lines_are_gone_too(page: Page, alice: Account) -> None:
    body = {"items": [order_line(product_name="Voile", quantity=1, unit_price=500)]}
    amending.amend(alice.id, page.order.id, body, actor=Actor(Role.MERCHANT, "shop"))
    assert page.save(customer_address="Cité 8 Mai, Bt 4").status_code == 422
    assert page.form.errors == {"__all__": ["The order has changed since you opened it."]}
    assert "Cité 8 Mai, Bt 4</textarea>" in page.text


def test_what_was_written_stays_when_the_order_has_no_room_for_it(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(editing, "MOST_EDITS", 1)
    monkeypatch.setattr(editing, "FEW_CHANGES", 0)
    assert page.save(customer_name="Amina", customer_address="Cité 8 Mai, Bt 4").status_code == 422
    assert "This order has reached the maximum number of changes." in page.text
    assert "Cité 8 Mai, Bt 4</textarea>" in page.text
    assert page.order.version == 1


def test_the_customers_other_orders_are_no_news_but_one_that_comes_meanwhile_is(
    browser: Client, order: Order, alice: Account
) -> None:
    make_order(alice)
    page = Page(browser, order)
    page.screen.form["seen"] = re.findall('name="seen" value="([^"]+)"', page.text)
    assert page.screen.state()["says"] == []
    make_order(alice)
    assert page.screen.state()["says"] == ["This customer has another order that is not on this page yet."]


def test_a_page_that_is_saved_as_it_was_shown_changes_nothing(page: Page) -> None:
    page.save()
    assert (page.order.version, edits(page.order)) == (1, {})


def test_a_detail_that_was_empty_stays_so(alice: Account, browser: Client) -> None:
    attributes = {"Taille": "", "Matière": "\u200b", "Couleur": "bleu"}
    page = Page(
        browser,
        make_order(alice, items=[order_line(quantity=1, product_name="Robe", unit_price=1, attributes=attributes)]),
    )
    page.save()
    assert (page.order.version, edits(page.order)) == (1, {})
    page.save(customer_name="Amina Benali")
    assert (page.order.version, page.order.items.get().attributes) == (2, attributes)


def test_a_product_is_added_from_the_catalog(page: Page, scarf: Product) -> None:
    page.press("search", q="\u202asoie foul\u202c")
    assert [product.sku for product in page.form.found] == ["FOU-1"]
    assert "3 in stock" in page.text
    page.press("choose", scarf.id)
    assert page.form.total == Decimal(4900)
    assert page.save(**{"quantity-new0": 2}).status_code == 302
    _first, second = page.order.items.order_by("position")
    assert (second.product_id, second.sku, second.product_name) == (scarf.id, "FOU-1", "Foulard soie")
    assert (second.quantity, second.unit_price, page.order.total_amount) == (2, Decimal(900), Decimal(5800))
    assert edits(page.order)["items.1"] == ("", "2 × Foulard soie, 900.00")


def test_a_product_is_put_in_place_of_another(page: Page, scarf: Product, order: Order) -> None:
    page.press("choose", scarf.id, instead=key(order))
    assert "<del><bdi>Robe kabyle</bdi></del>" in page.text
    page.save()
    item = order.items.get()
    assert (item.product_id, item.sku, item.quantity, item.unit_price) == (scarf.id, "FOU-1", 2, Decimal(900))
    assert item.attributes == {"Taille": "M", "Couleur": "bleu"}
    assert page.order.total_amount == Decimal(1800)
    told = page.browser.get(page.screen.address).content.decode()
    assert "Product in line 1: <del><bdi>Robe kabyle</bdi></del>" in told
    assert str(scarf.id) not in told


def test_what_was_written_stays_while_products_are_looked_for(page: Page, scarf: Product) -> None:
    page.press("search", q="fou", customer_name="Amina", discount="500")
    page.press("choose", scarf.id)
    page.press("choose", scarf.id)
    assert page.order.version == 1
    page.save(**{"remove-new0": "on"})
    assert (page.order.customer_name, page.order.items.count()) == ("Amina", 2)
    assert page.order.total_amount == Decimal(4000) + 900 - 100


def test_more_products_than_one_edit_adds_are_not_offered(page: Page, scarf: Product) -> None:
    for _ in range(MOST_ADDED - 1):
        page.press("choose", scarf.id)
    assert 'name="choose"' in page.text
    page.press("choose", scarf.id)
    assert 'name="choose"' not in page.text
    assert "Save the changes first" in page.text
    assert page.save().status_code == 302
    assert page.order.items.count() == 1 + MOST_ADDED


def test_only_products_that_the_merchant_sells_are_offered(
    page: Page, charlie: Account, scarf: Product, order: Order
) -> None:
    stranger = ProductFactory(account=charlie, sku="FOU-2", name="Foulard")
    Product.objects.filter(id=scarf.id).update(is_active=False)
    page.press("search", q="foulard")
    assert page.form.found == []
    assert "No product of this merchant has this name." in page.text
    for product in (stranger, scarf):
        for sent in ({"product-new0": product.id, "quantity-new0": "1"}, {f"product-{key(order)}": product.id}):
            again = Page(page.browser, order)
            assert again.save(**sent).status_code == 422
            assert "This product is no longer sold." in again.text
    assert order.version == 1


def test_a_replacement_that_is_no_longer_sold_is_said_once_and_the_line_stays(
    page: Page, robe: Product, scarf: Product, order: Order
) -> None:
    page.press("choose", scarf.id, instead=key(order))
    Product.objects.filter(id=scarf.id).update(is_active=False)
    assert page.save(customer_address="Cité 8 Mai, Bt 4").status_code == 422
    assert "This product is no longer sold." in page.text
    assert page.save().status_code == 302
    item = order.items.get()
    assert (item.product_id, item.quantity, item.unit_price) == (robe.id, 2, Decimal(2000))
    assert page.order.customer_address == "Cité 8 Mai, Bt 4"


@pytest.mark.parametrize("left", ["foul\x92ard", "x" * 101])
def test_what_was_looked_for_refuses_no_change(left: str, page: Page) -> None:
    assert page.save(q=left, customer_name="Amina").status_code == 302
    assert page.order.customer_name == "Amina"


def test_details_are_changed_added_and_taken_away(page: Page, order: Order) -> None:
    line = key(order)
    page.save(**{f"detail0-{line}": "L", f"detail1-{line}": "", f"name0-{line}": "Gravure", f"value0-{line}": "نادية"})
    assert order.items.get().attributes == {"Taille": "L", "Gravure": "نادية"}
    assert edits(order)["items.0.attributes"] == ("Taille: M, Couleur: bleu", "Taille: L, Gravure: نادية")


def test_a_detail_needs_its_name(page: Page, order: Order) -> None:
    assert page.save(**{f"value0-{key(order)}": "L"}).status_code == 422
    assert "Enter what this is, such as the size or colour." in page.text


@pytest.mark.parametrize(("discount", "total"), [("400", 4000), ("", 4400), ("1000,50", "3399.50")])
def test_the_total_is_the_sum_less_the_discount(discount: str, total: Any, page: Page) -> None:
    assert page.fields["discount"] == "400"
    page.save(discount=discount)
    assert page.order.total_amount == Decimal(total)


def test_a_discount_stands_between_the_fee_and_the_total(page: Page, order: Order, supervisor: User) -> None:
    for discount, said in {
        "300": "Shipping fee 400 DA Discount \N{MINUS SIGN}300 DA To pay on delivery 4 100 DA",
        "1000,50": "Shipping fee 400 DA Discount \N{MINUS SIGN}1 000.50 DA To pay on delivery 3 399.50 DA",
        "": "Shipping fee 400 DA To pay on delivery 4 400 DA",
    }.items():
        saved = Page(page.browser, order).save(discount=discount)
        assert sums(page.browser.get(saved.url).content.decode()) == [said]
        assert sums(browser_of(supervisor).get(order_page(order)).content.decode()) == [said]


def test_a_total_above_the_sum_stays_above_it(alice: Account, browser: Client) -> None:
    page = Page(browser, make_order(alice, shipping_fee=400, total_amount=Decimal(5000)))
    assert page.form["discount"].value() == ""
    assert sums(page.text) == ["Supplement 499.50 DA To pay on delivery 5 000 DA"]
    saved = page.save(discount="100", customer_name="Amina")
    assert page.order.total_amount == Decimal(4900)
    said = "Shipping fee 400 DA Supplement 399.50 DA To pay on delivery 4 900 DA"
    assert sums(browser.get(saved.url).content.decode()) == [said]


def test_a_discount_takes_no_more_than_there_is(page: Page) -> None:
    assert page.save(discount="4400.01").status_code == 422
    assert page.form.errors.keys() == {"discount"}


def test_a_second_phone_is_written_and_taken_away(page: Page) -> None:
    assert page.save(customer_phone_2="123").status_code == 422
    assert page.form.errors.keys() == {"customer_phone_2"}
    page.save(customer_phone_2="0770 12 34 56")
    assert (page.order.customer_phone_2, page.order.phone_2_e164) == ("0770 12 34 56", "+213770123456")
    Page(page.browser, page.order).save(customer_phone_2="")
    page.order.refresh_from_db()
    assert (page.order.customer_phone_2, page.order.phone_2_e164) == (None, None)


@pytest.fixture
def fees(alice: Account) -> None:
    ShippingFee.objects.create(account=alice, wilaya_code="31", home=700, desk=450)


def test_another_wilaya_proposes_its_fee_and_drops_the_commune(page: Page, fees: None) -> None:
    assert page.save(wilaya="Oran", delivery_type="desk").status_code == 200
    assert page.order.version == 1
    assert "Check the merchant&#x27;s fee" in page.text
    assert page.fields["shipping_fee"] == "450"
    page.save()
    order = page.order
    assert (order.wilaya_code, order.commune_code, order.customer_commune) == ("31", None, "")
    assert (order.delivery_type, order.shipping_fee, order.total_amount) == ("desk", Decimal(450), Decimal(4050))


def test_each_other_place_proposes_its_fee(page: Page, alice: Account, fees: None) -> None:
    ShippingFee.objects.create(account=alice, wilaya_code="01", home=1200)
    page.save(wilaya="Oran", delivery_type="home")
    assert page.save(wilaya="Adrar").status_code == 200
    assert (page.order.version, page.fields["shipping_fee"]) == (1, "1200")
    page.save()
    assert (page.order.wilaya_code, page.order.shipping_fee) == ("01", Decimal(1200))


def test_places_are_in_the_readers_script_and_stay_the_same_places(browser: Client, order: Order, fees: None) -> None:
    browser.cookies["django_language"] = "ar-dz"
    page = Page(browser, order)
    assert (page.fields["wilaya"], page.fields["commune"]) == ("الجزائر", "باب الزوار")
    page.save()
    assert (order.version, order.customer_wilaya, order.customer_commune) == (1, "16", "Bab Ezzouar")
    page.save(wilaya="وهران", fee_for="31-home")
    assert (order.wilaya_code, order.commune_code) == ("31", None), "the commune was left over"


def test_the_fee_is_the_agents_to_decide(page: Page, fees: None) -> None:
    page.press("propose", wilaya="وهران")
    assert page.fields["shipping_fee"] == "700"
    page.save(shipping_fee="400")
    assert (page.order.wilaya_code, page.order.shipping_fee) == ("31", Decimal(400))


def test_where_the_merchant_has_said_nothing_the_fee_stays(page: Page, fees: None) -> None:
    page.press("propose", wilaya="Blida")
    assert page.fields["shipping_fee"] == "400"
    assert page.save(wilaya="Blida").status_code == 302


def test_an_error_stands_beside_its_field(page: Page) -> None:
    page.save(commune="Bab Ezzouat")
    commune = page.text.index('name="commune"')
    assert page.text.index("is not a commune of this wilaya") > commune
    assert "</div>" not in page.text[commune : page.text.index("is not a commune of this wilaya")]


def test_what_is_said_of_a_line_is_tied_to_its_field(page: Page, order: Order) -> None:
    name = f"quantity-{key(order)}"
    page.save(**{name: "x"})
    (tied,) = re.findall(rf'name="{name}"[^>]*aria-describedby="([^"]+)"', page.text)
    assert f'<p class="errornote" id="{tied}">' in page.text


@pytest.mark.parametrize("typed", ["10001", "6130760001234", "9" * 19])
def test_a_quantity_that_is_too_high_is_refused_as_such(typed: str, page: Page, order: Order) -> None:
    """As when a barcode is read into the field."""
    assert page.save(**{f"quantity-{key(order)}": typed}).status_code == 422
    assert "less than or equal to 10000" in page.text
    assert "Enter a whole number." not in page.text


def test_an_edit_is_one_entry_in_words(page: Page, browser: Client, order: Order) -> None:
    page.save(wilaya="Oran", delivery_type="desk", discount="0", **{f"quantity-{key(order)}": 1})
    for address in (page.screen.address, f"/console/orders/order/{order.id}/"):
        text = browser.get(address).content.decode()
        assert text.count("<strong>Changed</strong>") == 1
        for words in (
            "Wilaya: <del><bdi>Alger</bdi></del>",
            "<ins><bdi>Oran</bdi></ins>",
            "Delivery type: <del><bdi>Home delivery</bdi></del>",
            "Total: <del><bdi>4\u202f000 DA</bdi></del>",
            "<ins><bdi>2\u202f400 DA</bdi></ins>",
        ):
            assert words in text
    assert {"wilaya_code", "delivery_type", "total_amount"} <= edits(order).keys()


def test_the_page_costs_the_same_whatever_it_shows(alice: Account, browser: Client, agent: User) -> None:
    counts = []
    for number, lines in enumerate((1, 40)):
        products = [ProductFactory(account=alice) for _ in range(lines)]
        items = [order_line(quantity=1, product_id=product.id, attributes={"Taille": "M"}) for product in products]
        page = Page(browser, make_order(alice, phone=f"055012345{number}", items=items))
        with CaptureQueriesContext(connection) as queries:
            response = browser.get(page.address)
        counts.append(len(queries))
        assert len(response.content) < 100_000
    assert counts[0] == counts[1] <= 12
    assert OrderItem.objects.count() == 41


@pytest.mark.django_db(transaction=True)
def test_what_was_written_stays_when_the_number_is_corrected_while_it_is_saved(page: Page) -> None:
    number = editing.Edit(customer_phone="0770123456", phone_e164="+213770123456")
    with open_transaction(lambda: editing.edit(page.order.id, number, actor=Actor(Role.MERCHANT, "Shop"))):
        saved = Background(lambda: page.save(customer_address="5 rue Larbi"))
        wait_for_lock()
    assert saved.result().status_code == 422
    assert "5 rue Larbi" in page.text
