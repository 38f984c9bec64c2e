"""Which agents serve whom: who is served, what is counted, who may be given what, and who is told of it."""

import re
from datetime import time, timedelta

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agents.desk import assignment, claims, decisions, overview
from agents.models import Assignment, CallingPeriod, CallingRules, Claim
from agents.supervision import assignment_page
from codservice import days
from codservice.accounts.models import Account, SecurityEntry, User
from orders.lifecycle import Call
from orders.models import CallNote, CallState, Order, Status
from tests.agents.screens import take, told
from tests.agents.states import waits
from tests.factories import AccountFactory, AgentFactory, make_order
from tests.harness.background import Background, at_once, open_transaction
from tests.harness.client import browser_of
from tests.harness.database import wait_for_lock
from tests.harness.plans import copy, rows_read

DESK, PEOPLE, REVIEW = "/console/desk/", "/console/people/", "/console/review/"


def page_of(user: User) -> str:
    return f"{PEOPLE}{user.id}/serves/"


def rule(agent: User, *merchants: Account, languages: tuple[str, ...] = ()) -> None:
    assignment.set_served(agent, merchants={merchant.id for merchant in merchants}, languages=languages)


def script(account: Account, **texts: str) -> None:
    CallingRules.objects.update_or_create(account=account, defaults=texts)


def served(agent: User) -> str | None:
    """Serve the agent a customer and free that customer again. Return the merchant of the customer's first order."""
    claim_id = claims.next_customer(agent)
    if claim_id is None:
        return None
    phone = Claim.objects.get(id=claim_id).phone_e164
    claims.release(claim_id)
    return Order.objects.filter(phone_e164=phone).earliest("id").account.name


@pytest.fixture
def browser(supervisor: User) -> Client:
    return browser_of(supervisor)


@pytest.fixture
def waiting(alice: Account, charlie: Account) -> list[Order]:
    """Alice's order is older than Charlie's."""
    return [make_order(alice, phone="0550000001"), make_order(charlie, phone="0550000002")]


# --- Who is served -----------------------------------------------------------------------------------------------


def test_an_agent_is_served_the_merchants_that_were_chosen(
    waiting: list[Order], alice: Account, charlie: Account, agent: User, colleague: User
) -> None:
    rule(agent, charlie)
    assert served(agent) == "Charlie's shop"
    assert served(colleague) == "Alice's shop"  # an agent without a rule serves all
    rule(agent, alice, charlie)
    assert served(agent) == "Alice's shop"
    rule(agent, AccountFactory())
    assert served(agent) is None
    rule(agent)
    assert served(agent) == "Alice's shop"


@pytest.mark.parametrize(
    ("texts", "languages", "is_served"),
    [
        ({"script_fr": "Bonjour"}, ("ar",), False),
        ({"script_fr": "Bonjour"}, ("fr",), True),
        ({"script_fr": "Bonjour", "script_ar": "سلام"}, ("ar",), True),
        ({"script_ar": "سلام"}, ("fr",), False),
        ({"script_ar": "سلام"}, ("ar", "fr"), True),
        ({}, ("ar",), True),
        ({"script_fr": "Bonjour"}, (), True),
    ],
)
def test_the_languages_are_those_of_the_merchants_script(
    texts: dict[str, str], languages: tuple[str, ...], is_served: bool, order: Order, agent: User
) -> None:
    script(order.account, **texts)
    rule(agent, languages=languages)
    assert bool(served(agent)) == is_served


def test_both_rules_bind_together(waiting: list[Order], alice: Account, charlie: Account, agent: User) -> None:
    script(charlie, script_fr="Bonjour")
    rule(agent, charlie, languages=("ar",))
    assert served(agent) is None


@pytest.mark.parametrize("state", ["new", "retry", "callback"])
def test_new_orders_retries_and_late_promises_are_served_by_the_rules(
    state: str, waiting: list[Order], charlie: Account, agent: User, colleague: User
) -> None:
    due_at = Now() - timedelta(hours=1)
    promised_by = colleague if state == "callback" else None
    Order.objects.update(call_state=state, call_due_at=due_at, callback_agent=promised_by)
    rule(agent, charlie)
    assert served(agent) == "Charlie's shop"


