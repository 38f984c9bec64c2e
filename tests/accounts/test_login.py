"""Signing in, at the account's door and at the console's (promises A17 to A19)."""

from collections.abc import Callable
from typing import Any

import django_ratelimit.core
import pytest
from django.contrib.auth.hashers import MD5PasswordHasher
from django.contrib.sessions.models import Session
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from django_otp.oath import totp

from agents.desk import claims
from codservice import ratelimit
from codservice.accounts import one_time_codes, sessions
from codservice.accounts.models import Account, User
from tests import factories
from tests.factories import PASSWORD
from tests.harness.client import browser_of

DOORS = ["/account/login", "/console/login/"]


@pytest.fixture
def agent(db: None) -> User:
    return factories.AgentFactory(username="samira", email="samira@example.com")


class Clock:
    """The time as django-ratelimit sees it: it stands still until it is moved."""

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


@pytest.mark.parametrize(
    ("sent_to", "sent_from", "back"),
    [
        ("/account/mode", "http://testserver/account/keys", "/account/"),
        ("/account/mode", None, "/account/"),
        ("/account/mode", "http://[x", "/account/"),
        ("/account/mode", "http://a]b/", "/account/"),
        ("/account/calling", "http://testserver/account/calling", "/account/calling"),
        ("/console/keys/", "http://testserver/console/desk/", "/console/"),
        ("/console/review/", "http://[::1", "/console/"),
        ("/console/review/?p=2", "http://testserver/console/review/?p=2", "/console/review/%3Fp%3D2"),
    ],
)
def test_who_was_signed_out_comes_back_to_a_page_and_to_no_address_of_a_form(
    sent_to: str, sent_from: str | None, back: str, db: None
) -> None:
    headers = {"Referer": sent_from} if sent_from else {}
    door = DOORS[sent_to.startswith("/console/")]
    assert Client().post(sent_to, headers=headers).url == f"{door}?next={back}"


@pytest.mark.parametrize(
    ("sent_to", "door"),
    [
        ("/console/rules/", "/console/login/"),
        ("/console/desk/next/", "/console/login/"),
        ("/console/orders/order/01954f6e-5b6c-7a1b-9c2d-3e4f5a6b7c8d/ship/", "/console/login/"),
        ("/account/team", "/account/login"),
    ],
)
def test_who_was_signed_out_is_told_that_a_form_came_to_nothing(sent_to: str, door: str, db: None) -> None:
    said = "You had been signed out, so nothing was saved."
    sent = Client()
    assert said in sent.post(sent_to, follow=True).content.decode()
    assert said not in sent.get(door).content.decode()
    assert said not in Client().get(sent_to, follow=True).content.decode()
    script = Client(headers={"Accept": "*/*"})  # all that browsers send over plain http
    assert said not in script.post(sent_to, follow=True).content.decode()


@pytest.mark.parametrize(
    "page", ["/account/codes", "/account/password", "/console/codes/", "/console/password_change/"]
)
def test_who_sends_a_new_password_or_codes_again_after_a_lost_answer_is_not_told_that_nothing_was_saved(
    page: str, db: None
) -> None:
    """The change ended the session, and the new one was lost with the answer."""
    door = DOORS[page.startswith("/console/")]
    answer = Client().post(page, headers={"Referer": f"http://testserver{page}"}, follow=True)
    assert answer.redirect_chain == [(f"{door}?next={page}", 302)]
    assert "that may have been done: sign in with what you chose" in (said := answer.content.decode())
    assert "nothing was saved" not in said


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
    assert "Too many attempts. Try again in " in locked.content.decode()
    clock.now += int(locked.headers["Retry-After"])
    assert sign_in(door, "samira").status_code == 302


def test_the_limit_holds_for_both_doors_and_all_names_of_a_person(agent: User) -> None:
    names = ["samira", "samira@example.com", "SAMIRA@example.com", " samira "]
    for n in range(10):
        sign_in(DOORS[n % 2], names[n % 4], "wrong")
    assert sign_in(DOORS[0], "samira").status_code == 429


