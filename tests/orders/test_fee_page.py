"""The page of the shipping fees: what is saved there is what the API returns."""

import re
from decimal import Decimal

from django.test import Client
from django.utils.html import escape

from codservice.accounts.models import Account
from orders import fees
from orders.models import ShippingFee
from tests.harness.client import ApiClient

PAGE = "/account/fees"


def kept(account: Account) -> dict[str, tuple[Decimal | None, Decimal | None]]:
    return {fee.wilaya: (fee.home, fee.desk) for fee in fees.of_account(account.id).data}


def test_fees_are_written_changed_and_taken_away(browser: Client, alice: Account) -> None:
    written = {"home-16": "400", "desk-16": "250,50", "home-31": "600"}
    assert browser.post(PAGE, written).url == PAGE
    assert kept(alice) == {"16": (Decimal(400), Decimal("250.50")), "31": (Decimal(600), None)}
    browser.post(PAGE, {"home-16": "450", "desk-16": "", "home-31": ""})
    assert kept(alice) == {"16": (Decimal(450), None)}
    text = browser.get(PAGE).content.decode()
    assert 'value="450"' in text
    assert text.count('scope="row"') == 69


def test_a_fee_that_was_changed_since_the_page_was_opened_is_not_set_back(
    browser: Client, api: ApiClient, alice: Account
) -> None:
    api.put("/api/v1/shipping-fees", {"fees": [{"wilaya": "16", "home": 400}]})
    shown = browser.get(PAGE).context["form"].initial
    assert str(escape(shown["seen"])) in browser.get(PAGE).content.decode()
    api.put("/api/v1/shipping-fees", {"fees": [{"wilaya": "16", "home": 500}]})
    assert browser.post(PAGE, shown | {"home-31": "600"}).status_code == 302
    assert kept(alice) == {"16": (Decimal(500), None), "31": (Decimal(600), None)}


def test_a_fee_that_somebody_else_has_changed_too_is_replaced_by_who_saves_again(
    browser: Client, api: ApiClient, alice: Account
) -> None:
    path = "/api/v1/shipping-fees"
    api.put(path, {"fees": [{"wilaya": "16", "home": 400, "desk": 300}, {"wilaya": "31", "home": 1}]})
    shown = browser.get(PAGE).context["form"].initial
    api.put(path, {"fees": [{"wilaya": "16", "home": None, "desk": 350}, {"wilaya": "31", "home": 2}]})
    mine = shown | {"home-16": "450", "desk-16": "350"}  # one changed otherwise than by the API, the other alike

    refused = browser.post(PAGE, mine)

    assert (refused.status_code, list(refused.context["form"].errors)) == (422, ["home-16"])
    assert refused.context["form"]["home-31"].value() == "2"
    assert kept(alice) == {"16": (None, Decimal(350)), "31": (Decimal(2), None)}
    assert browser.post(PAGE, mine | {"seen": refused.context["form"]["seen"].value()}).status_code == 302
    assert kept(alice) == {"16": (Decimal(450), Decimal(350)), "31": (Decimal(2), None)}


def test_a_fee_that_was_shown_in_another_language_has_not_changed(
    browser: Client, api: ApiClient, alice: Account
) -> None:
    api.put("/api/v1/shipping-fees", {"fees": [{"wilaya": "16", "home": "400.50", "desk": "300.50"}]})
    shown = browser.get(PAGE, headers={"Accept-Language": "fr"}).context["form"].initial
    assert shown["home-16"] == "400,50"
    mine = shown | {"home-16": "450", "desk-16": "300.50"}
    api.put("/api/v1/shipping-fees", {"fees": [{"wilaya": "16", "desk": 350}]})
    assert browser.post(PAGE, mine, headers={"Accept-Language": "en"}).status_code == 302
    assert kept(alice) == {"16": (Decimal(450), Decimal(350))}


def test_what_is_no_amount_is_marked_and_nothing_is_saved(browser: Client, alice: Account) -> None:
    answer = browser.post(PAGE, {"home-16": "400", "desk-31": "-<b>"})
    assert answer.status_code == 422
    text = answer.content.decode()
    assert text.count("Enter an amount such as 400 or 400.50.") == 1
    assert "-&lt;b&gt;" in text
    assert 'value="400"' in text
    assert kept(alice) == {}


def test_the_page_costs_the_same_with_no_fee_and_with_all(
    browser: Client, alice: Account, django_assert_max_num_queries
) -> None:
    ShippingFee.objects.bulk_create(
        ShippingFee(account=alice, wilaya_code=f"{code:02}", home=400, desk=300) for code in range(1, 70)
    )
    with django_assert_max_num_queries(6):
        browser.get(PAGE)
    with django_assert_max_num_queries(14):
        browser.post(PAGE, {f"home-{code:02}": "500" for code in range(1, 70)})
    assert set(kept(alice).values()) == {(Decimal(500), None)}


def test_another_account_has_its_own(browser: Client, alice: Account, charlie: Account) -> None:
    ShippingFee.objects.create(account=charlie, wilaya_code="16", home=777)
    assert not re.search(r"\b777\b", browser.get(PAGE).content.decode())  # random tokens may contain 777
    browser.post(PAGE, {"home-16": "1"})
    assert kept(charlie) == {"16": (Decimal(777), None)}
