"""The operators' pages of merchants, keys, people, roles and the log: what they show, find, do and refuse."""

import re
import shlex
from collections.abc import Iterator
from datetime import UTC, datetime
from html import escape, unescape
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth import hashers
from django.contrib.auth.models import Group
from django.db import OperationalError, connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django_otp.plugins.otp_totp.models import TOTPDevice

from codservice.accounts import authentication, security_log
from codservice.accounts.models import Account, ApiKey, Membership, SecurityEntry, User, unknown_password
from codservice.accounts.security_log import Action
from tests import factories
from tests.harness.background import Background
from tests.harness.client import ApiClient, browser_of, new_key
from tests.harness.database import wait_for_lock
from tests.harness.deliveries import write_delivery
from webhooks import registry

LISTS = sorted(
    f"{model._meta.app_label}_{model._meta.model_name}"
    for model in admin.site._registry
    if model._meta.model_name != "order"
)
NASTY = "\"><script>alert(1)</script>{{7*7}}'%s"


@pytest.fixture
def root(db: None) -> User:
    return factories.UserFactory(username="root", is_staff=True, is_superuser=True)


@pytest.fixture
def operator(root: User) -> Client:
    return browser_of(root)


def page(name: str, *args: Any) -> str:
    return reverse(f"admin:{name}", args=args)


def of_merchant(account: Account) -> str:
    return page("accounts_account_change", account.pk)


def text_of(response: Any) -> str:
    return response.content.decode()


# --- Merchants -------------------------------------------------------------------------------------------------------


def test_a_merchant_is_added_and_the_password_said_once(operator: Client) -> None:
    form = {"name": "  Boutique Yasmine ", "email": "Yasmine@Example.dz", "rate_limit": "600"}
    answer = operator.post(page("accounts_account_add"), form)
    account = Account.objects.get()
    password = re.search(r'class="password"[^>]*>([^<]+)<', text_of(answer))
    assert (answer.status_code, account.name, account.rate_limit) == (201, "Boutique Yasmine", 600)
    assert password
    assert account.holder.check_password(password[1])
    assert (account.holder.username, account.holder.has_one_time_password) == ("yasmine@example.dz", True)
    assert SecurityEntry.objects.filter(action="person_made", account=account, actor="root").count() == 1
    assert password[1] not in text_of(operator.get(of_merchant(account)))

    browser = Client()
    signed_in = browser.post("/account/login", {"username": "yasmine@example.dz", "password": password[1]}, follow=True)
    assert signed_in.request["PATH_INFO"] == "/account/password"  # to choose their own


@pytest.mark.parametrize(
    "form",
    [
        {"name": "", "email": "y@example.dz"},
        {"name": "Bouti\0que", "email": "y@example.dz"},
        {"name": "Boutique", "email": "nobody"},
        *({"name": "Boutique", "email": email} for email in factories.UNMAILABLE),
        {"name": "Boutique", "email": f"{'y' * 150}@example.dz"},
        {"name": "Boutique", "email": "TAKEN@example.dz"},
        {"name": "Boutique", "email": "y@example.dz", "rate_limit": "0"},
        {"name": "B" * 300, "email": "y@example.dz"},
    ],
)
def test_what_cannot_be_a_merchant_is_refused_beside_its_field(operator: Client, form: dict[str, str]) -> None:
    factories.AccountFactory(holder__username="taken@example.dz")
    answer = operator.post(page("accounts_account_add"), form)
    assert answer.status_code == 422
    assert "errornote" in text_of(answer)
    assert Account.objects.count() == 1


def test_a_merchant_is_renamed_with_its_twin(operator: Client, alice: Account, twin: Account) -> None:
    form = {"action": "change", "name": "New name", "rate_limit": ""}
    noted = SecurityEntry.objects.filter(action="account_changed", account=alice).order_by("id")
    assert operator.post(of_merchant(alice), form).status_code == 302
    assert set(Account.objects.filter(id__in=[alice.id, twin.id]).values_list("name", flat=True)) == {"New name"}
    assert noted.get().target == f"New name: {alice.name} → New name"
    operator.post(of_merchant(alice), form)
    assert noted.count() == 1
    for limit in ("600", "1", ""):
        operator.post(of_merchant(alice), form | {"rate_limit": limit})
    limits = ["– → 600/min", "600/min → 1/min", "1/min → –"]
    assert [entry.target for entry in noted[1:]] == [f"New name: {limit}" for limit in limits]
    assert operator.post(of_merchant(alice), form | {"name": ""}).status_code == 422


