"""Every account page as people meet it: no rule of axe-core broken, nothing of a stranger's run, fit for a phone."""

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from playwright.sync_api import expect

from codservice.accounts import security_log, team
from codservice.accounts.actor import Actor
from codservice.accounts.models import Account, ApiKey, Membership, User
from codservice.accounts.security_log import Action
from orders import lifecycle
from tests import factories
from tests.harness.browser import SCHEMES, TIMES_LEFT_TO_WEBKIT, Visit
from tests.harness.client import browser_of
from tests.harness.deliveries import write_delivery
from tests.harness.world import PAYLOADS, order_of
from webhooks import registry
from webhooks.models import Attempt, Event, Webhook

pytestmark = pytest.mark.django_db(transaction=True)
MOST_BYTES = 100_000  # for a page with its styles and scripts

ANONYMOUS = [
    "/account/login",
    "/account/password/forgotten",
    "/account/password/sent",
    "/account/password/new/x/y",
    "/account/invitation/x",
    "/no",
]


def webhook_of(account: Account, url: str = "https://203.0.114.1/hooks") -> Webhook:
    return registry.register(account.id, url=url, events=Event.Kind.values)[0]


@pytest.fixture
def paths(alice: Account) -> list[str]:
    """Every page of Alice's account, with something on it."""
    webhook = webhook_of(alice)
    agent = factories.AgentFactory(first_name="Samira")
    order = order_of(alice, agent, "سميرة Aït Ahmed")
    pending = factories.make_order(alice)
    product = factories.ProductFactory(account=alice, image_url="https://shop.example/robe.jpg")
    ApiKey.issue(alice, name="Shop")[0].revoke()
    ApiKey.issue(alice, name="WooCommerce")
    failed = write_delivery(webhook, "failed", attempts=4)
    waiting = write_delivery(webhook, attempts=1)
    key = ApiKey.objects.get(revoked_at=None)
    member = Membership.objects.create(account=alice, user=factories.UserFactory(first_name="نادية"), role="manager")
    team.invite(alice.id, email="karim@example.com", role="reader")
    home = f"/account/webhooks/{webhook.id}"
    return [
        "/account/",
        "/account/?by=product",
        "/account/quick-start",
        "/account/orders",
        "/account/orders?q=nobody&status=confirmed",
        "/account/orders?phone=12",
        "/account/orders/new",
        "/account/orders/upload",
        f"/account/orders/{pending.id}/correct",
        "/account/calling",
        "/account/script",
        "/account/products",
        "/account/products/new",
        "/account/products/upload",
        f"/account/products/{product.id}",
        "/account/fees",
        f"/account/data?phone={order.phone_e164[1:]}",
        f"/account/orders/{order.id}",
        f"/account/orders/{pending.id}",
        f"/account/orders/{pending.id}/cancel",
        "/account/webhooks",
        home,
        f"{home}?status=failed&created_from=2020-01-01",
        f"{home}/rotate",
        f"{home}/delete",
        f"{home}/resend",
        f"/account/webhooks/deliveries/{failed.id}",
        f"/account/webhooks/deliveries/{waiting.id}",
        "/account/keys",
        "/account/security",
        "/account/team",
        f"/account/team/{member.id}",
        f"/account/team/{member.id}/remove",
        "/account/sessions",
        "/account/codes",
        f"/account/keys/{key.id}/revoke",
        "/account/password",
    ]


@pytest.mark.parametrize(("locale", "direction"), [("en", "ltr"), ("ar", "rtl")])
def test_no_page_breaks_a_rule(
    locale: str, direction: str, visit: Callable[..., Visit], axe: Callable[..., None],
    alice: Account, paths: list[str],
) -> None:  # fmt: skip
    person = visit(locale=locale, viewport={"width": 1366, "height": 768})
    for path in ANONYMOUS:
        person.page.goto(path)
        assert person.page.evaluate("document.documentElement.dir") == direction
        axe(person.page, *SCHEMES)
    person.log_in(alice.holder.email, "/account/login")
    for path in paths:
        page = person.look_at(path)
        assert page.evaluate("document.documentElement.dir") == direction
        assert page.evaluate(TIMES_LEFT_TO_WEBKIT) == 0, path
        axe(page, *SCHEMES)
    for path, submit in (
        ("/account/keys", "form[action$=keys] button"),
        (next(path for path in paths if path.endswith("/rotate")), "button.dangerous"),
        ("/account/quick-start", "form[action*=quick-start] button"),  # from here on in test mode
    ):
        page.goto(path)
        if page.locator("[name=name]").count():
            page.locator("[name=name]").fill("New")
        page.locator(submit).click()
        page.locator(".new-key code").wait_for()
        axe(page, *SCHEMES)
    for path in ("/account/orders", "/account/webhooks", "/account/keys"):
        page.goto(path)
        assert page.locator("html[data-mode=test]").count() == 1
        axe(page, *SCHEMES)
    page.locator(".menu summary").click()
    axe(page, *SCHEMES)


