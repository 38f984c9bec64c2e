"""The security log: a row and a line for each event, who may read which, and no flood that fills it."""

import logging
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission
from django.core.management import call_command
from django.db import connection, transaction
from django.db.models import F
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils.html import strip_tags
from django_otp.oath import totp
from django_otp.plugins.otp_totp.models import TOTPDevice

from codservice import logs
from codservice.accounts import one_time_codes, security_log, staff, team
from codservice.accounts.models import Account, ApiKey, Membership, SecurityEntry, User
from codservice.accounts.security_log import Action
from tests import factories
from tests.factories import PASSWORD
from tests.harness.client import browser_of
from webhooks.models import Webhook

NEW = "battery staple"
ADDRESS = "203.0.113.9"


@pytest.fixture
def agent(db: None) -> User:
    agent = factories.AgentFactory(username="samira")
    SecurityEntry.objects.all().delete()
    return agent


@pytest.fixture
def operator(db: None) -> Client:
    User.objects.create_superuser("root", password=PASSWORD)
    client = Client(REMOTE_ADDR=ADDRESS)
    client.login(username="root", password=PASSWORD)
    SecurityEntry.objects.all().delete()
    return client


@pytest.fixture
def holder(alice: Account) -> Client:
    client = browser_of(alice.holder, REMOTE_ADDR=ADDRESS)
    SecurityEntry.objects.all().delete()
    return client


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Callable[[], list[dict[str, Any]]]:
    caplog.set_level(logging.INFO, "codservice.security")

    def read() -> list[dict[str, Any]]:
        kept = [record for record in caplog.records if record.name == "codservice.security"]
        return [{name: record.__dict__[name] for name in logs.FIELDS & record.__dict__.keys()} for record in kept]

    return read


def sign_in(username: str, password: str, address: str = ADDRESS, door: str = "/account/login", **more: str) -> int:
    data = {"username": username, "password": password, **more}
    return Client(REMOTE_ADDR=address).post(door, data).status_code


def entries(*fields: str) -> list[tuple[Any, ...]]:
    return list(SecurityEntry.objects.order_by("id").values_list(*fields))


def only(*fields: str) -> tuple[Any, ...]:
    (entry,) = entries(*fields)
    return entry


# --- Signing in --------------------------------------------------------------------------------------------------


