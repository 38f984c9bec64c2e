"""What agents say: a merchant's texts in two languages and a product's, with the order's words filled in."""

from decimal import Decimal

import pytest
from django.test import Client

from agents.models import CallingRules
from codservice.accounts.models import Account, User
from orders.models import MAX_LINES
from tests.agents.screens import next_order
from tests.factories import ProductFactory, make_order, order_line
from tests.harness.client import browser_of


def said(browser: Client) -> list[str]:
    screen = browser.get(next_order(browser).address)
    return [script.text for script in screen.context["customer"].pending[0].scripts]


def test_the_orders_words_are_filled_in(alice: Account, browser: Client) -> None:
    CallingRules.objects.create(
        account=alice,
        script_fr="Bonjour {nom}, ici {boutique} : {produit} pour {wilaya}, {somme} à la livraison.",
        script_ar="السلام عليكم {الاسم}، {المنتج} بـ {المبلغ}",
    )
    make_order(alice, total_amount=Decimal("4500.50"))
    french, arabic = said(browser)
    assert french == (
        "Bonjour Amine Benali, ici Alice's shop : 2 × Robe kabyle pour Alger, 4\u202f500,50 DA à la livraison."
    )
    assert arabic == "السلام عليكم \u2068Amine Benali\u2069، \u20682 × Robe kabyle\u2069 بـ 4\u202f500,50 دج"


def test_numbers_stay_with_their_names_whichever_way_the_text_is_read(alice: Account, browser: Client) -> None:
    CallingRules.objects.create(account=alice, script_fr="Bonjour {nom} : {produit}", script_ar="طلبتم {المنتج}")
    items = [
        order_line(quantity=number, product_name=name, unit_price=1) for number, name in ((2, "Burnous"), (3, "قشابية"))
    ]
    make_order(alice, customer_name="أمين", items=items)
    assert said(browser) == [
        "Bonjour \u2068أمين\u2069 : 2 × Burnous, \u20683 × قشابية\u2069",
        "طلبتم \u20682 × Burnous\u2069، 3 × قشابية",
    ]


@pytest.mark.parametrize(
    ("reader", "script", "read"),
    [
        ("ar", "Coton, {somme}", "Coton, 1,50 DA"),
        ("fr", "قطن، {المبلغ}", "قطن، 1,50 دج"),
        ("en", "Cotton, {sum}", "Cotton, 1.50 DA"),
    ],
)
def test_a_products_script_is_filled_in_its_own_language(
    reader: str, script: str, read: str, alice: Account, browser: Client
) -> None:
    robe = ProductFactory(account=alice, script=script)
    make_order(alice, items=[order_line(quantity=1, product_id=robe.id)], total_amount=Decimal("1.50"))
    browser.defaults["HTTP_ACCEPT_LANGUAGE"] = reader
    assert said(browser) == [read]


def test_a_text_that_names_the_products_over_and_over_ends(alice: Account, browser: Client) -> None:
    """With a hundred lines it came to six million letters, in each order of the customer and for each product."""
    CallingRules.objects.create(account=alice, script_fr="{produit}" * 222, script_ar="{المنتج}\n")
    make_order(alice, items=[order_line(quantity=1, product_name="p" * 255, unit_price=1) for _ in range(MAX_LINES)])
    often, once = said(browser)
    assert (len(often), often[-3:]) == (10_000, "pp…")
    assert (len(once), once[-3:]) == (2001, "p…\n")


def test_the_readers_language_comes_first(alice: Account, browser: Client) -> None:
    CallingRules.objects.create(account=alice, script_fr="Bonjour", script_ar="سلام")
    make_order(alice)
    assert said(browser) == ["Bonjour", "سلام"]
    browser.defaults["HTTP_ACCEPT_LANGUAGE"] = "ar"
    assert said(browser) == ["سلام", "Bonjour"]


def test_a_products_script_follows_with_its_name(alice: Account, browser: Client) -> None:
    robe = ProductFactory(
        account=alice, name="Robe", script="Coton. {nom} choisit la taille.", image_url="https://a.example/r.jpg"
    )
    plain = ProductFactory(account=alice, name="Sac")
    lines = [order_line(quantity=1, product_id=each.id) for each in (robe, plain, robe)]
    make_order(alice, items=lines)
    screen = next_order(browser)
    assert said(browser) == ["Coton. Amine Benali choisit la taille."]
    assert "<h3><bdi>Robe</bdi></h3>" in screen.text
    assert screen.text.count('href="https://a.example/r.jpg"') == 2


@pytest.mark.parametrize("address", ["javascript:alert(1)", "http://a.example/r.jpg", " https://a.example", ""])
def test_a_picture_is_a_link_of_the_web_or_none(address: str, alice: Account, browser: Client) -> None:
    robe = ProductFactory(account=alice, image_url=address)
    make_order(alice, items=[order_line(quantity=1, product_id=robe.id)])
    assert 'class="picture"' not in next_order(browser).text


@pytest.mark.parametrize(
    "text",
    [
        "{{ order.account.holder.email }}",
        "{% debug %}",
        "{name.__class__}",
        "%(name)s",
        "{0}",
        "{unknown}{ſhop}",
        "{",
        "{}",
    ],
)
def test_nothing_else_in_a_script_means_anything(text: str, alice: Account, browser: Client) -> None:
    CallingRules.objects.create(account=alice, script_fr=text)
    make_order(alice)
    assert said(browser) == [text]


def test_what_is_filled_in_is_no_script(alice: Account, browser: Client) -> None:
    CallingRules.objects.create(account=alice, script_fr="{Nom} {somme} { sum }")
    make_order(alice, customer_name="{somme}<b>", total_amount=5)
    assert said(browser) == ["{somme}<b> 5 DA 5 DA"]
    assert "{somme}&lt;b&gt; 5 DA" in next_order(browser).text


def test_a_merchant_without_a_script_has_none(alice: Account, browser: Client) -> None:
    make_order(alice)
    assert '<details class="script">' not in next_order(browser).text


def test_supervisors_write_it(alice: Account, supervisor: User) -> None:
    form = {"opens_at": "09:00", "closes_at": "20:00", "retry_minutes": 120, "most_attempts": 6}
    form |= {"script_fr": "Bonjour {nom}\r\n{produit}", "script_ar": " سلام "}
    client, address = browser_of(supervisor), f"/console/rules/{alice.id}/"
    page = client.get(address).content.decode()
    assert "{nom} {produit} {somme} {boutique} {wilaya}" in page
    assert "<dd>the amount to pay on delivery, with DA</dd>" in page
    assert client.post(address, form).status_code == 302
    rules = CallingRules.objects.get(account=alice)
    assert (rules.script_fr, rules.script_ar) == ("Bonjour {nom}\n{produit}", "سلام")
    assert client.post(address, form | {"script_fr": "x" * 2001}).status_code == 422
    answer = client.post(address, form | {"script_fr": "Bonjour {clients}"}, follow=True)
    assert "none of the words that are filled in: {clients}." in answer.content.decode()