@pytest.mark.parametrize("locale", ["fr", "ar-DZ"])
def test_no_page_is_wider_than_a_phone(
    locale: str, visit: Callable[..., Visit], alice: Account, paths: list[str]
) -> None:
    Webhook.objects.update(is_failing=True)
    person = visit(locale=locale, viewport={"width": 320, "height": 700})
    person.log_in(alice.holder.email, "/account/login")
    wide = []
    for path in paths:
        person.page.goto(path)
        if person.page.evaluate("document.documentElement.scrollWidth") > 320:
            wide.append(path)
    assert wide == []


def test_numbers_are_written_in_one_direction(visit: Callable[..., Visit], alice: Account, paths: list[str]) -> None:
    """An amount used to stand at one end of its field, and the quantity beside it at the other."""
    person = visit(locale="ar")
    person.log_in(alice.holder.email, "/account/login")
    for path in ("/account/orders/new", "/account/calling", *(path for path in paths if "/products/" in path)):
        page = person.look_at(path)
        for field in page.locator("[type=number], [inputmode=decimal]").all():
            assert field.evaluate("e => getComputedStyle(e).direction") == "ltr"


def test_a_closed_account_offers_nothing_that_would_be_refused(alice: Account, paths: list[str]) -> None:
    """Its people look at it, take its data out, and manage what is their own."""
    asked = ("/new", "/upload", "/correct", "/cancel", "/rotate", "/delete", "/resend", "/remove", "/revoke")
    looked_at = [path for path in paths if not path.endswith(asked)]
    browser = browser_of(alice.holder)
    own = {"/account/password", "/account/codes", "/account/mode", "/account/data/export", "/account/data/customer"}

    def offered() -> tuple[set[str], set[str]]:
        buttons, links = set(), set()
        for path in looked_at:
            page = browser.get(path).content.decode()
            main = page[page.index("<main") :]
            for form in re.findall(r'<form[^>]*method="post".*?</form>', main, re.DOTALL):
                action = re.search(r'^<form[^>]*action="([^"]*)"', form)
                buttons |= {action[1] if action else path} if "<button" in form else set()
            links |= set(re.findall(r'href="([^"?#]*)', main))
        return (
            {button for button in buttons - own if not button.startswith("/account/sessions")},
            {link for link in links if link.endswith((*asked, "/change", "/recover", "/erase"))},
        )

    buttons, links = offered()
    assert len(buttons) > 9
    assert len(links) > 9
    Account.objects.update(is_active=False)
    assert offered() == (set(), set())


def test_pages_are_small_and_ask_nobody_else(visit: Callable[..., Visit], alice: Account, paths: list[str]) -> None:
    for _ in range(30):
        factories.make_order(alice)
    webhook = Webhook.objects.get()
    for _ in range(30):
        write_delivery(webhook, "failed", attempts=4)
    bodies = """() => Object.fromEntries(performance.getEntries().filter(e => e.decodedBodySize)
        .map(e => [new URL(e.name).pathname, e.decodedBodySize]))"""
    person = visit()
    page = person.sign_in(alice.holder.email, "/account/login")
    for path in [*paths, "/account/password/forgotten"]:
        page.goto(path, wait_until="networkidle")
        sizes = page.evaluate(bodies)
        assert sizes[path.partition("?")[0]] > 1000
        assert sum(sizes.values()) < MOST_BYTES, (path, sizes)


