"""Takes the pictures for the docs, with demo data and in each language of the pages: `make images`."""

from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from tests.harness.browser import SWITCHES, chromium_path
from tests.harness.demo import AGENT, MERCHANT, URL, Demo, demonstration
from tests.harness.processes import CHECKOUT

IMAGES = CHECKOUT / "docs" / "images"
AGENTS = {"": "en", ".fr": "fr", ".ar": "ar-dz"}  # end of the file's name → language
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
            page.wait_for_timeout(1500)  # until the buttons are, and look, enabled
            page.screenshot(path=IMAGES / f"console{end}.png")
        for end, language in MERCHANTS.items():
            page = opened(browser, demo, MERCHANT, language)
            page.goto("/account/quick-start")
            while not page.locator("#key").count():  # switch to test mode, then make a key: the other steps follow
                page.locator(".steps > :first-child form button").click()
            page.screenshot(path=IMAGES / f"quick-start{end}.png", full_page=True)
        browser.close()
    for path in sorted(IMAGES.glob("*.png")):
        print(f"{path.relative_to(Path.cwd())}: {path.stat().st_size // 1000} kB")


def opened(browser: Browser, demo: Demo, username: str, language: str) -> Page:
    """A page of a browser in this language, signed in as `username`."""
    context = browser.new_context(base_url=URL, viewport={"width": 1366, "height": 768})
    context.add_cookies([{"name": "django_language", "value": language, "url": URL}])
    page = context.new_page()
    demo.sign_in(page, username)
    return page


if __name__ == "__main__":
    main()
