"""Forgotten and changed passwords: links by mail that tell a stranger nothing, and sessions that end."""

import base64
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import django_ratelimit.core
import pytest
import redis
from django.conf import settings
from django.contrib.auth.hashers import MD5PasswordHasher, make_password
from django.contrib.auth.password_validation import validate_password
from django.contrib.auth.tokens import PasswordResetTokenGenerator
from django.core import mail
from django.core.exceptions import ValidationError
from django.db import connection, transaction
from django.test import Client
from django.utils import timezone
from django.utils.translation import override
from django_otp.oath import totp
from django_otp.plugins.otp_totp.models import TOTPDevice

from codservice.accounts import one_time_codes, team
from codservice.accounts.models import Account, Membership, User
from codservice.accounts.tasks import send_invitation, send_password_link
from tests import factories
from tests.factories import PASSWORD
from tests.harness.background import Background
from tests.harness.client import browser_of
from tests.harness.database import wait_for_lock
from tests.harness.processes import CHECKOUT

FORGOTTEN = "/account/password/forgotten"
OLD, NEW = PASSWORD, "battery staple 9"
# OLD with a salt so short that Django hashes it anew.
UNSALTED = make_password(OLD, salt="x", hasher=MD5PasswordHasher())


def left_to_the_worker() -> list[tuple[list[Any], dict[str, Any]]]:
    """Return what waits at the broker, oldest first: positional and keyword arguments."""
    messages = redis.Redis.from_url(settings.REDIS_URL).lrange("celery", 0, -1)
    bodies = [json.loads(base64.b64decode(json.loads(message)["body"])) for message in reversed(messages)]
    return [(args, kwargs) for args, kwargs, _ in bodies]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[timedelta], None]:
    """Let time pass for links and for the limits."""
    passed = timedelta()

    class Time:
        def time(self) -> float:
            return 1_800_000_000 + passed.total_seconds()

    monkeypatch.setattr(django_ratelimit.core, "time", Time())
    monkeypatch.setattr(PasswordResetTokenGenerator, "_now", lambda self: datetime.now() + passed)

    def move(by: timedelta) -> None:
        nonlocal passed
        passed += by

    return move


def ask(email: str, client: Client | None = None, **extra: Any) -> Any:
    return (client or Client()).post(FORGOTTEN, {"email": email}, **extra)


def link_in(message: Any) -> str:
    (path,) = re.findall(r"http://testserver(/account/password/new/\S+)", message.body)
    return path


def set_password(link: str, password: str = NEW) -> Any:
    client = Client()
    form = client.get(link, follow=True)
    return client.post(form.request["PATH_INFO"], {"new_password1": password, "new_password2": password})


def test_a_mailed_link_sets_a_new_password_once(alice: Account, worker: None) -> None:
    elsewhere = browser_of(alice.holder)

    assert ask(alice.holder.email.upper()).url == "/account/password/sent"
    (message,) = mail.outbox
    assert message.to == [alice.holder.email]
    assert message.message()["Auto-Submitted"] == "auto-generated"
    assert set_password(link_in(message)).url == "/account/login"

    alice.holder.refresh_from_db()
    assert alice.holder.check_password(NEW)
    assert elsewhere.get("/account/keys").status_code == 302, "a session of before is over"
    assert "This link no longer works" in Client().get(link_in(message), follow=True).content.decode()


def test_the_browser_in_which_a_link_was_used_is_known(alice: Account, worker: None) -> None:
    """So whoever goes on guessing cannot keep the person out of it."""
    ask(alice.holder.email)
    browser = Client()
    form = browser.get(link_in(mail.outbox[0]), follow=True)
    browser.post(form.request["PATH_INFO"], {"new_password1": NEW, "new_password2": NEW})
    for number in range(21):
        data = {"username": alice.holder.username, "password": "wrong"}
        last = Client(REMOTE_ADDR=f"203.0.113.{number}").post("/account/login", data)
    assert last.status_code == 429
    data = {"username": alice.holder.username, "password": NEW}
    assert Client().post("/account/login", data).status_code == 429
    assert browser.post("/account/login", data).status_code == 302