def test_no_text_of_a_stranger_ever_runs(visit: Callable[..., Visit], alice: Account) -> None:
    """Stored scripts in every text that a page shows: `visit` must find no dialog, violation or request."""
    shown: dict[str, int] = {"/account/keys": len(PAYLOADS), "/account/orders": 0}
    webhook = webhook_of(alice)
    for number, payload in enumerate(PAYLOADS):
        agent = factories.AgentFactory(username=f"agent-{number}", first_name=payload)
        order = order_of(alice, agent, payload)
        ApiKey.issue(alice, name=payload)
        row = write_delivery(webhook, "failed", attempts=1, body=payload)
        Attempt.objects.filter(delivery=row).update(response=payload.encode())
        shown[f"/account/orders/{order.id}"] = 12
        shown[f"/account/webhooks/deliveries/{row.id}"] = 2
    Webhook.objects.update(url="https://shop.example/" + "".join(PAYLOADS))
    Account.objects.filter(id=alice.id).update(name="".join(PAYLOADS))
    User.objects.filter(id=alice.holder_id).update(first_name=PAYLOADS[0], last_name=PAYLOADS[1])
    shown |= {"/account/webhooks": 0, f"/account/webhooks/{webhook.id}": 0, "/account/quick-start": 0}

    page = visit().sign_in(alice.holder.email, "/account/login")
    for path, least in shown.items():
        page.goto(path)
        assert page.inner_text("body").count("alert(1)") >= max(least, 1), path
    for payload in PAYLOADS:
        page.goto("/account/orders")
        page.locator("[name=q]").fill(payload)
        page.keyboard.press("Enter")
        page.wait_for_url("**q=*")
        assert page.locator("[name=q]").input_value() == payload
        assert page.locator("tbody tr").count() == 1