def test_an_unknown_name_is_limited_like_a_known_one(agent: User) -> None:
    for name in ("samira", "nobody"):
        answers = [sign_in("/account/login", name, "wrong").status_code for _ in range(12)]
        assert answers == [200] * 10 + [429] * 2


@pytest.mark.parametrize(("tried", "then", "status"), [("{}", "{}", 429), ("{}ß", "{}ss", 200)])
def test_the_limit_tells_nobody_which_names_are_known(agent: User, tried: str, then: str, status: int) -> None:
    """Not by their case either, which decides only who is let in."""
    User.objects.filter(pk=agent.pk).update(last_login=timezone.now())
    for name in ("samira", "nobody"):
        answers = {sign_in("/account/login", tried.format(name.upper()), "wrong").status_code for _ in range(10)}
        assert answers == {200}
        assert sign_in("/account/login", then.format(name), "wrong").status_code == status, name


def test_a_username_in_another_case_lets_nobody_in(agent: User) -> None:
    for own, others in (("Nadia", ("NADIA", "nadia")), ("ΣΟΦΙΑΣ", ("σοφιας", "σοφιασ"))):
        factories.AgentFactory(username=own)
        assert [sign_in("/account/login", name).status_code for name in (*others, own)] == [200, 200, 302]


def test_the_lock_is_for_one_person_from_one_address(agent: User, alice: Account) -> None:
    for _ in range(11):
        sign_in("/account/login", "samira", "wrong", headers={"X-Forwarded-For": "198.51.100.1"})
    assert sign_in("/account/login", "samira", headers={"X-Forwarded-For": "198.51.100.2"}).status_code == 429
    assert sign_in("/account/login", "samira", REMOTE_ADDR="203.0.113.9").status_code == 302
    assert sign_in("/account/login", alice.holder.email).status_code == 302


def test_good_logins_never_lock(agent: User) -> None:
    assert {sign_in("/console/login/", "samira").status_code for _ in range(15)} == {302}


def test_login_works_while_redis_is_away(agent: User, limits_by: Callable[[str], None]) -> None:
    limits_by("redis://127.0.0.1:1/0")

    assert sign_in("/console/login/", "samira").status_code == 302
    assert ratelimit.counter.is_paused


@pytest.mark.parametrize(
    "data", [{}, {"username": "a\x00b", "password": "x"}, {"username": "a" * 5000, "password": "\x00"}]
)
def test_broken_forms_are_answered(data: dict, db: None) -> None:
    for door in DOORS:
        assert Client().post(door, data).status_code == 200


# --- Guessing from many places, and at many names -------------------------------------------------------------------


def test_an_address_has_thirty_tries_a_minute_whatever_the_names_before_anything_is_hashed(
    agent: User, django_assert_num_queries: Any
) -> None:
    answers = [sign_in(DOORS[n % 2], f"nobody{n}", "wrong").status_code for n in range(30)]
    assert answers == [200] * 30
    for door in DOORS:
        with pytest.MonkeyPatch.context() as patch, django_assert_num_queries(0):
            patch.setattr(MD5PasswordHasher, "encode", None)
            locked = sign_in(door, "samira")
        assert locked.status_code == 429
        assert 1 <= int(locked.headers["Retry-After"]) <= 60
    assert sign_in(DOORS[0], "samira", REMOTE_ADDR="203.0.113.9").status_code == 302


def test_an_address_may_try_again_after_a_minute(agent: User, clock: Clock) -> None:
    for n in range(31):
        locked = sign_in(DOORS[0], f"nobody{n}", "wrong")
    clock.now += int(locked.headers["Retry-After"])
    assert sign_in(DOORS[0], "samira").status_code == 302


def guess_from_everywhere(username: str = "samira") -> list[int]:
    """Return the answers to wrong passwords for this person, each from its own address."""
    return [sign_in(DOORS[n % 2], username, "wrong", REMOTE_ADDR=f"203.0.113.{n}").status_code for n in range(21)]


