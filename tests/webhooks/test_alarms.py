"""Mails to account holders whose webhooks have stopped answering: one, and another when they answer again."""

from collections.abc import Callable
from datetime import timedelta
from smtplib import SMTPDataError, SMTPRecipientsRefused, SMTPSenderRefused, SMTPServerDisconnected
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.core import mail
from django.db import transaction
from django.db.models.functions import Now
from django.utils import timezone

from codservice import mails
from codservice.accounts.models import Account, User
from codservice.operations import duties
from codservice.operations.models import Duty
from tests.harness.background import Background, at_once
from tests.harness.database import wait_for_lock
from tests.harness.deliveries import claim_due, pass_time, publish
from webhooks import alarms, delivery, registry, tasks
from webhooks.models import Webhook
from webhooks.posts import NO_SECRET, Outcome

pytestmark = pytest.mark.django_db(transaction=True)


def attempt(account: Account, failure: str) -> None:
    publish(account)
    token = uuid4()
    delivery.settle(token, [Outcome(post, failure, 500, 1, b"") for post in claim_due(token, 100)])


def let_pass(**interval: float) -> None:
    pass_time(**interval)
    for webhook in Webhook.objects.all():
        for name in ("failing_since", "alarmed_at"):
            if at := getattr(webhook, name):
                setattr(webhook, name, at - timedelta(**interval))
        webhook.save()


def test_the_holder_hears_of_an_hour_without_an_answer_once_and_of_its_end(alice: Account, webhook: Webhook) -> None:
    attempt(alice, "status")
    assert tasks.tell_of_failing() == 0
    let_pass(minutes=59)
    assert tasks.tell_of_failing() == 0
    let_pass(minutes=2)

    assert tasks.tell_of_failing() == 1
    assert tasks.tell_of_failing() == 0

    (sent,) = mail.outbox
    assert sent.to == [alice.holder.email]
    assert webhook.url in sent.body
    for language in ("For an hour", "une heure", "ساعة"):
        assert language in sent.body
    let_pass(days=3)
    assert tasks.tell_of_failing() == 0
    attempt(alice, "")
    assert tasks.tell_of_failing() == 1
    assert tasks.tell_of_failing() == 0
    assert len(mail.outbox) == 2
    for sent in mail.outbox:
        assert len(sent.subject) <= 78
        assert sent.message()["Auto-Submitted"] == "auto-generated"
    assert webhook.url in mail.outbox[1].body


def test_an_accounts_name_turns_no_mail_around(alice: Account, webhook: Webhook) -> None:
    Account.objects.filter(id=alice.id).update(name="Shop\u202e")
    for failure in ("status", ""):
        attempt(alice, failure)
        let_pass(minutes=61)
        assert tasks.tell_of_failing() == 1
    for sent in mail.outbox:
        assert "Shop" in sent.body
        assert "\u2068Shop\u2069" in sent.body  # in Arabic
        assert "\u202e" not in sent.body


def test_nobody_is_told_of_what_we_could_not_send(alice: Account, webhook: Webhook) -> None:
    """An unreadable secret is our own fault. Operators are told of it."""
    attempt(alice, NO_SECRET)
    let_pass(hours=2)
    assert not Webhook.objects.get().is_failing
    assert tasks.tell_of_failing() == 0

    attempt(alice, "status")
    attempt(alice, NO_SECRET)
    let_pass(hours=2)
    assert tasks.tell_of_failing() == 1


def test_one_well_answer_in_the_hour_is_enough(alice: Account, webhook: Webhook) -> None:
    attempt(alice, "status")
    let_pass(minutes=40)
    attempt(alice, "")
    attempt(alice, "timeout")
    let_pass(minutes=40)
    assert tasks.tell_of_failing() == 0


def test_at_most_one_a_day(alice: Account, webhook: Webhook) -> None:
    for _ in range(2):
        attempt(alice, "status")
        let_pass(hours=2)
        tasks.tell_of_failing()
        attempt(alice, "")
        tasks.tell_of_failing()
    assert len(mail.outbox) == 2  # one that it fails, one that it is well
    attempt(alice, "status")
    let_pass(hours=23)
    assert tasks.tell_of_failing() == 1


