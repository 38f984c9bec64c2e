"""Every address of the service, for everybody: what is not in the table (`doors.py`) is refused."""

from collections.abc import Iterator
from contextlib import nullcontext
from itertools import cycle
from typing import Any

import pytest
from django.contrib import admin
from django.http import HttpResponse
from django.urls import reverse

from agents.desk import claims
from agents.models import Claim
from codservice.accounts.models import Account, User
from orders.models import Order
from tests.harness.addresses import Address
from tests.harness.database import contents
from tests.harness.world import PEOPLE, World
from tests.pages.doors import (
    AGENTS,
    ALL,
    ASKED,
    EVERYBODY,
    HOLDERS,
    MANAGERS,
    OPEN,
    OWN_AFFAIRS,
    SEEN_BY_MANAGERS,
    SUPERVISORS,
    WITNESSES,
    ask,
    is_open,
    is_refused,
    undone,
)
from tests.pages.markup import Markup

# What a look may write: signs that somebody is there.
SIGNS_OF_LIFE = ("django_session", "accounts_signin", "agents_claim.expires_at", "accounts_apikey.last_used_at")
LANDINGS = {"admin:index", "account"}  # they lead everybody on
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW")
ACCOUNT = [address for address in ALL if address.route.startswith("/account/") and address.name not in EVERYBODY]
# What a merchant's people may change on these pages, by role.
MAY_CHANGE = {"reader": OWN_AFFAIRS, "manager": MANAGERS - SEEN_BY_MANAGERS | OWN_AFFAIRS, "holder": HOLDERS}


def test_the_table_names_addresses_that_exist() -> None:
    names = {address.name for address in ALL}
    assert names >= EVERYBODY | HOLDERS | SUPERVISORS
    assert len(ALL) > 100
    assert len(ACCOUNT) > 30


def test_every_parameter_has_values(world: World) -> None:
    assert [address.route for address in ALL if not address.is_api and not address.paths()] == []


@pytest.mark.parametrize("person", PEOPLE)
def test_what_is_not_somebodys_is_refused(person: str, world: World) -> None:
    """By each method, and for two rows in turn where the address names one. An account's pages are tried on those who
    work for it by `test_what_is_somebodys_bears_every_method`.
    """
    client = world.client(person)
    before = contents(*SIGNS_OF_LIFE)
    entered = [
        (method, path, response.status_code)
        for address in ALL
        if not (is_open(address, person) or is_of_their_account(address, person))
        for method, path in zip(("GET", "POST", "PUT", "DELETE"), cycle(address.paths()[:2]), strict=False)
        if not is_refused(response := ask(client, method, path))
    ]
    assert entered == []
    assert contents(*SIGNS_OF_LIFE) == before


def is_of_their_account(address: Address, person: str) -> bool:
    return person in MAY_CHANGE and address in ACCOUNT


@pytest.mark.parametrize("person", PEOPLE)
def test_a_look_changes_nothing_and_no_page_is_framed_stored_or_scripted_from_elsewhere(
    person: str, world: World
) -> None:
    """Behind a login nothing may be stored by caches; public pages may. Nothing is lost of what a page says (`Markup`),
    which is read as those who together see every page.
    """
    client = world.client(person)
    before, reached, wrong, referring = contents(*SIGNS_OF_LIFE), set(), [], 0
    for address in ALL:
        if is_open(address, person):
            for path in address.some_paths() + ASKED.get(address.name, []):
                response = client.get(path)
                if not is_refused(response) or response.status_code == 405 or address.name in EVERYBODY:
                    reached.add(address.name)
                if response.status_code >= 500 or not (address.is_api or is_guarded(response)):
                    wrong.append((path, response.status_code, response.headers))
                if response.status_code == 200 and address.name not in EVERYBODY and may_be_kept(address, response):
                    wrong.append((path, response.status_code, response.headers))
                is_page = response.status_code == 200 and response.headers["Content-Type"].startswith("text/html")
                if person in WITNESSES and is_page:
                    page = Markup(response.content.decode())
                    referring += bool(page.named)
                    wrong += [(path, each) for each in page.wrong]
    assert wrong == []
    assert person not in WITNESSES or referring > 3
    assert contents(*SIGNS_OF_LIFE) == before
    # What Django's own pages offer operators is checked on those pages.
    assert (OPEN[person] if person != "operator" else AGENTS) - reached <= LANDINGS


def may_be_kept(address: Address, answer: HttpResponse) -> bool:
    """Whether a cache may keep it. The API's answers and the console's words with an ETag are revalidated each time."""
    said = answer.headers.get("Cache-Control", "")
    if address.is_api or address.name == "admin:jsi18n":
        return not ("no-store" in said or (said == "private, no-cache" and "ETag" in answer.headers))
    return "no-store" not in said or "Cookie" not in answer.headers.get("Vary", "")


def is_guarded(page: HttpResponse) -> bool:
    """Whether it is protected from frames, scripts from elsewhere, and browsers that guess types."""
    policy = page.headers.get("Content-Security-Policy", "")
    return (
        page.headers.get("X-Frame-Options") == "DENY"
        and page.headers.get("X-Content-Type-Options") == "nosniff"
        and "frame-ancestors 'none'" in policy
        and "unsafe" not in policy
    )


