"""One-time codes besides the password: turning them on and off, signing in with them, and what does not work."""

import re
from base64 import b32decode, b32encode
from datetime import timedelta
from html import unescape
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.test import Client
from django.utils import timezone
from django_otp.oath import totp
from django_otp.plugins.otp_totp.models import TOTPDevice

from codservice.accounts import one_time_codes
from codservice.accounts.models import Account, SecurityEntry, User
from tests.docs.as_written import OPERATORS
from tests.factories import PASSWORD
from tests.harness.client import browser_of

CODES, LOGIN = "/console/codes/", "/console/login/"


def code_of(user: User, steps: int = 0) -> str:
    """Return the code that the person's app shows now, or some steps of 30 seconds later."""
    device = TOTPDevice.objects.get(user=user)
    return f"{totp(device.bin_key, drift=steps):06d}"


@pytest.fixture
def with_codes(agent: User) -> User:
    one_time_codes.offer(agent)
    assert one_time_codes.turn_on(agent, code_of(agent, -1), PASSWORD)
    return agent


def sign_in(username: str = "samira", password: str = PASSWORD, door: str = LOGIN, **data: str) -> Any:
    return Client().post(door, {"username": username, "password": password, **data})


def after_wrong_codes(count: int, *, ago: timedelta = timedelta(0)) -> None:
    at = timezone.now() - ago
    TOTPDevice.objects.update(throttling_failure_timestamp=at, throttling_failure_count=count)


def end_wait() -> None:
    TOTPDevice.objects.update(throttling_failure_timestamp=None, throttling_failure_count=0)


def test_codes_are_turned_on_with_a_code_and_the_password(agent: User) -> None:
    browser, elsewhere = browser_of(agent), browser_of(agent)
    assert browser.post(CODES, {"action": "offer"}).status_code == 302
    page = browser.get(CODES).content.decode()
    assert 'src="data:image/svg+xml' in page
    secret = re.search(r'class="password" dir="ltr">([A-Z2-7 ]+)<', page)
    assert secret
    assert b32decode(secret[1].replace(" ", "")) == TOTPDevice.objects.get().bin_key
    code = code_of(agent)
    for data in ({"code": "000000", "password": PASSWORD}, {"code": code, "password": "wrong"}, {}):
        assert browser.post(CODES, {"action": "on", **data}).status_code == 422
        assert not one_time_codes.are_on(agent)
    end_wait()
    TOTPDevice.objects.create(user=agent, confirmed=False)  # as by two presses that are answered at once
    shown = f"{code[:3]} {code[3:]}"
    assert browser.post(CODES, {"action": "on", "code": shown, "password": PASSWORD}).status_code == 302
    assert one_time_codes.are_on(agent)
    assert TOTPDevice.objects.count() == 1
    page = browser.get(CODES)
    assert page.status_code == 200
    assert secret[1] not in page.content.decode()
    assert elsewhere.get(CODES).status_code == 302


def test_who_is_late_with_the_code_is_told_why(agent: User) -> None:
    """First another tab has made another secret. Then this form has turned codes on already."""
    first, second = browser_of(agent), browser_of(agent)
    first.post(CODES, {"action": "offer"})
    (shown,) = re.findall(r'name="device" value="(\d+)"', first.get(CODES).content.decode())
    asked = {"action": "on", "code": code_of(agent), "password": PASSWORD, "device": shown}
    second.post(CODES, {"action": "offer"})
    response = first.post(CODES, asked)
    assert (response.status_code, one_time_codes.are_on(agent)) == (422, False)
    assert "A new secret has been created since you opened this page. Scan the one above." in response.content.decode()
    (shown,) = re.findall(r'name="device" value="(\d+)"', response.content.decode())
    asked |= {"code": code_of(agent), "device": shown}
    assert first.post(CODES, asked).status_code == 302
    assert one_time_codes.are_on(agent)
    after_wrong_codes(8)
    assert first.post(CODES, asked).status_code == 302
    assert "Codes are on. To sign in, you need your password" in first.get(CODES).content.decode()


