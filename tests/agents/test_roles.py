"""Who reaches which pages, and how people are made."""

import json
import re
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.contrib.auth.tokens import default_token_generator
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone
from django.utils.http import urlsafe_base64_encode

from agents.desk import claims
from codservice.accounts.actor import Actor, Role
from codservice.accounts.models import Account, ApiKey, User
from orders.models import Order
from tests import factories
from tests.harness.client import browser_of
from tests.harness.manage import output

OPERATORS_PAGES = [
    "/console/accounts/user/",
    "/console/accounts/user/add/",
    "/console/accounts/account/",
    "/console/accounts/apikey/",
    "/console/auth/group/",
]


def test_agents_land_on_the_desk_and_operators_on_the_index(agent: User, operator: User) -> None:
    assert browser_of(agent).get("/console/").url == "/console/desk/"
    assert b"/console/accounts/user/" in browser_of(operator).get("/console/").content


@pytest.mark.parametrize("path", OPERATORS_PAGES)
def test_only_operators_reach_people_accounts_and_keys(
    path: str, agent: User, supervisor: User, operator: User
) -> None:
    assert browser_of(agent).get(path).status_code == 403
    assert browser_of(supervisor).get(path).status_code == 403
    assert browser_of(operator).get(path).status_code == 200


def test_agents_reach_no_single_person_or_key_and_cannot_revoke(alice: Account, agent: User) -> None:
    key, _ = ApiKey.issue(alice, name="Shop")
    browser = browser_of(agent)
    assert browser.get(f"/console/accounts/user/{agent.id}/change/").status_code == 403
    assert browser.get(f"/console/accounts/user/{agent.id}/password/").status_code == 403
    assert browser.get(f"/console/accounts/apikey/{key.id}/change/").status_code == 403
    chosen = {"action": "revoke", "_selected_action": str(key.id), "index": "0", "sure": "1"}
    assert browser.post("/console/accounts/apikey/", chosen).status_code == 403
    key.refresh_from_db()
    assert key.revoked_at is None


def test_agents_have_no_account_pages_and_the_api_knows_no_cookies(agent: User) -> None:
    browser = browser_of(agent)
    assert browser.get("/account/").url == "/console/"
    assert browser.post("/account/", {"name": "x", "scopes": "orders:read"}).url == "/console/"
    assert browser.get("/api/v1/orders").status_code == 401
    assert ApiKey.objects.count() == 0


def test_holders_strangers_and_keys_stay_outside(alice: Account, order: Order, api: Client) -> None:
    pages = ["/console/", "/console/orders/order/", f"/console/orders/order/{order.id}/", "/console/accounts/user/"]
    pages += ["/console/desk/", f"/console/desk/{order.id}/", f"/console/desk/{order.id}/state/", "/console/regions/"]
    for client in (Client(), browser_of(alice.holder), api):
        for page in pages:
            response = client.get(page)
            assert response.status_code == 302
            assert response.url.startswith("/console/login/?next=")
        for button in (f"/console/orders/order/{order.id}/cancel/", f"/console/desk/take/{order.id}/"):
            assert client.post(button, {"version": 1}).url.startswith("/console/login/?next=")
    order.refresh_from_db()
    assert order.status == "pending_confirmation"


def test_staff_without_a_role_sees_no_orders(db: None, order: Order) -> None:
    browser = browser_of(factories.UserFactory(is_staff=True))
    assert browser.get("/console/orders/order/").status_code == 403
    assert browser.get(f"/console/orders/order/{order.id}/").status_code == 403
    assert browser.post(f"/console/orders/order/{order.id}/cancel/", {"version": 1}).status_code == 403
    assert browser.post(f"/console/orders/order/{order.id}/note/", {}).status_code == 403
    for address in ("desk/", f"desk/{order.id}/", f"desk/{order.id}/state/", "regions/"):
        assert browser.get(f"/console/{address}").status_code == 403
    for address in ("desk/next/", f"desk/take/{order.id}/", f"desk/{order.id}/outcome/", f"desk/{order.id}/keep/"):
        assert browser.post(f"/console/{address}").status_code == 403