def test_a_promise_is_kept_by_who_made_it(waiting: list[Order], charlie: Account, agent: User) -> None:
    Order.objects.filter(id=waiting[0].id).update(
        call_state=CallState.CALLBACK, callback_agent=agent, call_due_at=Now()
    )
    rule(agent, charlie)
    assert overview.counters(agent)["due"] == 2
    assert served(agent) == "Alice's shop"
    assert claims.take(waiting[0].id, agent=agent)


def test_a_call_is_about_all_orders_of_the_customer(alice: Account, charlie: Account, agent: User) -> None:
    make_order(alice)
    second = make_order(charlie)
    rule(agent, charlie)
    assert claims.next_customer(agent)
    assert claims.on_customer(second.phone_e164).agent == agent
    assert set(Order.objects.values_list("phone_e164", flat=True)) == {second.phone_e164}


@pytest.mark.django_db(transaction=True)
def test_agents_of_different_merchants_at_once_get_their_own(alice: Account, charlie: Account) -> None:
    shops = [alice, charlie]
    for number in range(24):
        make_order(shops[number % 2], phone=f"05500{number:05}")
    agents = [AgentFactory() for _ in range(16)]
    for number, agent in enumerate(agents):
        rule(agent, shops[number % 2])
    got = at_once(16, lambda number: claims.next_customer(agents[number]))
    assert None not in got
    assert len(set(got)) == 16
    for number, agent in enumerate(agents):
        (claim,) = Claim.objects.filter(agent=agent)
        assert Order.objects.get(phone_e164=claim.phone_e164).account == shops[number % 2]


# --- What the desk says ------------------------------------------------------------------------------------------


def test_the_counters_count_what_the_agent_may_be_served(
    waiting: list[Order], alice: Account, charlie: Account, agent: User, colleague: User
) -> None:
    late = make_order(alice, phone="0550000003")
    midnight = days.end_of(days.today()) - timedelta(seconds=1)
    Order.objects.filter(id=late.id).update(call_due_at=midnight, call_state=CallState.RETRY)
    for shops, due, later in (((), 2, 1), ((charlie,), 1, 0), ((alice,), 1, 1), ((AccountFactory(),), 0, 0)):
        rule(agent, *shops)
        counted = overview.counters(agent)
        assert (counted["due"], counted["later"]) == (due, later)
    assert overview.counters(colleague)["due"] == 2


def test_for_an_agents_own_promises_no_other_orders_are_read(alice: Account, charlie: Account, agent: User) -> None:
    """However many are due with merchants whom the agent does not serve."""
    today = {"first_day": days.today(), "last_day": days.today(), "opens_at": time(8), "closes_at": time(9)}
    CallingPeriod.objects.create(account=charlie, is_closed=True, **today)
    rule(agent, charlie)
    waits(make_order(alice, phone="0550000001"), CallState.CALLBACK, -1, agent)
    copy(waits(make_order(alice, phone="0550000002"), CallState.NEW, -1), 2000, days=2)
    with CaptureQueriesContext(connection) as queries:
        assert overview.counters(agent)["due"] == 1
    (counting,) = (query["sql"] for query in queries)
    assert rows_read(counting, "orders_order") < 50


def test_the_next_call_is_one_of_theirs(waiting: list[Order], alice: Account, charlie: Account, agent: User) -> None:
    soon = timezone.now() + timedelta(hours=1)
    later = soon + timedelta(hours=4)
    Order.objects.filter(account=alice).update(call_due_at=soon)
    Order.objects.filter(account=charlie).update(call_due_at=later)
    assert overview.next_call(agent) == (soon, False)
    rule(agent, charlie)
    assert overview.next_call(agent) == (later, False)
    rule(agent, AccountFactory())
    assert overview.next_call(agent) is None
    assert b"No calls are due or planned" in browser_of(agent).post(f"{DESK}next/", follow=True).content