def test_a_new_password_does_not_end_the_wait_after_wrong_codes(alice: Account, worker: None) -> None:
    """Else whoever reads the person's mail could guess codes without an end."""
    device = one_time_codes.offer(alice.holder)
    assert one_time_codes.turn_on(alice.holder, f"{totp(device.bin_key, drift=-1):06d}", OLD)
    TOTPDevice.objects.update(throttling_failure_timestamp=timezone.now(), throttling_failure_count=8)
    ask(alice.holder.email)
    set_password(link_in(mail.outbox[0]), NEW)
    assert TOTPDevice.objects.get().throttling_failure_count == 8
    data = {"username": alice.holder.username, "password": NEW, "code": f"{totp(device.bin_key):06d}"}
    answer = Client().post("/account/login", data)
    assert (answer.status_code, b"Try again in 3 minutes." in answer.content) == (429, True)


def test_a_link_works_for_four_hours(alice: Account, worker: None, clock: Callable[[timedelta], None]) -> None:
    ask(alice.holder.email)
    link = link_in(mail.outbox[0])
    clock(timedelta(hours=3, minutes=59))
    assert "new_password1" in Client().get(link, follow=True).content.decode()
    clock(timedelta(minutes=2))
    assert "This link no longer works" in Client().get(link, follow=True).content.decode()


def test_a_weak_password_is_refused_with_reasons(alice: Account, worker: None) -> None:
    ask(alice.holder.email)
    answer = set_password(link_in(mail.outbox[0]), "12345678")
    assert 'class="problem"' in answer.content.decode()
    alice.holder.refresh_from_db()
    assert alice.holder.check_password(OLD)


@pytest.mark.parametrize("language", [code for code, _name in settings.LANGUAGES])
def test_a_password_is_refused_in_the_language_of_the_page(language: str) -> None:
    said = set()
    for code in {language, "en"}:
        with override(code), pytest.raises(ValidationError) as refusal:
            validate_password("12")
        said |= set(refusal.value.messages)
    assert len(said) == (3 if language == "en" else 6), said


def test_nothing_tells_whether_an_address_is_known(alice: Account, django_assert_num_queries: Any) -> None:
    """The request does the same for each: it hands the address to the worker and looks nothing up."""
    factories.UserFactory(username="gone", email="gone@example.com", is_active=False)
    seen = []
    for email in (alice.holder.email, "nobody@example.com", "gone@example.com"):
        with django_assert_num_queries(0):
            answer = ask(email)
        seen.append((answer.status_code, answer.url, sorted(answer.headers)))
    assert seen[0] == seen[1] == seen[2]
    assert [args for args, _ in left_to_the_worker()] == [
        [alice.holder.email], ["nobody@example.com"], ["gone@example.com"]]  # fmt: skip


def test_only_people_who_may_sign_in_get_mail(alice: Account, worker: None) -> None:
    factories.UserFactory(username="gone", email="gone@example.com", is_active=False)
    ask("nobody@example.com")
    ask("gone@example.com")
    assert mail.outbox == []


def test_the_mail_speaks_the_language_of_the_page(alice: Account) -> None:
    ask(alice.holder.email, headers={"Accept-Language": "ar"})
    ((_, kwargs),) = left_to_the_worker()
    assert kwargs == {"host": "testserver", "language": "ar-dz"}
    send_password_link(alice.holder.email, **kwargs)
    assert "http://testserver/account/password/new/" in mail.outbox[0].body


def test_mail_and_page_say_how_long_a_link_works_and_how_many_are_sent(alice: Account, client: Client) -> None:
    ask(alice.holder.email)
    ((_, kwargs),) = left_to_the_worker()
    send_password_link(alice.holder.email, **kwargs)
    assert "It works once, for 4 hours:" in mail.outbox[0].body
    assert "We send at most 3 links an hour" in client.get("/account/password/sent").content.decode()


