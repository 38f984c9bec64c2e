"""Every account page as people meet it: no rule of axe-core broken, nothing of a stranger's run, fit for a phone."""

import re
from collections.abc import Callable
from decimal import Decimal
from itertools import product
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from codservice.accounts import security_log, team
from codservice.accounts.actor import Actor
from codservice.accounts.models import Account, ApiKey, Membership, User
from codservice.accounts.security_log import Action
from orders import lifecycle
from tests import factories
from tests.harness.browser import PASSWORD, SCHEMES, TIMES_LEFT_TO_WEBKIT, Visit
from tests.harness.client import browser_of
from tests.harness.deliveries import write_delivery
from tests.harness.world import order_of
from webhooks import registry
from webhooks.models import Event, Webhook

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


# What may be wrong with a page on a screen: expressions that list where it is.


def cut(parts: str) -> str:
    return f"all('{parts}').filter(e => e.scrollWidth > e.clientWidth).map(e => e.outerHTML.slice(0, 120))"


PRESSED = (
    ":is(button, select, summary, input:not([type=hidden], [type=checkbox], [type=radio], .visually-hidden)), nav a,"
    " .button, tbody th a, .facts dd > a, .eyebrow a, main p > a, .tabs-of-lines > label, .checks label"
)
ON_ANY_SCREEN = {
    "wider than the screen": "[document.documentElement.scrollWidth].filter(width => width > innerWidth)",
    "a word that runs out of its figure": cut(".tiles dt"),
    # An amount used to stand at one end of its field, and the quantity beside it at the other.
    "a number from the right": """all('[type=number], [inputmode=decimal]')
        .filter(e => getComputedStyle(e).direction !== 'ltr').map(e => e.outerHTML)""",
}
ON_A_DESK = {
    "a column out of sight": cut(".scroll:not([tabindex]):has(table)"),
    "an address in two lines": """all('td:nth-child(3) > bdi:not(.address)')
        .filter(e => e.innerText.includes('@') && e.getClientRects().length > 1).map(e => e.innerText)""",
}
ON_A_PHONE = {
    "lower than a finger": f"""all('{PRESSED}').filter(e => e.checkVisibility())
        .filter(e => e.getBoundingClientRect().height < 44).map(e => e.outerHTML.slice(0, 120))""",
    "a field into which an iPhone zooms": """all('select, textarea, input:not([type=hidden], [type=checkbox],'
        + ' [type=radio], [type=file], .visually-hidden)')
        .filter(e => parseFloat(getComputedStyle(e).fontSize) < 16).map(e => e.outerHTML.slice(0, 120))""",
    # The table's head, which says so on a desk, is not shown there.
    "a field that does not say what it is": """all('td:has(input:not([type=hidden]))')
        .filter(cell => !cell.closest('table').tHead?.checkVisibility() && !cell.querySelector('label'))
        .filter(cell => ['none', '""'].includes(getComputedStyle(cell, '::before').content))
        .map(cell => cell.innerHTML.slice(0, 120))""",
    "a row out of its card": cut(".scroll:has(.rows)"),
    "a name in a column a few letters wide": """all('.rows tbody th').filter(e => e.clientWidth < 100)
        .map(e => e.innerText)""",
    "a text on another": """all('.rows tbody tr').flatMap(row => {
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
    })""",
}
SCREENS = {1280: ON_A_DESK, 1101: ON_A_DESK, 1024: ON_A_DESK, 820: ON_A_DESK, 768: ON_A_DESK, 421: ON_A_PHONE,
           360: ON_A_PHONE, 320: {}}  # fmt: skip


def wrong_with(page: Page, looked_for: dict[str, str]) -> dict[str, Any]:
    listed = ", ".join(f"'{what}': {where}" for what, where in looked_for.items())
    found = page.evaluate(f"() => {{ const all = of => [...document.querySelectorAll(of)]; return {{ {listed} }} }}")
    return {what: where for what, where in found.items() if where}


def assert_small(page: Page) -> None:
    page.wait_for_load_state("networkidle")
    bodies = """() => Object.fromEntries(performance.getEntries().filter(e => e.decodedBodySize)
        .map(e => [new URL(e.name).pathname, e.decodedBodySize]))"""
    sizes = page.evaluate(bodies)
    assert sizes[urlsplit(page.url).path] > 1000
    assert sum(sizes.values()) < MOST_BYTES, (page.url, sizes)


