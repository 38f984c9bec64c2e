"""Cancel reasons are shown in the reader's language everywhere, and told to merchants' systems as they are stored."""

import pytest
from django.utils import translation

from codservice.accounts.actor import Actor
from codservice.accounts.models import Account
from orders import lifecycle
from orders.cancel_reasons import CancelReason, in_words
from orders.models import Order
from tests import factories
from tests.factories import make_order
from tests.harness.client import browser_of


@pytest.mark.parametrize(
    ("kept", "shown"),
    [
        ("Customer refused", "Le client refuse"),
        ("Customer refused: too dear: 500 DA", "Le client refuse\u202f: too dear: 500 DA"),
        ("Duplicate:of Monday's", "Doublon\u202f: of Monday's"),
        ("Duplicate:", "Doublon"),
        ("customer refused", "customer refused"),
        ("Il n'en veut plus: Duplicate", "Il n'en veut plus: Duplicate"),
        ("Other", "Other"),
        ("REFUSED", "REFUSED"),
        ("", ""),
    ],
)
def test_only_the_call_centers_own_reasons_are_translated(kept: str, shown: str) -> None:
    with translation.override("fr"):
        assert in_words(kept) == shown


@pytest.mark.django_db
def test_pages_say_it_in_the_readers_language(alice: Account) -> None:
    agent = factories.AgentFactory()
    order, other = make_order(alice), make_order(alice)
    lifecycle.cancel(order.id, actor=Actor.of_staff(agent), reason=CancelReason.REFUSED.kept_as("too dear"))
    pages = (
        (agent, f"/console/orders/order/{order.id}/", "Le client refuse\u202f: too dear"),
        (agent, f"/console/orders/order/{other.id}/", "Le client refuse\u202f: too dear"),  # another of this customer's
        (alice.holder, f"/account/orders/{order.id}", "Le client refuse\u202f: too dear"),
        (alice.holder, "/account/", "Le client refuse"),
    )
    for person, path, shown in pages:
        browser = browser_of(person)
        browser.cookies["django_language"] = "fr"
        with translation.override(None):  # the request's language stays set in the thread
            text = browser.get(path).content.decode()
        assert shown in text, path
        assert "Customer refused" not in text, path
    assert Order.objects.get(pk=order.pk).cancel_reason == "Customer refused: too dear"
