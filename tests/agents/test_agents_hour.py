"""An agent's hour in a real browser: being served, calling, every outcome, and whatever happens in between."""

import re
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from urllib.parse import urljoin

import pytest
from django.contrib.sessions.models import Session
from django.db.models.functions import Now
from django.utils import timezone
from playwright.sync_api import Page, Route, expect

from agents.desk import claims, shown
from agents.models import CallingPeriod, CallingRules, Claim
from codservice import days
from codservice.accounts.actor import Actor, Role
from codservice.accounts.models import Account, ApiKey, User
from codservice.days import ALGIERS
from orders import editing, lifecycle
from orders.models import CallNote, CallState, Order
from tests.agents.desk_browser import (
    BROKEN,
    DESK,
    SCREEN,
    SECOND,
    call,
    call_next,
    calls,
    customers,
    open_panel,
    press,
    press_of_layout,
    settled,
    told,
    warned,
)
from tests.agents.states import waits
from tests.factories import ProductFactory, make_order, order_line
from tests.harness.background import eventually
from tests.harness.browser import IMPATIENT, SCHEMES, Visits, intercept, log_in
from webhooks.models import Event

pytestmark = pytest.mark.django_db(transaction=True)


# --- Every outcome -----------------------------------------------------------------------------------------------


def by_button(page: Page, outcome: str, when: str) -> None:
    settled(page)  # else the screen may go dead between Playwright's check and its press
    match outcome:
        case "cancel":
            open_panel(page, "Cancel…")
            page.locator("[name=details]").fill("CMD-12")
            press(page, "Duplicate")
        case "callback_hour" | "callback_tomorrow":
            open_panel(page, "Call back…")
            press(page, "In an hour" if outcome == "callback_hour" else "Tomorrow")
        case "callback":
            open_panel(page, "Call back…")
            page.get_by_label("At a chosen time").fill(when)
            press(page, "Call back at this time")
        case "handed_over":
            open_panel(page, "Hand over…")
            page.get_by_label("To whom?").select_option("Nadia")
            page.locator("[name=handover_reason]").fill("Parle tamazight")
            press(page, "Hand the customer over")
        case "skipped":
            open_panel(page, "Skip…")
            page.locator("[name=skip_reason]").fill("Ligne coupée")
            press(page, "Skip the customer")
        case _:
            page.locator(f"button[value={outcome}]").click()


def by_key(page: Page, outcome: str, when: str) -> None:
    settled(page)
    keys = page.keyboard
    match outcome:
        case "cancel":
            for key in "24":  # Duplicate
                keys.press(key)
        case "callback_hour" | "callback_tomorrow":
            for key in "71" if outcome == "callback_hour" else "73":
                keys.press(key)
        case "callback":
            for key in "74":  # which asks for the time
                keys.press(key)
            page.get_by_label("At a chosen time").fill(when)
            keys.press("Enter")
        case "handed_over":
            keys.press("8")
            page.get_by_label("To whom?").select_option("Nadia")
            page.get_by_label("To whom?").blur()
            keys.press("1")  # Speaks another language
        case "skipped":
            for key in "91":  # Bad line
                keys.press(key)
        case _:
            keys.press(page.locator(f"button[value={outcome}]").get_attribute("data-key"))


OUTCOMES = {
    "confirm": ("is confirmed", "confirmed", "new"),
    "cancel": ("is canceled", "canceled", "new"),
    "no_answer": ("“No answer” is noted", "pending_confirmation", "retry"),
    "busy": ("“Busy” is noted", "pending_confirmation", "retry"),
    "switched_off": ("“Switched off” is noted", "pending_confirmation", "retry"),
    "wrong_number": ("“Wrong number” is noted", "pending_confirmation", "review"),
    "callback_hour": ("You will call Customer", "pending_confirmation", "callback"),
    "callback_tomorrow": ("You will call Customer", "pending_confirmation", "callback"),
    "callback": ("You will call Customer", "pending_confirmation", "callback"),
    "handed_over": ("Handed to Nadia: Customer", "pending_confirmation", "callback"),
    "skipped": ("“Skipped” is noted", "pending_confirmation", "new"),
}


@pytest.mark.parametrize("way", [by_button, by_key], ids=["by button", "by key"])
def test_every_outcome_and_the_next_customer_comes_by_itself(
    way: Callable[..., None], visit: Visits, alice: Account, agent: User, colleague: User
) -> None:
    orders = dict(zip(OUTCOMES, customers(alice, len(OUTCOMES)), strict=True))
    when = (timezone.now() + timedelta(days=2)).astimezone(ALGIERS).replace(second=0, microsecond=0)
    page = visit().sign_in("samira")
    expect(page.get_by_role("button", name="Next order")).to_be_focused()
    call_next(page)
    for outcome, (words, status, state) in OUTCOMES.items():
        order = orders[outcome]
        calls(page, order.customer_name)
        way(page, outcome, f"{when:%Y-%m-%dT%H:%M}")
        expect(page.locator(f".done-{shown.draft_name(order.phone_e164, agent)}")).to_be_visible()
        told(page, words)
        order.refresh_from_db()
        assert (order.status, order.call_state) == (status, state), outcome
    expect(page).to_have_url(re.compile(f"{DESK}$"))
    told(page, "No calls are due now. The next one is due on")
    for order in orders.values():
        order.refresh_from_db()
    assert orders["cancel"].call_notes.count() == 1
    assert orders["cancel"].cancel_reason == ("Duplicate: CMD-12" if way is by_button else "Duplicate")
    assert orders["callback"].call_due_at == when
    assert orders["handed_over"].callback_agent == colleague
    assert CallNote.objects.get(outcome="skipped").note == ("Ligne coupée" if way is by_button else "Bad line")