@pytest.mark.parametrize(
    ("locale", "direction", "schemes"), [("en", "ltr", SCHEMES), ("ar", "rtl", SCHEMES[:1]), ("fr", "ltr", ())]
)
def test_every_page_breaks_no_rule_is_small_and_fits_every_screen(
    locale: str, direction: str, schemes: tuple[str, ...], visit: Callable[..., Visit], axe: Callable[..., None],
    alice: Account, paths: list[str],
) -> None:  # fmt: skip
    """With believable texts, all columns of a list are seen at once on a desk and on a tablet.

    A language changes no colours, so the dark ones are looked at in one. French differs from English in words alone, so
    rules are not checked in it; but its pages are the longest, and get lists that are full.
    """
    for number in ("DEMO-1-147", "WC-2026-11-27-000123", "BOUTIQUE-DZ/2026/11/000045"):
        factories.make_order(
            alice,
            external_id=number,
            customer_name="Abdelkader Benabderrahmane",
            customer_wilaya="Bordj Bou Arréridj",
            customer_commune="El Hamadia",
            total_amount=1_234_567,
        )
    name = "liste_des_commandes_boutique_el_djazair_novembre_2026_version_finale_corrigee.xlsx"
    security_log.note(Action.UPLOADED, target=name, target_id=alice.id, account_id=alice.id)
    for _ in range(0 if schemes else 30):
        factories.make_order(alice)
        write_delivery(Webhook.objects.get(), "failed", attempts=4)
    Webhook.objects.update(is_failing=True)
    desk, phone = {"width": 1366, "height": 768}, {"width": 360, "height": 740}
    person = visit(viewport=desk, locale=locale)

    def check() -> None:
        assert person.page.evaluate("document.documentElement.dir") == direction
        if schemes:
            axe(person.page, *schemes)

    for path in ANONYMOUS:
        person.page.goto(path)
        check()
        assert_small(person.page)
    page = person.look_at("/account/login")
    page.set_viewport_size(phone)
    assert wrong_with(page, ON_ANY_SCREEN | ON_A_PHONE) == {}
    page.set_viewport_size(desk)
    person.log_in(alice.holder.email, "/account/login")
    seen: dict[str, set[str]] = {".scroll:not([tabindex]) table": set(), ".rows tbody tr": set(), "td input": set()}
    for path in paths:
        page.set_viewport_size(desk)
        person.look_at(path)
        assert page.evaluate(TIMES_LEFT_TO_WEBKIT) == 0, path
        check()
        for width, of_screen in SCREENS.items():
            page.set_viewport_size({"width": width, "height": 740})
            assert wrong_with(page, ON_ANY_SCREEN | of_screen) == {}, (path, width)
        assert_small(page)  # by now the network has long been idle
        for parts, where in seen.items():
            where |= {path} if page.locator(f"{parts}:not([type=hidden])").count() else set()
    lists, rows, fields = seen.values()
    assert lists >= {f"/account/{name}" for name in ("orders", "products", "webhooks", "keys", "team", "security")}
    assert rows >= {"/account/orders", "/account/products"}
    assert fields == {"/account/fees"}
    if not schemes:
        return
    page.set_viewport_size(desk)
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
        axe(page, *schemes)
    for path in ("/account/orders", "/account/webhooks", "/account/keys"):
        page.goto(path)
        assert page.locator("html[data-mode=test]").count() == 1
        axe(page, *schemes)
    page.locator(".menu summary").click()
    axe(page, *schemes)


@pytest.mark.parametrize("locale", ["fr", "ar"])
def test_on_a_desk_no_usual_order_number_is_broken_at_its_hyphens(
    locale: str, visit: Callable[..., Visit], alice: Account
) -> None:
    names = {"customer_name": "Abdelkader Benabderrahmane", "customer_wilaya": "Bordj Bou Arréridj"}
    for number in ("DEMO-1-147", "WC-2026-11-27-000123", "WC-" * 21):
        factories.make_order(alice, external_id=number, total_amount=1_234_567, **names)
    person = visit(viewport={"width": 1366, "height": 768}, locale=locale)
    person.sign_in(alice.holder.email, "/account/login")
    page = person.look_at("/account/orders")
    for width in (1366, 1280):
        page.set_viewport_size({"width": width, "height": 768})
        heights = page.locator("td .shop-number").evaluate_all("all => all.map(each => each.clientHeight)")
        assert heights[1] == heights[2] < heights[0], "the newest, and longest, still has several lines"
        assert wrong_with(page, ON_ANY_SCREEN | ON_A_DESK) == {}, width


@pytest.mark.parametrize("locale", ["en", "ar"])
def test_however_long_the_texts_pages_fit_a_phone_and_a_finger(
    locale: str, visit: Callable[..., Visit], alice: Account, paths: list[str]
) -> None:
    ApiKey.issue(alice, name="W" * 100)
    factories.make_order(alice, external_id="X" * 64)
    factories.ProductFactory(account=alice, sku="SKU-" + "X" * 60)
    webhook = webhook_of(alice, "https://203.0.114.1/" + "x" * 300)
    order = factories.make_order(alice, customer_name="محمد الأمين بن عبد الرحمان " * 3, notes="x" * 300)
    line = factories.order_line(
        quantity=2, unit_price=Decimal("2050.25"), product_name="W" * 200, attributes={"W" * 64: "W" * 64}
    )
    texts = dict.fromkeys(("customer_name", "customer_address"), "W" * 200)
    long = factories.make_order(alice, external_id="W" * 64, items=[line], **texts)
    person = visit(viewport={"width": 360, "height": 740}, locale=locale)
    person.sign_in(alice.holder.email, "/account/login")
    shown = [
        f"/account/{name}" for name in ("", "?by=product", "quick-start", "orders", "products", "keys", "webhooks")
    ]
    shown += [f"/account/orders/{order.id}", f"/account/orders/{long.id}", f"/account/webhooks/{webhook.id}"]
    for path in shown:
        page = person.look_at(path)
        for width in (390, 360):
            page.set_viewport_size({"width": width, "height": 740})
            assert wrong_with(page, ON_ANY_SCREEN | ON_A_PHONE) == {}, (path, width)


