"""The account's pages about products, by the catalog's and the stock's own rules: nothing is overwritten unseen."""

from decimal import Decimal
from typing import Any

import pytest
from django.test import Client

from codservice.accounts.actor import Actor, Role
from codservice.accounts.models import Account, SecurityEntry
from inventory import catalog, product_pages
from inventory.models import Product, StockMovement
from tests.factories import ProductFactory
from tests.harness.background import Background, open_transaction
from tests.harness.database import wait_for_lock
from tests.inventory.stock import kinds_told

PAGE = "/account/products"
GOOD = {"name": "Robe kabyle", "price": "4 500,50", "is_active": "on", "script": "S, M, L", "image_url": ""}


@pytest.fixture
def robe(alice: Account) -> Product:
    return ProductFactory(account=alice, sku="ROB-01", name="Robe", price="4500.00", stock_quantity=3)


def seen(browser: Client, product: Product) -> str:
    """Return the state that the form says it was opened with."""
    return browser.get(f"{PAGE}/{product.id}").context["form"]["seen"].value()


def test_a_product_is_made(browser: Client, alice: Account) -> None:
    assert "Bring them all from a file" in browser.get(PAGE).content.decode()
    picture = "https://shop.example/robe été.jpg"
    answer = browser.post(f"{PAGE}/new", GOOD | {"sku": "ROB-01", "stock_quantity": "12", "image_url": picture})

    made = Product.objects.get()
    assert answer.url == f"{PAGE}/{made.id}"
    assert (made.account, made.sku, made.price, made.stock_quantity) == (alice, "ROB-01", Decimal("4500.50"), 12)
    movement = StockMovement.objects.get()
    assert (movement.new_quantity, movement.actor, movement.user) == (12, alice.holder.display_name, alice.holder)
    assert kinds_told() == {"inventory.updated": 1, "product.updated": 1}
    text = browser.get(answer.url).content.decode()
    assert 'href="https://shop.example/robe%20%C3%A9t%C3%A9.jpg"' in text
    assert "<img" not in text.partition("<main")[2]


def test_one_that_is_there_is_not_made_again(
    browser: Client, robe: Product, django_capture_on_commit_callbacks: Any
) -> None:
    with django_capture_on_commit_callbacks() as afterwards:
        answer = browser.post(f"{PAGE}/new", GOOD | {"sku": "ROB-01", "stock_quantity": "1"})
    assert answer.status_code == 422
    assert (afterwards, kinds_told()) == ([], {})
    assert "A product with this SKU already exists." in answer.content.decode()
    robe.refresh_from_db()
    assert (robe.name, robe.stock_quantity) == ("Robe", 3)


def test_who_sends_a_new_product_twice_is_led_to_the_one_that_was_made(browser: Client, alice: Account) -> None:
    """Its answer was lost, or the browser's page for that was loaded again. Some may be sold by now."""
    sent = GOOD | {"sku": "ROB-01", "stock_quantity": "12"}
    browser.post(f"{PAGE}/new", sent)
    Product.objects.update(stock_quantity=11)
    answer = browser.post(f"{PAGE}/new", sent, follow=True)
    assert answer.redirect_chain == [(f"{PAGE}/{Product.objects.get().id}", 302)]
    assert "This product already exists. Nothing was changed." in answer.content.decode()
    assert Product.objects.get().stock_quantity == 11
    assert StockMovement.objects.count() == 1


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("price", "dear", "Enter an amount such as 400"),
        ("name", "", "This field is required."),
        ("image_url", "http://shop.example/x.jpg", "begins with https://"),
        ("image_url", "javascript:alert(1)", "begins with https://"),
        ("stock_quantity", "-1", "greater than or equal to 0"),
        ("sku", "x" * 65, "at most 64 characters"),
    ],
)
def test_what_is_wrong_is_said_beside_its_field(browser: Client, field: str, value: str, says: str) -> None:
    answer = browser.post(f"{PAGE}/new", GOOD | {"sku": "A", "stock_quantity": "1", field: value})
    assert answer.status_code == 422
    assert says in answer.content.decode()
    assert not Product.objects.exists()


