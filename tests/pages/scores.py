"""Lighthouse's scores of the pages, signed in and with demo data: `make lighthouse`.

    python -m tests.pages.scores [PATH …]

Starts the whole service in a folder of its own, and exits with 1 if a page scores less than 1.0 in accessibility or
best practices. /console/… is opened as the demo's supervisor, all other paths as its merchant. Without any paths, the
pages of PAGES are tried.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from tests.harness import npm
from tests.harness.browser import SWITCHES, chromium_path
from tests.harness.demo import MERCHANT, SUPERVISOR, URL, Demo, demonstration

HERE = Path(__file__).parent
CATEGORIES = ("accessibility", "best-practices")
PEOPLE = {"/console/": SUPERVISOR, "/": MERCHANT}
# A path in braces stands for the link in the first row of that page.
PAGES = [
    "{/console/desk/}",  # first, because an abandoned call ends after ten minutes
    "/account/login",
    "/account/",
    "/account/quick-start",
    "/account/orders",
    "{/account/orders}",
    "/account/orders/new",
    "/account/orders/upload",
    "/account/products",
    "{/account/products}",
    "/account/products/upload",
    "/account/fees",
    "/account/calling",
    "/account/script",
    "/account/webhooks",
    "{/account/webhooks}",
    "/account/keys",
    "/account/team",
    "/account/data",
    "/account/security",
    "/account/sessions",
    "/account/codes",
    "/account/password",
    "/docs/",
    "/api/docs",
    "/docs/fr/supervisors",
    "/docs/ar/agents",
    "/console/",
    "/console/desk/",
    "/console/orders/order/",
    "{/console/orders/order/}",
    "/console/figures/",
    "/console/review/",
    "/console/claims/",
    "/console/people/",
    "{/console/people/}",
    "/console/rules/",
    "{/console/rules/}",
    "/console/moves/",
]


def sign_in(browser: Browser, demo: Demo) -> dict[str, str]:
    """Each person's cookies, as a header, by the beginning of their paths."""
    cookies = {}
    for start_of_path, username in PEOPLE.items():
        context = browser.new_context(base_url=URL)
        page = context.new_page()
        demo.sign_in(page, username)
        if start_of_path == "/":
            page.goto("/account/webhooks")
            page.locator("[name=url]").fill("http://localhost:9009/hooks")
            page.locator("[name=url]").press("Enter")
            page.locator("#secret").wait_for()
        else:
            page.goto("/console/orders/order/")  # not through the desk: at night nobody is due
            page.locator(".order-list tbody th a").first.click()
            page.locator("form[action*=take] button").click()
            page.locator("#outcome").wait_for()
        cookies[start_of_path] = "; ".join(f"{each['name']}={each['value']}" for each in context.cookies())
        context.close()
    return cookies


def resolve(path: str, cookie: str, browser: Browser) -> str:
    if not path.startswith("{"):
        return path
    context = browser.new_context(base_url=URL, extra_http_headers={"Cookie": cookie})
    page = context.new_page()
    page.goto(path.strip("{}"))
    found = page.locator("tbody th a, .people a.button").first.get_attribute("href") or ""
    context.close()
    return found


def scores_of(path: str, cookie: str, lighthouse: Path, folder: Path) -> dict[str, float]:
    headers, report = folder / "headers.json", folder / "report.json"
    # The login redirects people who are signed in.
    headers.write_text(json.dumps({} if "login" in path else {"Cookie": cookie}))
    subprocess.run(
        [npm.program("node"), str(lighthouse), URL + path, "--quiet", f"--only-categories={','.join(CATEGORIES)}",
         f"--extra-headers={headers}", "--output=json", f"--output-path={report}",
         f"--chrome-flags=--headless=new {' '.join(SWITCHES)}"],
        env=os.environ | {"CHROME_PATH": chromium_path()}, check=True, timeout=300,
    )  # fmt: skip
    result = json.loads(report.read_text())
    for name in CATEGORIES:
        for audit in result["categories"][name]["auditRefs"]:
            found = result["audits"][audit["id"]]
            if audit["weight"] and found["score"] not in (None, 1):
                print(f"  {found['id']}: {found['title']}", file=sys.stderr)
    return {name: result["categories"][name]["score"] for name in CATEGORIES}


def main(paths: list[str]) -> int:
    lighthouse = npm.installed(HERE / "lighthouse") / "node_modules" / "lighthouse" / "cli" / "index.js"
    is_bad = False
    with demonstration() as demo, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=SWITCHES)
        cookies = sign_in(browser, demo)
        for path in paths or PAGES:
            begins = next(begins for begins in PEOPLE if path.strip("{").startswith(begins))
            found = resolve(path, cookies[begins], browser)
            scores = scores_of(found, cookies[begins], lighthouse, demo.folder)
            is_bad |= min(scores.values()) < 1
            print(f"{found:70} " + "  ".join(f"{name} {score:.2f}" for name, score in scores.items()), flush=True)
        browser.close()
    return int(is_bad)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
