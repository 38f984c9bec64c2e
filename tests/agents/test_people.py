"""Agents' accounts in a supervisor's hands: what they can do, for whom, and that nobody gains more than they have."""

import html
import re
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.contrib.messages import get_messages
from django.db import connections, transaction
from django.test import Client
from django.utils import timezone
from django_otp.plugins.otp_totp.models import TOTPDevice

from agents.desk import claims
from agents.models import Claim
from agents.supervision import people
from codservice.accounts import one_time_codes, sessions
from codservice.accounts.models import Account, PersonChanged, SecurityEntry, User
from orders import lifecycle
from orders.models import CallNote, CallState, Order
from tests import factories
from tests.agents.screens import take
from tests.harness.background import PATIENCE
from tests.harness.client import browser_of
from tests.harness.database import wait_for_lock

PEOPLE, NEW = "/console/people/", "/console/people/new/"


def page_of(user: User) -> str:
    return f"{PEOPLE}{user.id}/"


def password_in(response: Any) -> str:
    found = re.search(r'class="password" dir="ltr">([^<]+)<', response.content.decode())
    assert found
    return found[1]


@pytest.fixture
def browser(supervisor: User) -> Client:
    return browser_of(supervisor)


def test_the_list_says_what_each_agent_is_at(agent: User, colleague: User, order: Order, browser: Client) -> None:
    claims.take(order.id, agent=agent)
    lifecycle.add_call_note(order.id, lifecycle.Call(agent=agent, outcome=CallNote.Outcome.BUSY))
    lifecycle.add_call_note(order.id, lifecycle.Call(agent=agent, outcome=CallNote.Outcome.NOTE, note="no call"))
    response = browser.get(PEOPLE)
    rows = {person.username: (bool(claim), calls) for person, claim, calls in response.context["rows"]}
    assert rows == {"samira": (True, 1), "nadia": (False, 0)}