@pytest.mark.parametrize(
    "host", ["evil.example", "testserver@evil.example", "evil.example:80", "", "a b", "testserver/x"]
)
def test_who_writes_to_redis_cannot_have_a_link_lead_elsewhere(alice: Account, host: str) -> None:
    send_password_link(alice.holder.email, host=host, language="en")
    assert mail.outbox == []


@pytest.mark.parametrize(
    ("https", "start"),
    [(True, "https://testserver/"), (False, "http://testserver:8443/"), ("8443", "https://testserver:8443/")],
)
def test_no_stranger_chooses_the_port_of_a_link(alice: Account, settings: Any, https: bool | str, start: str) -> None:
    """Behind that port may be somebody else. Whoever serves from one names it in CSRF_TRUSTED_ORIGINS."""
    settings.HTTPS = bool(https)
    settings.CSRF_TRUSTED_ORIGINS = [f"https://testserver:{https}"] if isinstance(https, str) else []
    ask(alice.holder.email, headers={"Host": "testserver:8443"})
    ((_, kwargs),) = left_to_the_worker()
    send_password_link(alice.holder.email, **kwargs)
    invitation = team.invite(alice.id, email="nadia@example.com", role="reader")
    send_invitation(str(invitation.id), host="testserver:8443")
    assert len(mail.outbox) == 2
    for each in mail.outbox:
        links = re.findall(r"https?://\S+", each.body)
        assert links
        assert all(link.startswith(start) for link in links), links


@pytest.mark.parametrize(
    ("asked", "leads"),
    [
        ("a.shop.example:8443", "a.shop.example:8443"),
        ("A.Shop.example:8443", "a.shop.example:8443"),
        ("pay.example:9443", "pay.example:9443"),
        ("a.shop.example:9443", "a.shop.example"),
        ("a.pay.example:9443", "a.pay.example"),
        ("pay.example:8080", "pay.example"),
        ("pay.example", "pay.example"),
    ],
)
def test_a_port_is_kept_by_the_origins_that_django_trusts(
    alice: Account, settings: Any, asked: str, leads: str
) -> None:
    settings.HTTPS = True
    settings.ALLOWED_HOSTS = [".shop.example", ".pay.example"]
    settings.CSRF_TRUSTED_ORIGINS = [
        "https://*.Shop.example:8443",
        "https://pay.example:9443",
        "http://*.pay.example:8080",
    ]
    send_password_link(alice.holder.email, host=asked, language="en")
    assert f"https://{leads}/account/password/new/" in mail.outbox[0].body


def test_a_language_that_we_do_not_speak_is_none(alice: Account) -> None:
    send_password_link(alice.holder.email, host="testserver", language="../../../tmp/x")
    assert "http://testserver/account/password/new/" in mail.outbox[0].body


def test_an_address_asks_ten_times_an_hour(db: None, clock: Callable[[timedelta], None]) -> None:
    answers = [ask(f"nobody{n}@example.com").status_code for n in range(11)]
    assert answers == [302] * 10 + [429]
    refused = ask("nobody@example.com")
    assert 1 <= int(refused["Retry-After"]) <= 3600
    assert "Too many attempts." in refused.content.decode()
    assert ask("nobody@example.com", REMOTE_ADDR="203.0.113.9").status_code == 302
    clock(timedelta(seconds=int(refused["Retry-After"])))
    assert ask("nobody@example.com").status_code == 302


def test_nobody_is_mailed_more_than_thrice_an_hour(alice: Account, worker: None) -> None:
    answers = {ask(alice.holder.email, REMOTE_ADDR=f"203.0.113.{n}").url for n in range(6)}
    assert answers == {"/account/password/sent"}, "to say so would tell that somebody asked"
    assert len(mail.outbox) == 3