def test_a_clock_that_is_set_back_silences_no_alarm(alice: Account, webhook: Webhook) -> None:
    Webhook.objects.update(alarmed_at=Now() + timedelta(days=365))
    attempt(alice, "status")
    Webhook.objects.update(failing_since=Now() + timedelta(days=365))
    assert tasks.tell_of_failing() == 0
    let_pass(minutes=61)
    assert tasks.tell_of_failing() == 1


def test_one_mail_tells_of_all_that_fail(alice: Account, charlie: Account, register: Callable[..., Webhook]) -> None:
    urls = [f"https://shop.example/{number}" for number in range(3)]
    theirs = [register(alice, url).url for url in urls], [register(charlie).url]
    attempt(alice, "status")
    attempt(charlie, "status")
    let_pass(hours=2)

    assert tasks.tell_of_failing() == 2
    by_holder = {each.to[0]: each.body for each in mail.outbox}
    assert set(by_holder) == {alice.holder.email, charlie.holder.email}
    for account, own, others in ((alice, *theirs), (charlie, *reversed(theirs))):
        body = by_holder[account.holder.email]
        assert [url in body for url in own + others] == [True] * len(own) + [False] * len(others)


@pytest.mark.parametrize("change", ["off", "deleted", "inactive"])
def test_who_does_not_want_it_is_not_told(alice: Account, webhook: Webhook, change: str) -> None:
    attempt(alice, "status")
    let_pass(hours=2)
    if change == "off":
        registry.change(alice.id, webhook.id, {"is_active": False})
        registry.change(alice.id, webhook.id, {"is_active": True})
    elif change == "deleted":
        registry.delete(alice.id, webhook.id)
    else:
        Account.objects.update(is_active=False)
    assert [tasks.tell_of_failing(), tasks.tell_of_failing()] == [0, 0]
    assert mail.outbox == []


@pytest.mark.parametrize(
    ("rows", "closed"), [(Account, {"is_active": False}), (User, {"is_active": False}), (User, {"email": ""})]
)
def test_who_could_not_be_told_is_told_later(
    alice: Account, webhook: Webhook, rows: type[Account | User], closed: dict[str, Any]
) -> None:
    """Not that it is well again: nobody was told that it failed."""
    row = alice if rows is Account else alice.holder
    open_ = {name: getattr(row, name) for name in closed}
    attempt(alice, "status")
    let_pass(hours=2)
    rows.objects.filter(id=row.id).update(**closed)
    assert tasks.tell_of_failing() == 0

    rows.objects.filter(id=row.id).update(**open_)

    assert tasks.tell_of_failing() == 1
    assert "For an hour" in mail.outbox[0].body


def test_webhooks_are_locked_in_the_order_of_their_ids(alice: Account, register: Callable[..., Webhook]) -> None:
    """As `rotate_encryption_key` does it: otherwise both could wait for each other."""
    last, first = register(alice), register(alice)
    Webhook.objects.filter(id=first.id).update(id=UUID(int=1))
    attempt(alice, "status")
    let_pass(hours=2)
    Webhook.objects.filter(id=last.id).update(description="before the other in the table")
    Webhook.objects.filter(id=UUID(int=1)).update(description="behind it")
    locked = Webhook.objects.select_for_update(no_key=True)
    with transaction.atomic():
        locked.get(id=UUID(int=1))
        telling = Background(tasks.tell_of_failing)
        wait_for_lock()
        locked.select_for_update(no_key=True, nowait=True).get(id=last.id)
    assert telling.result() == 1


def test_one_that_was_turned_off_while_it_hung_does_not_fail_when_it_is_turned_on(
    alice: Account, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "CLAIM_TO_POST", timedelta(0))
    publish(alice)
    token = uuid4()
    (post,) = claim_due(token, 10)
    registry.change(alice.id, webhook.id, {"is_active": False})
    delivery.settle(token, [Outcome(post, "timeout", None, 3000, b"")])
    let_pass(days=7)

    registry.change(alice.id, webhook.id, {"is_active": True})

    assert tasks.tell_of_failing() == 0
    assert not Webhook.objects.get().is_failing