def test_who_may_only_look_gets_no_buttons(db: None, order: Order) -> None:
    from django.contrib.auth.models import Permission

    looker = factories.UserFactory(is_staff=True)
    lookers = Group.objects.create(name="Lookers")
    lookers.permissions.add(Permission.objects.get(codename="view_order"))
    looker.groups.add(lookers)
    page = browser_of(looker).get(f"/console/orders/order/{order.id}/")
    assert page.status_code == 200
    assert b"/take/" not in page.content
    assert b"/note/" not in page.content


def test_roles_come_from_groups_alone(db: None, order: Order) -> None:
    from django.contrib.auth.models import Permission

    person = factories.UserFactory(is_staff=True)
    person.user_permissions.add(*Permission.objects.filter(content_type__app_label="orders"))
    assert browser_of(person).get(f"/console/orders/order/{order.id}/").status_code == 403


def test_orders_have_no_forms_history_or_deletion(operator: User, order: Order) -> None:
    browser = browser_of(operator)
    for page in ("add/", f"{order.id}/change/", f"{order.id}/delete/", f"{order.id}/history/"):
        assert browser.get(f"/console/orders/order/{page}").status_code == 404
    page = f"/console/orders/order/{order.id}/"
    assert browser.post(page, {"customer_name": "Somebody"}).status_code == 405
    chosen = {"action": "delete_selected", "_selected_action": str(order.id), "post": "yes"}
    browser.post("/console/orders/order/", chosen)
    assert Order.objects.get().customer_name == "Amine Benali"


def test_operators_revoke_keys_and_see_no_secret(alice: Account, operator: User) -> None:
    key, secret = ApiKey.issue(alice, name="Shop")
    browser = browser_of(operator)
    for page in ("/console/accounts/apikey/", f"/console/accounts/apikey/{key.id}/change/"):
        text = browser.get(page).content.decode()
        assert "Shop" in text
        assert secret not in text
        assert bytes(key.digest).hex() not in text
        assert "digest" not in text
    assert browser.get("/console/accounts/apikey/?digest__startswith=a").status_code == 400
    chosen = {"action": "revoke", "_selected_action": str(key.id), "index": "0", "sure": "1"}
    assert browser.post("/console/accounts/apikey/", chosen).status_code == 302
    key.refresh_from_db()
    assert key.revoked_at is not None
    assert browser.post(f"/console/accounts/apikey/{key.id}/change/", {"name": "Other"}).status_code == 403


def test_operators_see_no_password_hash(agent: User, operator: User) -> None:
    text = browser_of(operator).get(f"/console/accounts/user/{agent.id}/change/").content.decode()
    assert "Set a new password" in text
    assert agent.password.split("$")[1] not in text
    assert not re.search(r"\bmd5\b", text)  # random tokens may contain it


def test_people_are_deactivated_not_deleted(agent: User, operator: User) -> None:
    assert browser_of(operator).post(f"/console/accounts/user/{agent.id}/delete/", {"post": "yes"}).status_code == 403
    assert User.objects.filter(id=agent.id).exists()


def test_roles_follow_the_groups(agent: User, supervisor: User, operator: User) -> None:
    assert Actor.of_staff(agent).role == Role.AGENT
    assert Actor.of_staff(supervisor).role == Role.SUPERVISOR
    assert Actor.of_staff(operator).role == Role.SUPERVISOR
    codenames = Group.objects.get(name="Agents").permissions.values_list("codename", flat=True)
    assert sorted(codenames) == ["view_order", "work_order"]


def test_who_works_for_a_merchant_is_no_agent(alice: Account) -> None:
    with pytest.raises(ValueError, match="does not work here"):
        Actor.of_staff(alice.holder)
    assert Actor.of_merchant(alice.holder).role == Role.MERCHANT


def change_of(user: User, **changes: Any) -> dict[str, Any]:
    """Return the form of a person's page as it is, but for `changes`."""
    form = {"username": user.username, "first_name": user.first_name, "last_name": "", "email": "", "is_active": "on",
            "is_staff": "on", "groups": [group.pk for group in user.groups.all()], **changes}  # fmt: skip
    return {name: value for name, value in form.items() if value is not None}