def test_what_another_operator_has_changed_since_the_page_was_opened_stays(operator: Client, alice: Account) -> None:
    form = operator.get(of_merchant(alice)).context["form"]
    shown = {"action": "change", "name": alice.name, "rate_limit": "", "seen": form.initial["seen"]}
    assert operator.post(of_merchant(alice), shown | {"rate_limit": "600"}).status_code == 302
    assert operator.post(of_merchant(alice), shown | {"name": "New name"}).status_code == 302
    alice.refresh_from_db()
    assert (alice.name, alice.rate_limit) == ("New name", 600)
    refused = operator.post(of_merchant(alice), shown | {"rate_limit": "700"})
    assert (refused.status_code, list(refused.context["form"].errors)) == (422, ["rate_limit"])
    alice.refresh_from_db()
    assert alice.rate_limit == 600


def test_a_merchant_is_deactivated_and_activated_again(operator: Client, alice: Account) -> None:
    key = new_key(alice)
    for action, status, noted in (("deactivate", 401, "deactivated"), ("reactivate", 200, "reactivated")):
        for _press in range(2):
            assert operator.post(of_merchant(alice), {"action": action}).status_code == 302
        authentication._trusted.clear()
        assert ApiClient(key).get("/api/v1/orders").status_code == status
        assert SecurityEntry.objects.filter(action=noted, target=alice.name).count() == 1
    assert operator.post(of_merchant(alice), {"action": "delete"}).status_code == 403


def test_a_merchants_page_leads_to_all_that_is_theirs(operator: Client, alice: Account, charlie: Account) -> None:
    reader = factories.UserFactory(username="reader@example.com")
    Membership.objects.create(account=alice, user=reader, role="reader")
    ApiKey.issue(alice, name="Shop key")
    ApiKey.issue(alice, name="Trial key", is_test=True)
    ApiKey.issue(charlie, name="Other key")
    text = text_of(operator.get(of_merchant(alice)))
    for shown in (alice.holder.username, "reader@example.com", "Shop key", "Trial key", "created an API key"):
        assert shown in text
    assert "Other key" not in text
    leads = re.findall(r'<a class="button" href="([^"]+)"', text)
    assert len(leads) > 2
    for lead in leads:
        assert operator.get(lead.replace("&amp;", "&")).status_code == 200


def test_a_merchant_leads_to_their_orders_and_to_no_namesakes(
    operator: Client, alice: Account, charlie: Account
) -> None:
    """The list would cancel them all. Names may be long, and differ by case alone."""
    for account, name in ((alice, "&é" * 127), (charlie, "&É" * 127)):
        Account.objects.filter(pk=account.pk).update(name=name)
    order = factories.make_order(alice)
    factories.make_order(charlie)
    (lead,) = re.findall(r'href="([^"]+/order/[^"]+)"', text_of(operator.get(of_merchant(alice))))
    answer = operator.get(unescape(lead))
    assert list(answer.context["cl"].result_list) == [order]
    assert f'id="filter-merchant_helptext">{escape("&é" * 127)}</div>' in text_of(answer)


@pytest.mark.parametrize("name", ["accounts_apikey", "webhooks_webhook", "accounts_securityentry"])
def test_a_list_is_narrowed_to_one_merchant(operator: Client, alice: Account, charlie: Account, name: str) -> None:
    for account, word in ((alice, "hersmark"), (charlie, "otherone")):
        ApiKey.issue(account, name=word)
        ApiKey.issue(account, name=f"{word}-test", is_test=True)
        registry.register(account.id, url=f"https://203.0.114.1/{word}", events=["order.confirmed"])
    there = page(f"{name}_changelist")
    text = text_of(operator.get(there, {"account": str(alice.id)}))
    assert "hersmark" in text
    assert ("hersmark-test" in text) == (name != "webhooks_webhook")
    assert "otherone" not in text
    for wrong in ("nonsense", "00000000-0000-0000-0000-000000000000", "\0"):
        assert "hersmark" not in text_of(operator.get(there, {"account": wrong}))