def test_a_record_is_changed_and_its_stock_is_not(browser: Client, robe: Product) -> None:
    browser.post(f"{PAGE}/{robe.id}", {**GOOD, "is_active": "", "seen": seen(browser, robe), "stock_quantity": "99"})
    robe.refresh_from_db()
    assert (robe.name, robe.price, robe.is_active, robe.script) == ("Robe kabyle", Decimal("4500.50"), False, "S, M, L")
    assert robe.stock_quantity == 3
    assert kinds_told() == {"product.updated": 1}


def test_what_somebody_else_has_changed_is_not_overwritten_unseen(
    browser: Client, robe: Product, django_capture_on_commit_callbacks: Any
) -> None:
    sent = GOOD | {"seen": seen(browser, robe)}
    Product.objects.filter(id=robe.id).update(price=1)
    with django_capture_on_commit_callbacks() as afterwards:
        answer = browser.post(f"{PAGE}/{robe.id}", sent)
    form = answer.context["form"]
    assert (answer.status_code, form.errors.keys()) == (422, {"price"})
    assert "This has changed since you opened the page" in answer.content.decode()
    assert (afterwards, kinds_told()) == ([], {})
    assert {GOOD[name] for name in ("name", "price", "script")} <= set(form.data.values())
    robe.refresh_from_db()
    assert (robe.name, robe.price) == ("Robe", 1)

    browser.post(f"{PAGE}/{robe.id}", sent | {"seen": form["seen"].value()})
    robe.refresh_from_db()
    assert (robe.name, robe.price) == ("Robe kabyle", Decimal("4500.50"))


def test_what_somebody_else_has_changed_stays_if_one_changes_something_else(browser: Client, robe: Product) -> None:
    sent = {**GOOD, "name": "Robe", "price": "4500", "script": "S, M", "seen": seen(browser, robe)}
    Product.objects.filter(id=robe.id).update(price=1, name="Robe d'été", is_active=False)
    assert browser.post(f"{PAGE}/{robe.id}", sent).status_code == 302
    robe.refresh_from_db()
    assert (robe.name, robe.price, robe.is_active, robe.script) == ("Robe d'été", 1, False, "S, M")


def test_a_form_refused_for_what_others_changed_shows_what_is_stored_now(browser: Client, robe: Product) -> None:
    """Its errors say it, and fields that the person left alone have it. Saving again replaces nothing else."""
    Product.objects.filter(id=robe.id).update(script="S, M")
    sent = {**GOOD, "price": "4500", "script": "S, M, L", "seen": seen(browser, robe)}
    others = {"price": 77, "name": "Robe <b>d'été</b>", "script": "x" * 500, "is_active": False}
    Product.objects.filter(id=robe.id).update(**others)
    answer = browser.post(f"{PAGE}/{robe.id}", sent)
    form, text = answer.context["form"], answer.content.decode()
    assert (answer.status_code, form.errors.keys()) == (422, {"name", "script"})
    assert "Robe &lt;b&gt;d&#x27;été&lt;/b&gt;" in text
    assert f"{'x' * 99}…" in text
    assert {name: form[name].value() for name in GOOD} == {
        "name": "Robe kabyle", "price": "77", "image_url": GOOD["image_url"], "script": "S, M, L", "is_active": False,
    }  # fmt: skip
    again = {name: form[name].value() for name in ("name", "price", "image_url", "script", "seen")}
    assert browser.post(f"{PAGE}/{robe.id}", again).status_code == 302
    robe.refresh_from_db()
    assert (robe.name, robe.price, robe.script, robe.is_active) == ("Robe kabyle", 77, "S, M, L", False)


def test_what_a_form_would_tidy_has_not_changed_by_that(browser: Client, robe: Product) -> None:
    """Such as a text of invisible characters, which the API takes."""
    Product.objects.filter(id=robe.id).update(script="\u200b")
    sent = GOOD | {"script": "\u200b", "seen": seen(browser, robe)}
    assert browser.post(f"{PAGE}/{robe.id}", sent).status_code == 302
    robe.refresh_from_db()
    assert (robe.name, robe.script) == ("Robe kabyle", "")


