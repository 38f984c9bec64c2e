"""Lighthouse's scores of the pages, signed in, over demo data: `make lighthouse`.

    python -m tests.pages.scores [PATH …]

Starts the whole service in a folder of its own, and exits with 1 when a page scores less than 1.0 in accessibility or
best practices. Paths are opened as their person: /console/… as the demo's supervisor, all others as its merchant.
Without any, the pages of PAGES are tried.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from tests.harness import npm
from tests.harness.browser import SWITCHES, chromium_path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PORT = 8790
URL = f"http://localhost:{PORT}"
CATEGORIES = ("accessibility", "best-practices")
PEOPLE = {"/console/": ("/console/login/", "nadia1"), "/": ("/account/login", "demo1@example.dz")}
# A path in braces is that of the first row's link on the page before the braces.
PAGES = [
    "/account/login",
    "/account/quick-start",
    "/account/orders",
    "{/account/orders}",
    "/account/webhooks",
    "{/account/webhooks}",
    "/account/keys",
    "/account/password",
    "/console/",
    "/console/desk/",
    "{/console/desk/}",
    "/console/orders/order/",
    "{/console/orders/order/}",
]


def start(folder: str) -> subprocess.Popen[bytes]:
    """The service, once it is ready."""
    environment = os.environ | {
        "DATA_DIR": f"{folder}/data", "DEMO": "1", "PORT": str(PORT), "WEBHOOK_ALLOW_PRIVATE": "true"}  # fmt: skip
    with Path(folder, "log").open("wb") as log:
        command = [sys.executable, "-m", "codservice.onebox"]
        service = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)
    for _ in range(240):
        try:
            with urllib.request.urlopen(f"{URL}/readyz", timeout=5):
                return service
        except OSError:
            if service.poll() is not None:
                break
            time.sleep(0.5)
    stop(service)
    sys.exit(f"The service did not start:\n{Path(folder, 'log').read_text(errors='replace')}")


def stop(service: subprocess.Popen[bytes]) -> None:
    service.terminate()
    try:
        service.wait(30)
    except subprocess.TimeoutExpired:
        service.kill()


def sign_in(browser: Browser) -> dict[str, str]:
    """The cookies of each person, as a header, by the beginning of the paths that are theirs."""
    cookies = {}
    for start_of_path, (door, username) in PEOPLE.items():
        context = browser.new_context(base_url=URL)
        page = context.new_page()
        page.goto(door)
        page.locator("[name=username]").fill(username)
        page.locator("[name=password]").fill("demo")
        page.locator("[name=password]").press("Enter")
        page.wait_for_url(lambda url: "login" not in url)
        if start_of_path == "/":
            page.goto("/account/webhooks")
            page.locator("[name=url]").fill("http://localhost:9009/hooks")
            page.locator("[name=url]").press("Enter")
            page.locator("#secret").wait_for()
        else:
            page.goto("/console/desk/")
            page.locator("[data-key='0']").click()
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


def scores_of(path: str, cookie: str, lighthouse: Path, folder: str) -> dict[str, float]:
    headers, report = Path(folder, "headers.json"), Path(folder, "report.json")
    # Whoever is signed in is led away from the login.
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
    folder = tempfile.mkdtemp(prefix="codservice-lighthouse-")
    service = start(folder)
    is_bad = False
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium_path(), args=SWITCHES)
            cookies = sign_in(browser)
            for path in paths or PAGES:
                begins = next(begins for begins in PEOPLE if path.strip("{").startswith(begins))
                found = resolve(path, cookies[begins], browser)
                scores = scores_of(found, cookies[begins], lighthouse, folder)
                is_bad |= min(scores.values()) < 1
                print(f"{found:70} " + "  ".join(f"{name} {score:.2f}" for name, score in scores.items()), flush=True)
            browser.close()
    finally:
        stop(service)
        shutil.rmtree(folder, ignore_errors=True)
    return int(is_bad)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