# --- Keys, people, roles ---------------------------------------------------------------------------------------------


def test_a_key_is_revoked_on_its_page(operator: Client, alice: Account) -> None:
    key, _ = ApiKey.issue(alice, name="Leaked")
    there = page("accounts_apikey_change", key.pk)
    assert operator.post(there, {"action": "other"}).status_code == 403
    assert operator.post(there, {"action": "revoke"}).status_code == 302
    key.refresh_from_db()
    assert key.revoked_at is not None
    assert 'value="revoke"' not in text_of(operator.get(there))
    assert "Leaked" in text_of(operator.get(page("accounts_apikey_changelist"), {"state": "revoked"}))
    assert "Leaked" not in text_of(operator.get(page("accounts_apikey_changelist"), {"state": "works"}))


def test_chosen_keys_are_revoked_after_a_question_that_names_them(operator: Client, alice: Account) -> None:
    keys = [ApiKey.issue(alice, name=name)[0] for name in ("Leaked", NASTY, "Kept", "Revoked before")]
    keys[3].revoke()
    working = f"{page('accounts_apikey_changelist')}?state=works"
    chosen = {"action": "revoke", "_selected_action": [str(key.pk) for key in (*keys[:2], keys[3])]}
    revoked = ApiKey.objects.exclude(revoked_at=None).values_list("name", flat=True)

    text = text_of(operator.post(working, chosen))
    assert list(revoked.all()) == ["Revoked before"]
    assert [key.name in text for key in keys] == [True, False, False, False]
    assert "<script>alert(1)" not in text

    sent = re.findall(r'name="_selected_action" value="([^"]+)"', text)
    text = text_of(operator.post(working, chosen | {"_selected_action": sent, "sure": "1"}, follow=True))
    assert "2 keys are revoked." in text
    assert set(revoked.all()) == {"Leaked", NASTY, "Revoked before"}
    text = text_of(operator.post(working, chosen, follow=True))
    assert "The chosen keys have already been revoked." in text


def test_a_key_that_is_refused_with_its_merchant_is_not_said_to_work(
    operator: Client, alice: Account, twin: Account, charlie: Account
) -> None:
    """Neither on its page, nor in lists: the filters find it by what its state says."""
    keys = [ApiKey.issue(alice, name="Shop")[0], twin.api_keys.get()]
    keys_list = page("accounts_apikey_changelist")
    pages = [page("accounts_apikey_change", key.pk) for key in keys]
    pages += [keys_list, of_merchant(alice)]
    other, expired, revoked = (ApiKey.issue(account, name="Other")[0] for account in (charlie, alice, alice))
    revoked.revoke()
    ApiKey.objects.filter(pk=expired.pk).update(expires_at=datetime(2026, 1, 1, tzinfo=UTC))

    def found(state: str) -> set[Any]:
        return {key.pk for key in operator.get(keys_list, {"state": state}).context["cl"].result_list}

    both = {key.pk for key in keys}
    for row, says in (
        (alice, "while the merchant is deactivated"),
        (alice.holder, "while the holder may not sign in"),
    ):
        refused = f'<span class="status canceled">Refused</span> <small>{says}</small>'
        assert not [there for there in pages if refused in text_of(operator.get(there))]
        assert (found("works"), found("refused")) == ({*both, other.pk}, set())
        row.is_active = False
        row.save()
        assert [there for there in pages if refused in text_of(operator.get(there))] == pages
        assert [there for there in pages[:2] if "Works</span>" in text_of(operator.get(there))] == []
        assert (found("works"), found("refused")) == ({other.pk}, both)
        assert (found("expired"), found("revoked")) == ({expired.pk}, {revoked.pk})
        row.is_active = True
        row.save()


def test_who_gets_a_role_without_the_console_is_not_left_before_its_door(operator: Client) -> None:
    person = factories.UserFactory(username="second")
    there, form = page("accounts_user_change", person.pk), {"username": "second", "is_active": "on"}
    agents = factories.AgentFactory(username="samira").groups.get()
    for role in ({"is_superuser": "on"}, {"groups": [agents.pk]}):
        assert "without it, nobody can enter the console" in text_of(operator.post(there, form | role))
    assert operator.post(there, form | {"is_superuser": "on", "is_staff": "on"}).status_code == 302
    User.objects.filter(pk=person.pk).update(is_staff=False)
    assert operator.post(there, {"username": "second", "is_superuser": "on"}).status_code == 302
    person.refresh_from_db()
    assert not person.is_active