def test_a_name_is_guessed_at_twenty_times_in_five_minutes_from_wherever(agent: User, clock: Clock) -> None:
    assert guess_from_everywhere() == [200] * 20 + [429]
    locked = sign_in(DOORS[0], "samira", REMOTE_ADDR="198.51.100.1")
    assert locked.status_code == 429
    clock.now += int(locked.headers["Retry-After"])
    assert sign_in(DOORS[0], "samira", REMOTE_ADDR="198.51.100.1").status_code == 302


@pytest.mark.parametrize("door", DOORS)
def test_who_has_signed_in_in_a_browser_before_is_not_kept_out_of_it(door: str, agent: User) -> None:
    browser = Client()
    assert sign_in(door, "samira@example.com", client=browser).status_code == 302
    browser.cookies.pop("sessionid")
    guess_from_everywhere()
    assert sign_in(door, "samira", client=Client()).status_code == 429
    assert sign_in(door, "samira", client=browser).status_code == 302
    browser.cookies.pop("sessionid")
    answers = [sign_in(door, "samira", f"wrong {n}", client=browser).status_code for n in range(11)]
    assert answers == [200] * 10 + [429], "it is guessed at there no faster"


def test_a_known_browser_is_one_persons_until_their_password_changes(agent: User, alice: Account) -> None:
    browser, strangers = Client(), Client()
    sign_in(DOORS[0], "samira", client=browser)
    sign_in(DOORS[0], alice.holder.email, client=strangers)
    for client in (browser, strangers):
        client.cookies.pop("sessionid")
    guess_from_everywhere()
    assert sign_in(DOORS[0], "samira", client=strangers).status_code == 429
    User.objects.filter(id=agent.id).update(password=factories.make_password("another fine word"))
    guess_from_everywhere()
    assert sign_in(DOORS[0], "samira", "another fine word", client=browser).status_code == 429


def test_a_browser_that_several_people_use_knows_each_of_them(agent: User, alice: Account) -> None:
    browser, people = Client(), ("samira", alice.holder.username)
    for name in people:
        assert sign_in(DOORS[0], name, client=browser).status_code == 302
        browser.cookies.pop("sessionid")
    for name in people:
        guess_from_everywhere(name)
        assert sign_in(DOORS[0], name, client=browser).status_code == 302
        browser.cookies.pop("sessionid")


@pytest.mark.parametrize("door", DOORS)
def test_a_browser_knows_thirty_people_and_forgets_the_first(door: str, agent: User) -> None:
    names = [f"known-{number:032x}" for number in range(40)]
    sent = "; ".join(f"{name}=x" for name in ["known-(", *names])
    cookies = sign_in(door, "samira", HTTP_COOKIE=sent).cookies
    assert [name for name, cookie in cookies.items() if cookie["max-age"] == 0] == names[:11]
    assert cookies[f"known-{agent.pk.hex}"].value


@pytest.mark.usefixtures("lasting_codes")
@pytest.mark.parametrize("door", DOORS)
def test_turning_codes_on_and_off_leaves_the_browser_known(door: str, agent: User, alice: Account) -> None:
    person, page = (agent, "/console/codes/") if door == DOORS[1] else (alice.holder, "/account/codes")
    browser, elsewhere = Client(), Client()
    for client in (browser, elsewhere):
        assert sign_in(door, person.username, client=client).status_code == 302
    device = one_time_codes.offer(person)
    code = f"{totp(device.bin_key, drift=-1):06d}"
    for data in ({"action": "on", "code": code}, {"action": "off"}):
        assert browser.post(page, data | {"password": PASSWORD}).status_code == 302
        browser.cookies.pop("sessionid")
        guess_from_everywhere(person.username)
        # The next of its codes comes with each sign-in, and is no longer asked for once they are off.
        code = f"{totp(device.bin_key):06d}"
        answer = browser.post(door, {"username": person.username, "password": PASSWORD, "code": code})
        assert answer.status_code == 302, data
    guess_from_everywhere(person.username)
    elsewhere.cookies.pop("sessionid", None)
    assert sign_in(door, person.username, client=elsewhere).status_code == 429


