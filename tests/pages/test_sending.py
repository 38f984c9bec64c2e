"""A form is sent once however often it is pressed, and what is written in it stays while no answer comes."""

import re
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.db import OperationalError
from playwright.sync_api import Locator, Page, expect

from codservice.accounts.models import Account
from inventory import catalog
from inventory.models import Product
from tests import factories
from tests.chaos.doors import Doors
from tests.harness.browser import IMPATIENT, OLDER, PASSWORD, Visits, intercept

pytestmark = pytest.mark.django_db(transaction=True)


def is_post(request: Any) -> bool:
    return request.method == "POST"


def press_twice(page: Page, address: str, button: Locator) -> list[Any]:
    """Press twice while the service takes its time. Return the requests that it got."""
    held: list[Any] = []
    intercept(page, address, lambda route: held.append(route) if is_post(route.request) else route.continue_())
    button.hover()
    with page.expect_request(is_post):
        page.mouse.down()
        page.mouse.up()
    page.mouse.down()
    page.mouse.up()
    held[0].continue_()
    return held


def test_who_presses_twice_sees_what_is_shown_once(visit: Visits, alice: Account) -> None:
    page = visit().sign_in(alice.holder.email, "/account/login", to="/account/keys")
    page.locator("main [name=name]").fill("Shop")
    posts = press_twice(page, "**/account/keys", page.get_by_role("button", name="Create the key"))
    expect(page.locator("#key")).to_be_visible()
    assert (len(posts), alice.api_keys.count()) == (1, 1)


@pytest.mark.parametrize("door", ["/account/login", "/console/login/"])
def test_who_presses_twice_signs_in_once(door: str, visit: Visits) -> None:
    """The first press uses up the one-time code. A second one would hide its answer."""
    agent = factories.AgentFactory()
    page = visit().page
    page.goto(door)
    page.locator("[name=username]").fill(agent.username)
    page.locator("[name=password]").fill(PASSWORD)
    posts = press_twice(page, f"**{door}", page.locator("form:has([name=password]) :is(button, [type=submit])"))
    page.wait_for_url("**/console/desk/")
    assert len(posts) == 1


@pytest.mark.parametrize("is_back", [False, True], ids=["later", "gone back to"])
def test_a_form_that_was_stopped_may_be_pressed_again(is_back: bool, visit: Visits, alice: Account) -> None:
    page = visit().sign_in(alice.holder.email, "/account/login")
    page.clock.install()
    page.goto("/account/keys")
    page.locator("main [name=name]").fill("Shop")
    button = page.get_by_role("button", name="Create the key")
    intercept(page, "**/account/keys", lambda route: route.fulfill(status=204))  # leaves the page as it is
    with page.expect_response(lambda answer: is_post(answer.request)):
        button.click()
    page.unroute("**/account/keys")
    if is_back:  # Playwright turns off the cache that browsers show such a page from
        page.evaluate("dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))")
    else:
        page.clock.fast_forward("00:10")
    button.click()
    expect(page.locator("#key")).to_be_visible()


@pytest.mark.parametrize(("minutes", "knows"), [(0, True), (0, False), (10, True)])
def test_out_of_reach_nothing_is_sent_and_what_was_written_stays(
    minutes: int, knows: bool, visit: Visits, alice: Account
) -> None:
    """Whether the browser knows that it is offline or takes itself to be online, as while the service restarts."""
    visited = visit(viewport={"width": 360, "height": 740})
    page = visited.sign_in(alice.holder.email, "/account/login")
    page.clock.install()
    page.goto("/account/products/new")
    for name, text in {"sku": "ROBE-1", "name": "Robe", "price": "2500", "script": "Tailles 38 à 44"}.items():
        page.locator(f"main [name={name}]").fill(text)
    page.clock.fast_forward(minutes * 60_000)
    if knows:
        visited.context.set_offline(True)
    else:
        intercept(page, "**/*", lambda route: route.abort())
    save = page.locator("main button.primary")
    for _ in range(2):
        save.click()
        expect(page.get_by_role("alert")).to_contain_text("The service does not answer. What you wrote is kept")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    visited.context.set_offline(False)
    page.unroute("**/*")
    save.click()
    page.wait_for_url(lambda url: not url.endswith("/new"))
    assert Product.objects.get(account=alice).script == "Tailles 38 à 44"
    visited.wrongs.clear()  # the browser reports that it is offline


def test_a_browser_that_is_wrong_that_it_is_offline_sends_what_was_written(visit: Visits, alice: Account) -> None:
    page = visit().sign_in(alice.holder.email, "/account/login")
    page.add_init_script("Object.defineProperty(navigator, 'onLine', { get: () => false })")
    page.goto("/account/products/new")
    for name, text in {"sku": "ROBE-1", "name": "Robe", "price": "2500"}.items():
        page.locator(f"main [name={name}]").fill(text)
    page.locator("main button.primary").click()
    page.wait_for_url(lambda url: not url.endswith("/new"))
    assert Product.objects.get(account=alice).name == "Robe"