def test_a_promised_call_comes_due(visit: Visits, alice: Account, agent: User) -> None:
    customers(alice, 1)
    page = call(visit())
    by_key(page, "callback_hour", "")
    told(page, "You will call Customer 0 back on")
    told(page, "No calls are due now. The next one is due on")
    Order.objects.update(call_due_at=Now() - timedelta(minutes=1))
    page.reload()
    expect(page.locator(".overdue")).to_have_count(1)
    call_next(page)
    calls(page, "Customer 0")
    expect(page.locator(".log")).to_contain_text("Call back later")


# --- The keyboard and the draft ----------------------------------------------------------------------------------


def test_keys_do_nothing_while_somebody_types(visit: Visits, alice: Account, agent: User) -> None:
    (order,) = customers(alice, 1)
    page = call(visit())
    page.keyboard.press("n")
    expect(page.get_by_label("Note")).to_be_focused()
    page.keyboard.type("0123456789 e")
    page.keyboard.press("Escape")
    settled(page)
    for key in ("Control+1", "Alt+3", "Shift+4"):
        page.keyboard.press(key)
    for key in "27":  # Other, which asks for words
        page.keyboard.press(key)
    page.keyboard.type("1")
    expect(page.get_by_label("In your own words").first).to_have_value("1")
    expect(page.get_by_label("Note")).to_have_value("0123456789 e")
    assert CallNote.objects.count() == 0
    order.refresh_from_db()
    assert order.status == "pending_confirmation"


def test_letters_are_what_is_written_on_the_keys(visit: Visits, alice: Account, agent: User) -> None:
    """On a keyboard of another script, a key does what the Latin letter in its place does."""
    for _ in range(2):
        make_order(alice)
    page = call(visit())
    settled(page)
    for other, place, is_alt_graph in [("q", "KeyA", False), ("¹", "Digit1", True)]:  # no shortcuts
        press_of_layout(page, other, place, modifierAltGraph=is_alt_graph)
    confirm_all = page.get_by_role("button", name="Confirm them all")
    layouts = {
        "AZERTY": ("a", "KeyQ"),
        "caps lock": ("A", "KeyQ"),
        "QWERTY": ("a", "KeyA"),
        "Arabic": ("ش", "KeyA"),
        "Arabic on AZERTY": ("ض", "KeyQ"),
    }
    for layout, (key, code) in layouts.items():
        expect(confirm_all, layout).to_be_hidden()
        press_of_layout(page, key, code)
        expect(confirm_all, layout).to_be_visible()
        page.keyboard.press("Escape")
    press_of_layout(page, "a", "KeyA")
    press_of_layout(page, "&", "Digit1")
    told(page, "2 orders of Amine Benali are confirmed.")


def test_a_draft_survives_a_reload_and_an_ended_session(visit: Visits, alice: Account, agent: User) -> None:
    customers(alice, 1)
    person = visit()
    page = call(person)
    page.get_by_label("Note").fill("Livrer le matin")
    page.reload()
    expect(page.get_by_label("Note")).to_have_value("Livrer le matin")
    screen = page.url

    role = agent.groups.get()
    agent.groups.remove(role)
    warned(page, "You no longer have access to calls. What you wrote stays on this page.")
    expect(page.get_by_label("Note")).to_have_value("Livrer le matin")
    agent.groups.add(role)
    expect(page.locator("#news")).to_be_hidden()
    person.wrongs[:] = [wrong for wrong in person.wrongs if not wrong.startswith("403 ")]

    Session.objects.all().delete()
    warned(page, "You have been signed out. What you wrote is kept")
    warned(page, "If your password is refused, ask your supervisor.")  # who was deactivated, or has a new one
    page.get_by_role("link", name="Reload").click()
    log_in(page, "samira")
    assert page.url == screen
    expect(page.get_by_label("Note")).to_have_value("Livrer le matin")
    page.get_by_label("Note").blur()
    settled(page)
    page.keyboard.press("1")
    told(page, "is confirmed")
    assert CallNote.objects.get().note == "Livrer le matin"
    assert page.evaluate("Object.keys(localStorage).filter(name => name.startsWith('draft'))") == []


def test_so_does_what_is_written_in_panels(visit: Visits, alice: Account, agent: User) -> None:
    customers(alice, 1)
    page = call(visit())
    settled(page)
    screen = page.url
    at = f"{days.today() + timedelta(days=1)}T12:30"
    for key, name, text in (("2", "details", "Trop cher"), ("7", "at", at), ("8", "handover_reason", "Parle kabyle")):
        page.keyboard.press(key)
        page.locator(f"[name={name}]").fill(text)
        for _ in range(2):  # out of the field, out of the panel
            page.keyboard.press("Escape")
    Session.objects.all().delete()
    page.goto(screen)
    log_in(page, "samira")
    assert page.url == screen
    settled(page)
    expect(page.locator("[name=handover_reason]")).to_have_value("Parle kabyle")
    expect(page.locator("[name=details]")).to_have_value("Trop cher")
    page.keyboard.press("7")
    expect(page.get_by_label("At a chosen time")).to_have_value(at)
    page.get_by_role("button", name="Call back at this time").click()
    told(page, "You will call Customer 0 back on")
    assert page.evaluate("Object.keys(localStorage).filter(name => name.startsWith('draft'))") == []

    claims.take(Order.objects.get().id, agent=agent)
    page.goto(DESK)
    call_next(page)
    expect(page.locator("[name=handover_reason]")).to_have_value("")