@pytest.mark.parametrize(("knows_the_old", "status"), [(True, 302), (False, 429)])
def test_a_known_browser_stays_known_when_the_secret_key_is_changed(
    knows_the_old: bool, status: int, agent: User, settings: Any
) -> None:
    browser = Client()
    sign_in(DOORS[0], "samira", client=browser)
    browser.cookies.pop("sessionid")
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY] * knows_the_old
    settings.SECRET_KEY = settings.SECRET_KEY[::-1]
    guess_from_everywhere()
    assert sign_in(DOORS[0], "samira", client=browser).status_code == status


@pytest.mark.parametrize("value", ["x", "InNhbWlyYSI:1:x", "\u00e9", ":" * 9])
def test_a_made_up_cookie_is_no_known_browser(value: str, agent: User) -> None:
    browser = Client()
    browser.cookies[f"known-{agent.pk.hex}"] = value
    guess_from_everywhere()
    assert sign_in(DOORS[0], "samira", client=browser).status_code == 429


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
        client = browser_of(user)
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
    assert "This page is out of date" in response.content.decode()
    strict.force_login(agent)
    assert strict.post("/account/logout").status_code == 403
    assert strict.post("/console/logout/").status_code == 403


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    ("asked", "leads_to"),
    [("", "/console/desk/"), ("?next=/console/claims/", "/console/claims/"), ("?next=//e.example/", "/console/desk/")],
)
def test_a_second_tab_of_the_login_is_led_on(door: str, asked: str, leads_to: str, agent: User) -> None:
    client = Client(enforce_csrf_checks=True)
    page = client.get(door + asked)  # as in two tabs
    data = {"username": "samira", "password": PASSWORD, "csrfmiddlewaretoken": str(page.context["csrf_token"])}
    for _ in range(2):
        response = client.post(door + asked, data, follow=True)
        assert (response.status_code, response.redirect_chain[-1][0]) == (200, leads_to)
    assert "You are already signed in, as " in response.content.decode()


@pytest.mark.parametrize("door", DOORS)
def test_a_login_that_would_lead_to_itself_leads_home(door: str, agent: User) -> None:
    client = Client()
    sign_in(f"{door}?next={door}", "samira", client=client)
    assert client.get(f"{door}?next={door}", follow=True).redirect_chain[-1][0] == "/console/desk/"


