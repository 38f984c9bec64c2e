"""People's browsers for tests: Debian's Chromium by Playwright, and axe-core. pyproject.toml loads it for every test.

A test asks for `visit` (a browser of its own for each person) and for `axe` (no page may break a rule of it).
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import pytest
from django.test import Client
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.harness import npm

HERE = Path(__file__).parent
PASSWORD = "correct horse"
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
RULES_OF_COLOURS = ["color-contrast", "link-in-text-block"]
# Links and buttons take their new colours slowly.
ARRIVE = "document.getAnimations().filter(each => each instanceof CSSTransition).forEach(each => each.finish())"
PATIENCE = 60_000  # milliseconds; a busy machine is no fault of the page
# Pages wait a quarter as long for answers.
IMPATIENT = "{ const of = AbortSignal.timeout; AbortSignal.timeout = ms => of.call(AbortSignal, ms / 4) }"
SWITCHES = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
expect.set_options(timeout=PATIENCE)


def chromium_path() -> str:
    # The shell is Chromium without windows: the same engine for three fifths of the processor time.
    for name in ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    pytest.fail("The browser tests need Chromium: install the package `chromium-headless-shell` (Ubuntu: `chromium`).")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with pytest.MonkeyPatch.context() as environment, sync_playwright() as playwright:
        # Playwright runs an event loop in this thread, in which Django would refuse to touch the database.
        environment.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=SWITCHES)
        yield browser
        browser.close()


def log_in(page: Page, username: str, password: str = PASSWORD) -> None:
    """Through the form that the page is, whatever its language."""
    page.locator("[name=username]").fill(username)
    page.locator("[name=password]").fill(password)
    page.locator("[name=password]").press("Enter")
    page.wait_for_url(lambda url: "login" not in url)


class Visit:
    """A person's browser at our address. It remembers all that a page must not do."""

    def __init__(self, chromium: Browser, address: str, **options: Any) -> None:
        self.address, self.wrongs = address, []
        self.leaves: bool | None = None  # what is answered to who asks whether to leave; None: nobody should ask
        self.context = chromium.new_context(base_url=address, **options)
        self.context.set_default_timeout(PATIENCE)
        self.page: Page = self.context.new_page()
        self.page.on("dialog", self._dialog)
        self.page.on("console", self._console)
        self.page.on("response", self._response)
        self.page.on("pageerror", lambda error: self.wrongs.append(str(error)))
        self.page.on("request", self._request)
        self.page.expose_function("violated", lambda what: self.wrongs.append(what))
        self.page.add_init_script("addEventListener('securitypolicyviolation', e => violated(e.violatedDirective))")

    @contextmanager
    def asked(self, *, leaves: bool = False) -> Iterator[None]:
        """What is done in this block makes the page ask whether to leave it, and this is the answer."""
        self.leaves = leaves
        with self.page.expect_event("dialog", lambda dialog: dialog.type == "beforeunload"):
            yield
        self.leaves = None

    def _dialog(self, dialog: Any) -> None:
        if dialog.type != "beforeunload" or self.leaves is None:
            self.wrongs.append(f"dialog {dialog.type} {dialog.message}")
        if self.leaves:
            dialog.accept()
        else:
            dialog.dismiss()

    def _console(self, said: Any) -> None:
        # That an address answered 4xx is told there of pages too, which may be what the test asks for.
        if said.type == "error" and not said.text.startswith("Failed to load resource"):
            self.wrongs.append(said.text)

    def _response(self, response: Any) -> None:
        if response.status >= 400 and not response.request.is_navigation_request():
            self.wrongs.append(f"{response.status} {response.url}")

    def _request(self, request: Any) -> None:
        if urlsplit(request.url).netloc not in (urlsplit(self.address).netloc, ""):
            self.wrongs.append(f"request {request.url}")

    def look_at(self, path: str) -> Page:
        """The page there: neither one that refuses nor another to which it leads, such as a login. It may say what is
        wrong with what was asked.
        """
        answer = self.page.goto(path)
        assert answer
        assert answer.status in (200, 422), path
        assert answer.url == f"{self.address}{path}"
        return self.page

    def log_in(self, username: str, door: str = "/console/login/") -> Page:
        """As people do it."""
        self.page.goto(door)
        log_in(self.page, username)
        return self.page

    def sign_in(self, username: str, door: str = "/console/login/") -> Page:
        """The same, but that the browser neither shows the form nor types: a third of its work at the beginning."""
        client = Client()
        assert client.post(door, {"username": username, "password": PASSWORD}).status_code == 302
        self.signed_in_as(client).goto(door)  # which leads on who is signed in
        return self.page

    def signed_in_as(self, client: Client) -> Page:
        """With the cookies of a test client that is signed in already."""
        cookies = [{"name": each.key, "value": each.value, "url": self.address} for each in client.cookies.values()]
        self.context.add_cookies(cookies)
        return self.page


Visits = Callable[..., Visit]


@pytest.fixture
def visit(chromium: Browser, live_server: Any) -> Iterator[Callable[..., Visit]]:
    """Opens a browser of its own for each person; none of them may have met anything wrong in the end."""
    visits: list[Visit] = []

    def open_visit(address: str = live_server.url, **options: Any) -> Visit:
        visits.append(Visit(chromium, address, **options))
        return visits[-1]

    yield open_visit
    wrongs = [wrong for visit in visits for wrong in visit.wrongs]
    for visit in visits:
        visit.context.close()
    assert wrongs == []


@pytest.fixture(scope="session")
def axe() -> Callable[..., None]:
    """`axe(page)`: the page, once it is all there, breaks none of axe-core's rules, best practices included.

    `axe(page, *SCHEMES)`: neither in light nor in dark. A scheme changes nothing but colours, so that after the first
    only the rules of colours are asked.
    """
    script = (npm.installed(HERE / "axe") / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")

    def check(page: Page, *schemes: Literal["light", "dark"]) -> None:
        page.wait_for_load_state()
        if not page.evaluate("'axe' in window"):
            # By the browser's debugger, which the page's Content-Security-Policy does not concern.
            page.evaluate(script)
        for number, scheme in enumerate(schemes or (None,)):
            if scheme:
                page.emulate_media(color_scheme=scheme)
            page.evaluate(ARRIVE)
            # What passes is not asked for: describing it takes three quarters of the time.
            options = {"resultTypes": ["violations"], **({"runOnly": RULES_OF_COLOURS} if number else {})}
            found = page.evaluate("options => axe.run(options).then(found => found.violations)", options)
            broken = [
                f"{rule['id']} ({rule['help']}): {node['html'][:200]} {' '.join(node['failureSummary'].split())[:300]}"
                for rule in found
                for node in rule["nodes"]
            ]
            assert not broken, f"{page.url} {scheme or ''}\n" + "\n".join(broken)

    return check
