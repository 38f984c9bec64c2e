"""The desk and the call screen as a browser without JavaScript uses them."""

from typing import Any
from uuid import UUID

from django.contrib.messages import get_messages
from django.http import HttpResponse
from django.test import Client

from orders.models import Order

DESK = "/console/desk/"


def order_page(order: Order, action: str = "") -> str:
    return f"/console/orders/order/{order.id}/{action and action + '/'}"


def told(response: HttpResponse) -> str:
    """What a redirect's messages, or a refused form's banners, say to the agent."""
    if response.status_code == 302:
        return " ".join(str(message) for message in get_messages(response.wsgi_request))
    return " ".join(response.context.get("refused") or response.context.get("says") or ())


class Screen:
    """A call screen that an agent has open: its form stays as it was when it was read."""

    def __init__(self, browser: Client, address: str) -> None:
        self.browser, self.address = browser, address
        response = browser.get(address)
        assert response.status_code == 200, response.status_code
        self.text = response.content.decode()
        self.pending = [entry.order for entry in response.context["customer"].pending]
        self.form: dict[str, Any] = {
            "seen": [f"{order.id}:{order.version}" for order in self.pending],
            "order": str(self.pending[0].id),
            "note_id": str(response.context["form"].initial["note_id"]),
            "note": "",
        }

    @property
    def claim_id(self) -> UUID:
        return UUID(self.address.split("/")[3])

    def press(self, outcome: str, **data: Any) -> HttpResponse:
        if outcome == "cancel":
            data = {"why": "Customer refused", **data}
        return self.browser.post(f"{self.address}outcome/", {**self.form, "outcome": outcome, **data})

    def state(self) -> dict[str, Any]:
        return self.browser.get(f"{self.address}state/", {"seen": self.form["seen"]}).json()


def next_order(browser: Client) -> Screen:
    response = browser.post(f"{DESK}next/")
    assert response.url != DESK, "nobody was due"
    return Screen(browser, response.url)


def take(browser: Client, order: Order) -> Screen:
    """Call the customer of an order from the order's page."""
    response = browser.post(f"{DESK}take/{order.id}/")
    assert response.url.startswith(DESK), told(response)
    return Screen(browser, response.url)
