"""An agent at work in a real browser: Debian's Chromium, driven by playwright."""

import shutil

from playwright.sync_api import expect, sync_playwright

from benchmarks.service import Service

# Chromium looks for its maker's hosts unless it is told not to.
OPTIONS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"]


def confirm_in_browser(running: Service, count: int) -> int:
    """Sign in as a new agent, open the oldest pending order, confirm it, and so on; how many were confirmed."""
    running.manage("create_agent", "samira", "--password", "correct-horse-battery")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=OPTIONS)
        page = browser.new_page()
        page.goto(f"{running.url}/console/")
        page.fill("[name=username]", "samira")
        page.fill("[name=password]", "correct-horse-battery")
        page.press("[name=password]", "Enter")
        confirmed = 0
        for _ in range(count):
            page.goto(f"{running.url}/console/orders/order/")
            page.locator("table.order-list tbody th a").first.click()
            page.get_by_role("button", name="Confirm the order").click()
            expect(page.get_by_text("The order is now “Confirmed”.")).to_be_visible()
            confirmed += 1
        browser.close()
    return confirmed