def test_signing_in_is_noted_with_the_address(
    alice: Account, lines: Callable, django_capture_on_commit_callbacks: Any
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        assert sign_in(alice.holder.email, PASSWORD) == 302
    name = alice.holder.username
    assert only("action", "outcome", "by", "actor", "target", "account_id", "address", "count") == (
        "login", "done", "person", name, name, alice.id, ADDRESS, 1)  # fmt: skip
    assert lines() == [
        {"action": "login", "outcome": "done", "by": "person", "actor": name, "target": name, "address": ADDRESS,
         "actor_id": str(alice.holder_id), "target_id": str(alice.holder_id), "account_id": str(alice.id)}
    ]  # fmt: skip


def test_refused_tries_are_counted_by_person_address_and_hour(agent: User, lines: Callable) -> None:
    for _ in range(3):
        sign_in("samira", "wrong")
    sign_in("samira", "wrong", "203.0.113.10")
    assert entries("action", "outcome", "by", "actor", "target", "target_id", "address", "count") == [
        ("login", "refused", "stranger", "", "samira", agent.id, ADDRESS, 3),
        ("login", "refused", "stranger", "", "samira", agent.id, "203.0.113.10", 1),
    ]
    first, last = SecurityEntry.objects.values_list("created_at", "last_at").get(count=3)
    assert first <= last
    assert [line["outcome"] for line in lines()] == ["refused"] * 4


def test_what_a_stranger_types_for_a_name_is_not_kept(agent: User, lines: Callable) -> None:
    """It may be a password, typed into the wrong field."""
    sign_in("my-password-hunter2", "x")
    assert only("target", "actor", "target_id", "address") == ("", "", None, ADDRESS)
    assert "hunter2" not in str(lines())


def test_a_right_password_that_may_not_enter_is_a_refused_try(alice: Account, agent: User) -> None:
    one_time_codes.offer(agent)
    agent.totpdevice_set.update(confirmed=True)
    assert sign_in("samira", PASSWORD) == 200, "asks for a code"
    assert sign_in("samira", PASSWORD, door="/console/login/", code="000000") == 200
    assert sign_in(alice.holder.username, PASSWORD, door="/console/login/") == 200
    assert entries("target", "outcome", "count") == [("samira", "refused", 2), (alice.holder.username, "refused", 1)]


def test_deactivated_people_leave_a_trace(agent: User) -> None:
    User.objects.update(is_active=False)
    sign_in("samira", PASSWORD)
    assert only("target", "outcome") == ("samira", "refused")


def test_a_flood_of_refused_tries_fills_nothing(agent: User) -> None:
    for number in range(security_log.MOST_ADDRESSES + 20):
        _try_from(f"203.0.113.{number}", "nobody")
    _try_from("203.0.113.0", "nobody")
    _try_from("198.51.100.1", "samira")
    refused = SecurityEntry.objects.filter(target="")
    assert refused.count() == security_log.MOST_ADDRESSES + 1
    assert refused.get(address="").count == 20
    assert refused.get(address="203.0.113.0").count == 2, "an address that has an entry keeps it"
    assert SecurityEntry.objects.get(target="samira").address == "198.51.100.1", "one flood hides no other"


def _try_from(address: str, username: str) -> None:
    class Request:
        META = {"REMOTE_ADDR": address}
        headers: dict[str, str] = {}

    security_log.begin(Request())  # type: ignore[arg-type]
    security_log.note_refused_login(username)
    security_log.end()


def test_a_new_hour_begins_a_new_count(agent: User) -> None:
    sign_in("samira", "wrong")
    SecurityEntry.objects.update(hour=F("hour") - timedelta(hours=1))
    sign_in("samira", "wrong")
    assert entries("count") == [(1,), (1,)]


def test_known_and_unknown_names_take_the_same_statements(agent: User, django_assert_num_queries: Any) -> None:
    for name in ("samira", "nobody"):
        with django_assert_num_queries(1):
            security_log.note_refused_login(name)


# --- What people do ----------------------------------------------------------------------------------------------


def test_an_account_holders_doings(alice: Account, holder: Client) -> None:
    holder.post("/account/keys", {"name": "Shop", "scopes": ["orders:read"]})
    key = ApiKey.objects.get()
    holder.post(f"/account/keys/{key.id}/revoke")
    holder.post(f"/account/keys/{key.id}/revoke")
    made = {"url": "https://203.0.114.1/hooks?token=hunter2", "events": ["order.confirmed"]}
    assert holder.post("/account/webhooks", made).status_code == 201
    webhook = Webhook.objects.get()
    holder.post(f"/account/webhooks/{webhook.id}/rotate")
    holder.post("/account/password", {
        "old_password": PASSWORD, "new_password1": NEW, "new_password2": NEW})  # fmt: skip
    assert entries("action", "target") == [
        ("key_made", str(key)),
        ("key_revoked", str(key)),
        ("webhook_made", "203.0.114.1"),
        ("webhook_rotated", "203.0.114.1"),
        ("password", alice.holder.username),
    ]
    assert set(entries("by", "actor_id", "account_id", "address")) == {("person", alice.holder_id, alice.id, ADDRESS)}


@pytest.mark.django_db(transaction=True)
def test_what_an_api_key_does_is_noted_under_its_name(alice: Account, api: Any) -> None:
    SecurityEntry.objects.all().delete()
    body = {"url": "https://203.0.114.1/hooks", "events": ["order.confirmed"]}
    assert api.post("/api/v1/webhooks", body).status_code == 201
    assert api.delete(f"/api/v1/webhooks/{Webhook.objects.get().id}").status_code == 204
    key = ApiKey.objects.get()
    assert entries("action", "by", "actor", "actor_id", "account_id") == [
        ("webhook_made", "key", key.name, key.id, alice.id),
        ("webhook_deleted", "key", key.name, key.id, alice.id),
    ]


def test_a_supervisors_doings(agent: User) -> None:
    supervisor = factories.AgentFactory(username="nadia", role="Supervisors")
    browser = browser_of(supervisor, REMOTE_ADDR=ADDRESS)
    TOTPDevice.objects.create(user=agent, confirmed=True, name="")
    SecurityEntry.objects.all().delete()
    for action in ("password", "codes", "codes", "deactivate", "reactivate"):
        browser.post(f"/console/people/{agent.id}/", {"action": action})
    assert entries("action", "target", "target_id") == [
        (action, "samira", agent.id)
        for action in ("password_reset", "codes_off", "deactivated", "reactivated", "password_reset")
    ]
    assert set(entries("by", "actor", "address", "account_id")) == {("staff", "nadia", ADDRESS, None)}


def test_an_operators_doings(operator: Client, agent: User, alice: Account) -> None:
    SecurityEntry.objects.all().delete()
    supervisors = Group.objects.get(name=staff.SUPERVISORS)
    change = {"username": "samira", "is_staff": "on", "is_superuser": "on", "groups": [supervisors.pk]}
    change |= {"first_name": "Samira", "last_name": agent.last_name}
    assert operator.post(f"/console/accounts/user/{agent.id}/change/", change).status_code == 302
    new = {"password1": NEW, "password2": NEW, "usable_password": "true"}
    assert operator.post(f"/console/accounts/user/{agent.id}/password/", new).status_code == 302
    close = {"action": "deactivate"}
    assert operator.post(f"/console/accounts/account/{alice.id}/change/", close).status_code == 302
    assert set(entries("action", "target")) == {
        ("deactivated", "samira"),
        ("person_changed", f"samira: {agent.first_name} → Samira"),
        ("role", "samira: +is_superuser"),
        ("role", "samira: -Agents"),
        ("role", "samira: +Supervisors"),
        ("password_reset", "samira"),
        ("deactivated", alice.name),
    }
    assert set(entries("by", "actor", "address")) == {("staff", "root", ADDRESS)}


def test_a_sign_in_that_an_operator_changes_is_told_to_the_holder(operator: Client, alice: Account) -> None:
    holder, page = alice.holder, f"/console/accounts/user/{alice.holder.pk}/change/"
    as_it_is = {"username": holder.username, "email": holder.email, "is_active": "on"}
    SecurityEntry.objects.all().delete()
    operator.post(page, as_it_is)
    assert entries() == []
    operator.post(page, as_it_is | {"email": "thief@example.com"})
    operator.post(page, as_it_is | {"email": "", "username": "other"})
    assert entries("action", "target", "target_id", "account_id") == [
        ("person_changed", target, holder.pk, alice.pk)
        for target in (
            f"thief@example.com: {holder.email} → thief@example.com",  # their name too, which is their address
            "other: thief@example.com → other",
            "other: thief@example.com → –",
        )
    ]


def test_a_role_in_it_is_read_in_the_readers_language(
    alice: Account, holder: Client, operator: Client, agent: User
) -> None:
    colleague = Membership.objects.create(account=alice, user=factories.UserFactory(), role="reader")
    team.change_role(alice.id, colleague.id, "manager")
    team.invite(alice.id, email="sami@example.com", role="reader")
    agent.groups.add(Group.objects.get(name=staff.SUPERVISORS))
    security_log.note(Action.ROLE, target="samira: -is_superuser")
    for client, page, texts in (
        (holder, "/account/security", [f"{colleague.user.username}: Gestionnaire", "sami@example.com (Lecture seule)"]),
        (operator, "/console/accounts/securityentry/", ["samira: +Superviseurs", "samira: -Exploitant"]),
    ):
        client.defaults["HTTP_ACCEPT_LANGUAGE"] = "fr"
        text = client.get(page).content.decode()
        assert [said for said in texts if said not in text] == []


def test_what_a_group_may_do_is_a_role_too(db: None) -> None:
    SecurityEntry.objects.all().delete()
    permission = Permission.objects.get(codename="supervise_order")
    Group.objects.get(name=staff.AGENTS).permissions.add(permission)
    permission.group_set.remove(Group.objects.get(name=staff.AGENTS))
    assert entries("target") == [("Agents: +supervise_order",), ("Agents: -supervise_order",)]


def test_commands_are_named(db: None) -> None:
    SecurityEntry.objects.all().delete()
    call_command("create_account", "Shop", email="shop@example.dz", stdout=StringIO(), stderr=StringIO())
    call_command("create_api_key", account="shop@example.dz", stdout=StringIO(), stderr=StringIO())
    call_command("create_agent", "samira", stdout=StringIO(), stderr=StringIO())
    assert [action for (action,) in entries("action")] == ["person_made", "key_made", "person_made", "role"]
    assert set(entries("by", "address")) == {("command", "")}
    assert all(actor for (actor,) in entries("actor"))


def test_codes_that_a_person_turns_on(agent: User) -> None:
    browser = browser_of(agent)
    device = one_time_codes.offer(agent)
    SecurityEntry.objects.all().delete()
    code = f"{totp(device.bin_key):06}"
    answer = browser.post("/console/codes/", {"action": "on", "code": code, "password": PASSWORD})
    assert answer.status_code == 302
    assert only("action", "actor", "target") == ("codes_on", "samira", "samira")


@pytest.mark.django_db(transaction=True)
def test_what_is_rolled_back_was_not_done_and_is_not_logged(agent: User, lines: Callable) -> None:
    SecurityEntry.objects.all().delete()
    with transaction.atomic():
        agent.deactivate()
        transaction.set_rollback(True)
    assert entries() == []
    assert lines() == []


def test_no_secret_is_in_it(holder: Client, agent: User) -> None:
    holder.post("/account/keys", {"name": "Shop", "scopes": ["orders:read"]})
    made = {"url": "https://203.0.114.1/hunter2?token=hunter3", "events": ["order.confirmed"]}
    assert holder.post("/account/webhooks", made).status_code == 201
    sign_in("samira", "hunter4")
    with connection.cursor() as cursor:
        cursor.execute("SELECT e::text FROM accounts_securityentry e")
        text = str(cursor.fetchall())
    assert "hunter" not in text
    assert "cod_live_" in text, "the beginning, by which keys are told apart"


# --- Reading, and forgetting -------------------------------------------------------------------------------------


def test_holders_read_of_their_account_and_of_no_other(alice: Account, charlie: Account, holder: Client) -> None:
    ApiKey.issue(alice, name="Mine")
    ApiKey.issue(charlie, name="Theirs")
    sign_in(alice.holder.username, "wrong", "198.51.100.7")
    sign_in(alice.holder.username, "wrong", "198.51.100.7")
    text = holder.get("/account/security").content.decode()
    for seen in ("created an API key", "Mine", "our staff", "refused", "2 times", "198.51.100.7"):
        assert seen in text, seen
    assert "Theirs" not in text
    assert holder.post("/account/security").status_code == 405
    assert Client().get("/account/security").status_code == 302


def test_what_a_removed_colleague_did_can_still_be_chosen(
    alice: Account, charlie: Account, holder: Client, django_assert_num_queries: Any
) -> None:
    people = [factories.UserFactory(first_name="Nadia", last_name=name) for name in ("", "B", "C", "D")]
    gone, stays, other, _also_gone = people
    seats = [
        Membership.objects.create(account=account, user=user, role="manager").id
        for account, user in zip((alice, alice, charlie, alice), people, strict=True)
    ]
    security_log.note(Action.FEES, target="16", account_id=alice.id, person=gone)
    security_log.note(Action.FEES, target="31", account_id=alice.id, person=stays)
    holder.get("/account/security")
    with CaptureQueriesContext(connection) as before:
        holder.get("/account/security")
    for account, seat in ((alice, seats[0]), (charlie, seats[2]), (alice, seats[3])):
        team.remove(account.id, seat)
    with django_assert_num_queries(len(before)):
        page = holder.get("/account/security")
    assert [str(name) for _id, name in page.context["form"].fields["by"].choices[2:]] == [
        "Nadia B",
        "Nadia (no longer on the team)",
        "Nadia D (no longer on the team)",
    ]
    assert [entry.target for entry in holder.get(f"/account/security?by={gone.id}").context["page"].rows] == ["16"]
    assert holder.get(f"/account/security?by={other.id}").status_code == 422, "was removed from another's team"


def test_the_log_says_who_did_it_and_as_whom_somebody_tried_to_sign_in(
    alice: Account, charlie: Account, holder: Client, django_assert_num_queries: Any
) -> None:
    def cells(**query: str) -> set[tuple[str, ...]]:
        rows = holder.get("/account/security", query).content.decode().partition("<tbody>")[2].split("<tr>")[1:]
        return {tuple(strip_tags(cell) for cell in re.findall("<td[^>]*>(.*?)</td>", row)[:2]) for row in rows}

    def person(name: str, account: Account, **names: str) -> User:
        user = factories.UserFactory(**dict.fromkeys(("username", "email"), f"{name}@example.com"), **names)
        Membership.objects.create(account=account, user=user, role="manager")
        sign_in(user.username, "wrong")
        security_log.note(Action.FEES, target="16", account_id=account.id, person=user)
        return user

    nadia = person("nadia", alice, first_name="<b>", last_name="Nadia")
    gone = person("gone", alice, first_name="Gone")
    person("nameless", alice, first_name="")
    person("theirs", charlie)
    security_log.note(Action.FEES, target="31", account_id=alice.id, person=User(username="unknown@example.com"))
    team.remove(alice.id, gone.membership.id)

    def doings(who: str) -> set[tuple[str, ...]]:
        return {(f"tried to sign in and was refused: {who}", "somebody"), ("changed shipping fees: 16", who)}

    of_nadia, of_gone = doings("&lt;b&gt; Nadia nadia@example.com"), doings("Gone gone@example.com")
    with django_assert_num_queries(5):
        everything = cells()
    assert everything == of_nadia | of_gone | doings("nameless@example.com") | {
        ("changed shipping fees: 31", "unknown@example.com"),
        ("removed a colleague: gone@example.com", "our staff"),
    }
    assert cells(by=str(nadia.id)) == of_nadia
    assert cells(by=str(gone.id)) == of_gone
    assert cells(by=str(alice.holder_id)) == set()


def test_where_operators_sit_is_no_merchants_business(alice: Account, holder: Client, operator: Client) -> None:
    key, _ = ApiKey.issue(alice, name="Leaked")
    SecurityEntry.objects.all().delete()
    data = {"action": "revoke", "_selected_action": [str(key.id)], "sure": "1"}
    assert operator.post("/console/accounts/apikey/", data).status_code == 302
    assert only("actor", "address", "account_id") == ("root", ADDRESS, alice.id)
    text = holder.get("/account/security").content.decode()
    assert "revoked an API key" in text
    assert "root" not in text
    assert ADDRESS not in text


def test_the_page_goes_back_in_time(alice: Account, holder: Client) -> None:
    for number in range(30):
        security_log.note(Action.KEY_MADE, target=f"Key number {number}", account_id=alice.id)
    first = holder.get("/account/security")
    older = holder.get("/account/security", {"before": first.context["page"].older})
    assert "Key number 29<" in first.content.decode()
    assert "Key number 0<" in older.content.decode()
    assert holder.get("/account/security?before=x").status_code == 404


def test_operators_read_all_of_it_and_nobody_changes_any(operator: Client, agent: User, alice: Account) -> None:
    sign_in("samira", "wrong", "198.51.100.7")
    url = "/console/accounts/securityentry/"
    entry = SecurityEntry.objects.get(outcome="refused")
    assert "198.51.100.7" in operator.get(url).content.decode()
    for query in ("?action=login", "?outcome=refused", "?q=samira", "?action=x", "?outcome=x"):
        assert operator.get(url + query).status_code == 200, query
    assert "198.51.100.7" not in operator.get(url + "?action=key_made").content.decode()
    assert operator.get(f"{url}add/").status_code == 403
    assert operator.post(f"{url}{entry.id}/delete/", {"post": "yes"}).status_code == 403
    assert operator.post(f"{url}{entry.id}/change/", {"actor": "x"}).status_code == 403
    for role in ("Agents", "Supervisors"):
        browser = browser_of(factories.AgentFactory(role=role))
        assert browser.get(url).status_code == 403


def test_it_is_kept_for_a_year(agent: User) -> None:
    for days in (1, 364, 366, 400):
        security_log.note_person(Action.DEACTIVATED, agent)
        newest = SecurityEntry.objects.order_by("-id").first()
        SecurityEntry.objects.filter(id=newest.id).update(created_at=F("created_at") - timedelta(days=days))
    SecurityEntry.objects.filter(action="role").delete()

    def forget(*, dry_run: bool) -> int:
        found: Iterator[dict[str, int]] = security_log.forget_old(None, dry_run=dry_run)  # type: ignore[arg-type]
        return sum(counts["security_entries"] for counts in found)

    assert (forget(dry_run=True), forget(dry_run=False), forget(dry_run=False)) == (2, 2, 0)
    assert SecurityEntry.objects.filter(action="deactivated").count() == 2