def test_the_phone_that_makes_the_codes_may_show_the_page(agent: User, alice: Account) -> None:
    """A phone cannot scan itself, so pressing the picture opens the app."""
    for person, page in ((agent, CODES), (alice.holder, "/account/codes")):
        browser = browser_of(person)
        browser.post(page, {"action": "offer"})
        (link,) = re.findall(r'<a href="(otpauth://totp/[^"]+)"><img src="data:', browser.get(page).content.decode())
        (secret,) = parse_qs(urlsplit(unescape(link)).query)["secret"]
        assert b32decode(secret) == TOTPDevice.objects.get(user=person).bin_key


def test_signing_in_asks_for_the_code(with_codes: User) -> None:
    for data in ({"code": "000000"}, {"code": "x"}, {"code": "٣" * 6}):
        response = sign_in(**data)
        assert response.status_code == 200
        assert b"one-time code is wrong" in response.content
        end_wait()
    assert sign_in(code=code_of(with_codes)).status_code == 302


@pytest.mark.parametrize(
    ("door", "said"),
    [("/account/login", "The holder of your account, or we, can"), (LOGIN, "Your supervisor, or an operator, can")],
)
def test_every_login_says_who_helps_without_the_phone(door: str, said: str, client: Client, db: None) -> None:
    assert f"Lost your phone? {said} turn them off." in client.get(door).content.decode()


def test_a_code_is_taken_once(with_codes: User) -> None:
    code = code_of(with_codes)
    assert sign_in(code=code).status_code == 302
    assert sign_in(code=code).status_code == 200
    end_wait()
    assert sign_in(code=code_of(with_codes, 1)).status_code == 302


def test_a_right_code_without_the_password_tells_nothing(with_codes: User) -> None:
    response = sign_in(password="wrong", code=code_of(with_codes))
    assert b"password is wrong" in response.content
    assert b"one-time code is wrong" not in response.content
    assert b"the code that your phone shows" not in sign_in(password="wrong").content
    assert sign_in(code=code_of(with_codes)).status_code == 302  # and the code is not used up


def test_no_other_door_lets_in_without_a_code(with_codes: User, alice: Account) -> None:
    response = sign_in(door="/account/login")
    assert response.status_code == 200
    assert b"sign in at the console" in response.content
    assert sign_in(door="/account/login", code=code_of(with_codes)).status_code == 200
    assert sign_in(alice.holder.username, door="/account/login").status_code == 302


def test_codes_are_guessed_no_faster_than_passwords(with_codes: User) -> None:
    statuses = []
    for number in range(12):
        statuses.append(sign_in(code=f"{number:06d}").status_code)
        end_wait()
    assert statuses == [200] * 10 + [429] * 2
    assert sign_in(code=code_of(with_codes)).status_code == 429


def test_wrong_codes_make_the_next_wait_longer(with_codes: User) -> None:
    """They do so whatever address they come from."""
    assert not one_time_codes.accept(with_codes, "000000")
    assert not one_time_codes.accept(with_codes, code_of(with_codes))
    TOTPDevice.objects.update(throttling_failure_timestamp="2020-01-01T00:00Z")
    assert one_time_codes.accept(with_codes, code_of(with_codes))


def test_who_has_to_wait_after_wrong_codes_is_told_how_long(with_codes: User) -> None:
    after_wrong_codes(20)
    answer = sign_in(code=code_of(with_codes))
    assert (answer.status_code, b"Try again in 69 minutes." in answer.content) == (429, True)
    assert int(answer["Retry-After"]) in range(4000, 4097)
    after_wrong_codes(20, ago=timedelta(minutes=69))
    assert sign_in(code=code_of(with_codes)).status_code == 302


def test_so_is_who_turns_codes_on(agent: User) -> None:
    browser = browser_of(agent)
    browser.post(CODES, {"action": "offer"})
    after_wrong_codes(8)
    answer = browser.post(CODES, {"action": "on", "code": code_of(agent), "password": PASSWORD})
    assert (answer.status_code, b"Try again in 3 minutes." in answer.content) == (429, True)
    assert not one_time_codes.are_on(agent)


