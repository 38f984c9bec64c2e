"""Where a merchant's person is signed in, how their sessions end, and their one-time codes."""

import re
from typing import Any, NoReturn

import pytest
from django.contrib.sessions.models import Session
from django.core.management import call_command
from django.db import OperationalError, connection
from django.test import Client, RequestFactory
from django.utils import timezone
from django_otp.oath import totp
from django_otp.plugins.otp_totp.models import TOTPDevice

from codservice.accounts import one_time_codes, sessions
from codservice.accounts.account_page import MODE
from codservice.accounts.key_format import TEST
from codservice.accounts.models import Account, Membership, SignIn, User
from codservice.accounts.sessions import SessionStore
from tests import factories
from tests.factories import PASSWORD
from tests.harness.client import browser_of

PAGE, CODES, LOGIN = "/account/sessions", "/account/codes", "/account/login"
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
CHROME = "Mozilla/5.0 (Linux; Android 14) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.0.0 Mobile Safari/537.36"


def sign_in(username: str, agent: str = FIREFOX, address: str = "203.0.113.9", **data: str) -> Client:
    client = Client(HTTP_USER_AGENT=agent, REMOTE_ADDR=address)
    client.post(LOGIN, {"username": username, "password": PASSWORD, **data})
    return client


def is_in(client: Client) -> bool:
    return client.get(PAGE).status_code == 200


@pytest.mark.parametrize("page", ["/account/", LOGIN, "/docs/", "/api/docs"])
@pytest.mark.parametrize("key", [r'"\000aaaaaaaa"', r'"\303\251aaaaaaaa"', "a" * 31, "A" * 32, "'; DROP TABLE x"])
def test_a_cookie_that_holds_anything_is_a_strangers(client: Client, db: None, page: str, key: str) -> None:
    answer = client.get(page, headers={"Cookie": f"sessionid={key}"})
    assert answer.status_code == (302 if page == "/account/" else 200)


def test_a_session_that_cannot_be_read_is_tried_once_and_the_answer_is_whole(alice: Account, caplog: Any) -> None:
    tried, client = [], sign_in(alice.holder.username)
    client.raise_request_exception = False

    def away(*call: Any) -> NoReturn:
        tried.append(call)
        raise OperationalError("away")

    with connection.execute_wrapper(away):
        answer = client.get("/account/")
        assert (answer.status_code, answer.headers["Retry-After"], len(tried)) == (503, "1", 1)
        assert {"X-Request-Id", "Content-Security-Policy", "X-Frame-Options"} <= set(answer.headers)
        assert [record.status for record in caplog.records if record.name == "codservice.access"][-1] == 503
        assert (client.get("/docs/orders").status_code, len(tried)) == (200, 2)


@pytest.mark.parametrize(("knows_the_old", "status"), [(True, 200), (False, 302)])
def test_a_new_secret_key_signs_out_unless_the_one_before_is_known(
    knows_the_old: bool, status: int, alice: Account, settings: Any
) -> None:
    browser = browser_of(alice.holder)
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY] * knows_the_old
    settings.SECRET_KEY = settings.SECRET_KEY[::-1]
    assert browser.get(PAGE).status_code == status
    settings.SECRET_KEY_FALLBACKS = []
    assert browser.get(PAGE).status_code == status, "whose session is signed anew"


def test_sessions_are_listed_with_device_and_address(alice: Account) -> None:
    here, phone = sign_in(alice.holder.username), sign_in(alice.holder.username, CHROME, "198.51.100.7")
    rows = here.get(PAGE).context["sessions"]
    assert [(row.device, row.address, is_here) for row, is_here in rows] == [
        ("Firefox, Linux", "203.0.113.9", True),
        ("Chrome, Android", "198.51.100.7", False),
    ]
    assert Session.objects.count() == SignIn.objects.count() == 2
    assert phone.cookies["sessionid"].value not in here.get(PAGE).content.decode()