@pytest.mark.parametrize("line", ["dead", "slow"])
def test_a_form_waits_for_a_line_that_swallows_all_but_not_for_a_slow_one(
    line: str, visit: Visits, live_server: Any, alice: Account
) -> None:
    """A dead line would lead to the browser's own page, and what was written would be lost."""
    there = urlsplit(live_server.url)
    with Doors(service=(there.hostname, there.port)) as doors:
        door = doors["service"]
        page = visit(address=f"http://localhost:{door.port}").sign_in(alice.holder.email, "/account/login")
        page.clock.install()
        page.goto("/account/products/new")
        for name, text in {"sku": "ROBE-1", "name": "Robe", "price": "2500", "script": "Tailles 38 à 44"}.items():
            page.locator(f"main [name={name}]").fill(text)
        page.clock.fast_forward("10:00")
        page.evaluate(IMPATIENT)
        save = page.locator("main button.primary")
        if line == "dead":
            door.is_held = True
            save.click()
            expect(page.get_by_role("alert")).to_contain_text("The service does not answer. What you wrote is kept")
            door.open()
            save.click()
        else:
            browser = page.context.new_cdp_session(page)
            conditions = {"offline": False, "latency": 0, "uploadThroughput": -1}
            browser.send("Network.emulateNetworkConditions", {**conditions, "downloadThroughput": 1000})
            with page.expect_request(is_post):
                save.click()
            browser.send("Network.emulateNetworkConditions", {**conditions, "downloadThroughput": -1})
        page.wait_for_url(lambda url: not url.endswith("/new"))
    assert Product.objects.get(account=alice).script == "Tailles 38 à 44"


@pytest.mark.parametrize("browser", OLDER)
def test_an_old_page_is_sent_by_an_older_browser_too(browser: str, visit: Visits, alice: Account) -> None:
    page = visit().sign_in(alice.holder.email, "/account/login")
    page.add_init_script(OLDER[browser])
    page.goto("/account/products/new")
    for name, text in {"sku": "ROBE-1", "name": "Robe", "price": "2500"}.items():
        page.locator(f"main [name={name}]").fill(text)
    page.evaluate("dispatchEvent(new StorageEvent('storage', { key: 'pages' }))")
    page.locator("main button.primary").click()
    page.wait_for_url(lambda url: not url.endswith("/new"))
    assert Product.objects.get(account=alice).name == "Robe"


def test_what_was_not_saved_is_sent_again_by_loading_its_page(
    visit: Visits, alice: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page says so. Going back would open an empty form, since no browser stores our pages."""

    def away(*_args: Any, **_kwargs: Any) -> None:
        raise OperationalError("the database system is shutting down")

    page = visit().sign_in(alice.holder.email, "/account/login", to="/account/products/new")
    for name, text in {"sku": "ROBE-1", "name": "Robe", "price": "2500", "script": "Tailles 38 à 44"}.items():
        page.locator(f"main [name={name}]").fill(text)
    with monkeypatch.context() as patched:
        patched.setattr(catalog, "make", away)
        page.locator("main button.primary").click()
        expect(page.locator("main")).to_contain_text("Reload this page to send it again")
    page.reload()
    page.wait_for_url(lambda url: not url.endswith("/new"))
    assert Product.objects.get(account=alice).script == "Tailles 38 à 44"


@pytest.mark.parametrize("status", [429, 503])
def test_a_service_that_could_save_nothing_is_sent_nothing(status: int, visit: Visits, alice: Account) -> None:
    visited = visit()
    page = visited.sign_in(alice.holder.email, "/account/login")
    page.clock.install()
    page.goto("/account/products/new")
    page.locator("main [name=script]").fill("Tailles 38 à 44")
    page.clock.fast_forward("10:00")
    intercept(page, "**/account/products/new", lambda route: route.fulfill(status=status))
    page.locator("main button.primary").click()
    expect(page.get_by_role("alert")).to_contain_text("The service does not answer. What you wrote is kept")
    expect(page.locator("main [name=script]")).to_have_value("Tailles 38 à 44")
    visited.wrongs.clear()  # the answer counts as one


def test_a_supervisor_is_told_once_that_the_service_does_not_answer(visit: Visits, alice: Account) -> None:
    """Whatever is pressed, and only until the service answers again."""
    visited = visit()
    page = visited.sign_in(factories.AgentFactory(role="Supervisors").username)
    page.clock.install()
    page.goto(f"/console/rules/{alice.id}/")
    page.locator("[name=script_fr]").fill("Bonjour {nom}")
    page.clock.fast_forward("10:00")
    intercept(page, "**/*", lambda route: route.abort())
    said = page.get_by_text("The service does not answer.")
    page.get_by_role("button", name="Save the rules").click()
    expect(said).to_have_count(1)
    page.locator("details.person summary").click()
    page.get_by_role("button", name="Turn shortcuts off").click()
    expect(page.locator(".away")).to_have_text(re.compile("The service does not answer."))
    expect(said).to_have_count(1)
    page.unroute("**/*")
    page.clock.fast_forward("00:03")
    expect(said).to_have_count(0)
    page.get_by_role("button", name="Save the rules").click()
    page.wait_for_url("**/console/rules/")
    visited.wrongs.clear()  # the browser reports that it was offline
