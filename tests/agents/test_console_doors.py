"""Every address of the console, for everybody: what its resolver knows is either in the table here or refused."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib import admin
from django.test import Client
from django.urls import URLPattern, URLResolver

from agents.models import Claim
from codservice.accounts.models import Account, User
from orders.models import Order
from tests import factories

# What agents reach: who is called by whom, orders, the desk and their own account. Supervisors reach more.
AGENTS = {
    "index", "login", "logout", "password_change", "password_change_done", "jsi18n", "codes", "claims",
    "orders_order_changelist", "orders_order_change", "app_list",
}  # fmt: skip
SUPERVISORS = {"review", "moves", "people", "person_new", "person", "rules", "rules_of", "figures", "figures_csv"}
NOBODY = "01980000-0000-7000-8000-000000000000"
HOME = ("/console/", "/console/desk/")
# Answered to strangers: the door itself.
STRANGERS = {"login", "logout"}
# The desk's own addresses have their own tests; here it is enough that they are named so.
DESK = re.compile(r"^(desk|call|order_|edit|regions)")


def addresses(patterns: list[Any] | None = None, prefix: str = "/console/") -> Iterator[tuple[str, str]]:
    """(name, path) of every address under the console, with ids that exist nowhere."""
    for pattern in admin.site.get_urls() if patterns is None else patterns:
        route = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from addresses(pattern.url_patterns, route)
        elif isinstance(pattern, URLPattern):
            path = re.sub(r"\(\?P<app_label>([^|)]*).*?\)", r"\1", route).replace("^", "").replace("$", "")
            path = re.sub(r"<(\w+:)?\w+>", NOBODY, path)
            yield pattern.name or "", path


EVERY = sorted(set(addresses()))


def reached(browser: Client, path: str) -> list[int]:
    """The statuses of GET and POST; 403 where one is sent home, because what is asked for does not exist."""
    statuses = []
    for response in (browser.get(path), browser.post(path, {})):
        while response.status_code == 302 and response.url.startswith("/console/") and "login" not in response.url:
            if response.url in HOME:
                response.status_code = 403
            else:
                response = browser.get(response.url)
        statuses.append(response.status_code)
    return statuses


def test_the_table_names_addresses_that_exist() -> None:
    names = {name for name, _path in EVERY}
    assert names >= AGENTS | SUPERVISORS
    assert len(EVERY) > 40


@pytest.mark.parametrize(("name", "path"), EVERY)
def test_strangers_and_merchants_are_sent_to_the_login(name: str, path: str, alice: Account, browser_of: Any) -> None:
    for browser in (Client(), browser_of(alice.holder)):
        for status in reached(browser, path):
            assert status in ((200, 302, 403, 405) if name in STRANGERS else (302, 404, 405))


@pytest.mark.parametrize(("name", "path"), [row for row in EVERY if not DESK.match(row[0])])
def test_agents_and_supervisors_reach_what_is_theirs_alone(
    name: str, path: str, agent: User, supervisor: User, browser_of: Any
) -> None:
    for person, theirs in ((agent, AGENTS), (supervisor, AGENTS | SUPERVISORS)):
        statuses = reached(browser_of(person), path)
        if name in theirs:
            assert name in ("index", "login") or 403 not in statuses[:1], path
            assert 500 not in statuses
        else:
            assert set(statuses) <= {403, 404, 405}, path


@pytest.mark.parametrize(("name", "path"), [row for row in EVERY if row[0] not in STRANGERS | {"app_list"}])
def test_staff_without_a_role_reaches_nothing_but_their_own_account(
    name: str, path: str, db: None, browser_of: Any
) -> None:
    browser = browser_of(factories.UserFactory(is_staff=True))
    theirs = {"index", "password_change", "password_change_done", "jsi18n", "codes"}
    for status in reached(browser, path):
        assert status in (200, 302, 405, 422) if name in theirs else status in (403, 404, 405), path


def test_agents_change_nothing_of_the_supervisors(
    alice: Account, order: Order, agent: User, colleague: User, browser_of: Any
) -> None:
    """With ids that exist."""
    from agents.desk import claims

    browser = browser_of(agent)
    claim = claims.take(order.id, agent=colleague)
    for path, data in (
        ("claims/", {"claim": str(claim)}),
        ("review/", {"order": str(order.id), "requeue": "1"}),
        ("moves/", {"to": "shipped", "make": "1", "seen": f"{order.id}:1"}),
        (f"people/{colleague.id}/", {"action": "deactivate"}),
        ("people/new/", {"username": "mallory", "first_name": "M"}),
        (f"rules/{alice.id}/", {"opens_at": "00:00", "closes_at": "23:59", "retry_minutes": "5", "most_attempts": "1"}),
    ):
        assert browser.post(f"/console/{path}", data).status_code == 403
    assert Claim.objects.filter(id=claim).exists()
    assert User.objects.filter(is_active=True).count() == 3
    assert not hasattr(Account.objects.get(id=alice.id), "calling_rules")
