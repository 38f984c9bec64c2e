"""The account's page of its calling rules: what is saved there is what the desk goes by."""

from datetime import time
from typing import Any

import pytest
from django.test import Client

from agents.desk import hours
from agents.models import CallingPeriod, CallingRules
from codservice.accounts.models import Account, SecurityEntry
from codservice.days import ALGIERS
from tests import factories
from tests.harness.client import browser_of

PAGE = "/account/calling"
GOOD = {"opens_at": "10:00", "closes_at": "18:30", "retry_minutes": "60", "most_attempts": "4", "days_off": ["5", "6"]}
LIVE = "This page is that of the live account: what you save here holds for real calls."


@pytest.fixture
def browser(alice: Account) -> Client:
    return browser_of(alice.holder)


def test_what_is_saved_is_said_and_obeyed(browser: Client, alice: Account) -> None:
    assert "called from 09:00 to 20:00" in browser.get(PAGE).content.decode()
    CallingPeriod.objects.all().delete()  # in tests it lets agents call at any time
    order = factories.make_order(alice)

    assert browser.post(PAGE, GOOD).url == PAGE

    rules = CallingRules.objects.get(account=alice)
    assert (rules.opens_at, rules.closes_at, rules.retry_minutes, rules.most_attempts) == (
        time(10),
        time(18, 30),
        60,
        4,
    )
    assert rules.days_off == [5, 6]
    text = browser.get(PAGE).content.decode()
    assert "called from 10:00 to 18:30" in text
    assert "Nobody is called on: Friday, Saturday." in text
    assert "after at least 60 minutes" in text
    assert "After 4 attempts" in text
    windows = hours.of_account(alice.id, 6)
    assert windows == hours.of_customer([order.id], 6)
    assert text.count("10:00–18:30") == len(windows) == 5, "of seven days"


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("opens_at", "07:59", "Choose a time from 08:00 to 21:00."),
        ("closes_at", "21:01", "Choose a time from 08:00 to 21:00."),
        ("closes_at", "09:00", "Calls must end after they begin."),
        ("break_from", "12:00", "A break needs a beginning and an end."),
        ("break_until", "12:00", "A break needs a beginning and an end."),
        ("break_until", "25:00", "Enter a valid time."),
        ("retry_minutes", "29", "Leave at least 30 minutes between two attempts."),
        ("most_attempts", "11", "At most 10 attempts are allowed."),
        ("days_off", ["1", "2", "3", "4", "5", "6", "7"], "Leave at least one day"),
    ],
)
def test_operators_bounds_hold(browser: Client, field: str, value: Any, says: str) -> None:
    answer = browser.post(PAGE, GOOD | {field: value})
    assert answer.status_code == 422
    assert says in answer.content.decode()
    assert not CallingRules.objects.exists()


def test_what_a_supervisor_has_set_beyond_them_may_be_left_so(browser: Client, alice: Account) -> None:
    beyond = {"opens_at": time(7), "closes_at": time(22), "retry_minutes": 15, "most_attempts": 12}
    CallingRules.objects.create(account=alice, **beyond)
    shown = {name: browser.get(PAGE).context["form"][name].value() for name in (*beyond, "seen")}

    assert browser.post(PAGE, shown | {"days_off": ["5", "6"]}).url == PAGE

    assert CallingRules.objects.filter(**beyond).get().days_off == [5, 6]
    assert browser.post(PAGE, shown | {"days_off": ["5", "6"], "most_attempts": "11"}).status_code == 422


def test_one_hour_may_be_changed_while_the_other_stays_beyond_them(browser: Client, alice: Account) -> None:
    rules = CallingRules.objects.create(account=alice, opens_at=time(7), closes_at=time(20))
    shown = {name: browser.get(PAGE).context["form"][name].value() for name in ("opens_at", "seen")}

    assert browser.post(PAGE, GOOD | shown | {"closes_at": "18:00"}).url == PAGE

    rules.refresh_from_db()
    assert (rules.opens_at, rules.closes_at) == (time(7), time(18))
    assert browser.post(PAGE, GOOD | shown | {"opens_at": "06:30", "closes_at": "18:00"}).status_code == 422

    CallingRules.objects.update(opens_at=time(9))  # by a supervisor, so that times allowed before are no longer so
    answer = browser.post(PAGE, GOOD | shown | {"closes_at": "19:00"})
    assert "Choose a time from" in answer.content.decode()