def test_what_an_operator_deactivates_does_not_come_back_to_life(agent: User, operator: User, alice: Account) -> None:
    key = ApiKey.issue(alice, name="Shop")[1]
    theirs, holders, mine = browser_of(agent), browser_of(alice.holder), browser_of(operator)
    for user, is_staff in ((agent, "on"), (alice.holder, None)):
        token = default_token_generator.make_token(user)
        link = f"/account/password/new/{urlsafe_base64_encode(str(user.pk).encode())}/{token}"
        page = f"/console/accounts/user/{user.id}/change/"
        for is_active in (None, "on"):
            form = change_of(user, is_staff=is_staff, is_active=is_active)
            assert mine.post(page, form).status_code == 302
            user.refresh_from_db()
            assert user.is_active == bool(is_active)
        assert "This link no longer works" in Client().get(link, follow=True).content.decode()
        assert not user.check_password(factories.PASSWORD)
    assert theirs.get("/console/desk/").status_code == 302
    assert holders.get("/account/keys").status_code == 302
    assert Client().get("/api/v1/orders", headers={"Authorization": f"Bearer {key}"}).status_code == 200


def test_who_has_worked_here_stays_one_of_the_people_whose_work_figures_count(agent: User, operator: User) -> None:
    page, mine = f"/console/accounts/user/{agent.id}/change/", browser_of(operator)
    User.objects.filter(id=agent.id).update(last_login=timezone.now())
    refused = mine.post(page, change_of(agent, is_staff=None, groups=[]))
    assert "Figures count the work this person has done." in refused.content.decode()
    agent.refresh_from_db()
    assert agent.is_staff
    assert mine.post(page, change_of(agent, is_active=None, groups=[])).status_code == 302
    User.objects.filter(id=agent.id).update(last_login=None)  # somebody ticked it by mistake
    assert mine.post(page, change_of(agent, is_staff=None, groups=[])).status_code == 302


def test_a_page_from_before_gives_nobody_back_what_was_taken_from_them_since(agent: User, operator: User) -> None:
    """After the page was opened, a supervisor deactivated the agent and another operator took the role away."""
    page, mine = f"/console/accounts/user/{agent.id}/change/", browser_of(operator)
    seen = mine.get(page).context["adminform"].form.initial["seen"]
    assert seen in mine.get(page).content.decode()
    shown = change_of(agent, seen=seen)
    agent.deactivate()
    agent.groups.clear()
    assert mine.post(page, shown | {"email": "samira@example.dz"}).status_code == 302
    agent.refresh_from_db()
    assert (agent.email, agent.is_active, agent.groups.count()) == ("samira@example.dz", False, 0)
    assert mine.post(page, change_of(agent, is_active="on")).status_code == 302
    agent.refresh_from_db()
    assert agent.is_active


def test_whom_an_operator_deactivates_leaves_their_customer_to_others(
    agent: User, colleague: User, operator: User, order: Order
) -> None:
    claims.take(order.id, agent=agent)
    form = change_of(agent, is_active=None)
    assert browser_of(operator).post(f"/console/accounts/user/{agent.id}/change/", form).status_code == 302
    assert claims.next_customer(colleague)


def test_a_password_from_an_operator_is_for_one_login(agent: User, operator: User) -> None:
    browser = browser_of(operator)
    new = "quite another word"
    page = f"/console/accounts/user/{agent.id}/password/"
    assert browser.post(page, {"password1": new, "password2": new, "usable_password": "true"}).status_code == 302
    agent.refresh_from_db()
    assert agent.check_password(new)
    assert agent.has_one_time_password
    made = {"username": "nora", "password1": new, "password2": new, "usable_password": "true"}
    assert browser.post("/console/accounts/user/add/", made).status_code == 302
    assert User.objects.get(username="nora").has_one_time_password


def test_operators_change_their_own_password_like_everybody(operator: User) -> None:
    browser, page = browser_of(operator), f"/console/accounts/user/{operator.id}/password/"
    data = {"password1": "quite another word", "password2": "quite another word"}
    for response in (browser.get(page), browser.post(page, data)):
        assert response.url == "/console/password_change/"
    operator.refresh_from_db()
    assert operator.check_password(factories.PASSWORD)


# --- Commands ----------------------------------------------------------------------------------------------------


