"""An agent at work in a real browser: Debian's Chromium, driven by Playwright."""

from playwright.sync_api import expect, sync_playwright

from benchmarks.service import Service
from tests.harness.browser import SWITCHES, chromium_path


def confirm_in_browser(running: Service, count: int) -> int:
    """Sign in as a new agent, and confirm `count` orders one after the other. Returns how many were confirmed."""
    running.python("manage.py", "create_agent", "samira", "--password", "correct-horse-battery")
    running.shell("from tests.factories import open_always; open_always()")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=SWITCHES)
        page = browser.new_page()
        page.goto(f"{running.url}/console/")
        page.fill("[name=username]", "samira")
        page.fill("[name=password]", "correct-horse-battery")
        page.press("[name=password]", "Enter")
        page.get_by_role("button", name="Next order").click()
        confirmed = 0
        for _ in range(count):
            # The new screen is recognised by its note's id: the previous order's message would already be there.
            note_id = page.locator("[name=note_id]").input_value()
            page.get_by_role("button", name="Confirm").click()
            expect(page.locator(f"[name=note_id][value='{note_id}']")).to_have_count(0)
            expect(page.locator(".messagelist .success")).to_contain_text("is confirmed.")
            confirmed += 1
        browser.close()
    return confirmed
