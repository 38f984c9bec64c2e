"""The desk in a real browser: what an agent presses, and what the screen then shows."""

import re

from playwright.sync_api import Page, expect

from agents.desk import claims
from codservice.accounts.models import Account, User
from orders.models import Order
from tests.factories import make_order
from tests.harness.browser import Visit

DESK = "/console/desk/"
SCREEN = re.compile(r"/console/desk/[0-9a-f-]{36}/")
SECOND = 1_000  # milliseconds in which a new screen reacts to nothing
# The words in the shown elements of a selector that are broken into lines.
BROKEN = r"""selector => [...document.querySelectorAll(selector)].flatMap((part) => {
  const broken = [], range = document.createRange();
  const texts = document.createTreeWalker(part, NodeFilter.SHOW_TEXT);
  for (let text; (text = texts.nextNode()); ) {
    for (const word of text.data.matchAll(/\S+/g)) {
      range.setStart(text, word.index);
      range.setEnd(text, word.index + word[0].length);
      if (new Set([...range.getClientRects()].map((part) => part.top)).size > 1) broken.push(word[0]);
    }
  }
  return broken;
})"""


def customers(account: Account, count: int) -> list[Order]:
    return [
        make_order(account, customer_name=f"Customer {number}", phone=f"05500000{number:02}") for number in range(count)
    ]


def call_next(page: Page) -> None:
    page.keyboard.press("0")
    page.wait_for_url(SCREEN)


def call(person: Visit) -> Page:
    """Sign Samira in on the screen of her next customer at once, without the desk that leads there."""
    claim_id = claims.next_customer(User.objects.get(username="samira"))
    return person.sign_in("samira", to=f"{DESK}{claim_id}/")


def calls(page: Page, name: str) -> None:
    """Wait for the customer's screen, with its scripts run."""
    expect(page.get_by_role("heading", level=1)).to_have_text(name)
    page.wait_for_load_state()


def told(page: Page, text: str) -> None:
    """Wait for a message, on a page whose scripts have run."""
    expect(page.locator(".messagelist")).to_contain_text(text)
    page.wait_for_load_state()


def warned(page: Page, text: str | re.Pattern[str]) -> None:
    expect(page.locator("#news")).to_contain_text(text)


def press(page: Page, name: str) -> None:
    page.locator("#outcome").get_by_role("button", name=name).click()


def open_panel(page: Page, name: str) -> None:
    page.locator("#outcome summary", has_text=name).click()


def press_of_layout(page: Page, key: str, code: str, **modifiers: bool) -> None:
    """Press a key of a non-American keyboard, by what it writes (`key`) and its position (`code`)."""
    page.evaluate(
        "said => document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { ...said, bubbles: true }))",
        {"key": key, "code": code, **modifiers},
    )


def settled(page: Page) -> None:
    """Wait until the screen takes keys. Playwright waits for buttons, but presses keys at once.

    A new screen reacts to nothing for a second, and before its script has run, which sets data-keys, to no key.
    """
    page.locator("html[data-keys]:not([data-dead])").wait_for(state="attached")