def test_create_agent_prints_a_password_that_works(db: None) -> None:
    made = json.loads(output("create_agent", "samira", "--json"))
    user = User.objects.get(username="samira")
    assert made == {"username": "samira", "role": "agent", "password": made["password"], "login": "/console/login/"}
    assert user.check_password(made["password"])
    assert user.has_one_time_password
    assert user.is_staff
    assert not user.is_superuser
    assert [group.name for group in user.groups.all()] == ["Agents"]


def test_create_agent_makes_supervisors_with_a_given_password(db: None) -> None:
    assert "a fine pass word" not in output("create_agent", "karim", "--supervisor", "--password", "a fine pass word")
    user = User.objects.get(username="karim")
    assert user.check_password("a fine pass word")
    assert not user.has_one_time_password
    assert Actor.of_staff(user).role == Role.SUPERVISOR


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["samira"], "already exists"),
        (["Samira"], "already exists"),
        (["not a name"], "valid username"),
        ([" "], "^The username: .*blank"),
        (["new", "--password", "1234"], "too short"),
    ],
)
def test_create_agent_refuses(db: None, args: list[str], sentence: str) -> None:
    factories.AgentFactory(username="samira")
    with pytest.raises(CommandError, match=sentence):
        output("create_agent", *args)
    assert User.objects.count() == 1


def test_create_operator_speaks_exactly_once(db: None) -> None:
    said = output("create_operator")
    operator = User.objects.get(is_superuser=True)
    assert operator.username == "operator"
    assert operator.is_staff
    assert any(operator.check_password(word) for word in said.split())
    assert operator.has_one_time_password
    assert len(said.splitlines()) == 1
    assert output("create_operator") == ""
    assert User.objects.count() == 1


def test_create_operator_says_that_it_made_none_to_who_asks_for_one(db: None) -> None:
    output("create_operator")
    said = {}
    for args in ([], ["--username", "another"]):
        out, err = StringIO(), StringIO()
        call_command("create_operator", *args, stdout=out, stderr=err)
        assert out.getvalue() == ""
        said[len(args)] = err.getvalue()
    assert said[0] == ""  # every start runs it, and should log nothing new
    assert "already" in said[2]
    assert User.objects.count() == 1


@pytest.mark.parametrize("name", ["", "x" * 151, "a b"])
def test_create_operator_refuses_a_name_that_nobody_could_use(db: None, name: str) -> None:
    with pytest.raises(CommandError, match="--username: "):
        output("create_operator", "--username", name)
    assert not User.objects.exists()


def test_create_operator_makes_one_who_can_sign_in_by_the_name_that_was_asked_for(db: None) -> None:
    """Names are normalized at sign-in (NFKC), since a keyboard of another script may type them in other characters."""
    said = output("create_operator", "--username", "ｎａｄｉａ")
    name, password = re.fullmatch(r"Operator: sign in as (\S+) with the password (\S+) .*\s*", said).groups()
    assert name == "nadia"
    for typed in ("nadia", "ｎａｄｉａ"):
        answer = Client().post("/console/login/", {"username": typed, "password": password})
        assert answer.status_code == 302, typed


@pytest.mark.parametrize("there", ["operator", "Operator"])
def test_create_operator_refuses_a_taken_name(db: None, there: str) -> None:
    factories.UserFactory(username=there)
    with pytest.raises(CommandError, match=r"“operator” cannot be used.*: A user with that username already exists"):
        output("create_operator")


def test_the_language_is_chosen_before_one_signs_in(db: None) -> None:
    browser, login = Client(), "/console/login/?next=/console/desk/"
    refused = browser.post(login, {"username": "samira", "password": "wrong"})
    for page in (browser.get(login), refused):  # also in the answer to a wrong password
        assert f'name="next" value="{login}"' in page.text

    browser.post("/i18n/setlang/", {"language": "ar-dz", "next": login})

    page = browser.get(login)
    assert 'dir="rtl"' in page.text
    assert "كلمة المرور" in page.text


def test_the_language_is_switched_in_the_header(agent: User) -> None:
    browser = browser_of(agent)
    page = browser.get("/console/desk/")
    assert 'action="/i18n/setlang/"' in page.text
    assert 'name="next" value="/console/desk/"' in page.text

    browser.post("/i18n/setlang/", {"language": "ar-dz", "next": "/console/desk/"})

    page = browser.get("/console/desk/")
    assert 'dir="rtl"' in page.text
    assert "الطلبية التالية" in page.text