@pytest.mark.parametrize(
    ("said", "device"),
    [
        ("Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537 Chrome/138.0 Safari/537 Edg/138.0", "Edge, Windows"),
        ("Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) Version/18.0 Safari/604.1", "Safari, iPhone"),
        ("curl/8.0", ""),
        ("<script>alert(1)</script>" * 1000, ""),
        ("", ""),
    ],
)  # fmt: skip
def test_of_a_browser_only_its_name_is_kept(said: str, device: str) -> None:
    assert sessions.device_of(said) == device


def test_one_session_is_ended(alice: Account) -> None:
    here, phone = sign_in(alice.holder.username), sign_in(alice.holder.username, CHROME)
    (other,) = [row for row, is_here in here.get(PAGE).context["sessions"] if not is_here]
    assert here.post(f"{PAGE}/{other.id}/end").url == PAGE
    assert (is_in(here), is_in(phone)) == (True, False)
    again = here.post(f"{PAGE}/{other.id}/end")
    assert again.status_code == 404
    assert "This session has already ended." in again.content.decode()


def test_all_others_are_ended(alice: Account) -> None:
    here, *others = (sign_in(alice.holder.username) for _ in range(3))
    answer = here.post(f"{PAGE}/end", follow=True)
    assert "2 sessions are ended." in answer.content.decode()
    assert [is_in(client) for client in (here, *others)] == [True, False, False]


def test_anothers_session_is_not_found(alice: Account, charlie: Account) -> None:
    here, theirs = sign_in(alice.holder.username), sign_in(charlie.holder.username)
    other = SignIn.objects.get(user=charlie.holder)
    assert here.post(f"{PAGE}/{other.id}/end").status_code == 404
    here.post(f"{PAGE}/end")
    assert is_in(theirs)


def test_a_session_with_a_new_key_is_the_same_and_can_be_ended_at_once(alice: Account) -> None:
    here, phone = sign_in(alice.holder.username), None
    new = "battery staple 9"
    here.post("/account/password", {"old_password": PASSWORD, "new_password1": new, "new_password2": new})
    phone = Client()
    phone.post(LOGIN, {"username": alice.holder.username, "password": new})
    assert len(phone.get(PAGE).context["sessions"]) == 2
    phone.post(f"{PAGE}/end")
    assert not is_in(here)


def test_sessions_that_a_new_password_or_codes_have_ended_are_not_listed(alice: Account) -> None:
    here, new = sign_in(alice.holder.username), "battery staple 9"
    device = one_time_codes.offer(alice.holder)
    for page, data in (
        (CODES, {"action": "on", "code": f"{totp(device.bin_key):06}", "password": PASSWORD}),
        (CODES, {"action": "off", "password": PASSWORD}),
        ("/account/password", {"old_password": PASSWORD, "new_password1": new, "new_password2": new}),
    ):
        phone = browser_of(User.objects.get(pk=alice.holder.pk), HTTP_USER_AGENT=CHROME)
        assert (is_in(phone), SignIn.objects.count()) == (True, 2)
        assert here.post(page, data).status_code == 302
        assert [row.device for row, _is_here in here.get(PAGE).context["sessions"]] == ["Firefox, Linux"]
        assert not is_in(phone)


@pytest.mark.parametrize("deed", ["a new password", "deactivated"])
def test_nor_are_those_that_an_operator_has_ended(alice: Account, deed: str) -> None:
    assert is_in(sign_in(alice.holder.username))
    if deed == "deactivated":
        alice.holder.deactivate()
    else:
        operator, new = Client(), "battery staple 9"
        operator.force_login(factories.UserFactory(username="operator", is_staff=True, is_superuser=True))
        page = f"/console/accounts/user/{alice.holder.pk}/password/"
        assert operator.post(page, {"password1": new, "password2": new}).status_code == 302
    assert Session.objects.count() == (deed != "deactivated")
    assert not SignIn.objects.exists()


def test_who_logs_out_is_not_listed_and_leaves_nothing(alice: Account) -> None:
    here, phone = sign_in(alice.holder.username), sign_in(alice.holder.username)
    phone.post("/account/logout")
    assert len(here.get(PAGE).context["sessions"]) == 1
    SignIn.objects.update(created_at=timezone.now() - timezone.timedelta(days=2))
    call_command("prune")
    assert SignIn.objects.count() == 1