def test_a_note_is_there_whatever_becomes_of_the_orders(
    visit: Visits, alice: Account, agent: User, supervisor: User
) -> None:
    oldest, other = (make_order(alice) for _ in range(2))
    page = call(visit())
    page.get_by_label("Note").fill("Livrer le matin")
    lifecycle.cancel(oldest.id, actor=Actor.of_staff(supervisor))
    page.reload()
    expect(page.get_by_label("Note")).to_have_value("Livrer le matin")

    Claim.objects.update(expires_at=Now() - timedelta(seconds=1))
    page.reload()
    expect(page.get_by_label("What you wrote")).to_have_value("Livrer le matin")
    page.get_by_role("button", name="Take this customer again").click()
    expect(page.get_by_label("Note")).to_have_value("Livrer le matin")

    lifecycle.cancel(other.id, actor=Actor.of_staff(supervisor))
    page.reload()
    expect(page.get_by_role("alert")).to_contain_text("Nothing is left to decide.")
    expect(page.get_by_label("What you wrote")).to_have_value("Livrer le matin")
    claims.release(Claim.objects.get().id)
    page.reload()
    expect(page.get_by_label("What you wrote")).to_have_value("Livrer le matin")


def test_so_is_what_stands_in_a_panel_alone(visit: Visits, alice: Account, agent: User) -> None:
    (order,) = customers(alice, 1)
    page = call(visit())
    settled(page)
    page.keyboard.press("8")
    page.locator("[name=handover_reason]").fill("Parle kabyle")
    claims.release(Claim.objects.get().id)
    page.reload()
    expect(page.get_by_label("What you wrote")).to_have_value("Parle kabyle")
    page.goto(f"{DESK}{claims.take(order.id, agent=agent)}/")
    expect(page.locator("[name=handover_reason]")).to_have_value("Parle kabyle")


def test_the_way_back_leads_to_a_call_that_came_back_with_a_mistake(visit: Visits, alice: Account, agent: User) -> None:
    """Its address was that of the form, which Chrome does not send again without asking."""
    _first, second = (make_order(alice) for _ in range(2))
    page = call(visit())
    settled(page)
    page.keyboard.press("ArrowRight")
    screen = page.url
    open_panel(page, "Skip…")
    page.locator("[name=skip_reason]").fill("   ")
    press(page, "Skip the customer")
    expect(page.get_by_text("Say why you are skipping the customer.")).to_be_visible()
    page.get_by_role("link", name="Edit").last.click()
    page.wait_for_url("**/edit/*/")
    page.go_back()
    expect(page.get_by_role("radio", name="Order 2 of 2")).to_be_checked()
    assert page.url == screen
    assert screen.endswith(f"?order={second.id}")


def test_the_way_back_leads_to_why_a_customer_was_gone(
    visit: Visits, alice: Account, agent: User, supervisor: User
) -> None:
    (order,) = customers(alice, 1)
    person = visit()
    page = call(person)
    settled(page)
    screen = page.url
    lifecycle.cancel(order.id, actor=Actor.of_staff(supervisor))
    press(page, "Confirm")
    expect(page.get_by_role("alert")).to_contain_text("Nothing was saved.")
    page.wait_for_url(screen)  # by its script
    page.get_by_role("link", name="To the desk").click()
    page.wait_for_url(f"**{DESK}")
    page.go_back()
    expect(page.get_by_role("alert")).to_contain_text("Nothing is left to decide.")
    expect(page.get_by_role("link", name="See the order")).to_be_visible()
    person.wrongs.clear()  # what was refused


@pytest.mark.parametrize("goes", ["back", "on"])
def test_a_note_whose_answer_was_lost_is_not_noted_again(goes: str, visit: Visits, alice: Account, agent: User) -> None:
    (order,) = customers(alice, 1)
    person = visit()
    page = call(person)
    page.get_by_label("Note").fill("Rappeler le soir ")

    def lose(route: Route) -> None:
        route.fetch(max_redirects=0)
        person.context.clear_cookies(name=re.compile("messages$"))
        route.abort()

    intercept(page, "**/outcome/", lose)
    press(page, "Busy")
    eventually(lambda: page.wait_for_timeout(50) or page.url.startswith("chrome-error:"))
    assert CallNote.objects.get().note == "Rappeler le soir"
    if goes == "back":
        page.go_back()
        expect(page.get_by_role("alert")).to_contain_text("You noted “Busy” at")
        expect(page.get_by_role("link", name="See the order")).to_be_visible()
        expect(page.get_by_label("What you wrote")).to_be_hidden()
    page.goto(f"{DESK}{claims.take(order.id, agent=agent)}/")
    expect(page.locator(".log")).to_contain_text("Rappeler le soir")
    expect(page.get_by_label("Note")).to_have_value("")
    person.wrongs.clear()  # what was lost