def test_rules_and_hours_bind_together(
    waiting: list[Order], alice: Account, charlie: Account, agent: User, colleague: User
) -> None:
    CallingPeriod.objects.all().delete()
    tomorrow = days.today() + timedelta(days=1)
    CallingRules.objects.create(account=alice, opens_at=time.min, closes_at=time.max, days_off=[])
    CallingRules.objects.create(
        account=charlie, opens_at=time.min, closes_at=time.max, days_off=[days.today().isoweekday()]
    )
    rule(agent, charlie)
    assert served(agent) is None
    assert overview.counters(agent)["due"] == 0
    assert overview.next_call(agent) == (days.start_of(tomorrow), True)
    assert served(colleague) == "Alice's shop"


def test_rules_cost_no_statement(waiting: list[Order], charlie: Account, agent: User) -> None:
    for _look in range(2):
        with CaptureQueriesContext(connection) as queries:
            assert served(agent)
            overview.counters(agent)
            overview.next_call(agent)
        statements = [query["sql"] for query in queries if "agents_assignment" in query["sql"]]
        assert len(statements) == 3
        rule(agent, charlie, languages=("ar",))


# --- By hand -----------------------------------------------------------------------------------------------------


def test_an_agent_takes_no_customer_of_a_merchant_they_do_not_serve(
    waiting: list[Order], charlie: Account, agent: User
) -> None:
    rule(agent, charlie)
    with pytest.raises(assignment.NotServed, match="Samira is not set to serve Alice's shop"):
        claims.take(waiting[0].id, agent=agent)
    answer = browser_of(agent).post(f"{DESK}take/{waiting[0].id}/", follow=True)
    assert "Samira is not set to serve Alice&#x27;s shop." in answer.content.decode()
    assert not Claim.objects.exists()
    assert claims.take(waiting[1].id, agent=agent)


def test_an_agent_takes_a_customer_of_whom_they_serve_some_order(alice: Account, charlie: Account, agent: User) -> None:
    """Any of the customer's orders will do, also after the lease on a customer who was served has run out."""
    rule(agent, charlie)
    older = make_order(alice)
    make_order(charlie)
    browser = browser_of(agent)
    screen = take(browser, older)
    assert len(screen.pending) == 2
    Claim.objects.update(expires_at=Now() - timedelta(seconds=1))
    gone = browser.get(screen.address)
    assert gone.context["again"] == older.id
    assert take(browser, older).pending == screen.pending


def test_an_agent_takes_a_customer_to_whom_they_promised_a_call(alice: Account, charlie: Account, agent: User) -> None:
    rule(agent, charlie)
    promised, other = make_order(alice), make_order(alice)
    waits(promised, CallState.CALLBACK, 60, agent)
    assert claims.take(other.id, agent=agent)


def test_a_supervisor_takes_anybody_and_is_told(
    waiting: list[Order], charlie: Account, supervisor: User, browser: Client
) -> None:
    rule(supervisor, charlie)
    answer = browser.post(f"{DESK}take/{waiting[0].id}/", follow=True)
    assert "Karim is not set to serve Alice&#x27;s shop." in answer.content.decode()
    assert Claim.objects.get().agent == supervisor
    Claim.objects.all().delete()
    assert b"is not set to serve" in browser.post(REVIEW, {"take": str(waiting[0].id)}, follow=True).content
    Claim.objects.all().delete()
    assert b"is not set to serve" not in browser.post(REVIEW, {"take": str(waiting[1].id)}, follow=True).content


def hand_over(order: Order, *, by: User, to: User) -> None:
    screen = decisions.Screen(claims.take(order.id, agent=by), by, {order.id: 1})
    decisions.note_call(screen, Call(by, CallNote.Outcome.HANDED_OVER, "x"), to=to)


def test_who_is_handed_over_must_be_served_unless_a_supervisor_says_so(
    waiting: list[Order], charlie: Account, agent: User, colleague: User, supervisor: User
) -> None:
    rule(colleague, charlie)
    with pytest.raises(assignment.NotServed, match="Nadia is not set to serve Alice's shop"):
        hand_over(waiting[0], by=agent, to=colleague)
    assert not CallNote.objects.exists()
    Claim.objects.all().delete()
    hand_over(waiting[0], by=supervisor, to=colleague)
    hand_over(waiting[1], by=agent, to=colleague)
    assert served(colleague) == "Alice's shop"  # now a promise of theirs