def test_an_amount_that_was_shown_in_another_language_has_not_changed(browser: Client, robe: Product) -> None:
    Product.objects.filter(id=robe.id).update(price=Decimal("4500.50"))
    shown = browser.get(f"{PAGE}/{robe.id}", headers={"Accept-Language": "fr"}).context["form"].initial
    assert shown["price"] == "4500,50"
    sent = GOOD | {"price": "4600.50", "seen": shown["seen"]}
    assert browser.post(f"{PAGE}/{robe.id}", sent, headers={"Accept-Language": "en"}).status_code == 302
    robe.refresh_from_db()
    assert robe.price == Decimal("4600.50")


def test_a_page_that_does_not_say_readably_what_it_showed_replaces_nothing(browser: Client, robe: Product) -> None:
    """As one from before an upgrade. Nobody knows what others have changed since."""
    sent = {**GOOD, "name": "Robe", "price": "4500", "seen": "x:y"}
    Product.objects.filter(id=robe.id).update(price=1)
    answer = browser.post(f"{PAGE}/{robe.id}", sent)
    form = answer.context["form"]
    assert (answer.status_code, form.errors.keys()) == (422, {"price", "script"})
    assert answer.content.decode().count("This page is out of date.") == 2
    robe.refresh_from_db()
    assert (robe.price, robe.script) == (1, "")

    assert browser.post(f"{PAGE}/{robe.id}", sent | {"seen": form["seen"].value()}).status_code == 302
    robe.refresh_from_db()
    assert (robe.price, robe.script) == (Decimal("4500"), "S, M, L")


@pytest.mark.django_db(transaction=True)
def test_what_somebody_else_changes_just_now_is_not_overwritten_unseen(browser: Client, robe: Product) -> None:
    sent, actor = GOOD | {"seen": seen(browser, robe)}, Actor(Role.MERCHANT, "Shop")
    other = catalog.Draft(robe.sku, name="Robe d'été")
    with open_transaction(lambda: catalog.save(robe.account_id, [other], actor=actor, sets_stock=False)):
        changing = Background(lambda: browser.post(f"{PAGE}/{robe.id}", sent).status_code)
        wait_for_lock()
    assert changing.result() == 422
    robe.refresh_from_db()
    assert robe.name == "Robe d'été"


def test_a_second_press_is_not_told_that_it_came_too_late(browser: Client, robe: Product) -> None:
    forms = {"": GOOD | {"seen": seen(browser, robe)}, "/stock": {"quantity": "40", "expected_quantity": "3"}}
    for form, data in forms.items():
        browser.post(f"{PAGE}/{robe.id}{form}", data)
        text = browser.post(f"{PAGE}/{robe.id}{form}", data, follow=True).content.decode()
        assert "is saved." in text
        assert "Check it" not in text
    assert kinds_told() == {"product.updated": 1, "inventory.updated": 1}
    assert SecurityEntry.objects.filter(action="product").count() == 2


def test_a_stock_that_changed_meanwhile_is_told(browser: Client, robe: Product, alice: Account) -> None:
    browser.post(f"{PAGE}/{robe.id}/stock", {"quantity": "40", "expected_quantity": "3"})
    answer = browser.post(f"{PAGE}/{robe.id}/stock", {"quantity": "50", "expected_quantity": "3"}, follow=True)
    robe.refresh_from_db()
    assert robe.stock_quantity == 40
    text = answer.content.decode()
    assert "so yours was not saved" in text
    assert "3 → 40" in text
    assert 'name="expected_quantity" value="40"' in text
    assert browser.post(f"{PAGE}/{robe.id}/stock", {"quantity": "many"}).status_code == 422


def test_a_stock_on_a_page_of_another_mode_is_not_set_and_says_so(browser: Client, robe: Product) -> None:
    page = browser.post(f"{PAGE}/{robe.id}/stock", {"quantity": "5", "mode": "test"}, follow=True)
    assert (page.status_code, page.request["PATH_INFO"]) == (200, f"{PAGE}/{robe.id}")
    assert "Test mode was switched on or off in another page" in page.content.decode()
    robe.refresh_from_db()
    assert robe.stock_quantity == 3