def test_a_colleague_leaves_by_the_menu_under_their_name(
    visit: Callable[..., Visit], axe: Callable[..., None], alice: Account
) -> None:
    colleague = factories.UserFactory()
    Membership.objects.create(account=alice, user=colleague, role="reader")
    page = visit(viewport={"width": 360, "height": 740}).sign_in(colleague.username, "/account/login")
    page.locator(".menu summary").click()
    page.get_by_role("link", name="Leave the team…").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Leave the team of")
    axe(page, *SCHEMES)
    assert wrong_with(page, ON_ANY_SCREEN | ON_A_PHONE) == {}
    page.get_by_label("Your password").fill(PASSWORD)
    page.get_by_role("button", name="Leave the team", exact=True).click()
    page.wait_for_url("**/account/login")
    expect(page.locator(".message.success")).to_contain_text("You have left the team of")
    assert not Membership.objects.exists()


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


def test_a_large_count_stays_on_one_line_and_who_wants_the_table_of_figures_opens_it_on_a_phone(
    visit: Callable[..., Visit], alice: Account
) -> None:
    factories.make_order(alice)
    page = visit().sign_in(alice.holder.email, "/account/login", to="/account/")
    page.locator(".tiles strong bdi").evaluate_all("all => all.forEach(each => each.textContent = '119\u202f918')")
    for width in (320, 360, 390, 500, 640, 800, 1024, 1280):
        page.set_viewport_size({"width": width, "height": 740})
        broken = """all => all.filter(each => each.querySelector("bdi").getClientRects().length > 1
            || each.scrollWidth > each.clientWidth).length"""
        assert page.locator(".tiles strong").evaluate_all(broken) == 0, width
    expect(page.locator("details.long table")).to_be_visible()
    page.set_viewport_size({"width": 375, "height": 740})
    page.reload()
    expect(page.locator("details.long table")).to_be_hidden()
    page.get_by_text("As a table").first.press("Enter")
    expect(page.locator("details.long table")).to_be_visible()


def test_the_words_of_a_chart_are_read_on_a_phone(visit: Callable[..., Visit], alice: Account) -> None:
    """A chart is no wider than its card, and its words are no smaller than elsewhere."""
    factories.AgentFactory()
    supervisor = factories.AgentFactory(role="Supervisors")
    lifecycle.confirm(factories.make_order(alice).id, actor=Actor.of_staff(supervisor))
    phone = {"width": 360, "height": 740}
    pages = [visit(viewport=phone).sign_in(alice.holder.email, "/account/login")]
    pages.append(visit(viewport=phone).sign_in(supervisor.username))
    low: Any = """() => [...document.querySelectorAll('svg text')].map(e => [e.textContent, e.getBoundingClientRect()])
        .filter(([_, { height }]) => height < 11).map(([text, { height }]) => [text, height])"""
    cut: Any = """() => [...document.querySelectorAll('.chart, .chart :not(title), .bars, .bars *')].filter(e => {
        const [part, card] = [e, e.closest('.card')].map(each => each.getBoundingClientRect());
        return part.left < card.left || part.right > card.right;
    }).map(e => e.outerHTML)"""
    for page, path in zip(pages, ("/account/", "/console/figures/"), strict=True):
        for language, by in product(("fr", "ar"), ("day", "wilaya")):
            page.set_extra_http_headers({"Accept-Language": language})
            page.goto(f"{path}?by={by}")
            assert page.evaluate("document.documentElement.lang").startswith(language)
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


def test_on_a_notebook_the_header_is_one_row(visit: Callable[..., Visit], alice: Account) -> None:
    """This holds for somebody with a long name, too."""
    User.objects.filter(pk=alice.holder_id).update(first_name="Mohamed El Amine", last_name="Benabderrahmane")
    page = visit(viewport={"width": 1280, "height": 720}).sign_in(alice.holder.email, "/account/login")
    for language, room in product(("en", "fr", "ar"), ("/docs/", "/account/orders")):
        page.set_extra_http_headers({"Accept-Language": language})
        page.goto("/account/orders")
        page.goto(page.locator(f".rooms a[href^='{room}']").get_attribute("href"))
        assert page.evaluate("document.documentElement.lang").startswith(language)
        assert page.locator("header.site").bounding_box()["height"] <= 60, room
        assert page.locator(".menu summary").bounding_box()["width"] >= 90, room
    page.locator(".menu summary").click()
    page.locator(".languages button[aria-current]").wait_for()
