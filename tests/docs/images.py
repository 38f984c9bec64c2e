"""Pictures for the docs, taken of demo data in each language that a page of the docs has: `make images`."""

from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from tests.harness.browser import SWITCHES, chromium_path
from tests.harness.demo import AGENT, MERCHANT, URL, Demo, demonstration
from tests.harness.processes import CHECKOUT

IMAGES = CHECKOUT / "docs" / "images"
AGENTS = {"": "en", ".fr": "fr", ".ar": "ar-dz"}  # how the file's name ends → the language
MERCHANTS = {"": "en", ".fr": "fr"}


def main() -> None:
    with demonstration() as demo, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=SWITCHES)
        for end, language in AGENTS.items():
            page = opened(browser, demo, AGENT, language)
            page.goto("/console/desk/")
            page.wait_for_load_state("networkidle")
            page.screenshot(path=IMAGES / f"desk{end}.png")
            page.locator("form[action$='next/'] button").click()
            page.locator("#outcome").wait_for()
            page.wait_for_timeout(1500)  # for as long nothing can be pressed, and looks so
            page.screenshot(path=IMAGES / f"console{end}.png")
        for end, language in MERCHANTS.items():
            page = opened(browser, demo, MERCHANT, language)
            page.goto("/account/quick-start")
            while not page.locator("#key").count():  # a key, after going over to test mode: the other steps follow
                page.locator(".steps > :first-child form button").click()
            page.screenshot(path=IMAGES / f"quick-start{end}.png", full_page=True)
        browser.close()
    for path in sorted(IMAGES.glob("*.png")):
        print(f"{path.relative_to(Path.cwd())}: {path.stat().st_size // 1000} kB")


def opened(browser: Browser, demo: Demo, username: str, language: str) -> Page:
    """A page of somebody who is signed in and reads this language."""
    context = browser.new_context(base_url=URL, viewport={"width": 1366, "height": 768})
    context.add_cookies([{"name": "django_language", "value": language, "url": URL}])
    page = context.new_page()
    demo.sign_in(page, username)
    return page


if __name__ == "__main__":
    main()
