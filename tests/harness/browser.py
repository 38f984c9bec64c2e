"""Browsers for tests: Debian's Chromium through Playwright, and axe-core. A plugin that pyproject.toml loads.

Tests use `visit` (opens a browser for each person) and `axe` (checks that a page breaks none of its rules).
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit
from weakref import WeakSet

import pytest
from django.test import Client
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.harness import npm

HERE = Path(__file__).parent
PASSWORD = "correct horse"
PROBE = "/healthz?intercepted"  # answers 200 unless intercepted
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
RULES_OF_COLOURS = ["color-contrast", "link-in-text-block"]
# What breaks a rule, once the transitions are finished in which links and buttons change colours.
LOOK = """options => {
    document.getAnimations().filter(each => each instanceof CSSTransition).forEach(each => each.finish());
    return axe.run(options).then(found => found.violations);
}"""
# How many days and times on an Arabic page WebKit would write from the right, as 59:23. Chromium itself does not.
TIMES_LEFT_TO_WEBKIT = """(rules => [...document.querySelectorAll('[type=date], [type=time], [type=datetime-local]')]
    .filter(field => !rules.some(rule => rule.style?.direction === 'ltr' && field.matches(rule.selectorText))).length)
    ([...document.styleSheets].flatMap(sheet => [...sheet.cssRules]))"""
# Tokens of forms that WebKit would restore, once a script has written them, on a page that is gone back to.
TOKENS_LEFT_TO_WEBKIT = "[name=csrfmiddlewaretoken]:not([autocomplete=off])"
PATIENCE = 60_000  # milliseconds; a busy machine is not the page's fault
# Makes pages wait a quarter as long for answers.
IMPATIENT = "{ const of = AbortSignal.timeout; AbortSignal.timeout = ms => of.call(AbortSignal, ms / 4) }"
# Takes from a page's scripts what these browsers lack.
WITHOUT_HAS = """
    for (const { prototype } of [Document, Element]) for (const name of ["querySelector", "querySelectorAll"]) {
        const find = prototype[name];
        prototype[name] = function (selector) {
            if (selector.includes(":has(")) throw new DOMException(`${selector} is no valid selector`, "SyntaxError");
            return find.call(this, selector);
        };
    }"""
OLDER = {
    "Chrome 102": f"delete AbortSignal.timeout; delete Element.prototype.checkVisibility; {WITHOUT_HAS}",
    "Firefox 115": WITHOUT_HAS,
    "Safari 15": """
        delete AbortSignal.timeout;
        delete Element.prototype.checkVisibility;
        delete HTMLFormElement.prototype.requestSubmit""",
}
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
_probed = WeakSet[Page]()


def chromium_path() -> str:
    # The headless shell is the same engine, for three fifths of the processor time.
    for name in ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    pytest.fail("The browser tests need Chromium: install the package `chromium-headless-shell` (Ubuntu: `chromium`).")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with pytest.MonkeyPatch.context() as environment, sync_playwright() as playwright:
        # Playwright runs an event loop in this thread, where Django would refuse to use the database.
        environment.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=SWITCHES)
        yield browser
        browser.close()


def log_in(page: Page, username: str, password: str = PASSWORD) -> None:
    """Fill in the page's login form, whatever its language."""
    page.locator("[name=username]").fill(username)
    page.locator("[name=password]").fill(password)
    page.locator("[name=password]").press("Enter")
    page.wait_for_url(lambda url: "login" not in url)


def intercept(page: Page, address: str, handle: Callable[..., Any], **options: Any) -> None:
    """`page.route` on a loaded page, from its very next request on.

    Chromium says that it intercepts before the page's own process knows, so a key pressed at once might pass unseen.
    Once it is known, it stays so: asked again while a page is on its way, the probe may get no answer.
    """
    page.route(address, handle, **options)
    if page not in _probed:
        _probed.add(page)
        page.route(f"**{PROBE}", lambda route: route.fulfill(status=204))
        while page.evaluate("async address => (await fetch(address)).status", PROBE) != 204:
            pass


class Visit:
    """A person's browser at our address. It records in `wrongs` whatever a page must not do."""

    def __init__(self, chromium: Browser, address: str, **options: Any) -> None:
        self.address, self.wrongs = address, []
        self.leaves: bool | None = None  # the answer when a page asks whether to leave; None if none should ask
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
        """Expect the page to ask, within the block, whether to leave it; `leaves` is the answer."""
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
        # The console also reports a 4xx of the page itself, which a test may have asked for.
        if said.type == "error" and not said.text.startswith("Failed to load resource"):
            self.wrongs.append(said.text)

    def _response(self, response: Any) -> None:
        if response.status >= 400 and not response.request.is_navigation_request():
            self.wrongs.append(f"{response.status} {response.url}")

    def _request(self, request: Any) -> None:
        if urlsplit(request.url).netloc not in (urlsplit(self.address).netloc, ""):
            self.wrongs.append(f"request {request.url}")

    def look_at(self, path: str) -> Page:
        """Open the page at `path`, which must not refuse or redirect, for example to a login.

        It may answer 422, and say what is wrong with the request.
        """
        answer = self.page.goto(path)
        assert answer
        assert answer.status in (200, 422), path
        assert answer.url == f"{self.address}{path}"
        return self.page

    def log_in(self, username: str, door: str = "/console/login/") -> Page:
        """Log in through the form, as people do."""
        self.page.goto(door)
        log_in(self.page, username)
        return self.page

    def sign_in(self, username: str, door: str = "/console/login/", *, to: str = "") -> Page:
        """Log in without showing or typing into the form, which is a third of a browser's work at the beginning.

        Opens the page at `to`, or the one that people see first.
        """
        client = Client()
        assert client.post(door, {"username": username, "password": PASSWORD}).status_code == 302
        self.signed_in_as(client).goto(to or door)  # the door redirects people who are signed in
        return self.page

    def signed_in_as(self, client: Client) -> Page:
        """Take over the cookies of a test client that is signed in already."""
        cookies = [{"name": each.key, "value": each.value, "url": self.address} for each in client.cookies.values()]
        self.context.add_cookies(cookies)
        return self.page


Visits = Callable[..., Visit]


@pytest.fixture
def visit(chromium: Browser, live_server: Any) -> Iterator[Callable[..., Visit]]:
    """Opens a browser for each person. At the end none may have recorded anything wrong."""
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
    """`axe(page)` checks that the loaded page breaks none of axe-core's rules, best practices included.

    `axe(page, *SCHEMES)` does so in light and in dark. A scheme only changes colours, so after the first only the rules
    of colours are checked.
    """
    script = (npm.installed(HERE / "axe") / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")

    def check(page: Page, *schemes: Literal["light", "dark"]) -> None:
        page.wait_for_load_state()
        if not page.evaluate("'axe' in window"):
            # Through the debugger, to which the page's Content-Security-Policy does not apply.
            page.evaluate(script)
            # The pages that follow have it from the start, which costs less than handing it to each.
            page.add_init_script(script)
        for number, scheme in enumerate(schemes or (None,)):
            if scheme:
                page.emulate_media(color_scheme=scheme)
            # Only violations: describing what passes takes three quarters of the time.
            options = {"resultTypes": ["violations"], **({"runOnly": RULES_OF_COLOURS} if number else {})}
            found = page.evaluate(LOOK, options)
            broken = [
                f"{rule['id']} ({rule['help']}): {node['html'][:200]} {' '.join(node['failureSummary'].split())[:300]}"
                for rule in found
                for node in rule["nodes"]
            ]
            assert not broken, f"{page.url} {scheme or ''}\n" + "\n".join(broken)

    return check