def test_an_hour_that_another_has_set_is_not_put_back_unknowingly(browser: Client, alice: Account) -> None:
    """Whoever changes the opening sends the end too, as an old page showed it."""
    rules = CallingRules.objects.create(account=alice, opens_at=time(9), closes_at=time(20))
    form = browser.get(PAGE).context["form"]
    sent = {field.html_name: field.value() or "" for field in form} | {"opens_at": "10:00"}
    CallingRules.objects.update(closes_at=time(22), break_from=time(13), break_until=time(14))

    answer = browser.post(PAGE, sent)

    assert answer.status_code == 422
    assert answer.context["form"].errors.keys() == {"closes_at", "break_from", "break_until"}
    rules.refresh_from_db()
    assert (rules.opens_at, rules.closes_at, rules.break_from) == (time(9), time(22), time(13))
    assert browser.post(PAGE, sent | {"seen": answer.context["form"]["seen"].value()}).url == PAGE
    rules.refresh_from_db()
    assert (rules.opens_at, rules.closes_at, rules.break_from) == (time(10), time(20), None)


def test_a_break_is_said_and_obeyed_until_it_is_taken_out(browser: Client, alice: Account) -> None:
    CallingPeriod.objects.all().delete()
    prayer = {"break_from": "12:30", "break_until": "14:00"}
    assert browser.post(PAGE, GOOD | prayer).url == PAGE

    text = browser.get(PAGE).content.decode()
    assert "Nobody is called during the break from 12:30 to 14:00." in text
    assert text.count("10:00–12:30, 14:00–18:30") == 5
    windows = hours.of_account(alice.id, 0)
    assert [window.opens_at.astimezone(ALGIERS).hour for window in windows] in ([], [10, 14])
    for change, says in [
        ({"break_until": "12:00"}, "The break must end after it begins."),
        ({"closes_at": "13:00"}, "The break must lie within the calling hours."),
        ({"opens_at": "12:30"}, "The break must lie within the calling hours."),
    ]:
        answer = browser.post(PAGE, GOOD | prayer | change)
        assert answer.status_code == 422
        assert says in answer.content.decode()

    assert browser.post(PAGE, GOOD | {"break_from": "", "break_until": ""}).url == PAGE
    assert CallingRules.objects.filter(break_from=None, break_until=None).exists()
    assert "during the break from" not in browser.get(PAGE).content.decode()


def test_in_test_mode_too_they_are_the_rules_by_which_calls_are_planned(
    browser: Client, alice: Account, twin: Account
) -> None:
    CallingRules.objects.create(account=alice, opens_at=time(11))
    assert LIVE not in browser.get(PAGE).content.decode()
    browser.post("/account/mode", {"to": "test"})
    page = browser.get(PAGE).content.decode()
    assert "called from 11:00 to 20:00" in page
    assert LIVE in page, "the banner above it says that nobody is called"
    assert browser.post(PAGE, GOOD | {"mode": "test"}).url == PAGE
    assert [(rules.account, rules.opens_at) for rules in CallingRules.objects.all()] == [(alice, time(10))]


@pytest.mark.parametrize("path", [PAGE, "/account/script"])
def test_who_can_save_nothing_is_not_told_what_it_would_hold_for(path: str, alice: Account, twin: Account) -> None:
    person = factories.UserFactory()
    membership = alice.memberships.create(user=person, role="reader")
    reader = browser_of(person)
    reader.post("/account/mode", {"to": "test"})
    for role, is_told in (("reader", False), ("manager", True)):
        membership.role = role
        membership.save()
        text = reader.get(path).content.decode()
        assert 'data-mode="test"' in text
        assert (LIVE in text) is is_told


def test_another_merchants_rules_stay(browser: Client, charlie: Account) -> None:
    CallingRules.objects.create(account=charlie, opens_at=time(11))
    assert "11:00" not in browser.get(PAGE).content.decode()
    browser.post(PAGE, GOOD)
    assert CallingRules.objects.get(account=charlie).opens_at == time(11)


def test_what_supervisors_have_written_for_agents_stays(browser: Client, alice: Account) -> None:
    CallingRules.objects.create(account=alice, script_fr="Bonjour")
    browser.post(PAGE, GOOD)
    assert CallingRules.objects.get(account=alice).script_fr == "Bonjour"


def test_what_is_sent_as_it_was_shown_is_no_change_in_the_log(browser: Client, alice: Account) -> None:
    noted = SecurityEntry.objects.filter(account=alice, action__in=["calling_rules", "call_script"])
    for page in (PAGE, "/account/script"):
        form = browser.get(page).context["form"]
        assert browser.post(page, {field.html_name: field.value() or "" for field in form}).url == page
    assert not noted.exists()
    browser.post(PAGE, GOOD)
    assert [entry.action for entry in noted] == ["calling_rules"]
