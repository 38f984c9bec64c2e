"""A new outcome of a call must be handled wherever agents, merchants and their developers meet it."""

import re

import pytest
from django.test import Client

from agents.test_mode import simulation
from codservice.accounts.models import Account
from orders.models import CallNote
from tests.agents.screens import next_order
from tests.factories import make_order
from tests.harness.processes import CHECKOUT


def test_each_that_decides_nothing_has_a_button(alice: Account, browser: Client) -> None:
    make_order(alice)
    text = browser.get(next_order(browser).address).content.decode()

    assert {*simulation.OUTCOMES} <= {*re.findall(r'<button [^>]*name="outcome" value="(\w+)"', text)}


@pytest.mark.parametrize("folder", ["docs", "docs/fr"])
@pytest.mark.parametrize(
    ("page", "outcomes"),
    [("orders.md", CallNote.Outcome), ("webhooks.md", simulation.OUTCOMES), ("test-mode.md", simulation.OUTCOMES)],
)
def test_each_stands_in_the_pages(folder: str, page: str, outcomes: list[CallNote.Outcome]) -> None:
    text = (CHECKOUT / folder / page).read_text()

    assert [outcome.value for outcome in outcomes if f"`{outcome.value}`" not in text] == []