def test_nobody_gets_a_name_that_is_anothers_but_for_case(operator: Client) -> None:
    """Someone who has such a name from before keeps it, and may be changed otherwise."""
    factories.AgentFactory(username="lynda")
    there = page("accounts_user_change", factories.AgentFactory(username="karim").pk)
    refused = operator.post(there, {"username": "Lynda", "is_staff": "on", "is_active": "on"})
    assert "already exists" in text_of(refused)
    assert operator.post(there, {"username": "Karim", "is_staff": "on", "is_active": "on"}).status_code == 302
    User.objects.filter(username="Karim").update(username="LYNDA")
    assert operator.post(there, {"username": "LYNDA", "first_name": "Karim", "is_staff": "on"}).status_code == 302
    assert User.objects.get(username="LYNDA").first_name == "Karim"


def test_nobody_gets_anothers_address_as_a_name_or_the_reverse(operator: Client, alice: Account) -> None:
    """The other person could no longer sign in with their address."""
    User.objects.filter(pk=alice.holder_id).update(username="alice", email="Alice@Shop.example")
    karim = factories.AgentFactory(username="karim@shop.example")
    there, form = page("accounts_user_change", karim.pk), {"username": karim.username, "is_staff": "on"}
    taken = "alice@shop.example"
    new = {"username": taken, "password1": "quite another word", "password2": "quite another word"}
    assert "already exists" in text_of(operator.post(there, form | {"username": taken}))
    assert "already exists" in text_of(operator.post(page("accounts_user_add"), new))
    of_alice = page("accounts_user_change", alice.holder_id)
    refused = operator.post(of_alice, {"username": "alice", "email": "Karim@shop.example"})
    assert "Somebody already signs in with this address." in text_of(refused)
    assert User.meant_by(taken) == alice.holder

    assert operator.post(there, form | {"email": karim.username}).status_code == 302, "both may be one's own"
    assert operator.post(of_alice, {"username": taken, "email": "Alice@Shop.example"}).status_code == 302


@pytest.mark.parametrize("new", ["new@shop.dz", "O'Brien@shop.dz"])
def test_whoever_is_named_by_their_address_signs_in_with_the_new_one_only(
    operator: Client, alice: Account, new: str
) -> None:
    User.objects.filter(pk=alice.holder_id).update(username="old@shop.dz", email="Old@shop.dz")
    there, form = page("accounts_user_change", alice.holder_id), {"username": "old@shop.dz", "is_active": "on"}
    assert operator.post(there, form | {"email": new}).status_code == 302
    assert User.meant_by("old@shop.dz") is None
    assert User.meant_by(new.lower()) == alice.holder
    assert Client().login(username=new, password=factories.PASSWORD)
    assert not User.with_name("old@shop.dz").exists(), "it is free for somebody else"

    assert operator.post(there, form | {"username": new, "email": ""}).status_code == 302
    alice.holder.refresh_from_db()
    assert (alice.holder.username, alice.holder.email) == (new, ""), "without an address, the name stays"


def test_an_address_that_cannot_be_the_name_too_is_refused_at_its_field(operator: Client, alice: Account) -> None:
    karim = factories.AgentFactory(username="karim@shop.dz")
    there = page("accounts_user_change", alice.holder_id)
    form = {"username": alice.holder.username, "is_active": "on"}
    for address, said in (
        ("Karim@shop.dz", "Use another, or first change theirs under People."),
        (f"{'a' * 60}@{'.'.join(['b' * 60] * 2)}.dz", "at most 150 characters"),
    ):
        refused = operator.post(there, form | {"email": address})
        assert list(refused.context["adminform"].form.errors) == ["email"]
        assert said in text_of(refused)
    alice.holder.refresh_from_db()
    assert alice.holder.username == alice.holder.email == form["username"]

    there = page("accounts_user_change", karim.pk)
    form = {"username": karim.username, "is_active": "on", "is_staff": "on"}
    for address in ("k@shop.dz", "karim@other.dz"):
        assert operator.post(there, form | {"email": address}).status_code == 302
    karim.refresh_from_db()
    assert (karim.username, karim.email) == ("karim@shop.dz", "karim@other.dz"), "a name that was not their address"