@pytest.mark.parametrize("person", PEOPLE)
def test_what_is_somebodys_bears_every_method(person: str, world: World) -> None:
    """Every page × role, with every method by the first of PEOPLE whose page it is, and on everybody's pages by the
    holder too: none is a crash. A merchant's people try every method on each page of the account: looking at it and
    changing it are refused, by 403, to those who may not, and nothing is changed then.
    """
    client, before = world.client(person), contents(*SIGNS_OF_LIFE)
    crashes, wrong = [], []
    for address in ALL:
        is_asked, is_theirs = is_of_their_account(address, person), is_open(address, person)
        if not (is_asked or is_theirs):
            continue
        is_first = not any(is_open(address, other) for other in PEOPLE[: PEOPLE.index(person)])
        has_all = is_asked or is_first or (person == "holder" and address.name in EVERYBODY)
        for number, path in enumerate(address.some_paths() if is_theirs else address.paths()[:2]):
            # Pages open to them have been looked at above.
            for method in METHODS[is_theirs:] if number == 0 and has_all else ["POST"]:
                with undone(client) if is_theirs else nullcontext():
                    status = client.generic(method, path).status_code
                if status >= 500:
                    crashes.append((method, path))
                may = OPEN[person] if method in ("GET", "HEAD") else MAY_CHANGE.get(person, set())
                if is_asked and (status == 403) == (address.name in may):
                    wrong.append((method, path, status))
    assert crashes == []
    assert wrong == []
    assert contents(*SIGNS_OF_LIFE) == before


@pytest.mark.parametrize(("person", "room"), [("stranger", "/"), ("holder", "/account/"), ("operator", "/console/")])
def test_nothing_is_changed_without_the_token_or_from_elsewhere(person: str, room: str, world: World) -> None:
    """Not even a stranger's login: someone signed in unawares would write into somebody else's account."""
    client = world.client(person, enforce_csrf_checks=True)
    before, passed = contents(*SIGNS_OF_LIFE), []
    client.get("/account/login" if person == "stranger" else "/account/password")
    token = {"csrfmiddlewaretoken": client.cookies["csrftoken"].value}
    for address in ALL:
        if address.route.startswith(room) and not address.route.startswith("/api/"):  # the API takes no cookies
            path = address.paths()[0]
            answers = [client.generic(method, path) for method in ("POST", "DELETE")]
            answers.append(client.post(path, token, headers={"Origin": "https://evil.example"}))
            passed += [(path, answer.status_code) for answer in answers if answer.status_code != 403]
    assert passed == []
    assert contents(*SIGNS_OF_LIFE) == before


SECRETS = {"password", "digest", "secret", "previous_secret", "key", "session_key", "session_data"}


def secrets_from(model: Any, further: int = 2) -> Iterator[str]:
    """Yield the names by which a filter would reach a secret, over up to `further` relations."""
    for field in model._meta.get_fields():
        if field.name in SECRETS and not field.is_relation:
            yield field.name
        elif field.is_relation and field.related_model and further:
            yield from (f"{field.name}__{rest}" for rest in secrets_from(field.related_model, further - 1))


@pytest.mark.parametrize("lookup", ["", "__startswith", "__regex", "__gt", "__isnull"])
def test_no_list_lets_a_secret_be_guessed_by_a_filter(lookup: str, world: World) -> None:
    client, tried, answered = world.client("operator"), 0, []
    for model in admin.site._registry:
        path = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
        for name in secrets_from(model):
            answer = client.get(path, {name + lookup: "1"})
            tried += 1
            if not (answer.status_code == 400 or (answer.status_code == 302 and answer.url.endswith("?e=1"))):
                answered.append((path, name, answer.status_code))
    assert tried > 20
    assert answered == []


def test_agents_change_nothing_of_the_supervisors(world: World) -> None:
    """The requests carry everything that the pages ask for."""
    browser, order = world.client("agent"), Order.objects.filter(call_state="review").latest("id")
    claim, account = Claim.objects.filter(agent=world.supervisor)[0], world.alice
    Account.objects.get(id=account.id).calling_rules.delete()
    for path, data in (
        ("claims/", {"claim": str(claim.id)}),
        ("review/", {"order": f"{order.id}:{order.version}", "requeue": "1"}),
        ("moves/", {"to": "shipped", "make": "1", "seen": f"{order.id}:{order.version}"}),
        ("bulk/?action=cancel&every=1&status=all", {"seen": f"{order.id}:{order.version}", "why": "Duplicate"}),
        (f"people/{world.agent.id}/", {"action": "deactivate"}),
        ("people/new/", {"username": "mallory", "first_name": "M"}),
        (f"people/{world.agent.id}/serves/", {"languages": "fr"}),
        (f"rules/{account.id}/", {"opens_at": "00:00", "closes_at": "23:59", "retry_minutes": "5",
                                  "most_attempts": "1"}),
    ):  # fmt: skip
        assert browser.post(f"/console/{path}", data).status_code == 403
    assert claims.on_customer(claim.phone_e164).agent == world.supervisor
    assert not User.objects.filter(is_active=False).exists()
    assert not User.objects.filter(username="mallory").exists()
    assert not hasattr(Account.objects.get(id=account.id), "calling_rules")
