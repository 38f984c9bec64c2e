"""The desk and the call screen as a browser without JavaScript uses them."""

import re
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.contrib.messages import get_messages
from django.http import HttpResponse
from django.test import Client

from agents.desk import shown
from orders.models import Order

DESK = "/console/desk/"


def order_page(order: Order, action: str = "") -> str:
    return f"/console/orders/order/{order.id}/{action and action + '/'}"


def told(response: HttpResponse) -> str:
    """The messages of a redirect, without tags, or the banners of a refused form."""
    if response.status_code == 302:
        said = " ".join(str(message) for message in get_messages(response.wsgi_request))
        return re.sub(r"<[^>]*>", "", said)
    return " ".join(response.context.get("refused") or response.context.get("says") or ())


def sums(text: str) -> list[str]:
    """What each order on a page adds to the amounts of its lines, and its total."""
    found = re.findall(r'(?s)<dl class="sums">(.*?)</dl>', text)
    return [" ".join(re.sub(r"<[^>]*>", " ", each).split()) for each in found]


class Screen:
    """A call screen that an agent has open. Its form stays as it was when it was read.

    Buttons are pressed as if the screen had been shown `age` earlier, with a seal of that time, so that no test waits.
    """

    def __init__(self, browser: Client, address: str) -> None:
        self.browser, self.address = browser, address.partition("?")[0]
        response = browser.get(address)
        assert response.status_code == 200, response.status_code
        self.read(response)

    def read(self, response: HttpResponse) -> None:
        """Read the screen, or the one that a refused form returns."""
        self.text = response.content.decode()
        self.pending = [entry.order for entry in response.context["customer"].pending]
        self.shown_at = datetime.fromisoformat(response.context["shown_at"])
        self.form: dict[str, Any] = {
            "seen": [f"{order.id}:{order.version}" for order in self.pending],
            "order": str(self.pending[0].id),
            "note_id": str(response.context["form"]["note_id"].value()),
            "note": "",
        }

    @property
    def claim_id(self) -> UUID:
        return UUID(self.address.split("/")[3])

    def filled(self, outcome: str, *, age: timedelta = shown.SETTLED, **data: Any) -> dict[str, Any]:
        """The form that the browser sends when the outcome's button is pressed."""
        if outcome == "cancel":
            outcome = f"cancel:{data.pop('why', 'Customer refused')}"
        form = {"shown_at": (self.shown_at - age).isoformat(), **self.form, "outcome": outcome, **data}
        form.setdefault("asked", form["order"])  # confirming that the order is not a duplicate
        form.setdefault("seal", shown.seal(self.claim_id, form["shown_at"], form["seen"]))
        return form

    def press(self, outcome: str, **data: Any) -> HttpResponse:
        return self.browser.post(f"{self.address}outcome/", self.filled(outcome, **data))

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