def test_at_the_screen_an_agent_is_refused_and_a_supervisor_told(
    waiting: list[Order], charlie: Account, agent: User, colleague: User, browser: Client
) -> None:
    rule(colleague, charlie)
    asked = {"to": str(colleague.id), "handover_reason": "Asks for Nadia"}
    refused = take(browser_of(agent), waiting[0]).press("handed_over", **asked)
    assert refused.status_code == 409
    assert "Nadia is not set to serve Alice's shop." in told(refused)
    assert not CallNote.objects.exists()
    Claim.objects.all().delete()
    done = take(browser, waiting[0]).press("handed_over", **asked)
    assert done.status_code == 302
    assert "Nadia is not set to serve Alice's shop. It was done anyway" in told(done)
    assert CallNote.objects.get().outcome == "handed_over"


def test_a_supervisor_who_assigns_many_orders_is_told(
    waiting: list[Order], charlie: Account, agent: User, browser: Client
) -> None:
    rule(agent, charlie)
    look = browser.get("/console/bulk/", {"action": "assign", "every": "1"})
    data = {"to": str(agent.id), "seen": look.context["seen"]}
    answer = browser.post("/console/bulk/?action=assign&every=1", data, follow=True)
    said = [str(message) for message in answer.context["messages"]]
    assert said[0] == "2 orders are assigned to Samira."
    assert said[1].startswith("Samira is not set to serve Alice's shop.")
    assert served(agent) == "Alice's shop"


def test_a_supervisor_is_told_of_no_merchant_whose_orders_stay_as_they_are(
    waiting: list[Order], alice: Account, charlie: Account, agent: User, colleague: User, browser: Client
) -> None:
    rule(agent, charlie)
    look = browser.get("/console/bulk/", {"action": "assign", "every": "1"})
    claims.take(Order.objects.get(account=alice).id, agent=colleague)
    data = {"to": str(agent.id), "seen": look.context["seen"]}
    answer = browser.post("/console/bulk/?action=assign&every=1", data, follow=True)
    assert [str(message) for message in answer.context["messages"]] == [
        "1 order is assigned to Samira.", "1 order stays as it is: Somebody is calling this customer.",
    ]  # fmt: skip


# --- The page ----------------------------------------------------------------------------------------------------


def test_a_supervisor_sets_what_an_agent_serves(
    alice: Account, charlie: Account, agent: User, supervisor: User, browser: Client
) -> None:
    SecurityEntry.objects.all().delete()
    data = {"merchants": [str(charlie.id)], "languages": ["ar", "fr"]}
    answer = browser.post(page_of(agent), data, follow=True)
    assert b"The rules of Samira are saved." in answer.content
    found = Assignment.objects.get()
    assert (found.agent, found.merchants, found.languages) == (agent, [charlie.id], ["ar", "fr"])
    text = browser.get(PEOPLE).content.decode()
    assert "1 merchant · Arabic, French" in text
    page = browser.get(page_of(agent)).content.decode()
    assert f'value="{charlie.id}" checked' in page
    assert f'value="{alice.id}">' in page
    browser.post(page_of(agent), {"merchants": [str(alice.id)], "languages": ["fr"]})
    browser.post(page_of(agent), {"merchants": [str(alice.id)], "languages": ["fr"]})
    browser.post(page_of(agent), {})
    assert not Assignment.objects.exists()
    logged = list(SecurityEntry.objects.order_by("id"))
    assert {(entry.action, entry.actor, entry.target_id) for entry in logged} == {("assigned", "karim", agent.id)}
    assert [set(entry.target.removeprefix("samira: ").split(", ")) for entry in logged] == [
        {"+Charlie's shop", "+ar", "+fr"},
        {"+Alice's shop", "-Charlie's shop", "-ar"},
        {"-Alice's shop", "-fr"},
    ]