def test_a_persons_name_is_kept_as_every_other_text(operator: Client) -> None:
    person = factories.AgentFactory(username="karim")
    there, form = page("accounts_user_change", person.pk), {"username": "karim", "is_staff": "on", "is_active": "on"}
    for name in ("Ka\arim", "Ka\nrim", "a" + "\u0301" * 140):
        assert "characters that cannot be stored" in text_of(operator.post(there, form | {"last_name": name}))
    assert operator.post(there, form | {"first_name": "Ai\u0308cha", "last_name": "\u200b"}).status_code == 302
    person.refresh_from_db()
    assert (person.first_name, person.last_name) == ("Aïcha", "")


def test_nobody_works_on_both_sides_and_one_operator_stays(operator: Client, root: User, alice: Account) -> None:
    there = page("accounts_user_change", alice.holder.pk)
    form = {"username": alice.holder.username, "is_active": "on", "is_staff": "on"}
    assert "works for a merchant" in text_of(operator.post(there, form))
    there = page("accounts_user_change", root.pk)
    form = {"username": "root", "is_active": "on", "is_staff": "on"}
    assert "last operator" in text_of(operator.post(there, form))
    root.refresh_from_db()
    alice.holder.refresh_from_db()
    assert (root.is_superuser, alice.holder.is_staff) == (True, False)


@pytest.mark.parametrize("email", factories.UNMAILABLE)
def test_nobody_gets_an_address_to_which_no_mail_can_be_written(operator: Client, alice: Account, email: str) -> None:
    """Someone who has such an address already can be shut out all the same."""
    person = page("accounts_user_change", alice.holder.pk)
    form = {"username": alice.holder.username, "is_active": "on", "email": email}
    answer = operator.post(person, form)
    assert text_of(answer).count("Enter a valid email address.") == 1
    assert not User.objects.filter(email=email).exists()

    User.objects.filter(pk=alice.holder_id).update(email=email)
    assert operator.post(person, form | {"is_active": ""}).status_code == 302
    assert not User.objects.get(pk=alice.holder_id).is_active


@pytest.mark.parametrize("name", ["o'brien@shop.dz", "a&b@shop.dz", "removed 01954f6e-5b6c-7a1b-9c2d-3e4f5a6b7c8d"])
def test_whoever_has_a_name_that_nobody_could_choose_is_changed_and_shut_out(
    operator: Client, alice: Account, name: str
) -> None:
    """Holders' names are their addresses; a removed colleague's has a space."""
    email = name if "@" in name else ""
    User.objects.filter(pk=alice.holder_id).update(username=name, email=email)
    person, form = page("accounts_user_change", alice.holder_id), {"username": name, "email": email}
    assert operator.post(person, form | {"first_name": "Sean"}).status_code == 302
    alice.holder.refresh_from_db()
    assert (alice.holder.username, alice.holder.first_name, alice.holder.is_active) == (name, "Sean", False)
    refused = operator.post(person, form | {"username": f"{name} again"})
    assert list(refused.context["adminform"].form.errors) == ["username"]


@pytest.mark.django_db(transaction=True)
def test_of_two_operators_who_deactivate_each_other_one_stays() -> None:
    root, other = (factories.UserFactory(username=name, is_staff=True, is_superuser=True) for name in ("root", "other"))
    client = browser_of(other)
    form = {"username": "root", "is_staff": "on", "is_superuser": "on"}
    with transaction.atomic():
        User.objects.filter(pk=other.pk).update(is_active=False)
        post = Background(lambda: client.post(page("accounts_user_change", root.pk), form))
        wait_for_lock()
    assert "last operator" in text_of(post.result())
    root.refresh_from_db()
    assert root.is_active


