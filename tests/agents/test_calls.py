"""The desk and the call screen: what stands on them, what its buttons write, and what they refuse."""

from collections.abc import Callable
from typing import Any

from django.contrib.messages import get_messages
from django.test import Client

from codservice.accounts.models import Account, User
from orders.models import Order
from tests.factories import make_order

DESK = "/console/desk/"


def called(browser: Client) -> str:
    """Press Next order; the address of the call screen."""
    response = browser.post(f"{DESK}next/")
    assert response.status_code == 302
    return response.url


def form_of(browser: Client, page: str, order: Order | None = None, **data: Any) -> dict[str, Any]:
    """What the page's form sends."""
    context = browser.get(page).context
    pending = [entry.order for entry in context["customer"].pending]
    return {
        "seen": [f"{one.id}:{one.version}" for one in pending],
        "order": str((order or pending[0]).id),
        "note_id": str(context["form"].initial["note_id"]),
        "note": "",
        **data,
    }


def said(response: Any) -> str:
    return " ".join(str(message) for message in get_messages(response.wsgi_request))


def send(browser: Client, page: str, **data: Any) -> Any:
    return browser.post(f"{page}outcome/", form_of(browser, page, **data))


def test_smoke(alice: Account, agent: User, browser_of: Callable[..., Client]) -> None:
    order = make_order(alice)
    browser = browser_of(agent)
    assert browser.get(DESK).status_code == 200
    page = called(browser)
    assert browser.get(page).status_code == 200
    response = send(browser, page, outcome="confirm", note="ok")
    assert response.status_code == 302, response.context["form"].errors
    assert response.url == DESK
    order.refresh_from_db()
    assert order.status == "confirmed"
    assert browser.get(DESK).status_code == 200
    assert browser.get(page).status_code == 200