def test_without_a_broker_it_says_that_no_mail_can_be_sent(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    from kombu.exceptions import OperationalError

    def away(*args: Any, **kwargs: Any) -> None:
        raise OperationalError

    monkeypatch.setattr(send_password_link, "apply_async", away)
    answer = ask("nobody@example.com")
    assert answer.status_code == 503
    assert "We cannot send mail just now" in answer.content.decode()


def test_a_redis_that_hangs_is_not_asked_to_take_a_mail(
    db: None, limits_by: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would hold a thread of web for seconds, and anybody may ask."""
    sent: list[Any] = []
    monkeypatch.setattr(send_password_link, "apply_async", lambda *call, **options: sent.append(call))
    with socket.create_server(("127.0.0.1", 0), backlog=100) as hung:
        limits_by(f"redis://127.0.0.1:{hung.getsockname()[1]}/0")
        answer = ask("nobody@example.com")
    assert (answer.status_code, sent) == (503, [])


ASK = (
    "import django; django.setup(); from codservice.accounts.tasks import send_password_link\n"
    "from kombu.exceptions import OperationalError; from tests.harness.background import asleep\n"
    "before = asleep()\n"
    "try: send_password_link.apply_async(['nobody@example.com'], {'host': 'localhost', 'language': 'en'})\n"
    "except OperationalError: print(asleep() - before)\n"
)


def test_a_broker_that_is_dead_is_not_waited_for() -> None:
    """Anybody may ask, and each request holds a thread of web."""
    environ = os.environ | {"REDIS_URL": "redis://127.0.0.1:1/0", "DJANGO_SETTINGS_MODULE": "codservice.settings"}

    done = subprocess.run([sys.executable, "-c", ASK], cwd=CHECKOUT, env=environ, capture_output=True, text=True)

    assert float(done.stdout) < 0.5, done.stderr


def test_a_mailed_link_replaces_a_one_time_password(alice: Account, worker: None) -> None:
    User.objects.update(has_one_time_password=True)
    ask(alice.holder.email)
    set_password(link_in(mail.outbox[0]))
    assert not User.objects.get(id=alice.holder_id).has_one_time_password


@pytest.mark.parametrize(
    "email", ["", "nobody", "a\x00b@example.com", "a" * 300 + "@example.com", *factories.UNMAILABLE]
)
def test_what_is_no_address_is_said(email: str, db: None) -> None:
    answer = ask(email)
    assert answer.status_code == 200
    assert 'class="problem"' in answer.content.decode()
    assert mail.outbox == []


# --- Changing it while signed in -------------------------------------------------------------------------------------


PAGES = ["/account/password", "/console/password_change/"]


def change(client: Client, old: str = OLD, page: str = PAGES[0]) -> Any:
    return client.post(page, {"old_password": old, "new_password1": NEW, "new_password2": NEW})


def test_a_changed_password_ends_the_other_sessions(alice: Account) -> None:
    here, there = Client(), Client()
    for client in (here, there):
        client.force_login(alice.holder)
    assert change(here).url == "/account/password"
    assert "You are signed out everywhere else." in here.get("/account/password").content.decode()
    assert there.get("/account/keys").status_code == 302
    assert User.objects.get(id=alice.holder_id).check_password(NEW)


@pytest.mark.parametrize("page", PAGES)
def test_the_old_password_is_guessed_at_ten_times(page: str, db: None) -> None:
    agent = factories.AgentFactory()
    client = browser_of(agent)
    assert [change(client, f"wrong {n}", page).status_code for n in range(10)] == [200] * 10
    for any_page in PAGES:
        refused = change(client, page=any_page)
        assert refused.status_code == 429
        assert 1 <= int(refused["Retry-After"]) <= 300
    assert User.objects.get(id=agent.id).check_password(OLD)


def test_the_forms_are_for_their_people_alone(alice: Account) -> None:
    assert Client().get("/account/password").url == "/account/login?next=/account/password"
    strict = Client(enforce_csrf_checks=True)
    assert ask(alice.holder.email, strict).status_code == 403
    strict.force_login(alice.holder)
    assert change(strict).status_code == 403
    assert User.objects.get(id=alice.holder_id).check_password(OLD)


@pytest.mark.django_db(transaction=True)
def test_nothing_is_hashed_in_the_transaction_of_a_change(alice: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    hashed_in_one: list[bool] = []
    encode = MD5PasswordHasher.encode

    def noting(*args: Any) -> str:
        hashed_in_one.append(connection.in_atomic_block)
        return encode(*args)

    user = factories.UserFactory(username="nadia@example.com")
    seat = Membership.objects.create(account=alice, user=user, role="manager")
    device = one_time_codes.offer(user)
    monkeypatch.setattr(MD5PasswordHasher, "encode", noting)
    assert one_time_codes.turn_on(user, f"{totp(device.bin_key):06d}", OLD)
    one_time_codes.turn_off(user, OLD)
    assert User.objects.get(pk=user.pk).check_password(OLD)
    team.remove(alice.id, seat.id)
    alice.holder.deactivate()
    assert hashed_in_one == [False] * 5


def test_a_password_that_was_hashed_as_before_is_hashed_anew(alice: Account) -> None:
    User.objects.filter(pk=alice.holder_id).update(password=UNSALTED)
    assert User.objects.get(pk=alice.holder_id).check_password(OLD)
    anew = User.objects.get(pk=alice.holder_id)
    assert anew.password != UNSALTED
    assert anew.check_password(OLD)


# --- While somebody else changes the person --------------------------------------------------------------------------


def by_link(person: User) -> Callable[[], Any]:
    ask(person.email)
    form = Client()
    page = form.get(link_in(mail.outbox[-1]), follow=True).request["PATH_INFO"]
    return lambda: form.post(page, {"new_password1": NEW, "new_password2": NEW})


def signed_in(person: User) -> Callable[[], Any]:
    client = browser_of(person)
    client.get(PAGES[0])
    return lambda: change(client)


def codes_on(person: User) -> Callable[[], Any]:
    client, device = browser_of(person), one_time_codes.offer(person)
    client.get("/account/codes")
    return lambda: client.post(
        "/account/codes", {"action": "on", "code": totp(device.bin_key), "password": OLD}, follow=True
    )


def codes_off(person: User) -> Callable[[], Any]:
    assert one_time_codes.turn_on(person, f"{totp(one_time_codes.offer(person).bin_key):06d}", OLD)
    client = browser_of(person)
    client.get("/account/codes")
    return lambda: client.post("/account/codes", {"action": "off", "password": OLD}, follow=True)


def leaving(person: User) -> Callable[[], Any]:
    client = browser_of(person)
    return lambda: client.post("/account/team/leave", {"password": OLD}, follow=True)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("way", [signed_in, by_link, codes_on, codes_off, leaving])
def test_who_is_removed_at_that_moment_stays_out(alice: Account, worker: None, way: Any) -> None:
    """The form still knows them as they were before."""
    person = factories.UserFactory(username="nadia@example.com", email="nadia@example.com")
    seat = Membership.objects.create(account=alice, user=person, role="manager")
    send = way(person)
    with transaction.atomic():
        team.remove(alice.id, seat.id)
        sent = Background(send)
        wait_for_lock()
    answer = sent.result().content.decode()
    person.refresh_from_db()
    assert (person.username, person.email, person.is_active) == (f"removed {person.pk}", "", False)
    assert not person.check_password(NEW)
    assert not person.check_password(OLD)
    assert "This account has changed since you opened the page." in answer


@pytest.mark.django_db(transaction=True)
def test_a_login_at_that_moment_does_not_bring_the_old_password_back(alice: Account) -> None:
    """It would do so by hashing it anew, like the first login after an upgrade."""
    User.objects.filter(pk=alice.holder_id).update(password=UNSALTED)
    with transaction.atomic():
        User.objects.filter(pk=alice.holder_id).update(password=make_password(NEW))
        login = Background(
            lambda: Client().post("/account/login", {"username": alice.holder.username, "password": OLD})
        )
        wait_for_lock()
    login.result()
    assert User.objects.get(pk=alice.holder_id).check_password(NEW)