def test_a_pause_that_is_ticked_outlives_an_edit_and_a_lost_customer(
    visit: Visits, alice: Account, agent: User
) -> None:
    customers(alice, 2)
    page = call(visit())
    pause = page.get_by_label("Pause after this call")
    pause.check()
    page.get_by_label("Note").blur()
    page.keyboard.press("e")
    page.get_by_label("Address").fill("7 rue Larbi Ben M'hidi")
    page.get_by_role("button", name="Save the changes").last.click()
    told(page, "The changes are saved.")
    expect(pause).to_be_checked()

    Claim.objects.update(expires_at=Now() - timedelta(seconds=1))
    page.reload()
    expect(page.get_by_label("What you wrote")).to_be_hidden()  # nothing
    page.get_by_role("button", name="Take this customer again").click()
    expect(pause).to_be_checked()
    settled(page)
    page.keyboard.press("3")
    told(page, "is noted")
    assert page.url.endswith(DESK)
    call_next(page)
    expect(pause).not_to_be_checked()


def test_a_draft_is_its_writers_and_not_the_next_agents_at_the_computer(
    visit: Visits, alice: Account, agent: User, colleague: User
) -> None:
    (order,) = customers(alice, 1)
    person = visit()
    page = call(person)
    screen = page.url
    page.get_by_label("Note").fill("Livrer le matin")
    claims.release(Claim.objects.get().id)
    person.context.clear_cookies()

    person.sign_in("nadia")
    page.goto(screen)
    expect(page.get_by_role("alert")).to_be_visible()
    expect(page.get_by_label("What you wrote")).to_be_hidden()
    page.goto(DESK)
    call_next(page)
    expect(page.get_by_label("Note")).to_have_value("")
    claims.release(Claim.objects.get().id)
    person.context.clear_cookies()

    call(person)
    calls(page, order.customer_name)
    expect(page.get_by_label("Note")).to_have_value("Livrer le matin")


def test_of_who_is_gone_without_a_note_none_is_shown(visit: Visits, alice: Account, agent: User) -> None:
    customers(alice, 2)
    page = call(visit())
    page.get_by_label("Note").fill("Livrer le matin")
    first = page.url
    press(page, "Confirm")
    calls(page, "Customer 1")
    page.get_by_label("Note").fill("De quelqu'un d'autre")
    page.goto(first)
    expect(page.get_by_role("alert")).to_be_visible()
    expect(page.get_by_label("What you wrote")).to_be_hidden()


def test_a_refused_outcome_keeps_the_note(visit: Visits, alice: Account, agent: User, supervisor: User) -> None:
    first, second = (make_order(alice) for _ in range(2))
    person = visit()
    page = call(person)
    intercept(page, "**/state/*", lambda route: route.abort())
    page.get_by_label("Note").fill("Livrer le matin")
    lifecycle.cancel(first.id, actor=Actor.of_staff(supervisor), reason="Duplicate")
    page.get_by_role("button", name="Confirm").click()
    expect(page.get_by_role("alert").first).to_contain_text(re.compile(r"Already canceled by Karim at \d\d:\d\d\."))
    expect(page.get_by_label("Note")).to_have_value("Livrer le matin")
    person.wrongs.clear()
    second.refresh_from_db()
    assert (second.status, CallNote.objects.count()) == ("pending_confirmation", 0)


def test_a_refused_time_is_written_anew(visit: Visits, alice: Account, agent: User) -> None:
    customers(alice, 1)
    off = days.today() + timedelta(days=2)
    CallingPeriod.objects.update(last_day=days.today())
    CallingRules.objects.create(account=alice, days_off=[off.isoweekday()])
    page = call(visit())
    for width in (1366, 375):
        page.set_viewport_size({"width": width, "height": 740})
        by_button(page, "callback", f"{off}T12:00")
        error = page.locator("#outcome .errornote")
        expect(error).to_contain_text("No calls are made on that day.")
        expect(page.get_by_label("At a chosen time")).to_be_focused()
        expect(error).to_be_in_viewport(ratio=1)
        widths = [part.bounding_box()["width"] for part in (error, page.locator("p:has(> #call-at)"))]
        assert widths[0] == widths[1]
        for _ in range(2):  # out of the field, out of the panel
            page.keyboard.press("Escape")
    settled(page)
    page.keyboard.press("3")
    told(page, "“No answer” is noted")


def test_escape_leads_from_a_panel_to_what_opened_it(visit: Visits, alice: Account, agent: User) -> None:
    customers(alice, 1)
    page = call(visit())
    settled(page)
    for place, presses in (("button", 1), ("input", 2)):
        page.keyboard.press("7")
        expect(page.locator("#outcome kbd:not(.panel *, .hint *)").filter(visible=True)).to_have_count(0)
        page.locator(f"details[name=outcome][open] .panel {place}").last.focus()
        for _ in range(presses):
            page.keyboard.press("Escape")
        expect(page.locator("summary[data-key='7']")).to_be_focused()
        expect(page.locator("details[name=outcome][open]")).to_have_count(0)