def test_a_late_answer_from_before_it_was_turned_off_and_on_says_nothing_about_it(
    alice: Account, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "CLAIM_TO_POST", timedelta(0))
    publish(alice)
    token = uuid4()
    (post,) = claim_due(token, 10)
    registry.change(alice.id, webhook.id, {"is_active": False})
    registry.change(alice.id, webhook.id, {"is_active": True})

    delivery.settle(token, [Outcome(post, "timeout", None, 3000, b"")])

    assert not Webhook.objects.get().is_failing
    let_pass(hours=2)
    assert tasks.tell_of_failing() == 0


def test_a_late_answer_of_the_former_address_says_nothing_about_the_new_one(
    alice: Account, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "CLAIM_TO_POST", timedelta(0))
    publish(alice)
    token = uuid4()
    (hung,) = claim_due(token, 10)
    registry.change(alice.id, webhook.id, {"url": "https://shop.example/new"})
    delivery.settle(token, [Outcome(hung, "timeout", None, 3000, b"")])
    assert not Webhook.objects.get().is_failing
    let_pass(hours=2)
    assert tasks.tell_of_failing() == 0

    (post,) = claim_due(token, 10)
    delivery.settle(token, [Outcome(post, "timeout", None, 3000, b"")])
    assert Webhook.objects.get().is_failing


def test_a_late_answer_of_the_former_address_does_not_make_the_new_one_well_again(
    alice: Account, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "CLAIM_TO_POST", timedelta(0))
    attempt(alice, "status")
    let_pass(hours=2)
    assert tasks.tell_of_failing() == 1
    publish(alice)
    token = uuid4()
    late = claim_due(token, 10)
    registry.change(alice.id, webhook.id, {"url": "https://shop.example/new"})
    delivery.settle(token, [Outcome(post, "", 200, 2900, b"") for post in late])
    assert tasks.tell_of_failing() == 0


@pytest.mark.parametrize(("former", "present"), [("", "timeout"), ("timeout", "")])
def test_of_answers_that_are_written_together_those_of_the_present_address_count(
    alice: Account, webhook: Webhook, monkeypatch: pytest.MonkeyPatch, former: str, present: str
) -> None:
    monkeypatch.setattr(registry, "CLAIM_TO_POST", timedelta(0))
    if former:
        attempt(alice, former)
        Webhook.objects.update(is_alarmed=True)
    publish(alice)
    token = uuid4()
    outcomes = [Outcome(post, former, None, 1, b"") for post in claim_due(token, 10)]
    registry.change(alice.id, webhook.id, {"url": "https://shop.example/new"})
    publish(alice)
    outcomes += [Outcome(post, present, None, 1, b"") for post in claim_due(token, 10)]
    publish(alice)

    assert delivery.settle(token, outcomes), "more is due"
    assert Webhook.objects.get().is_failing == bool(present)


def test_an_address_that_nothing_was_sent_to_yet_neither_fails_nor_is_well_again(
    alice: Account, webhook: Webhook
) -> None:
    attempt(alice, "status")
    let_pass(minutes=50)
    registry.change(alice.id, webhook.id, {"url": "https://shop.example/new"})
    let_pass(minutes=20)
    assert tasks.tell_of_failing() == 0
    assert not Webhook.objects.get().is_failing

    attempt(alice, "status")
    let_pass(hours=2)
    assert tasks.tell_of_failing() == 1
    registry.change(alice.id, webhook.id, {"url": "https://shop.example/newer"})
    assert tasks.tell_of_failing() == 0
    attempt(alice, "")
    assert tasks.tell_of_failing() == 1
    assert "https://shop.example/newer" in mail.outbox[1].body