@pytest.mark.parametrize("locale", ["en", "ar"])
def test_pages_fit_a_phone_and_a_finger(
    locale: str, visit: Callable[..., Visit], alice: Account, paths: list[str]
) -> None:
    """At 360 pixels nothing runs off the page, and everything that is pressed is 44 pixels high."""
    ApiKey.issue(alice, name="W" * 100)
    order = factories.make_order(alice, customer_name="محمد الأمين بن عبد الرحمان " * 3, notes="x" * 300)
    long = factories.make_order(
        alice,
        external_id="W" * 64,
        customer_name="W" * 200,
        customer_address="W" * 200,
        items=[
            factories.order_line(
                quantity=2, unit_price=Decimal("2050.25"), product_name="W" * 200, attributes={"W" * 64: "W" * 64}
            )
        ],
    )
    webhook_of(alice, "https://203.0.114.1/" + "x" * 300)
    pressed = ":is(button, select, summary, input:not([type=hidden], [type=checkbox], [type=radio], .hidden)), nav a, "
    pressed += ".button, tbody th a, .facts dd > a, .eyebrow a, main p > a, .tabs-of-lines > label, .checks label"
    small: Any = """selector => [...document.querySelectorAll(selector)].filter(e => e.checkVisibility())
        .map(e => [e.outerHTML.slice(0, 120), e.getBoundingClientRect().height])
        .filter(([_, height]) => height < 44)"""
    person = visit(viewport={"width": 360, "height": 740}, locale=locale)
    for path in ["/account/login", *paths, f"/account/orders/{order.id}", f"/account/orders/{long.id}"]:
        page = person.look_at(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, path
        assert page.evaluate(small, pressed) == [], path
        if path == "/account/login":  # it leads on anyone who is signed in
            person.sign_in(alice.holder.email, path)


@pytest.mark.parametrize("locale", ["en", "fr", "ar"])
def test_no_word_of_a_figure_runs_out_of_it(locale: str, visit: Callable[..., Visit], alice: Account) -> None:
    run_out: Any = """() => [...document.querySelectorAll('.tiles dt')]
        .filter(each => each.scrollWidth > each.clientWidth).map(each => each.textContent)"""
    factories.make_order(alice)
    page = visit(viewport={"width": 360, "height": 740}, locale=locale).sign_in(alice.holder.email, "/account/login")
    page.goto("/account/")
    for width in (1366, 820, 360, 320):
        page.set_viewport_size({"width": width, "height": 740})
        assert page.locator(".tiles dt").count()
        assert page.evaluate(run_out) == [], width


def test_a_large_count_stays_on_one_line_in_its_tile(visit: Callable[..., Visit], alice: Account) -> None:
    factories.make_order(alice)
    page = visit().sign_in(alice.holder.email, "/account/login")
    page.goto("/account/")
    page.locator(".tiles strong bdi").evaluate_all("all => all.forEach(each => each.textContent = '119\u202f918')")
    for width in (320, 360, 390, 500, 640, 800, 1024, 1280):
        page.set_viewport_size({"width": width, "height": 740})
        broken = """all => all.filter(each => each.querySelector("bdi").getClientRects().length > 1
            || each.scrollWidth > each.clientWidth).length"""
        assert page.locator(".tiles strong").evaluate_all(broken) == 0, width


def test_on_a_phone_the_table_of_figures_is_opened_by_who_wants_it(visit: Callable[..., Visit], alice: Account) -> None:
    factories.make_order(alice)
    page = visit().sign_in(alice.holder.email, "/account/login")
    page.goto("/account/")
    expect(page.locator("details.long table")).to_be_visible()
    page.set_viewport_size({"width": 375, "height": 740})
    page.reload()
    expect(page.locator("details.long table")).to_be_hidden()
    page.get_by_text("As a table").first.press("Enter")
    expect(page.locator("details.long table")).to_be_visible()


@pytest.mark.parametrize("locale", ["fr", "ar"])
def test_the_words_of_a_chart_are_read_on_a_phone(locale: str, visit: Callable[..., Visit], alice: Account) -> None:
    """A chart is no wider than its card, and its words are no smaller than elsewhere."""
    factories.AgentFactory()
    supervisor = factories.AgentFactory(role="Supervisors")
    lifecycle.confirm(factories.make_order(alice).id, actor=Actor.of_staff(supervisor))
    phone = {"width": 360, "height": 740}
    pages = [visit(viewport=phone, locale=locale).sign_in(alice.holder.email, "/account/login")]
    pages.append(visit(viewport=phone, locale=locale).sign_in(supervisor.username))
    low: Any = """() => [...document.querySelectorAll('svg text')].map(e => [e.textContent, e.getBoundingClientRect()])
        .filter(([_, { height }]) => height < 11).map(([text, { height }]) => [text, height])"""
    cut: Any = """() => [...document.querySelectorAll('.chart, .chart :not(title), .bars, .bars *')].filter(e => {
        const [part, card] = [e, e.closest('.card')].map(each => each.getBoundingClientRect());
        return part.left < card.left || part.right > card.right;
    }).map(e => e.outerHTML)"""
    for page, path in zip(pages, ("/account/", "/console/figures/"), strict=True):
        for by in ("day", "wilaya"):
            page.goto(f"{path}?by={by}")
            assert page.locator(".chart text" if by == "day" else ".bars").count()
            assert page.evaluate(low) == []
            assert page.evaluate(cut) == []
            assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_a_name_is_shown_where_there_is_room_for_it(visit: Callable[..., Visit], alice: Account) -> None:
    User.objects.filter(pk=alice.holder.pk).update(first_name="Yasmine", last_name="Belkacem")
    page = visit(viewport={"width": 360, "height": 740}).sign_in(alice.holder.email, "/account/login")
    is_cut = "e => e.scrollWidth > e.clientWidth"
    assert not page.locator(".menu summary bdi").evaluate(is_cut)
    User.objects.filter(pk=alice.holder.pk).update(first_name="W" * 100)
    page.reload()
    assert page.locator(".menu summary bdi").evaluate(is_cut)
    phones = (320, 360, 420, 421, 720, 721)
    for path, widths in {"/account/quick-start": phones, "/docs/fr/": (1201, 1260, 1261)}.items():
        page.goto(path)
        for width in widths:
            page.set_viewport_size({"width": width, "height": 740})
            assert page.locator(".brand").bounding_box()["y"] == page.locator(".menu").bounding_box()["y"], width


OVERFLOWS = "parts => [...document.querySelectorAll(parts)].map(e => e.scrollWidth - e.clientWidth)"


@pytest.mark.parametrize("locale", ["en", "fr", "ar"])
def test_no_list_runs_out_of_its_card(
    locale: str, visit: Callable[..., Visit], alice: Account, paths: list[str]
) -> None:
    """On a desk and a tablet, with believable rows, all columns are seen at once."""
    for number in ("DEMO-1-147", "WC-2026-11-27-000123", "BOUTIQUE-DZ/2026/11/000045"):
        factories.make_order(
            alice,
            external_id=number,
            customer_name="Abdelkader Benabderrahmane",
            customer_wilaya="Bordj Bou Arréridj",
            customer_commune="El Hamadia",
            total_amount=124_700,
        )
    name = "liste_des_commandes_boutique_el_djazair_novembre_2026_version_finale_corrigee.xlsx"
    security_log.note(Action.UPLOADED, target=name, target_id=alice.id, account_id=alice.id)
    person = visit(locale=locale)
    person.sign_in(alice.holder.email, "/account/login")
    lists = set()
    for path in paths:
        page = person.look_at(path)
        for width in (1280, 1024, 820, 768):
            page.set_viewport_size({"width": width, "height": 800})
            overflows = page.evaluate(OVERFLOWS, ".scroll:not([tabindex]):has(table)")
            assert set(overflows) <= {0}, (path, width)
            lists |= {path} if overflows else set()
    assert lists >= {f"/account/{name}" for name in ("orders", "products", "webhooks", "keys", "team", "security")}


def test_a_printed_order_is_the_order(visit: Callable[..., Visit], alice: Account) -> None:
    order = factories.make_order(alice)
    person = visit(viewport={"width": 718, "height": 1000})
    person.sign_in(alice.holder.email, "/account/login")
    page = person.look_at(f"/account/orders/{order.id}")
    pressed = (
        "document.querySelectorAll('header a, summary, button, .button').values().filter(e => e.checkVisibility())"
    )
    counts = []
    for media in ("screen", "print"):
        page.emulate_media(media=media)
        counts.append(page.evaluate(f"[...{pressed}].length > 0"))
        assert page.get_by_role("heading", name=order.customer_name).is_visible()
    assert counts == [True, False]


@pytest.mark.parametrize("locale", ["en", "fr", "ar"])
def test_on_a_phone_no_text_of_a_list_lies_on_another(
    locale: str, visit: Callable[..., Visit], alice: Account, paths: list[str]
) -> None:
    """No name stands in a column a few letters wide, and no single-word number runs out of its card."""
    overlaps = """() => [...document.querySelectorAll('.rows tbody tr')].flatMap(row => {
        const boxes = [...row.children].filter(cell => cell.checkVisibility()).map(cell => {
            const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT), range = document.createRange();
            const found = [...cell.querySelectorAll('.status')].map(each => each.getBoundingClientRect());
            while (texts.nextNode()) {
                range.selectNodeContents(texts.currentNode);
                found.push(...range.getClientRects());
            }
            return found;
        });
        const share = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
            && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1;
        return boxes.flatMap((these, place) => boxes.slice(place + 1)
            .filter(those => these.some(a => those.some(b => share(a, b)))).map(_ => row.innerText));
    })"""
    factories.make_order(alice, customer_name="Abdelkader Benabderrahmane", total_amount=1_234_567)
    factories.make_order(alice, external_id="X" * 64)
    factories.ProductFactory(account=alice, sku="SKU-" + "X" * 60)
    narrowest = "() => Math.min(...[...document.querySelectorAll('.rows tbody th')].map(e => e.clientWidth), 1000)"
    person = visit(locale=locale)
    person.sign_in(alice.holder.email, "/account/login")
    lists = set()
    for path in paths:
        page = person.look_at(path)
        for width in (360, 390) if page.locator(".rows tbody tr").count() else ():
            page.set_viewport_size({"width": width, "height": 740})
            assert page.evaluate(overlaps) == [], (path, width)
            assert page.evaluate(narrowest) >= 100, (path, width)
            assert set(page.evaluate(OVERFLOWS, ".scroll:has(.rows)")) <= {0}, (path, width)
            lists.add(path)
    assert lists >= {"/account/orders", "/account/products"}


@pytest.mark.parametrize("locale", ["en", "fr", "ar"])
def test_on_a_notebook_the_header_is_one_row(locale: str, visit: Callable[..., Visit], alice: Account) -> None:
    """This holds for somebody with a long name, too."""
    User.objects.filter(pk=alice.holder_id).update(first_name="Mohamed El Amine", last_name="Benabderrahmane")
    person = visit(viewport={"width": 1280, "height": 720}, locale=locale)
    page = person.sign_in(alice.holder.email, "/account/login")
    for room in ("/docs/", "/account/orders"):
        page.goto(page.locator(f".rooms a[href^='{room}']").get_attribute("href"))
        assert page.locator("header.site").bounding_box()["height"] <= 60, room
        assert page.locator(".menu summary").bounding_box()["width"] >= 90, room
    page.locator(".menu summary").click()
    page.locator(".languages button[aria-current]").wait_for()


def test_on_a_phone_each_field_of_a_table_says_what_it_is(
    visit: Callable[..., Visit], alice: Account, paths: list[str]
) -> None:
    """The table's head, which says so on a desk, is not shown there."""
    unsaid: Any = """() => [...document.querySelectorAll('td:has(input:not([type=hidden]))')]
        .filter(cell => !cell.closest('table').tHead?.checkVisibility() && !cell.querySelector('label'))
        .filter(cell => ['none', '""'].includes(getComputedStyle(cell, '::before').content))
        .map(cell => cell.innerHTML.slice(0, 120))"""
    person = visit(viewport={"width": 360, "height": 740})
    person.sign_in(alice.holder.email, "/account/login")
    fields = set()
    for path in paths:
        page = person.look_at(path)
        assert page.evaluate(unsaid) == [], path
        fields |= {path} if page.locator("td input:not([type=hidden])").count() else set()
    assert fields == {"/account/fees"}