def test_escape_leaves_a_field_and_the_next_key_is_for_the_open_panel(
    visit: Visits, alice: Account, agent: User, colleague: User
) -> None:
    """With the panel closed, that key would decide something else: `1` confirms."""
    written = [
        ("2", "details", "trop cher 1", "1", "is canceled"),
        ("2", "note", "trop cher 1", "1", "is canceled"),
        ("7", "at", "25", "1", "You will call Customer 2 back on"),
        ("8", "to", "Nadia", "2", "Handed to Nadia: Customer 3."),
        ("9", "skip_reason", "ligne 1", "2", "“Skipped” is noted"),
    ]
    orders = customers(alice, len(written))
    page = call(visit())
    for order, (panel, field, words, choice, said) in zip(orders, written, strict=True):
        calls(page, order.customer_name)
        settled(page)
        page.keyboard.press(panel)
        page.locator(f"[name={field}]").focus()
        page.keyboard.type(words)
        page.keyboard.press("Escape")
        expect(page.locator("#outcome details[open] .panel button").first).to_be_focused()
        page.keyboard.press(choice)
        told(page, said)
    reasons = [Order.objects.get(id=order.id).cancel_reason for order in orders[:2]]
    assert reasons == ["Customer refused: trop cher 1", "Customer refused"]
    assert Order.objects.get(id=orders[3].id).callback_agent == colleague


def test_a_double_click_is_one_outcome(visit: Visits, alice: Account, agent: User) -> None:
    customers(alice, 2)
    page = call(visit())
    page.locator("button[value=confirm]").dblclick()
    calls(page, "Customer 1")
    assert (CallNote.objects.count(), Event.objects.exclude(kind="order.created").count()) == (1, 1)


# --- What happens meanwhile --------------------------------------------------------------------------------------


def test_a_merchants_cancel_is_told_and_nothing_can_be_pressed(visit: Visits, alice: Account, agent: User) -> None:
    (order,) = customers(alice, 1)
    _, key = ApiKey.issue(alice, name="Shop")
    person = visit()
    page = call(person)
    assert int(page.locator("#outcome").get_attribute("data-polled-every")) <= 5
    headers = {"Authorization": f"Bearer {key}"}
    assert page.request.post(f"/api/v1/orders/{order.id}/cancel", headers=headers).status == 200
    warned(page, re.compile(r"Already canceled by API key Shop at \d\d:\d\d\."))
    expect(page.get_by_role("button", name="Confirm")).to_be_disabled()
    expect(page.get_by_role("button", name="No answer")).to_be_disabled()
    page.keyboard.press("1")
    page.get_by_role("link", name="Reload").click()
    expect(page.get_by_role("alert")).to_contain_text("Nothing is left to decide.")
    assert CallNote.objects.count() == 0


def test_the_card_of_a_changed_order_is_marked_and_no_harder_to_read(
    visit: Visits, alice: Account, agent: User, axe: Callable[..., None]
) -> None:
    """The agent may still be reading it out on the phone."""
    (order,) = customers(alice, 1)
    page = call(visit())
    card = page.locator("section.pending")
    expect(card).to_have_css("outline-style", "none")
    lifecycle.cancel(order.id, actor=Actor(Role.MERCHANT, "Boutique"))
    warned(page, "Already canceled by Boutique at")
    expect(card).to_have_css("outline-style", "dashed")
    axe(page, *SCHEMES)


def test_it_is_told_by_scripts_of_two_versions_too(visit: Visits, alice: Account, agent: User) -> None:
    """During an upgrade, the version before may serve pressing.js, which did not return `resume`."""
    (order,) = customers(alice, 1)
    person = visit()
    person.page.route("**/pressing*.js", of_the_version_before)
    page = call(person)
    lifecycle.cancel(order.id, actor=Actor(Role.MERCHANT, "Boutique"))
    warned(page, "Already canceled by Boutique at")
    expect(page.get_by_role("button", name="Confirm")).to_be_disabled()


def of_the_version_before(route: Route) -> None:
    answer = route.fetch()
    script = answer.text()
    assert ", resume }" in script
    route.fulfill(response=answer, body=script.replace(", resume }", " }"))


def test_what_is_told_is_read_out_once_however_its_words_are_spaced(visit: Visits, alice: Account, agent: User) -> None:
    (order,) = customers(alice, 1)
    person = visit()
    person.page.clock.install()
    page = call(person)
    lifecycle.cancel(order.id, actor=Actor(Role.MERCHANT, "A  B"))
    page.clock.fast_forward(4_000)
    warned(page, "Already canceled by A B at")
    page.evaluate("""() => {
        window.written = 0;
        const count = changes => { written += changes.length };
        new MutationObserver(count).observe(document.querySelector("#news > div"), { childList: true, subtree: true });
    }""")
    for _ in range(2):
        with page.expect_response("**/state/*"):
            page.clock.fast_forward(4_000)
    assert page.evaluate("written") == 0


def test_a_new_order_of_the_customer_is_told_after_a_look_without_an_answer(
    visit: Visits, alice: Account, charlie: Account, agent: User
) -> None:
    make_order(alice)
    page = visit().sign_in("samira")
    page.add_init_script(IMPATIENT)
    held: list[Route] = []
    intercept(page, "**/state/*", lambda route: held.append(route), times=1)
    call_next(page)
    eventually(lambda: page.wait_for_timeout(10) or held)
    make_order(charlie)
    warned(page, "This customer has another order that is not on this page yet.")
    expect(page.get_by_role("button", name="Confirm")).to_be_enabled()
    page.get_by_role("link", name="Reload").click()
    expect(page.get_by_role("radio")).to_have_count(2)