def test_operators_are_told_of_the_wait() -> None:
    longest = 2 ** (one_time_codes._MOST_COUNTED - 1) // 60
    assert f"doubles the wait, from 1 second up to {longest} minutes" in OPERATORS


def test_the_wait_ends_when_codes_are_turned_off(with_codes: User) -> None:
    after_wrong_codes(20)
    one_time_codes.forget(with_codes)
    assert sign_in().status_code == 302


def test_a_missing_code_is_no_wrong_one(with_codes: User) -> None:
    """Nothing was wrong, so it is asked for without a reproach."""
    for data in ({}, {"code": " "}):
        page = sign_in(**data).content
        assert b'<p class="asked">Type your password again, and the code that your phone shows.</p>' in page
        assert b"errornote" not in page
        assert b"Error:" not in page
    assert TOTPDevice.objects.get().throttling_failure_count == 0
    assert sign_in(code=code_of(with_codes)).status_code == 302


def test_codes_are_turned_off_with_the_password(with_codes: User) -> None:
    browser = browser_of(with_codes)
    assert browser.post(CODES, {"action": "off", "password": "wrong"}).status_code == 422
    assert one_time_codes.are_on(with_codes)
    assert browser.post(CODES, {"action": "off", "password": PASSWORD}).status_code == 302
    assert browser.get(CODES).status_code == 200
    assert sign_in().status_code == 302


def test_codes_that_are_off_are_not_turned_off_again(with_codes: User) -> None:
    """As in a tab that still shows that they are on."""
    one_time_codes.forget(with_codes)
    one_time_codes.forget(with_codes)
    browser, elsewhere = browser_of(with_codes), browser_of(with_codes)
    assert browser.post(CODES, {"action": "off", "password": PASSWORD}).status_code == 302
    assert "Codes are off. You sign in" not in browser.get(CODES).content.decode()
    assert elsewhere.get(CODES).status_code == 200
    assert SecurityEntry.objects.filter(action="codes_off").count() == 1


def test_whoever_sits_at_the_desk_cannot_guess_the_password(with_codes: User) -> None:
    browser = browser_of(with_codes)
    statuses = [browser.post(CODES, {"action": "off", "password": "wrong"}).status_code for _ in range(11)]
    assert statuses == [422] * 10 + [429]


def test_a_new_secret_is_not_offered_while_codes_are_on(with_codes: User) -> None:
    before = TOTPDevice.objects.get().key
    browser_of(with_codes).post(CODES, {"action": "offer"})
    assert TOTPDevice.objects.get().key == before


def test_a_supervisor_helps_who_lost_the_phone(with_codes: User, supervisor: User) -> None:
    """And whoever found the phone is no longer signed in on it."""
    page = f"/console/people/{with_codes.id}/"
    phone, helping = browser_of(with_codes), browser_of(supervisor)
    assert phone.get(CODES).status_code == 200
    assert b"Turn one-time codes off" in helping.get(page).content
    assert helping.post(page, {"action": "codes"}).status_code == 302
    assert phone.get(CODES).status_code == 302
    assert helping.get(page).status_code == 200
    assert sign_in().status_code == 302


def test_the_console_shows_no_secret_to_operators(with_codes: User, operator: User) -> None:
    browser, device = browser_of(operator), TOTPDevice.objects.get()
    assert browser.get("/console/otp_totp/totpdevice/").status_code == 404
    assert b"totp" not in browser.get("/console/").content.lower()
    for page in ("", f"{with_codes.id}/change/", f"{with_codes.id}/history/"):
        text = browser.get(f"/console/accounts/user/{page}").content.decode()
        assert with_codes.username in text
        for secret in (device.key, b32encode(device.bin_key).decode().rstrip("="), "totp"):
            assert secret.lower() not in text.lower(), page


def test_old_codes_do_not_work(with_codes: User) -> None:
    device = TOTPDevice.objects.get()
    device.last_t = -1
    device.save()
    old = f"{totp(device.bin_key, drift=-20):06d}"
    assert not one_time_codes.accept(with_codes, old)
