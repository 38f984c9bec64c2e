"""Mails to account holders whose API keys are in use and about to end: one, a week before."""

from collections.abc import Callable
from datetime import timedelta
from smtplib import SMTPRecipientsRefused, SMTPServerDisconnected
from typing import Any

import pytest
from django.core import mail
from django.utils import formats, timezone

from codservice import days, mails
from codservice.accounts.models import Account, ApiKey, User
from codservice.operations import duties, key_ends, tasks
from tests.harness.background import at_once

pytestmark = pytest.mark.django_db(transaction=True)
Keys = Callable[..., ApiKey]


def day(number: float) -> Any:
    return timezone.now() + timedelta(days=number)


@pytest.fixture
def make_key(alice: Account) -> Keys:
    def make_key(name: str, *, ends: float | None = 6.9, account: Account = alice, **row: Any) -> ApiKey:
        row = {"prefix": "cod_live_abc", "digest": name.encode(), "last_used_at": day(-1)} | row
        return ApiKey.objects.create(account=account, name=name, expires_at=ends and day(ends), **row)

    return make_key


def test_the_holder_hears_once_of_all_that_end_soon(alice: Account, charlie: Account, make_key: Keys) -> None:
    last_day = days.today() + timedelta(days=3)
    make_key("warehouse", ends=5)
    ApiKey.objects.filter(name="warehouse").update(expires_at=days.end_of(last_day))
    make_key("shop", ends=1)
    make_key("theirs", account=charlie)
    make_key("ends later", ends=7.1)

    assert tasks.tell_of_key_ends() == 2
    assert tasks.tell_of_key_ends() == 0

    told = {sent.to[0]: sent for sent in mail.outbox}
    assert set(told) == {alice.holder.email, charlie.holder.email}
    sent = told[alice.holder.email]
    assert f"warehouse (cod_live_abc…): works until {formats.date_format(last_day, 'j N Y')}" in sent.body
    assert sent.body.index("shop (") < sent.body.index("warehouse (")
    assert "theirs" not in sent.body
    assert "ends later" not in sent.body
    for language in ("end soon", "expirent bientôt", "قريبا"):
        assert language in sent.body
    assert len(sent.subject) <= 78
    make_key("one more", ends=2)
    assert tasks.tell_of_key_ends() == 1
    assert "shop (" not in mail.outbox[-1].body


def test_nobody_is_told_of_a_key_that_stops_nothing_when_it_ends(make_key: Keys) -> None:
    make_key("lasts", ends=None)
    make_key("has ended", ends=-0.01)
    make_key("nobody uses", last_used_at=day(-31))
    make_key("never used", last_used_at=None)
    make_key("revoked", revoked_at=day(-1))
    assert tasks.tell_of_key_ends() == 0


def test_nobody_is_told_of_a_test_key(alice: Account, make_key: Keys) -> None:
    make_key("test", account=alice.ensure_twin())
    assert tasks.tell_of_key_ends() == 0


@pytest.mark.parametrize(
    ("rows", "closed"), [(Account, {"is_active": False}), (User, {"is_active": False}), (User, {"email": ""})]
)
def test_who_cannot_be_told_is_told_later(
    alice: Account, make_key: Keys, rows: type[Account | User], closed: dict[str, Any]
) -> None:
    row = alice if rows is Account else alice.holder
    open_ = {name: getattr(row, name) for name in closed}
    make_key("shop")
    rows.objects.filter(id=row.id).update(**closed)
    assert tasks.tell_of_key_ends() == 0

    rows.objects.filter(id=row.id).update(**open_)
    assert tasks.tell_of_key_ends() == 1


@pytest.mark.parametrize(
    ("error", "tries"), [(SMTPServerDisconnected(), 2), (SMTPRecipientsRefused({"a@b.dz": (550, b"no")}), 1)]
)
def test_a_mail_that_may_succeed_later_is_tried_again(
    make_key: Keys, monkeypatch: pytest.MonkeyPatch, error: Exception, tries: int
) -> None:
    tried = []

    def fail(*mail: str) -> None:
        tried.append(mail)
        raise error

    make_key("shop")
    monkeypatch.setattr(mails, "send", fail)
    assert [tasks.tell_of_key_ends(), tasks.tell_of_key_ends()] == [0, 0]
    assert len(tried) == tries


def test_two_workers_send_one_mail(make_key: Keys) -> None:
    make_key("shop")
    assert sum(at_once(2, lambda _: tasks.tell_of_key_ends())) == 1
    assert len(mail.outbox) == 1


def test_a_worker_that_was_killed_at_it_is_followed_by_another(make_key: Keys) -> None:
    make_key("shop")
    assert duties.take(key_ends.DUTY, every=timedelta(0), lease=timedelta(0))
    assert tasks.tell_of_key_ends() == 1


def test_a_name_turns_no_mail_around_and_is_no_markup(alice: Account, make_key: Keys) -> None:
    Account.objects.filter(id=alice.id).update(name="<b>{{ x }}\u202e")
    make_key("shop\u202e & {% y %}")
    assert tasks.tell_of_key_ends() == 1
    body = mail.outbox[0].body
    assert "<b>{{ x }}" in body
    assert "shop & {% y %} (cod_live_abc…)" in body
    assert "\u202e" not in body


def test_it_leads_to_the_page_of_keys(make_key: Keys, settings: Any) -> None:
    settings.ALLOWED_HOSTS = ["shop.example"]
    make_key("shop")
    assert tasks.tell_of_key_ends() == 1
    assert "\nhttp://shop.example/account/keys\n" in mail.outbox[0].body