def test_reloading_comes_back_to_the_order_at_hand(
    visit: Visits, alice: Account, charlie: Account, agent: User
) -> None:
    """By signing in anew, too."""
    for name in ("Robe", "Montre", "Sac"):
        make_order(alice, items=[order_line(quantity=1, product_name=name, unit_price=Decimal(1))])
    person = visit()
    person.page.clock.install()
    page = call(person)
    for _ in range(2):
        page.keyboard.press("ArrowRight")
    make_order(charlie)
    page.clock.fast_forward(4_000)
    warned(page, "This customer has another order that is not on this page yet.")
    page.get_by_role("link", name="Reload").click()
    expect(page.get_by_role("radio", name="Order 3 of 4")).to_be_checked()
    page.wait_for_load_state()  # with its scripts run

    page.keyboard.press("ArrowRight")
    page.reload()
    expect(page.get_by_role("radio", name="Order 4 of 4")).to_be_checked()
    page.wait_for_load_state()

    page.get_by_role("radio", name="Order 2 of 4").check()
    Session.objects.all().delete()
    page.clock.fast_forward(4_000)
    warned(page, "You have been signed out.")
    page.get_by_role("link", name="Reload").click()
    log_in(page, "samira")
    expect(page.get_by_role("radio", name="Order 2 of 4")).to_be_checked()


def test_of_several_orders_the_chosen_one_is_decided(
    visit: Visits, alice: Account, charlie: Account, agent: User
) -> None:
    lines = [[order_line(quantity=1, product_name=name, unit_price=Decimal(1))] for name in ("Robe", "Montre", "Sac")]
    first, second, third = (
        make_order(account, items=items) for account, items in zip((alice, charlie, alice), lines, strict=True)
    )
    page = call(visit())
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("radio", name="Order 2 of 3")).to_be_checked()
    settled(page)
    page.keyboard.press("1")
    told(page, "is confirmed")
    expect(page.get_by_role("radio", name="Order 2 of 2")).to_be_checked()  # the next one
    by_key(page, "cancel", "")
    told(page, "is canceled")
    settled(page)
    page.keyboard.press("3")
    told(page, "“No answer” is noted")
    statuses = dict(Order.objects.values_list("id", "status"))
    assert [statuses[order.id] for order in (first, second, third)] == ["pending_confirmation", "confirmed", "canceled"]


def test_no_arrow_chooses_another_order_under_an_open_panel_or_with_a_modifier(
    visit: Visits, alice: Account, agent: User
) -> None:
    """Alt and an arrow lead back or forward in the browser."""
    first, _second = (
        make_order(alice, items=[order_line(quantity=1, product_name=name, unit_price=1)]) for name in ("Robe", "Sac")
    )
    page = call(visit())
    settled(page)
    page.keyboard.press("Alt+ArrowRight")
    expect(page.get_by_role("radio", name="Order 1 of 2")).to_be_checked()
    for key in ("2", "ArrowRight", "1"):
        page.keyboard.press(key)
    told(page, "is canceled")
    assert Order.objects.get(status="canceled") == first


def test_the_arrows_choose_where_nothing_can_be_stored(visit: Visits, alice: Account, agent: User) -> None:
    """The browser's room for drafts is full."""
    for name in ("Robe", "Sac"):
        make_order(alice, items=[order_line(quantity=1, product_name=name, unit_price=1)])
    person = visit()
    person.page.add_init_script("Storage.prototype.removeItem = Storage.prototype.setItem = () => { throw 'full' }")
    page = call(person)
    settled(page)
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("radio", name="Order 2 of 2")).to_be_checked()
    assert set(person.wrongs) == {"full"}
    person.wrongs.clear()


def test_a_duplicate_is_that_of_the_card_with_the_button(visit: Visits, alice: Account, agent: User) -> None:
    first, second = (make_order(alice) for _ in range(2))
    page = call(visit())
    expect(page.get_by_role("radio", name="Order 1 of 2")).to_be_checked()
    settled(page)
    button = page.locator(f"section[data-order='{second.id}']").get_by_role(
        "button", name="Cancel as duplicate", include_hidden=True
    )
    button.evaluate("button => button.form.requestSubmit(button)")  # as in a browser that hides no card
    told(page, "is canceled")
    assert dict(Order.objects.values_list("id", "status")) == {first.id: "pending_confirmation", second.id: "canceled"}


def test_an_idle_agent_is_warned_and_then_loses_the_customer(visit: Visits, alice: Account, agent: User) -> None:
    customers(alice, 1)
    person = visit()
    person.page.clock.install()
    page = call(person)
    Claim.objects.update(expires_at=Now() + timedelta(seconds=50))
    page.clock.fast_forward(70_000)
    expect(page.locator("#lease")).to_contain_text("This customer goes back to the queue in a minute")
    page.keyboard.press("Shift")
    expect(page.locator("#lease")).to_be_empty()
    assert Claim.objects.get().expires_at > timezone.now() + timedelta(minutes=9)

    Claim.objects.update(expires_at=Now() - timedelta(seconds=1))
    page.clock.fast_forward(5_000)
    warned(page, "You were inactive for ten minutes, so the customer was released.")
    expect(page.get_by_role("button", name="Confirm")).to_be_disabled()
    page.get_by_role("link", name="Reload").click()
    page.get_by_role("button", name="Take this customer again").click()
    calls(page, "Customer 0")


