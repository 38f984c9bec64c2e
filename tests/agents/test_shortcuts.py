"""Single-key shortcuts are turned on and off by a button, which says which of the two it does."""

import re
from html import unescape

import pytest
from django.test import Client

from agents.models import Preferences
from tests.agents.screens import DESK


def test_a_button_on_an_older_page_does_what_it_says(browser: Client) -> None:
    """It was pressed in another tab: who speaks to the computer must not get shortcuts by turning them off."""
    for button, says in ("Turn shortcuts off", "Shortcuts are off."), ("Turn shortcuts on", "Shortcuts are on."):
        page = unescape(browser.get(DESK).content.decode())
        sent = dict(re.findall(rf'<button name="(\w+)" value="(\w+)">{button}<', page))
        for _ in range(2):
            assert says in browser.post("/console/keys/", sent, follow=True).content.decode()


@pytest.mark.parametrize("sent", [{}, {"keys": ""}, {"keys": "yes"}])
def test_what_says_neither_on_nor_off_switches_nothing(sent: dict[str, str], browser: Client) -> None:
    assert browser.post("/console/keys/", sent).status_code == 400
    assert not Preferences.objects.exists()