def test_what_another_supervisor_has_set_since_the_page_was_opened_stays(
    alice: Account, agent: User, browser: Client
) -> None:
    seen = browser.get(page_of(agent)).context["form"].initial["seen"]
    rule(agent, alice)
    assert browser.post(page_of(agent), {"languages": ["ar"], "seen": seen}).status_code == 302
    found = Assignment.objects.get()
    assert (found.merchants, found.languages) == ([alice.id], ["ar"])


def test_merchants_that_another_supervisor_has_chosen_meanwhile_are_not_taken_away_without_a_word(
    alice: Account, charlie: Account, agent: User, browser: Client
) -> None:
    seen = browser.get(page_of(agent)).context["form"].initial["seen"]
    rule(agent, alice)
    refused = browser.post(page_of(agent), {"merchants": [str(charlie.id)], "seen": seen})
    assert (refused.status_code, list(refused.context["form"].errors)) == (422, ["merchants"])
    assert Assignment.objects.get().merchants == [alice.id]


def test_what_another_page_has_shown_is_not_taken_for_what_this_one_has(
    alice: Account, charlie: Account, agent: User, browser: Client
) -> None:
    seen = browser.get(f"/console/rules/{alice.id}/").context["form"].initial["seen"]
    rule(agent, alice)
    sent = {"merchants": [str(charlie.id)], "languages": ["ar"], "seen": seen}
    refused = browser.post(page_of(agent), sent)
    assert (refused.status_code, refused.context["form"].errors.keys()) == (422, {"merchants", "languages"})
    assert refused.content.decode().count("This page is out of date.") == 2
    assert Assignment.objects.get().merchants == [alice.id]

    again = sent | {"seen": refused.context["form"]["seen"].value()}
    assert browser.post(page_of(agent), again).status_code == 302
    found = Assignment.objects.get()
    assert (found.merchants, found.languages) == ([charlie.id], ["ar"])


def test_a_search_keeps_what_is_chosen_and_saves_nothing(
    alice: Account, charlie: Account, agent: User, browser: Client
) -> None:
    AccountFactory(name="Closed", is_active=False)
    answer = browser.post(page_of(agent), {"merchants": [str(alice.id)], "q": "CHARLIE\u200e", "search": "1"})
    assert answer.status_code == 200
    assert [account.name for account in answer.context["chosen"]] == ["Alice's shop"]
    assert [account.name for account in answer.context["found"]] == ["Charlie's shop"]
    assert not Assignment.objects.exists()
    assert "Closed" not in browser.get(page_of(agent)).content.decode()


def test_a_deactivated_merchant_can_be_chosen_while_its_customers_are_called(
    waiting: list[Order], charlie: Account, agent: User, browser: Client
) -> None:
    Account.objects.filter(id=charlie.id).update(is_active=False)
    assert served(agent) == "Alice's shop"
    assert [account.name for account in browser.get(page_of(agent)).context["found"]] == [
        "Alice's shop", "Charlie's shop"
    ]  # fmt: skip
    assert browser.post(page_of(agent), {"merchants": [str(charlie.id)]}).status_code == 302
    assert served(agent) == "Charlie's shop"
    assert str(charlie.id) in browser.get("/console/rules/").content.decode()
    closed = {
        "account": str(charlie.id), "name": "Moved", "first_day": days.today(), "last_day": days.today(),
        "is_closed": "on",
    }  # fmt: skip
    assert browser.post("/console/periods/", closed).status_code == 302
    assert served(agent) is None
    Order.objects.filter(account=charlie).update(status=Status.CANCELED)
    assert str(charlie.id) not in browser.get("/console/rules/").content.decode()
    assert str(charlie.id) not in browser.get("/console/periods/").content.decode().split("<tbody")[0]


@pytest.mark.parametrize(
    "data",
    [{"merchants": "x"}, {"merchants": "\0"}, {"merchants": "01980000-0000-7000-8000-000000000000"},
     {"languages": "de"}, {"merchants": "x", "search": "1", "q": "\0" * 300}],
)  # fmt: skip
def test_what_there_is_not_is_not_chosen(data: dict[str, str], agent: User, browser: Client) -> None:
    answer = browser.post(page_of(agent), data)
    assert answer.status_code == 422
    assert b"errornote" in answer.content
    assert not Assignment.objects.exists()