def test_the_list_is_searched_as_the_apis(browser: Client, robe: Product, alice: Account) -> None:
    ProductFactory(account=alice, sku="FOU-01", name="Foulard", is_active=False, stock_quantity=100)

    def found(**asked: str) -> list[str]:
        return [product.sku for product in browser.get(PAGE, asked).context["products"]]

    assert found() == ["FOU-01", "ROB-01"]
    assert found(q="rob") == ["ROB-01"]
    assert found(is_active="false") == ["FOU-01"]
    assert found(stock_below="50", q="") == ["ROB-01"]
    assert found(stock_below="٥٠") == found(stock_below="۵۰ ") == ["ROB-01"], "as Arabic keyboards type it"
    assert found(sku="ROB-01") == ["ROB-01"]
    assert found(updated_from="2999-01-01") == []
    assert browser.get(PAGE, {"stock_below": "few"}).status_code == 422
    for query, says in (
        ({"stock_below": "few"}, "entier de 0 à 1 000 000 000."),
        ({"q": "x" * 101}, "100 caractères"),
        ({"is_active": "maybe"}, "maybe n’en fait pas partie."),
        ({"sku": ","}, "Une référence (SKU) ne peut pas être utilisée"),
        ({"sku": "," * 500}, "Pas plus de 500 références (SKU)"),
        ({"updated_from": "soon"}, "Doit être une date"),
    ):
        text = browser.get(PAGE, query, headers={"Accept-Language": "fr"}).content.decode()
        assert says in text
        assert "Must" not in text


def test_large_stocks_are_read_in_groups_of_three(browser: Client, robe: Product) -> None:
    browser.post(f"{PAGE}/{robe.id}/stock", {"quantity": 1234567, "expected_quantity": 3})
    assert "1\u202f234\u202f567 pieces" in browser.get(PAGE).content.decode()
    assert "3 → 1\u202f234\u202f567<" in browser.get(f"{PAGE}/{robe.id}").content.decode()


def test_pages_of_products_and_movements_lead_on(
    browser: Client, alice: Account, robe: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(product_pages, "PAGE", 2)
    for number in range(4):
        ProductFactory(account=alice, sku=f"S {number}&<")
        browser.post(f"{PAGE}/{robe.id}/stock", {"quantity": number, "expected_quantity": number - 1 if number else 3})
    skus, after = [], ""
    while True:
        page = browser.get(PAGE, {"after": after}).context
        skus += [product.sku for product in page["products"]]
        if not (after := page["next"]):
            break
    assert skus == ["ROB-01", *(f"S {number}&<" for number in range(4))]
    first = browser.get(f"{PAGE}/{robe.id}").context
    rest = browser.get(f"{PAGE}/{robe.id}", {"before": first["older"]}).context
    assert [movement.new_quantity for movement in [*first["movements"], *rest["movements"]]] == [3, 2, 1, 0]


def test_anothers_product_is_nobodys(browser: Client, charlie: Account) -> None:
    other = ProductFactory(account=charlie, name="Charlie's")
    for answer in (
        browser.get(f"{PAGE}/{other.id}"),
        browser.post(f"{PAGE}/{other.id}", GOOD),
        browser.post(f"{PAGE}/{other.id}/stock", {"quantity": "1", "expected_quantity": "10"}),
    ):
        assert answer.status_code == 404
    assert b"Charlie" not in browser.get(PAGE).content
    other.refresh_from_db()
    assert other.stock_quantity == 10


def test_the_pages_cost_the_same_for_few_and_many(
    browser: Client, alice: Account, robe: Product, django_assert_max_num_queries: Any
) -> None:
    ProductFactory.create_batch(30, account=alice)
    with django_assert_max_num_queries(6):
        browser.get(PAGE)
    with django_assert_max_num_queries(6):
        browser.get(f"{PAGE}/{robe.id}")