@pytest.mark.django_db(transaction=True)
def test_whoever_becomes_the_last_operator_meanwhile_stays_one() -> None:
    root = factories.UserFactory(username="root", is_staff=True, is_superuser=True)
    agent = factories.AgentFactory(username="samira")
    client = browser_of(root)
    form = {"username": "samira", "is_staff": "on", "groups": [str(agent.groups.get().pk)]}
    with transaction.atomic():
        User.objects.filter(pk=agent.pk).update(is_superuser=True)
        User.objects.filter(pk=root.pk).update(is_active=False)
        post = Background(lambda: client.post(page("accounts_user_change", agent.pk), form))
        wait_for_lock()
    assert "last operator" in text_of(post.result())
    agent.refresh_from_db()
    assert (agent.is_active, agent.is_superuser) == (True, True)


def locks_of_people(queries: CaptureQueriesContext) -> int:
    return sum("accounts_user" in each["sql"] and "FOR NO KEY UPDATE" in each["sql"] for each in queries)


def test_a_change_of_an_agent_locks_no_operator(operator: Client) -> None:
    agent = factories.AgentFactory(username="samira")
    form = {"username": "samira.k", "is_active": "on", "is_staff": "on", "groups": [str(agent.groups.get().pk)]}
    with CaptureQueriesContext(connection) as queries:
        assert operator.post(page("accounts_user_change", agent.pk), form).status_code == 302
    agent.refresh_from_db()
    locked = [each["sql"] for each in queries if "FOR NO KEY UPDATE" in each["sql"] and "accounts_user" in each["sql"]]
    assert agent.username == "samira.k"
    assert len(locked) == 1
    assert agent.pk.hex in locked[0]


