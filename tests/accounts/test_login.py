"""Signing in, at the account's door and at the console's (promises A17 to A19)."""

from typing import Any

import django_ratelimit.core
import pytest
from django.contrib.auth.hashers import MD5PasswordHasher
from django.contrib.sessions.models import Session
from django.test import Client

from codservice import ratelimit
from codservice.accounts.models import Account, User
from tests import factories

DOORS = ["/account/login", "/console/login/"]
PASSWORD = "correct horse"


@pytest.fixture
def agent(db: None) -> User:
    return factories.AgentFactory(username="samira", email="samira@example.com")


class Clock:
    """What django-ratelimit sees as time: it stands still until it is moved."""

    now = 1_800_000_000.0

    def time(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(django_ratelimit.core, "time", clock)
    return clock


def sign_in(door: str, username: str, password: str = PASSWORD, client: Client | None = None, **extra: Any) -> Any:
    return (client or Client()).post(door, {"username": username, "password": password}, **extra)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", ["samira", "samira@example.com", "Samira@Example.com"])
def test_agents_sign_in_by_name_or_address_at_either_door(door: str, name: str, agent: User) -> None:
    client = Client()
    assert sign_in(door, name, client=client).status_code == 302
    assert client.get("/").url == "/console/"
    assert client.session["_auth_user_id"] == str(agent.id)


def test_holders_go_to_their_account(alice: Account) -> None:
    client = Client()
    assert sign_in("/account/login", alice.holder.email, client=client).url == "/"
    assert client.get("/").url == "/account/"
    assert client.get("/account/login").url == "/"


def test_strangers_are_sent_to_the_login(db: None) -> None:
    assert Client().get("/").url == "/account/login"
    assert Client().get("/account/").url == "/account/login?next=/account/"
    assert Client().get("/console").url == "/console/"


def test_the_console_answers_a_merchants_password_like_a_wrong_one(alice: Account) -> None:
    right = sign_in("/console/login/", alice.holder.email)
    wrong = sign_in("/console/login/", alice.holder.email, "wrong")
    assert (right.status_code, right.context["form"].errors) == (wrong.status_code, wrong.context["form"].errors)


def test_nobody_is_led_away_after_the_login(agent: User) -> None:
    data = {"username": "samira", "password": PASSWORD, "next": "https://evil.example/"}
    for door in DOORS:
        assert "evil" not in Client().post(door, data).url


@pytest.mark.parametrize("door", DOORS)
def test_known_and_unknown_people_take_the_same_work_and_words(
    door: str, agent: User, settings: Any, monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: Any
) -> None:
    worked = []
    encode = MD5PasswordHasher.encode

    def counted(self: MD5PasswordHasher, password: str, salt: str) -> str:
        worked.append(password)
        return encode(self, password, salt)

    monkeypatch.setattr(MD5PasswordHasher, "encode", counted)
    factories.UserFactory(username="gone", is_active=False)
    seen = []
    for name, password in (
        ("samira", "wrong"),
        ("nobody", "wrong"),
        ("nobody@example.com", "wrong"),
        ("gone", PASSWORD),
    ):
        worked.clear()
        response = sign_in(door, name, password)
        page = response.content.decode().replace(name, "NAME")
        words = [str(error) for error in response.context["form"].non_field_errors()]
        seen.append((response.status_code, words, len(worked), len(page.splitlines())))
    assert len(set(map(str, seen))) == 1, seen


@pytest.mark.parametrize("door", DOORS)
def test_after_ten_bad_tries_even_the_right_password_waits(door: str, agent: User, clock: Clock) -> None:
    answers = [sign_in(door, "samira", f"wrong {n}") for n in range(10)]
    assert {answer.status_code for answer in answers} == {200}
    locked = sign_in(door, "samira")
    assert locked.status_code == 429
    assert 1 <= int(locked.headers["Retry-After"]) <= 300
    assert "Too many tries. Try again in " in locked.content.decode()
    clock.now += int(locked.headers["Retry-After"])
    assert sign_in(door, "samira").status_code == 302


def test_the_limit_holds_for_both_doors_and_all_names_of_a_person(agent: User, clock: Clock) -> None:
    names = ["samira", "samira@example.com", "SAMIRA@example.com", " samira "]
    for n in range(10):
        sign_in(DOORS[n % 2], names[n % 4], "wrong")
    assert sign_in(DOORS[0], "samira").status_code == 429


def test_an_unknown_name_is_limited_like_a_known_one(agent: User, clock: Clock) -> None:
    for name in ("samira", "nobody"):
        answers = [sign_in("/account/login", name, "wrong").status_code for _ in range(12)]
        assert answers == [200] * 10 + [429] * 2


def test_the_lock_is_for_one_person_from_one_address(agent: User, alice: Account, clock: Clock) -> None:
    for _ in range(11):
        sign_in("/account/login", "samira", "wrong", headers={"X-Forwarded-For": "198.51.100.1"})
    assert sign_in("/account/login", "samira", headers={"X-Forwarded-For": "198.51.100.2"}).status_code == 429
    assert sign_in("/account/login", "samira", REMOTE_ADDR="203.0.113.9").status_code == 302
    assert sign_in("/account/login", alice.holder.email).status_code == 302


def test_good_logins_never_lock(agent: User, clock: Clock) -> None:
    assert {sign_in("/console/login/", "samira").status_code for _ in range(15)} == {302}


def test_login_works_while_redis_is_away(agent: User, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = "redis://127.0.0.1:1/0"
    monkeypatch.setattr(ratelimit, "counter", ratelimit.Counter(nobody, settings.REDIS_TIMEOUT))
    settings.CACHES = {"default": {**settings.CACHES["default"], "LOCATION": nobody}}

    assert sign_in("/console/login/", "samira").status_code == 302
    assert ratelimit.counter.is_paused


@pytest.mark.parametrize(
    "data", [{}, {"username": "a\x00b", "password": "x"}, {"username": "a" * 5000, "password": "\x00"}]
)
def test_broken_forms_are_answered(data: dict, db: None) -> None:
    for door in DOORS:
        assert Client().post(door, data).status_code == 200


# --- Sessions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("door", DOORS)
def test_the_session_key_changes_at_login_and_dies_at_logout(door: str, agent: User) -> None:
    client = Client()
    session = client.session
    session["before"] = 1
    session.save()
    client.cookies["sessionid"] = before = session.session_key
    sign_in(door, "samira", client=client)
    after = client.cookies["sessionid"].value
    assert after != before
    assert not Session.objects.filter(session_key=before).exists()
    assert client.cookies["sessionid"]["httponly"]
    assert client.cookies["sessionid"]["samesite"] == "Lax"
    logout = {"/account/login": "/account/logout", "/console/login/": "/console/logout/"}[door]
    assert client.get(logout).status_code == 405
    assert client.post(logout).url == door
    assert not Session.objects.filter(session_key=after).exists()
    client.cookies["sessionid"] = after
    assert client.get("/console/orders/order/").status_code == 302


def test_who_is_deactivated_is_out_at_the_next_click(agent: User, alice: Account) -> None:
    for user, page in ((agent, "/console/orders/order/"), (alice.holder, "/account/keys")):
        client = Client()
        client.force_login(user)
        assert client.get(page).status_code == 200
        User.objects.filter(id=user.id).update(is_active=False)
        assert client.get(page).status_code == 302


def test_a_new_password_ends_the_other_sessions(agent: User) -> None:
    client, other = Client(), Client()
    client.force_login(agent)
    other.force_login(agent)
    new = "another fine word"
    data = {"old_password": PASSWORD, "new_password1": new, "new_password2": new}
    assert client.post("/console/password_change/", data).status_code == 302
    assert client.get("/console/orders/order/").status_code == 200
    assert other.get("/console/orders/order/").status_code == 302


@pytest.mark.parametrize("door", DOORS)
def test_login_and_logout_need_the_csrf_token(door: str, agent: User) -> None:
    strict = Client(enforce_csrf_checks=True)
    response = sign_in(door, "samira", client=strict)
    assert response.status_code == 403
    assert "The page was too old" in response.content.decode()
    strict.force_login(agent)
    assert strict.post("/account/logout").status_code == 403
    assert strict.post("/console/logout/").status_code == 403