def test_a_session_lasts_twelve_hours_however_often_it_is_noted(alice: Account, monkeypatch: Any) -> None:
    here = sign_in(alice.holder.username)
    end = Session.objects.get().expire_date
    SignIn.objects.update(seen_at=timezone.now() - timezone.timedelta(minutes=9))
    monkeypatch.setattr(sessions, "_NOTED_EVERY", -1)
    assert is_in(here)
    assert Session.objects.get().expire_date == end
    assert timezone.now() - SignIn.objects.get().seen_at < timezone.timedelta(minutes=1)


def test_a_page_on_its_way_leaves_the_mode_that_another_chose(alice: Account, monkeypatch: Any) -> None:
    sign_in(alice.holder.username)
    monkeypatch.setattr(sessions, "_NOTED_EVERY", -1)
    SignIn.objects.update(seen_at=timezone.now() - timezone.timedelta(minutes=9))
    request = RequestFactory().get(PAGE)
    key = Session.objects.get().session_key
    request.session, other = SessionStore(key), SessionStore(key)
    for session in (request.session, other):
        assert session.get(MODE) is None
    sessions.see(request, alice.holder)
    assert timezone.now() - SignIn.objects.get().seen_at < timezone.timedelta(minutes=1)
    other[MODE] = TEST
    other.save()
    if request.session.modified:  # as the middleware does
        request.session.save()
    assert SessionStore(key)[MODE] == TEST


def test_staff_are_not_listed(alice: Account) -> None:
    sign_in(factories.AgentFactory().username)
    assert not SignIn.objects.exists()


# --- One-time codes ------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("lasting_codes")
@pytest.mark.parametrize("role", ["holder", "reader"])
def test_a_merchants_person_turns_codes_on_and_signs_in_with_them(role: str, alice: Account) -> None:
    user: User = alice.holder
    if role == "reader":
        user = factories.UserFactory()
        Membership.objects.create(account=alice, user=user, role=role)
    browser, elsewhere = sign_in(user.username), sign_in(user.username)
    assert browser.post(CODES, {"action": "offer"}).status_code == 302
    assert b"data:image/svg+xml" in browser.get(CODES).content
    device = TOTPDevice.objects.get()
    before = f"{totp(device.bin_key, drift=-1):06d}"
    assert browser.post(CODES, {"action": "on", "code": before, "password": "wrong"}).status_code == 422
    assert browser.post(CODES, {"action": "on", "code": before, "password": PASSWORD}).url == CODES
    assert (is_in(browser), is_in(elsewhere)) == (True, False)
    asked = b'<p class="message" role="alert">Type your password again, and the code that your phone shows.</p>'
    wrong = b'<p class="message error" role="alert">The one-time code is wrong or already used. Use the next one.</p>'
    for data, said in (({}, asked), ({"code": "000000"}, wrong)):
        page = Client().post(LOGIN, {"username": user.username, "password": PASSWORD, **data})
        assert (page.status_code, said in page.content) == (200, True)
        assert b'<details class="more" open>' in page.content
    TOTPDevice.objects.update(throttling_failure_timestamp=None, throttling_failure_count=0)
    assert is_in(sign_in(user.username, code=f"{totp(device.bin_key):06d}"))
    assert browser.post(CODES, {"action": "off", "password": PASSWORD}).url == CODES
    assert not one_time_codes.are_on(user)
    assert is_in(sign_in(user.username))


def test_each_button_says_whose_end_it_is(alice: Account) -> None:
    """Someone who hears the page could otherwise tell similar buttons apart only by counting."""
    here = sign_in(alice.holder.username)
    sign_in(alice.holder.username, CHROME, "203.0.113.10")
    sign_in(alice.holder.username, CHROME, "203.0.113.11")
    page = here.get(PAGE).content.decode()
    texts = dict(re.findall(r' id="([^"]+)"[^>]*>([^<]+)<', page))
    said = [[texts[id_] for id_ in ids.split()] for ids in re.findall(r'aria-labelledby="([^"]+)"', page)]
    assert said == [["End", "Chrome, Android", address] for address in ("203.0.113.11", "203.0.113.10")]