@pytest.fixture
def time_passes(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let minutes pass for the sessions of staff."""
    passed, load = 0, sessions._LOAD

    def pass_(minutes: float) -> None:
        nonlocal passed
        passed += int(minutes * 60)
        monkeypatch.setattr(sessions, "_LOAD", load.replace("::bigint", f"::bigint + {passed}"))

    return pass_


def test_staff_who_do_nothing_for_half_an_hour_sign_in_again(agent: User, time_passes: Any) -> None:
    client = Client()
    sign_in(DOORS[1], "samira", client=client)
    for _ in range(5):
        assert client.get("/console/desk/").status_code == 200
        time_passes(29)
    assert client.get("/console/desk/").status_code == 200
    time_passes(31)
    before = client.cookies["sessionid"].value
    back = client.get("/console/desk/", follow=True)
    assert back.redirect_chain == [("/console/login/?next=/console/desk/", 302)]
    assert "You were away for a long time" in back.content.decode()
    assert not Session.objects.filter(session_key=before).exists()
    assert client.get("/account/password").status_code == 302


def test_what_a_page_asks_by_itself_keeps_nobody_signed_in(agent: User, alice: Account, time_passes: Any) -> None:
    client = Client()
    sign_in(DOORS[1], "samira", client=client)
    claim = claims.take(factories.make_order(alice).id, agent=agent)
    assert client.get("/console/desk/").status_code == 200
    for _ in range(3):
        assert client.get(f"/console/desk/{claim}/state/").status_code == 200
        time_passes(10)
    time_passes(1)
    assert client.get(f"/console/desk/{claim}/state/").status_code == 302


def test_a_sign_of_life_keeps_them_signed_in(agent: User, alice: Account, time_passes: Any) -> None:
    client = Client()
    sign_in(DOORS[1], "samira", client=client)
    claim = claims.take(factories.make_order(alice).id, agent=agent)
    for _ in range(4):
        assert client.post(f"/console/desk/{claim}/keep/").status_code == 200
        time_passes(20)


def test_a_merchant_is_not_signed_out_for_doing_nothing(alice: Account, time_passes: Any) -> None:
    client = Client()
    sign_in(DOORS[0], alice.holder.email, client=client)
    assert client.get("/account/keys").status_code == 200
    time_passes(120)
    assert client.get("/account/keys").status_code == 200


def test_a_session_of_staff_ends_after_twelve_hours_however_busy(agent: User, time_passes: Any) -> None:
    client = Client()
    sign_in(DOORS[1], "samira", client=client)
    client.get("/console/desk/")
    first = Session.objects.get().expire_date
    for _ in range(3):
        time_passes(10)
        client.get("/console/desk/")
    assert Session.objects.get().expire_date == first


def test_the_session_of_staff_is_written_once_a_minute_at_most(
    agent: User, time_passes: Any, django_assert_num_queries: Any
) -> None:
    client = browser_of(agent)
    client.get("/console/codes/")
    with CaptureQueriesContext(connection) as queries:
        client.get("/console/codes/")
        time_passes(1.1)
        client.get("/console/codes/")
    assert sum('UPDATE "django_session"' in query["sql"] for query in queries) == 1


# --- One-time passwords --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("person", ["agent", "holder"])
def test_who_was_given_a_password_changes_it_before_anything_else(person: str, agent: User, alice: Account) -> None:
    user = agent if person == "agent" else alice.holder
    door, page = ("/console/login/", "/console/desk/") if person == "agent" else ("/account/login", "/account/keys")
    change = "/console/password_change/" if person == "agent" else "/account/password"
    User.objects.filter(id=user.id).update(has_one_time_password=True)
    client = Client()
    assert sign_in(door, user.username, client=client).status_code == 302
    for path in (page, "/console/orders/order/", "/account/orders", "/account/"):
        for response in (client.get(path), client.post(path)):
            assert (response.status_code, response.url) == (302, change)
    assert "This password was made for you" in client.get(change).content.decode()
    same = {"old_password": PASSWORD, "new_password1": PASSWORD, "new_password2": PASSWORD}
    assert "Choose a different password" in client.post(change, same).content.decode()
    assert client.get(page).status_code == 302
    new = "another fine word"
    done = client.post(change, {**same, "new_password1": new, "new_password2": new}, follow=True)
    assert done.redirect_chain[-1][0] == ("/console/desk/" if person == "agent" else "/account/quick-start")
    assert client.get(page).status_code == 200
    user.refresh_from_db()
    assert not user.has_one_time_password


def test_who_was_given_a_password_may_leave_and_choose_a_language(agent: User) -> None:
    User.objects.update(has_one_time_password=True)
    client = browser_of(agent)
    assert client.post("/i18n/setlang/", {"language": "fr", "next": "/console/"}).url == "/console/"
    assert client.post("/console/logout/").url == "/console/login/"
    assert client.get("/console/desk/").url.startswith("/console/login/")


# --- Too many pages ------------------------------------------------------------------------------------------------


def test_a_person_has_a_limit_of_pages(agent: User, alice: Account, settings: Any) -> None:
    settings.PAGE_RATE_LIMIT = 3
    for user, page in ((agent, "/console/desk/"), (alice.holder, "/account/orders")):
        clients = [Client(), Client()]
        for client in clients:
            client.force_login(user)
        answers = [clients[n % 2].get(page) for n in range(4)]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
        assert 1 <= int(answers[-1].headers["Retry-After"]) <= 60
        assert "Too many pages at once" in answers[-1].content.decode()
    assert Client().get("/account/login").status_code == 200