def test_an_operator_who_is_shut_out_gets_an_unknown_password_before_any_is_locked(
    operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = factories.UserFactory(username="other", is_staff=True, is_superuser=True)
    locks = list[int]()

    def make_password(password: str) -> str:
        locks.append(locks_of_people(queries))
        return hashers.make_password(password)

    monkeypatch.setattr("codservice.accounts.models.make_password", make_password)
    form = {"username": "other", "is_staff": "on", "is_superuser": "on"}
    with CaptureQueriesContext(connection) as queries:
        assert operator.post(page("accounts_user_change", other.pk), form).status_code == 302
    assert (locks, locks_of_people(queries)) == ([0], 1)
    assert not User.objects.get(pk=other.pk).is_active


def test_the_page_of_a_person_with_codes_says_how_to_turn_them_off(operator: Client) -> None:
    """By a command to paste into a shell, in which other people's names do nothing."""
    person = factories.UserFactory(username="$(id)o'brien<b>@shop.dz")
    there = page("accounts_user_change", person.pk)
    assert "turn_codes_off" not in text_of(operator.get(there))
    TOTPDevice.objects.create(user=person, confirmed=True, name="")
    command = re.search(r'run <code dir="ltr">(.*?)</code>', text_of(operator.get(there)))
    assert command
    assert "<b>" not in command[1]
    assert shlex.split(unescape(command[1])) == ["manage.py", "turn_codes_off", person.username]
    assert "$(id)" in unescape(command[1]).split("'")[1]


@pytest.mark.django_db(transaction=True)
def test_an_operators_change_of_a_person_undoes_nobody_elses() -> None:
    """What others change at that moment, such as the person's own password, stays as they left it."""
    client = browser_of(factories.UserFactory(username="root", is_staff=True, is_superuser=True))
    agent = factories.AgentFactory(username="samira", has_one_time_password=True)
    supervisors, chosen = Group.objects.get(name="Supervisors"), unknown_password()
    there = page("accounts_user_change", agent.pk)
    roles = [str(agent.groups.get().pk)]
    form = {"username": "samira", "first_name": "Samira", "is_active": "on", "is_staff": "on", "groups": roles}
    with transaction.atomic():
        User.objects.filter(pk=agent.pk).update(password=chosen, has_one_time_password=False)
        agent.groups.set([supervisors])
        post = Background(lambda: client.post(there, form))
        wait_for_lock()
    assert post.result().status_code == 302
    agent.refresh_from_db()
    assert (agent.first_name, agent.password, agent.has_one_time_password) == ("Samira", chosen, False)
    assert agent.groups.get() == supervisors


@pytest.mark.parametrize("spelled", ["{0}", "{0.hex}", "{1}"])
def test_operators_change_their_own_password_only_where_they_are_asked_for_the_old_one(
    operator: Client, root: User, spelled: str
) -> None:
    """However their own id is spelled in the address."""
    own = spelled.format(root.pk, str(root.pk).upper())
    form = dict.fromkeys(("password1", "password2"), "battery staple 9")
    answer = operator.post(f"/console/accounts/user/{own}/password/", form)
    assert (answer.status_code, answer["Location"]) == (302, page("password_change"))
    root.refresh_from_db()
    assert not root.check_password("battery staple 9")


@pytest.mark.django_db(transaction=True)
def test_a_new_password_lets_nobody_in_who_is_shut_out_at_that_moment() -> None:
    client = browser_of(factories.UserFactory(username="root", is_staff=True, is_superuser=True))
    agent = factories.AgentFactory(username="samira")
    form = dict.fromkeys(("password1", "password2"), "battery staple 9")
    with transaction.atomic():
        User.objects.get(pk=agent.pk).deactivate()
        post = Background(lambda: client.post(page("auth_user_password_change", agent.pk), form))
        wait_for_lock()
    assert post.result().status_code == 302
    agent.refresh_from_db()
    assert not agent.is_active


@pytest.mark.django_db(transaction=True)
def test_a_new_password_that_the_log_cannot_tell_of_is_none() -> None:
    client = browser_of(factories.UserFactory(username="root", is_staff=True, is_superuser=True))
    agent = factories.AgentFactory(username="samira")
    form = dict.fromkeys(("password1", "password2"), "battery staple 9")
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("LOCK TABLE accounts_securityentry IN SHARE MODE")
        post = Background(lambda: client.post(page("auth_user_password_change", agent.pk), form))
        with pytest.raises(OperationalError):
            post.result()
    agent.refresh_from_db()
    assert not agent.check_password("battery staple 9")


def test_roles_are_looked_at_and_not_changed(operator: Client) -> None:
    agent = factories.AgentFactory(username="samira")
    role = agent.groups.get()
    there = page("auth_group_change", role.pk)
    text = text_of(operator.get(there))
    assert "samira" in text
    assert "call customers and decide orders" in text
    assert operator.post(there, {"name": "Other"}).status_code == 403
    assert operator.get(page("auth_group_add")).status_code == 403
    assert operator.post(page("auth_group_delete", role.pk), {"post": "yes"}).status_code == 403
    assert Group.objects.filter(name="Agents").exists()


@pytest.mark.parametrize("role", ["operator", "supervisor", "agent", "holder", "colleague"])
def test_people_are_found_by_role(operator: Client, alice: Account, role: str) -> None:
    people = {
        "operator": "root",
        "agent": factories.AgentFactory().username,
        "supervisor": factories.AgentFactory(role="Supervisors").username,
        "holder": alice.holder.username,
        "colleague": factories.UserFactory().username,
    }
    Membership.objects.create(account=alice, user=User.objects.get(username=people["colleague"]), role="reader")
    text = text_of(operator.get(page("accounts_user_changelist"), {"role": role}))
    found = {name for name, username in people.items() if f'<bdi dir="ltr" class="long">{username}</bdi>' in text}
    assert found == {role}


# --- The log ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("until", "found"),
    [
        ("", {"old", "new"}),
        ("2026-03-01", {"old"}),
        ("2026-02-28", set()),
        ("9999-12-31", {"old", "new"}),
        ("x", set()),
    ],
)
def test_the_log_is_read_up_to_a_day_however_much_came_after(operator: Client, until: str, found: set[str]) -> None:
    for name in ("old", "new"):
        security_log.note(Action.RESET, target=f"hers{name}")
    moment = datetime(2026, 3, 1, 22, 59, tzinfo=UTC)  # a minute before midnight in Algeria
    SecurityEntry.objects.filter(target="hersold").update(created_at=moment)
    asked = {"until": until, "action": "password_reset"}
    text = text_of(operator.get(page("accounts_securityentry_changelist"), asked))
    assert {name for name in ("old", "new") if f"hers{name}" in text} == found