def test_the_list_has_pages(agent: User, colleague: User, browser: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Someone who has left stays in the list, and may come back."""
    colleague.groups.set([Group.objects.get(name="Agents")])
    colleague.deactivate()
    monkeypatch.setattr(people, "PER_PAGE", 1)
    first = browser.get(PEOPLE)
    assert [row[0] for row in first.context["rows"]] == [agent]
    assert 'rel="next" href="?p=2"' in first.content.decode()
    assert [row[0] for row in browser.get(PEOPLE, {"p": "2"}).context["rows"]] == [colleague]


def test_a_new_agent_signs_in_with_the_password_that_was_shown_once(browser: Client, db: None) -> None:
    response = browser.post(NEW, {"username": "lynda", "first_name": "Lynda", "last_name": "Ai\u0308t"})
    assert response.status_code == 201
    assert "no-store" in response.headers["Cache-Control"]
    password = password_in(response)
    made = User.objects.get(username="lynda")
    assert (made.is_staff, made.is_superuser, made.display_name) == (True, False, "Lynda Aït")
    assert [group.name for group in made.groups.all()] == ["Agents"]
    assert password not in browser.get(page_of(made)).content.decode()
    assert made.has_one_time_password
    entered = Client().post("/console/login/", {"username": "lynda", "password": password})
    assert entered.status_code == 302


def test_loading_the_page_of_a_new_agents_password_again_leads_to_the_agent(
    supervisor: User, operator: User, browser: Client
) -> None:
    """Who has not noted the password creates another, not a second account."""
    data = {"username": "lynda", "first_name": "Lynda"}
    browser.post(NEW, data)
    told = "A new password is shown only once. If nobody noted it, create another on this person's page:"
    for username in ("lynda", "Lynda"):
        text = html.unescape(browser.post(NEW, {**data, "username": username}).content.decode())
        assert f'{told} <a href="{page_of(User.objects.get(username="lynda"))}"><bdi>Lynda</bdi></a>' in text
    for unmanaged in (supervisor, operator):
        text = html.unescape(browser.post(NEW, {**data, "username": unmanaged.username}).content.decode())
        assert "already exists" in text
        assert told not in text


def test_an_agent_of_long_names_decides(order: Order, browser: Client) -> None:
    names = {"first_name": "A" * 150, "last_name": "B" * 150}
    browser.post(NEW, {"username": "lynda", **names})
    User.objects.filter(username="lynda").update(has_one_time_password=False)
    screen = take(browser_of(User.objects.get(username="lynda")), order)
    assert screen.press("confirm").status_code == 302
    assert order.status_changes.latest("at").actor == f"{'A' * 150} {'B' * 104}"


@pytest.mark.parametrize(
    "changes",
    [
        {"username": "karim"},
        {"username": "no name"},
        {"username": ""},
        {"first_name": ""},
        {"username": "x" * 151},
        {"first_name": "\u200b"},
        {"last_name": "Aït\a"},
    ],
)
def test_who_cannot_be_made_is_explained(changes: dict[str, str], browser: Client) -> None:
    response = browser.post(NEW, {"username": "lynda", "first_name": "Lynda", **changes})
    assert response.status_code == 422
    assert b"errornote" in response.content
    assert User.objects.count() == 1


def test_no_two_names_differ_by_case_alone(browser: Client) -> None:
    factories.AgentFactory(username="lynda")
    response = browser.post(NEW, {"username": "Lynda", "first_name": "Lynda"})
    assert response.status_code == 422
    assert "already exists" in response.content.decode()


def test_nobody_is_named_as_anothers_address(browser: Client) -> None:
    factories.UserFactory(username="boss", email="boss@shop.example")
    response = browser.post(NEW, {"username": "Boss@shop.example", "first_name": "Lynda"})
    assert response.status_code == 422
    assert "already exists" in response.content.decode()


@pytest.mark.django_db(transaction=True)
def test_who_is_being_made_by_somebody_else_is_explained_too(browser: Client) -> None:
    """The button was pressed twice, or by two supervisors, and the name was free when each looked."""

    def press() -> Any:
        try:
            return browser.post(NEW, {"username": "lynda", "first_name": "Lynda"})
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            factories.AgentFactory(username="lynda")
            second = pool.submit(press)
            wait_for_lock()
        response = second.result(PATIENCE)
    assert response.status_code == 422
    assert "already exists" in response.content.decode()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("action", ["password", "deactivate", "codes", "names"])
def test_who_is_given_more_rights_meanwhile_is_out_of_a_supervisors_hands(
    action: str, agent: User, browser: Client
) -> None:
    TOTPDevice.objects.create(user=agent, confirmed=True, name="")
    before, name = agent.password, agent.display_name

    def press() -> Any:
        try:
            return browser.post(page_of(agent), {"action": action, "first_name": "Lynda"})
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            User.objects.filter(pk=agent.pk).update(is_superuser=True)
            pressed = pool.submit(press)
            wait_for_lock()
        response = pressed.result(PATIENCE)
    (warned,) = get_messages(response.wsgi_request)
    assert str(warned) == PersonChanged.message
    agent.refresh_from_db()
    assert (agent.password, agent.is_active, agent.has_one_time_password) == (before, True, False)
    assert agent.display_name == name
    assert one_time_codes.are_on(agent)


@pytest.mark.django_db(transaction=True)
def test_codes_are_turned_off_while_somebody_else_takes_the_persons_access(agent: User, browser: Client) -> None:
    """Both lock the person before their sessions."""
    TOTPDevice.objects.create(user=agent, confirmed=True, name="")
    browser_of(agent)

    def press() -> Any:
        try:
            return browser.post(page_of(agent), {"action": "codes"})
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            User.objects.select_for_update(no_key=True).get(pk=agent.pk)
            pressed = pool.submit(press)
            wait_for_lock()
            sessions.end(agent)
        assert pressed.result(PATIENCE).status_code == 302
    assert not one_time_codes.are_on(agent)


def test_nobody_is_made_more_than_an_agent(browser: Client) -> None:
    """Whatever else is sent along."""
    extra = {"role": "Supervisors", "is_superuser": "on", "is_staff": "on", "groups": "1", "user_permissions": "1"}
    assert browser.post(NEW, {"username": "lynda", "first_name": "L", **extra}).status_code == 201
    made = User.objects.get(username="lynda")
    assert [group.name for group in made.groups.all()] == ["Agents"]
    assert not made.is_superuser
    assert not made.user_permissions.exists()


def test_operators_make_supervisors(operator: User, agent: User) -> None:
    factories.AgentFactory(role="Supervisors")  # makes the groups exist
    data = {"username": "nora", "first_name": "Nora", "role": "Supervisors"}
    assert browser_of(operator).post(NEW, data).status_code == 201
    assert User.objects.get(username="nora").has_perm("orders.supervise_order")


def test_a_deactivated_agent_is_refused_at_the_next_click(
    agent: User, colleague: User, order: Order, browser: Client
) -> None:
    theirs = browser_of(agent)
    assert theirs.get("/console/desk/").status_code == 200
    claim = claims.take(order.id, agent=agent)
    assert browser.post(page_of(agent), {"action": "deactivate"}).status_code == 302
    assert theirs.get("/console/desk/").url.startswith("/console/login/")
    assert theirs.post(f"/console/desk/{claim}/outcome/", {}).url.startswith("/console/login/")
    assert not Claim.objects.exists()
    assert claims.next_customer(colleague)
    assert theirs.post("/console/login/", {"username": "samira", "password": "correct horse"}).status_code == 200


def test_promised_calls_of_who_left_are_made_by_others(
    agent: User, colleague: User, order: Order, browser: Client
) -> None:
    Order.objects.update(call_state=CallState.CALLBACK, callback_agent=agent, call_due_at="2026-01-01T09:00Z")
    browser.post(page_of(agent), {"action": "deactivate"})
    assert claims.next_customer(colleague)


@pytest.mark.parametrize("has_left", [False, True])
def test_an_agents_page_leads_to_the_calls_that_they_promised(
    has_left: bool, agent: User, colleague: User, alice: Account, browser: Client
) -> None:
    """A supervisor gives them to somebody else, before customers are called late."""
    assert "promised=" not in browser.get(page_of(agent)).content.decode()
    for number, person in enumerate((agent, agent, colleague)):
        order = factories.make_order(alice, phone=f"055000000{number}")
        due_at = timezone.now() + timedelta(days=2 - number)
        Order.objects.filter(id=order.id).update(
            call_state=CallState.CALLBACK, callback_agent=person, call_due_at=due_at
        )
    if has_left:
        agent.deactivate()
    (path,) = re.findall(r'href="([^"]+promised=[^"]+)">2</a>', browser.get(page_of(agent)).content.decode())
    found = browser.get(html.unescape(path))
    assert [order.customer_phone for order in found.context["cl"].result_list] == ["0550000001", "0550000000"]
    assert f'<option value="{agent.id}" selected>{agent.display_name}</option>' in found.content.decode()
    assert "assign" in found.context["bulk_actions"]


def test_a_session_from_before_does_not_come_back_to_life(agent: User, browser: Client) -> None:
    theirs = browser_of(agent)
    browser.post(page_of(agent), {"action": "deactivate"})
    password = password_in(browser.post(page_of(agent), {"action": "reactivate"}))
    assert theirs.get("/console/desk/").status_code == 302
    agent.refresh_from_db()
    assert agent.is_active
    assert agent.check_password(password)
    assert agent.has_one_time_password


def test_nor_when_an_operator_activates_whom_a_supervisor_deactivated(agent: User, browser: Client) -> None:
    theirs = browser_of(agent)
    browser.post(page_of(agent), {"action": "deactivate"})
    User.objects.filter(id=agent.id).update(is_active=True)
    assert theirs.get("/console/desk/").status_code == 302


def test_a_new_password_ends_the_sessions(agent: User, browser: Client) -> None:
    theirs = browser_of(agent)
    password = password_in(browser.post(page_of(agent), {"action": "password"}))
    assert theirs.get("/console/desk/").status_code == 302
    agent.refresh_from_db()
    assert agent.check_password(password)
    assert agent.has_one_time_password


def test_a_mistyped_name_is_corrected_and_noted(agent: User, order: Order, browser: Client) -> None:
    """Even of somebody who has left. Nothing else of the account changes, whatever is sent along."""
    User.objects.filter(id=agent.id).update(first_name="Samria", last_name="", is_active=False)
    SecurityEntry.objects.all().delete()
    names = {"action": "names", "first_name": " Sami\u0301ra", "last_name": "</script>\u202e"}
    answer = browser.post(page_of(agent), {**names, "is_superuser": "on", "username": "x"}, follow=True)
    assert [str(message) for message in answer.context["messages"]] == ["The name is saved."]
    assert "</script>\u202e" not in answer.content.decode()
    made = User.objects.get(id=agent.id)
    assert (made.first_name, made.last_name, made.username) == ("Samíra", "</script>\u202e", "samira")
    assert (made.password, made.is_active, made.is_superuser) == (agent.password, False, False)
    noted = SecurityEntry.objects.order_by("id").values_list("action", "actor", "target")
    assert list(noted) == [
        ("person_changed", "karim", "samira: Samria → Samíra"),
        ("person_changed", "karim", "samira: – → </script>\u202e"),
    ]
    browser.post(page_of(agent), {**names, "first_name": made.first_name})
    assert noted.count() == 2, "nothing has changed"


@pytest.mark.parametrize(
    "changes", [{"first_name": ""}, {"first_name": "\u200b"}, {"first_name": "x" * 151}, {"last_name": "Aït\a"}]
)
def test_a_name_that_cannot_be_is_explained(changes: dict[str, str], agent: User, browser: Client) -> None:
    name = agent.display_name
    answer = browser.post(page_of(agent), {"action": "names", "first_name": "Lynda", "last_name": "Aït", **changes})
    assert answer.status_code == 422
    assert b"errornote" in answer.content
    assert answer.context["title"] == answer.context["person"].display_name == name
    agent.refresh_from_db()
    assert agent.display_name == name


def test_a_name_from_an_old_page_does_not_undo_anothers(agent: User, browser: Client) -> None:
    shown = {field.name: field.value() for field in browser.get(page_of(agent)).context["form"]}
    User.objects.filter(id=agent.id).update(first_name="Lynda")
    answer = browser.post(page_of(agent), {"action": "names", **shown, "first_name": "Linda"})
    assert "has changed since you opened the page" in answer.content.decode()
    assert browser.post(page_of(agent), {"action": "names", **shown, "last_name": "Aït"}).status_code == 302
    agent.refresh_from_db()
    assert agent.display_name == "Lynda Aït"


@pytest.mark.parametrize(
    ("is_active", "action"), [(False, "password"), (True, "reactivate")], ids=["deactivated", "reactivated"]
)
def test_a_page_from_before_somebody_else_changed_the_account_gives_no_password(
    is_active: bool, action: str, agent: User, browser: Client
) -> None:
    """It would let nobody in, or replace the one that the other supervisor has handed out."""
    User.objects.filter(id=agent.id).update(is_active=is_active)
    answer = browser.post(page_of(agent), {"action": action}, follow=True)
    assert [str(message) for message in answer.context["messages"]] == [
        "This account has changed since you opened the page. Nothing was done."
    ]
    before = agent.password
    agent.refresh_from_db()
    assert (agent.password, agent.is_active, agent.has_one_time_password) == (before, is_active, False)


@pytest.mark.parametrize("action", ["password", "reactivate"])
def test_loading_the_page_of_a_password_again_leaves_the_one_that_was_told(
    action: str, agent: User, browser: Client
) -> None:
    User.objects.filter(id=agent.id).update(is_active=action == "password")
    found = re.search(r'name="replaces" value="([0-9a-f]+)"', browser.get(page_of(agent)).content.decode())
    assert found
    sent = {"action": action, "replaces": found[1]}
    password = password_in(browser.post(page_of(agent), sent))
    answer = browser.post(page_of(agent), sent, follow=True)
    assert "This person's password has changed" in str(next(iter(answer.context["messages"])))
    agent.refresh_from_db()
    assert agent.check_password(password)
    assert password_in(browser.post(page_of(agent), {"action": "password", "replaces": answer.context["replaces"]}))


ACTIONS = ["password", "deactivate", "reactivate", "codes", "names"]


@pytest.mark.parametrize("action", ACTIONS)
def test_supervisors_touch_nobody_but_agents(
    action: str, alice: Account, supervisor: User, operator: User, browser: Client
) -> None:
    both = factories.AgentFactory()
    both.groups.add(Group.objects.get(name="Supervisors"))
    more = factories.AgentFactory()
    more.groups.add(Group.objects.create(name="Something else"))
    chief = factories.AgentFactory(is_superuser=True)
    bare = factories.UserFactory(is_staff=True)
    others = [alice.holder, supervisor, operator, both, more, chief, bare, factories.AgentFactory(role="Supervisors")]
    for other in others:
        before = (other.password, other.is_active, other.display_name)
        assert browser.post(page_of(other), {"action": action, "first_name": "Lynda"}).status_code == 404
        assert browser.get(page_of(other)).status_code == 404
        other.refresh_from_db()
        assert (other.password, other.is_active, other.display_name) == before
    assert browser.get(PEOPLE).context["rows"] == []


def test_operators_manage_supervisors_but_not_each_other(
    supervisor: User, agent: User, operator: User, alice: Account
) -> None:
    browser = browser_of(operator)
    another = factories.UserFactory(is_staff=True, is_superuser=True)
    assert {row[0] for row in browser.get(PEOPLE).context["rows"]} == {supervisor, agent}
    for other in (another, operator, alice.holder):
        assert browser.post(page_of(other), {"action": "deactivate"}).status_code == 404
    assert browser.post(page_of(supervisor), {"action": "deactivate"}).status_code == 302
    supervisor.refresh_from_db()
    assert not supervisor.is_active


@pytest.mark.parametrize(
    ("language", "name", "said"),
    [
        ("ar", "Shop (Oran)!", "\u2068Shop (Oran)!\u2069"),
        ("ar", "متجر 5", "متجر 5"),
        ("en", "متجر 5", "\u2068متجر 5\u2069"),
        ("en", "Shop\u202e!", "Shop!"),
        ("ar", "Shop\u202e!", "\u2068Shop!\u2069"),
    ],
)
def test_a_name_turns_no_sentence_of_the_other_direction(
    language: str, name: str, said: str, agent: User, alice: Account, browser: Client, operator: User
) -> None:
    User.objects.filter(id=agent.id).update(first_name=name)
    Account.objects.filter(id=alice.id).update(name=name)
    named = {"headers": {"Accept-Language": language}}
    pages = [f"{page_of(agent)}serves/", f"{page_of(agent)}day/", f"/console/rules/{alice.id}/"]
    titles = [str(browser.get(page, **named).context["title"]) for page in pages]
    titles += [str(browser.post(page_of(agent), {"action": "password"}, **named).context["title"])]
    page = f"/console/accounts/account/{alice.id}/change/"
    answer = browser_of(operator).post(page, {"action": "reactivate"}, follow=True, **named)
    titles += [str(each) for each in answer.context["messages"]]
    assert len(titles) == 5
    assert [title for title in titles if said not in title] == []
    assert not any(sign in "".join(titles).replace(said, "") for sign in "\u202e\u2068\u2069")


def test_looking_changes_nothing(agent: User, browser: Client) -> None:
    before = (agent.password, agent.is_active)
    for action in [*ACTIONS, "x"]:
        browser.get(page_of(agent), {"action": action})
    assert browser.post(page_of(agent), {"action": "x"}).status_code == 200
    agent.refresh_from_db()
    assert (agent.password, agent.is_active) == before