def test_an_agent_at_work_keeps_the_customer_though_the_clock_is_set_back(
    visit: Visits, alice: Account, agent: User
) -> None:
    customers(alice, 1)
    person = visit()
    person.page.clock.install()
    page = call(person)
    page.wait_for_load_state()
    page.clock.set_system_time(timezone.now() - timedelta(hours=1))
    page.clock.fast_forward(70_000)
    with page.expect_request("**/keep/"):
        page.keyboard.press("Shift")


def test_so_does_one_who_comes_back_to_a_computer_that_slept(visit: Visits, alice: Account, agent: User) -> None:
    """In some browsers, performance.now() stands still meanwhile."""
    customers(alice, 1)
    person = visit()
    person.page.clock.install()
    page = call(person)
    page.wait_for_load_state()
    page.clock.set_system_time(timezone.now() + timedelta(seconds=570))
    Claim.objects.update(expires_at=Now() + timedelta(seconds=30))
    with page.expect_response("**/state/*"):
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(page.locator("#lease")).to_contain_text("This customer goes back to the queue in a minute")
    page.keyboard.press("Shift")
    expect(page.locator("#lease")).to_be_empty()
    assert Claim.objects.get().expires_at > timezone.now() + timedelta(minutes=9)


def test_a_service_that_keeps_nobody_is_not_asked_at_each_move(visit: Visits, alice: Account, agent: User) -> None:
    customers(alice, 1)
    person, asked = visit(), []
    person.page.clock.install()
    page = call(person)
    page.wait_for_load_state()
    page.clock.pause_at(timezone.now() + timedelta(minutes=5))  # from here on, it looks when it is told to
    intercept(page, "**/keep/*", lambda route: (asked.append(route.request.url), route.fulfill(status=503)))
    Claim.objects.update(expires_at=Now() + timedelta(seconds=30))

    def is_told() -> bool:
        page.evaluate("watch.look()")  # ends with the look, or at once if the page is looking already
        return "This customer goes back to the queue in a minute" in page.locator("#lease").inner_text()

    eventually(is_told)

    def move() -> None:
        with page.expect_response("**/state/*"):  # it looks why it was refused
            for place in range(1, 20):
                page.mouse.move(place, place)
                page.wait_for_timeout(50)  # for the answers

    move()
    assert len(asked) == 1, "once after each look"
    with page.expect_response("**/state/*"):
        page.clock.fast_forward(4_000)
    move()
    assert len(asked) == 2
    person.wrongs.clear()


def test_two_agents_call_two_customers(visit: Visits, alice: Account, agent: User, colleague: User) -> None:
    orders = customers(alice, 2)
    samira, person = visit().sign_in("samira"), visit()
    nadia = person.sign_in("nadia")
    call_next(samira)
    call_next(nadia)
    calls(samira, "Customer 0")
    calls(nadia, "Customer 1")
    nadia.goto(f"/console/orders/order/{orders[0].id}/")
    expect(nadia.locator(".decide")).to_contain_text("Samira is calling this customer")
    nadia.goto(samira.url)
    expect(nadia.get_by_role("alert")).to_be_visible()
    expect(nadia.locator("#outcome")).to_have_count(0)
    nadia.goto(DESK)
    expect(nadia.locator(".people").last).to_contain_text("Samira")


def test_a_supervisor_sets_a_customer_free(visit: Visits, alice: Account, agent: User, supervisor: User) -> None:
    customers(alice, 1)
    page = call(visit())
    claims.release(Claim.objects.get().id)
    warned(page, "a supervisor released the customer")
    expect(page.get_by_role("button", name="Confirm")).to_be_disabled()


# --- Without JavaScript; in other languages; for everybody ---------------------------------------------------------


def test_it_works_without_javascript(visit: Visits, alice: Account, agent: User) -> None:
    customers(alice, 2)
    page = visit(java_script_enabled=False).log_in("samira")
    page.get_by_role("button", name="Next order").click()
    page.wait_for_url(SCREEN)
    page.wait_for_timeout(SECOND)
    expect(page.get_by_role("button", name="Copy")).to_be_hidden()
    open_panel(page, "Cancel…")
    page.get_by_label("In your own words").first.fill("CMD-12")
    page.keyboard.press("Enter")  # presses nothing, and confirms nothing
    press(page, "Duplicate")
    told(page, "is canceled")
    page.wait_for_timeout(SECOND)
    page.get_by_label("Pause after this call").check()
    press(page, "Busy")
    told(page, "“Busy” is noted")
    assert sorted(CallNote.objects.values_list("outcome", flat=True)) == ["busy", "note"]


@pytest.mark.parametrize(("language", "direction"), [("ar-DZ", "rtl"), ("fr-DZ", "ltr")])
def test_the_hour_in_arabic_and_french(
    language: str, direction: str, visit: Visits, alice: Account, agent: User, colleague: User
) -> None:
    orders = customers(alice, 4)
    page = visit(locale=language).log_in("samira")
    assert page.evaluate("document.documentElement.dir") == direction
    call_next(page)
    for order, outcome in zip(orders, ("confirm", "cancel", "callback_hour", "no_answer"), strict=True):
        calls(page, order.customer_name)
        expect(page.locator("a.phone bdi")).to_have_attribute("dir", "ltr")
        settled(page)
        if outcome == "cancel":
            for key in "21":
                page.keyboard.press(key)
        else:
            by_key(page, outcome, "")
        expect(page.locator(f".done-{shown.draft_name(order.phone_e164, agent)}")).to_be_visible()
    states = list(Order.objects.order_by("id").values_list("status", "call_state"))
    assert states == [
        ("confirmed", "new"),
        ("canceled", "new"),
        ("pending_confirmation", "callback"),
        ("pending_confirmation", "retry"),
    ]