@pytest.mark.parametrize("typed", ["\u200eyasmi\u200f", "YASMINE@boutique", "198.51.100.7", "woo", "woo'); --", "!"])
def test_the_log_is_searched_by_the_beginnings_of_words(operator: Client, typed: str) -> None:
    who = {"by": "person", "actor": "yasmine@boutique.dz", "address": "198.51.100.7"}
    SecurityEntry.objects.create(action=Action.KEY_MADE, outcome="done", target="WooCommerce (cod_live_x…)", **who)
    security_log.note(Action.KEY_MADE, target="Somebody else's")
    text = text_of(operator.get(page("accounts_securityentry_changelist"), {"q": typed}))
    assert ("yasmine@boutique.dz" in text) == (typed != "!")
    assert "Somebody else" not in text


# --- All pages -------------------------------------------------------------------------------------------------------


def furnish(text: str) -> None:
    """Make a merchant whose every text is `text`, with everything that belongs to one."""
    account = factories.AccountFactory(name=text)
    ApiKey.issue(account, name=text[:100])
    factories.AgentFactory(first_name=text, last_name=text)
    webhook = registry.register(account.id, url="https://203.0.114.1/hooks", events=["order.confirmed"])[0]
    webhook.description = text
    webhook.save()
    write_delivery(webhook, "failed", attempts=2)
    member = factories.UserFactory(first_name=text)
    Membership.objects.create(account=account, user=member, role="reader")


def pages_of(name: str) -> Iterator[str]:
    yield page(f"{name}_changelist")
    model = next(m for m in admin.site._registry if f"{m._meta.app_label}_{m._meta.model_name}" == name)
    yield from (page(f"{name}_change", pk) for pk in model._default_manager.values_list("pk", flat=True)[:2])


def test_pages_show_any_text_as_text(operator: Client) -> None:
    furnish(NASTY)
    for path in (path for name in LISTS for path in pages_of(name)):
        answer = operator.get(path)
        assert answer.status_code == 200, path
        assert "<script>alert" not in text_of(answer), path


def test_lists_and_pages_take_the_same_number_of_statements(operator: Client) -> None:
    furnish("Shop")

    def counts() -> dict[str, list[int]]:
        found = {}
        for name in LISTS:
            for path in list(pages_of(name))[:2]:
                with CaptureQueriesContext(connection) as captured:
                    assert operator.get(path).status_code == 200
                found.setdefault(name, []).append(len(captured))
        return found

    counts()  # loads what is then cached
    few = counts()
    for _ in range(8):
        furnish("Shop")
    assert counts() == few
    assert {name: found for name, found in few.items() if max(found) > 14} == {}


def test_a_page_of_a_list_has_fifty_rows(operator: Client) -> None:
    for _ in range(51):
        furnish("ب" * 100)
    for name in ("accounts_account", "accounts_apikey", "accounts_user", "webhooks_delivery"):
        text = text_of(operator.get(page(f"{name}_changelist")))
        assert text.count("<tr>") == 1 + 50, name
        assert len(text.encode()) < 100_000, name


def test_a_list_says_where_it_stops_in_groups_of_three(operator: Client, alice: Account) -> None:
    SecurityEntry.objects.bulk_create(
        SecurityEntry(account=alice, action="key_made", by="person", outcome="done") for _ in range(1000)
    )
    text = text_of(operator.get(page("accounts_securityentry_changelist")))
    assert "Only the first 1\N{NARROW NO-BREAK SPACE}000 are shown." in text


def test_searches_take_any_text(operator: Client) -> None:
    """The filters are tried with every other parameter in tests/pages/test_parameters.py."""
    furnish("Shop")
    for path in (page(f"{name}_changelist") for name in LISTS):
        for typed in ("%", "_", "\0", "'", '"', "\\", "((", ":*", "سميرة", "9" * 99, "x" * 3000):
            assert operator.get(path, {"q": typed}).status_code in (200, 302, 400), (path, typed)


def test_nobody_but_operators_comes_in(alice: Account, root: User) -> None:
    furnish("Shop")
    for person, code in ((factories.AgentFactory(role="Supervisors"), 403), (alice.holder, 302)):
        client = browser_of(person)
        for path in (path for name in LISTS for path in pages_of(name)):
            assert client.get(path).status_code == code, path
        assert client.post(page("accounts_account_add"), {"name": "x", "email": "x@example.dz"}).status_code == code
        assert client.post(of_merchant(alice), {"action": "deactivate"}).status_code == code
    alice.refresh_from_db()
    assert alice.is_active