@pytest.mark.parametrize("changes", [{"url": "https://shop.example/new"}, {"is_active": False}])
def test_one_that_begins_anew_while_the_mail_is_sent_is_not_well_again(
    alice: Account, webhook: Webhook, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    attempt(alice, "status")
    let_pass(hours=2)
    send = mails.send

    def change_and_send(*args: str) -> None:
        registry.change(alice.id, webhook.id, changes)
        send(*args)

    with monkeypatch.context() as server:
        server.setattr(mails, "send", change_and_send)
        assert tasks.tell_of_failing() == 1
    registry.change(alice.id, webhook.id, {"is_active": True})
    assert tasks.tell_of_failing() == 0


def test_one_that_is_well_again_and_moves_while_the_mail_is_sent_is_told_of_once(
    alice: Account, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt(alice, "status")
    let_pass(hours=2)
    assert tasks.tell_of_failing() == 1
    attempt(alice, "")
    send = mails.send

    def change_and_send(*args: str) -> None:
        registry.change(alice.id, webhook.id, {"url": "https://shop.example/new"})
        send(*args)

    monkeypatch.setattr(mails, "send", change_and_send)
    assert [tasks.tell_of_failing(), tasks.tell_of_failing()] == [1, 0]


@pytest.mark.parametrize(
    ("hosts", "link"),
    [
        (["shop.example"], "http://shop.example/account/webhooks"),
        (["*", "shop.example"], "http://shop.example/account/webhooks"),
        (["*"], ""),
        ([".shop.example"], ""),
        (["a.example", "b.example"], ""),
    ],
)
def test_a_mail_links_to_the_page_where_there_is_one_host(
    alice: Account, webhook: Webhook, settings: Any, hosts: list[str], link: str
) -> None:
    settings.ALLOWED_HOSTS = hosts
    attempt(alice, "status")
    let_pass(hours=2)
    assert tasks.tell_of_failing() == 1
    links = {line for line in mail.outbox[0].body.splitlines() if line.endswith("/account/webhooks")}
    assert links == ({link} if link else set())


def test_what_could_not_be_sent_is_sent_later(
    alice: Account, charlie: Account, register: Callable[..., Webhook], monkeypatch: pytest.MonkeyPatch
) -> None:
    for account in (alice, charlie):
        register(account)
        attempt(account, "status")
    let_pass(hours=2)
    send, refused = mails.send, [True]

    def send_some(*args: str) -> None:
        if refused:
            refused.pop()
            raise ConnectionRefusedError
        send(*args)

    monkeypatch.setattr(mails, "send", send_some)
    assert (tasks.tell_of_failing(), tasks.tell_of_failing(), len(mail.outbox)) == (1, 1, 2)


GONE = {"gone@shop.example": (550, b"No such user")}
WAIT = {"slow@shop.example": (451, b"Greylisted")}


@pytest.mark.parametrize(
    "refusal", [SMTPRecipientsRefused(GONE), SMTPDataError(554, b"Refused"), ValueError("no address")]
)
def test_a_mail_that_is_refused_for_good_is_tried_once_a_day(
    alice: Account, webhook: Webhook, monkeypatch: pytest.MonkeyPatch, refusal: Exception
) -> None:
    tried: list[str] = []

    def refuse(subject: str, text: str, to: str) -> None:
        tried.append(to)
        raise refusal

    attempt(alice, "status")
    let_pass(hours=2)
    with monkeypatch.context() as server:
        server.setattr(mails, "send", refuse)
        for day in range(1, 3):
            assert [tasks.tell_of_failing() for _ in range(3)] == [0, 0, 0]
            let_pass(hours=23)
            assert tasks.tell_of_failing() == 0
            assert len(tried) == day
            let_pass(hours=2)
    attempt(alice, "")
    assert tasks.tell_of_failing() == 0, "nobody was told that it failed"
    attempt(alice, "status")
    let_pass(hours=2)
    assert tasks.tell_of_failing() == 1
    attempt(alice, "")
    with monkeypatch.context() as server:
        server.setattr(mails, "send", refuse)
        assert [tasks.tell_of_failing(), tasks.tell_of_failing(), len(tried)] == [0, 0, 3]
    assert tasks.tell_of_failing() == 0


@pytest.mark.parametrize(
    "error",
    [
        SMTPRecipientsRefused(WAIT),
        SMTPRecipientsRefused(GONE | WAIT),
        SMTPDataError(452, b"Full"),
        SMTPSenderRefused(530, b"STARTTLS first", "cod@shop.example"),  # as for every mail, until it is mended
        SMTPServerDisconnected("gone"),
    ],
)
def test_a_mail_that_may_pass_is_tried_in_the_next_round(
    alice: Account, webhook: Webhook, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*args: str) -> None:
        raise error

    attempt(alice, "status")
    let_pass(hours=2)
    with monkeypatch.context() as server:
        server.setattr(mails, "send", fail)
        assert tasks.tell_of_failing() == 0
    assert tasks.tell_of_failing() == 1


def test_a_mail_server_that_is_silent_holds_a_worker_no_longer_than_a_round(
    alice: Account, charlie: Account, register: Callable[..., Webhook], monkeypatch: pytest.MonkeyPatch
) -> None:
    for account in (alice, charlie):
        register(account)
        attempt(account, "status")
    let_pass(hours=2)
    asked = []

    def silent(subject: str, text: str, to: str) -> None:
        asked.append(to)
        raise TimeoutError

    with monkeypatch.context() as server:
        server.setattr(alarms, "time", SimpleNamespace(monotonic=lambda: len(asked) * alarms.SECONDS))
        server.setattr(mails, "send", silent)
        assert tasks.tell_of_failing() == 0
    assert len(asked) == 1
    assert tasks.tell_of_failing() == 2


def test_an_address_that_no_mail_can_be_written_to_keeps_nobody_from_theirs(
    alice: Account, charlie: Account, register: Callable[..., Webhook]
) -> None:
    User.objects.filter(id=alice.holder_id).update(email=f"a@{'ü' * 60}.com")
    for account in (alice, charlie):
        register(account)
        attempt(account, "status")
    let_pass(hours=2)

    assert tasks.tell_of_failing() == 1
    assert [each.to for each in mail.outbox] == [[charlie.holder.email]]


@pytest.mark.parametrize("news", ["status", ""], ids=["failing", "well"])
def test_who_cannot_be_told_keeps_nobody_behind_from_being_told(
    alice: Account, charlie: Account, register: Callable[..., Webhook], monkeypatch: pytest.MonkeyPatch, news: str
) -> None:
    """However often that mail is tried, and though each try takes up a whole round."""
    register(charlie)
    attempt(charlie, "status")
    if not news:
        let_pass(hours=2)
        assert tasks.tell_of_failing() == 1
        attempt(charlie, news)
    register(alice)
    Webhook.objects.filter(account=alice).update(id=UUID(int=1))
    attempt(alice, "status")
    let_pass(hours=2)
    clock, send = [0.0], mails.send

    def send_some(subject: str, text: str, to: str) -> None:
        if to == alice.holder.email:
            clock[0] += alarms.SECONDS
            raise TimeoutError
        send(subject, text, to)

    monkeypatch.setattr(mails, "send", send_some)
    monkeypatch.setattr(alarms, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    assert any(tasks.tell_of_failing() for _ in range(100))
    assert mail.outbox[-1].to == [charlie.holder.email]


def test_who_is_killed_after_the_mail_tells_it_once_more_and_who_is_killed_before_it_too(
    alice: Account, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed worker holds the duty until its lease ends. Then the next worker does what was not noted as done."""
    attempt(alice, "status")
    let_pass(hours=2)
    send, leave = mails.send, duties.leave

    class Killed(BaseException):
        pass

    def killed(*args: Any) -> None:
        send(*args)
        raise Killed

    with monkeypatch.context() as dying:
        dying.setattr(mails, "send", killed)
        dying.setattr(duties, "leave", lambda *args, **kwargs: None)
        with pytest.raises(Killed):
            tasks.tell_of_failing()
    assert (mails.send, duties.leave) == (send, leave)
    assert tasks.tell_of_failing() == 0
    Duty.objects.filter(name=alarms.DUTY).update(taken_until=timezone.now())

    assert tasks.tell_of_failing() == 1
    assert tasks.tell_of_failing() == 0
    assert len(mail.outbox) == 2


def test_of_many_workers_one_tells(alice: Account, webhook: Webhook) -> None:
    attempt(alice, "status")
    let_pass(hours=2)

    assert sum(at_once(6, lambda _: tasks.tell_of_failing())) == 1
    assert len(mail.outbox) == 1