def full_screen(alice: Account, charlie: Account, agent: User, colleague: User) -> Order:
    """A customer with everything that a call screen can show."""
    robe = ProductFactory(account=alice, name="Robe kabyle", stock_quantity=1)
    old = make_order(alice, external_id="CMD-1")
    lifecycle.cancel(old.id, actor=Actor.of_staff(colleague), reason="Trop cher")
    order = make_order(
        alice,
        customer_wilaya="W. d'Alger",
        customer_commune="bab ezouar",
        notes="Après 17 h",
        items=[order_line(quantity=3, product_id=robe.id, attributes={"Taille": "M"})],
    )
    make_order(charlie)
    lifecycle.add_call_note(
        order.id, lifecycle.Call(agent=colleague, outcome=CallNote.Outcome.BUSY, note="Occupé deux fois")
    )
    editing.edit(order.id, editing.Edit(customer_address="14 rue des Oliviers"), actor=Actor.of_staff(colleague))
    waiting = make_order(alice, customer_name="Lynda Aït", phone="0770123456")
    waits(waiting, CallState.CALLBACK, agent=agent)
    claims.take(make_order(alice, customer_name="Omar Toumi", phone="0770123457").id, agent=colleague)
    return order


@pytest.mark.parametrize(("language", "schemes"), [("en", SCHEMES), ("ar-DZ", SCHEMES[:1])])
def test_no_page_of_the_desk_breaks_a_rule_of_axe(
    language: str,
    schemes: tuple[str, ...],
    visit: Visits,
    alice: Account,
    charlie: Account,
    agent: User,
    colleague: User,
    axe: Callable[..., None],
) -> None:
    order = full_screen(alice, charlie, agent, colleague)
    person = visit(locale=language, viewport={"width": 1366, "height": 768})
    person.page.goto("/console/login/")
    axe(person.page, *schemes)
    page = person.sign_in("samira")
    axe(page, *schemes)
    page.goto(f"/console/orders/order/{order.id}/")
    axe(page, *schemes)
    page.locator("form[action*=take] button").click()
    page.wait_for_url(SCREEN)
    axe(page, *schemes)
    settled(page)
    for key in ("2", "7", "8", "9"):
        page.keyboard.press(key)
        axe(page, *schemes)
        page.keyboard.press("Escape")
    page.goto(urljoin(page.url, f"edit/{order.id}/"))
    page.locator("[name=wilaya]").fill("bor")
    expect(page.get_by_role("option").first).to_be_visible()
    axe(page, *schemes)


def test_no_word_on_the_buttons_of_a_panel_is_broken(visit: Visits, alice: Account, agent: User) -> None:
    customers(alice, 1)
    CallingPeriod.objects.all().delete()
    tomorrow = days.today() + timedelta(days=1)
    weekday = 3 if tomorrow.isoweekday() == 7 else 7  # mercredi, dimanche
    CallingRules.objects.create(account=alice, days_off=[day for day in range(1, 8) if day != weekday])
    claim_id = claims.take(Order.objects.get().id, agent=agent)
    page = visit(viewport={"width": 1280, "height": 768}).sign_in("samira")
    for language in ("en", "fr", "ar-DZ"):
        page.set_extra_http_headers({"Accept-Language": language})
        page.goto(f"{DESK}{claim_id}/")
        assert page.evaluate("document.documentElement.lang") == language.lower()
        settled(page)
        for key in "2789":
            page.locator(f"#outcome summary[data-key='{key}']").click()
            assert page.locator("#outcome details[open] .button").count()
            assert page.evaluate(BROKEN, "#outcome details[open] .button") == [], language
            page.keyboard.press("Escape")


def loaded(page: Page) -> int:
    """The bytes of a page with its styles and scripts, whether they came from the cache or not."""
    sizes = page.evaluate("performance.getEntries().map(each => [each.name, each.decodedBodySize ?? 0])")
    return sum(size for address, size in sizes if "/state/" not in address)


def test_a_screen_is_small_and_all_its_buttons_in_sight(
    visit: Visits, alice: Account, charlie: Account, agent: User, colleague: User
) -> None:
    full_screen(alice, charlie, agent, colleague)
    customers(alice, 2)
    person = visit(viewport={"width": 1366, "height": 768})
    page = person.sign_in("samira")
    call_next(page)  # the promised call
    settled(page)
    page.wait_for_load_state("networkidle")
    sizes = [loaded(page)]
    page.keyboard.press("3")
    told(page, "is noted")
    page.wait_for_load_state("networkidle")
    sizes.append(loaded(page))
    assert all(50_000 < size < 90_000 for size in sizes), sizes
    bottoms = page.eval_on_selector_all(
        "#outcome .button:not(.panel *)", "all => all.map(e => e.getBoundingClientRect().bottom)"
    )
    assert len(bottoms) == 10  # the outcomes, and two orders confirmed at once
    assert max(bottoms) <= 768