def test_of_a_refused_choice_the_rest_stays_chosen(
    alice: Account, charlie: Account, agent: User, browser: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the next press would let the agent serve all."""
    with monkeypatch.context() as few:
        few.setattr(assignment_page, "MOST", 1)
        answer = browser.post(page_of(agent), {"merchants": [str(alice.id), str(charlie.id)]})
        assert "Choose at most 1 merchants, or none for all." in answer.content.decode()
    Account.objects.filter(id=charlie.id).update(is_active=False)  # since the page was opened
    answer = browser.post(page_of(agent), {"merchants": [str(alice.id), str(charlie.id)]})
    assert (answer.status_code, Assignment.objects.exists()) == (422, False)
    page = answer.content.decode()
    assert f'value="{alice.id}" checked' in page
    assert str(charlie.id) not in re.findall(r'name="merchants" value="([^"]+)"', page)


@pytest.mark.django_db(transaction=True)
def test_a_press_that_comes_twice_takes_back_what_another_supervisor_is_just_setting(
    alice: Account, agent: User
) -> None:
    with open_transaction(lambda: rule(agent, alice)):
        presses = [Background(lambda: rule(agent)) for _ in range(2)]
        wait_for_lock(sessions=2)
    for press in presses:
        press.result()
    assert not Assignment.objects.exists()


def test_a_twin_is_offered_to_nobody(alice: Account, agent: User, browser: Client) -> None:
    twin = AccountFactory(name="Twin", live=alice, holder=None)
    assert "Twin" not in browser.get(page_of(agent)).content.decode()
    assert browser.post(page_of(agent), {"merchants": str(twin.id)}).status_code == 422


def test_a_merchant_that_closed_stays_chosen(alice: Account, charlie: Account, agent: User, browser: Client) -> None:
    """Otherwise the agent would serve all."""
    rule(agent, alice)
    Account.objects.filter(id=alice.id).update(is_active=False)
    assert f'value="{alice.id}" checked' in browser.get(page_of(agent)).content.decode()
    browser.post(page_of(agent), {"merchants": str(alice.id), "languages": "ar"})
    assert Assignment.objects.get().merchants == [alice.id]


def test_rules_are_for_supervisors_and_of_whom_they_manage(
    alice: Account, agent: User, supervisor: User, browser: Client
) -> None:
    assert browser_of(agent).post(page_of(agent), {"languages": "ar"}).status_code == 403
    for other in (supervisor, alice.holder):
        assert browser.post(page_of(other), {"languages": "ar"}).status_code == 404
    assert not Assignment.objects.exists()


# --- Orders that no agent may be served --------------------------------------------------------------------------


def test_orders_that_no_agent_may_be_served_are_said(
    waiting: list[Order], alice: Account, charlie: Account, agent: User, colleague: User, browser: Client
) -> None:
    assert assignment.nobodys() == []
    rule(agent, charlie)
    assert assignment.nobodys() == []  # the colleague serves all
    rule(colleague, charlie)
    assert assignment.nobodys() == [(alice.id, "Alice's shop", 1)]
    for path in (PEOPLE, REVIEW):
        text = browser.get(path).content.decode()
        assert "No agent serves these merchants" in text
        assert "1 order waits" in text
    colleague.deactivate()
    rule(agent, alice)
    assert [each.name for each in assignment.nobodys()] == ["Charlie's shop"]
    Order.objects.filter(account=charlie).update(call_state=CallState.REVIEW)
    assert assignment.nobodys() == []


def test_of_more_orders_than_are_counted_it_is_said_that_there_are_more(
    alice: Account, charlie: Account, agent: User, browser: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule(agent, charlie)
    for number in range(2):
        make_order(alice, phone=f"055000010{number}")
    monkeypatch.setattr(assignment.Nobodys, "COUNTED_TO", 3)
    assert "2 orders wait" in browser.get(REVIEW).content.decode()
    make_order(alice, phone="0550000102")
    assert "2+ orders wait" in browser.get(REVIEW).content.decode()
