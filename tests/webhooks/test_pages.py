"""The account's pages about webhooks: everything the API does, by hand, for one's own webhooks alone."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from django.utils.html import escape

from codservice.accounts.models import Account, Membership
from codservice.days import ALGIERS
from codservice.i18n_tags import instant
from tests.factories import UserFactory
from tests.harness.client import browser_of
from tests.harness.deliveries import write_delivery
from webhooks import recovery, registry, resending, secrets
from webhooks.models import Attempt, Delivery, Event, Webhook
from webhooks.templatetags.webhooks import REASONS

HOME = "/account/webhooks"


@pytest.fixture
def webhook(alice: Account, register: Callable[..., Webhook], names: dict[str, Any]) -> Webhook:
    return register(alice)


def at(webhook: Webhook, what: str = "") -> str:
    return f"{HOME}/{webhook.id}{what}"


def page_of(delivery: Delivery) -> str:
    return f"{HOME}/deliveries/{delivery.id}"


def secrets_in(response: Any) -> list[str]:
    return re.findall(r"whsec_[A-Za-z0-9+/=]{44}", response.content.decode())


# --- Registering -----------------------------------------------------------------------------------------------------


def test_a_webhook_is_registered_and_its_secret_shown_once(
    alice: Account, browser: Client, names: dict[str, Any]
) -> None:
    answer = browser.post(HOME, {"url": " https://Shop.example:443/hooks ", "events": ["order.confirmed"]})
    assert answer.status_code == 201
    row = Webhook.objects.get()
    assert (row.account_id, row.url, row.events) == (alice.id, "https://shop.example/hooks", ["order.confirmed"])
    assert secrets_in(answer) == [secrets.decrypt(bytes(row.secret))]
    again = browser.get(HOME)
    assert secrets_in(again) == []
    assert row.secret_hint in again.content.decode()


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({"url": "http://shop.example/"}, "Must start with https://."),
        ({"url": "http://localhost:8000/"}, "Must start with https://. The host must be a public one."),
        ({"url": "https://127.0.0.1/"}, "must be a public one"),
        ({"url": "https://user:pw@shop.example/"}, "user name or password"),
        ({"url": ""}, "Enter the address."),
        ({"url": "https://shop.example/\x01"}, "problem"),
        ({"events": []}, "Choose at least one."),
        ({"events": ["ping"]}, "problem"),
    ],
)
def test_what_the_api_would_refuse_is_refused_with_its_words(
    data: dict, says: str, browser: Client, names: dict[str, Any]
) -> None:
    answer = browser.post(HOME, {"url": "https://shop.example/", "events": ["order.confirmed"], **data})
    assert answer.status_code == 422
    assert says in answer.content.decode()
    assert Webhook.objects.count() == 0


def test_one_address_is_not_told_twice_of_the_same(alice: Account, browser: Client, names: dict[str, Any]) -> None:
    """As after a second press, or when the answer is loaded again."""
    data = {"url": "https://shop.example/", "events": ["order.confirmed", "order.shipped"]}
    assert browser.post(HOME, data).status_code == 201
    for events in (data["events"], ["order.shipped"]):
        again = browser.post(HOME, data | {"events": events})
        assert (again.status_code, secrets_in(again)) == (422, [])
        assert "You already have a webhook to this address for these events." in again.content.decode()
    assert browser.post(HOME, data | {"events": ["order.shipped", "order.returned"]}).status_code == 201
    assert browser.post(HOME, data | {"url": "https://shop.example/other"}).status_code == 201
    registry.delete(alice.id, alice.webhooks.get(url=data["url"], events=data["events"]).id)
    assert browser.post(HOME, data).status_code == 201


def test_an_account_has_twenty_at_most(alice: Account, browser: Client, register: Callable[..., Webhook]) -> None:
    for number in range(registry.MOST_WEBHOOKS):
        register(alice, f"https://shop.example/{number}")
    assert "You have 20 webhooks, which is the maximum." in browser.get(HOME).content.decode()
    refused = browser.post(HOME, {"url": "https://203.0.114.1/", "events": ["order.confirmed"]})
    assert refused.status_code == 422
    assert alice.webhooks.count() == registry.MOST_WEBHOOKS


def test_a_new_secret_is_shown_once_and_asked_for_first(browser: Client, webhook: Webhook) -> None:
    before = bytes(Webhook.objects.get().secret)
    assert "For 24 hours, the old one signs too" in browser.get(at(webhook, "/rotate")).content.decode()
    assert bytes(Webhook.objects.get().secret) == before
    answer = browser.post(at(webhook, "/rotate"))
    row = Webhook.objects.get()
    assert secrets_in(answer) == [secrets.decrypt(bytes(row.secret))]
    assert bytes(row.previous_secret) == before
    assert secrets_in(browser.get(at(webhook))) == []


def test_a_webhook_says_until_when_the_secret_of_before_signs(browser: Client, webhook: Webhook) -> None:
    said = "The previous secret signs until"
    assert said not in page(browser, at(webhook))
    browser.post(at(webhook, "/rotate"))
    until = Webhook.objects.get().previous_secret_until
    assert f'{said}</dt><dd><time datetime="{instant(until.astimezone(ALGIERS))}">' in page(browser, at(webhook))
    Webhook.objects.update(previous_secret_until=timezone.now())  # the sweep that forgets it comes later
    assert said not in page(browser, at(webhook))


def test_one_question_makes_one_secret(browser: Client, webhook: Webhook) -> None:
    """A second press, or a reload of the page, would end the secret that the shop still uses."""
    before = bytes(Webhook.objects.get().secret)
    question = page(browser, at(webhook, "/rotate"))
    (shown,) = re.findall(r'name="replaces" value="([^"]+)"', question)
    assert "ends at once" not in question
    first = browser.post(at(webhook, "/rotate"), {"replaces": shown})
    for old in (shown, "\0"):
        again = browser.post(at(webhook, "/rotate"), {"replaces": old}, follow=True)
        assert "Its secret was already changed" in again.content.decode()
    row = Webhook.objects.get()
    assert secrets_in(first) == [secrets.decrypt(bytes(row.secret))]
    assert bytes(row.previous_secret) == before
    assert "ends at once" in page(browser, at(webhook, "/rotate"))


def test_a_webhook_that_nothing_was_sent_to_is_not_said_to_be_well(browser: Client, webhook: Webhook) -> None:
    for address in (HOME, at(webhook)):
        assert '<span class="status delivered">On</span>' in page(browser, address)


def test_who_may_send_a_test_event_is_told_so_where_nothing_was_sent(browser: Client, webhook: Webhook) -> None:
    reader = UserFactory()
    Membership.objects.create(account=webhook.account, user=reader, role="reader")
    hint = "A test event shows whether your shop receives our events."

    assert f"Nothing has been sent yet. {hint}" in page(browser, at(webhook))
    assert "Nothing has been sent yet." in (seen := page(browser_of(reader), at(webhook)))
    assert hint not in seen
    Webhook.objects.update(is_active=False)
    assert hint not in page(browser, at(webhook))


def test_a_webhook_is_deleted_after_a_question(browser: Client, webhook: Webhook) -> None:
    write_delivery(webhook)
    assert webhook.url in browser.get(at(webhook, "/delete")).content.decode()
    assert Webhook.objects.get().deleted_at is None
    assert browser.post(at(webhook, "/delete")).url == HOME
    assert Webhook.objects.get().deleted_at is not None
    assert browser.get(at(webhook)).status_code == 404


def test_a_test_event_leads_to_its_own_page(browser: Client, webhook: Webhook) -> None:
    answer = browser.post(at(webhook, "/ping"))
    row = Delivery.objects.select_related("event").get()
    assert answer.url == page_of(row)
    assert (row.webhook_id, row.event.kind, row.status) == (webhook.id, "ping", "pending")
    page = browser.get(page_of(row)).content.decode()
    assert f'data-refresh="{page_of(row)}"' in page
    assert "None yet. The first one is in progress." in page


# --- The log ---------------------------------------------------------------------------------------------------------


def listed(browser: Client, path: str) -> list[str]:
    return re.findall(r'<th scope="row"><a href="/account/webhooks/deliveries/([0-9a-f-]+)"', page(browser, path))


def page(browser: Client, path: str, status: int = 200) -> str:
    answer = browser.get(path)
    assert answer.status_code == status
    return answer.content.decode()


def test_the_log_is_chosen_by_status_event_and_days(browser: Client, webhook: Webhook) -> None:
    noon = datetime(2026, 3, 5, 12, tzinfo=UTC)
    good = write_delivery(webhook, "delivered", attempts=1, created_at=noon)
    bad = write_delivery(webhook, "failed", attempts=4, created_at=noon - timedelta(days=1), kind="inventory.updated")
    late = write_delivery(webhook, created_at=noon.replace(hour=23, minute=30))  # the 6th in Algeria
    ids = {"good": str(good.id), "bad": str(bad.id), "late": str(late.id)}
    for query, expected in {
        "": ["late", "good", "bad"],
        "?status=failed": ["bad"],
        "?status=delivered,pending": ["late", "good"],
        "?event=inventory.updated": ["bad"],
        "?created_from=2026-03-05&created_to=2026-03-05": ["good"],
        "?created_from=2026-03-06&status=&event=": ["late"],
        "?status=dropped": [],
    }.items():
        assert listed(browser, at(webhook, query)) == [ids[name] for name in expected], query


def test_unusable_filters_are_said_and_show_nothing(browser: Client, webhook: Webhook) -> None:
    write_delivery(webhook)
    for query in ("?status=lost", "?created_from=soon", "?event=%00"):
        assert 'class="problem"' in page(browser, at(webhook, query), 422)
    for query in ("?before=x", "?before=2026-01-01_x", "?before=2026-01-01T00:00:00_" + str(uuid4()), "?before=%00"):
        page(browser, at(webhook, query), 404)


def test_a_period_that_ends_before_it_begins_is_said(browser: Client, webhook: Webhook) -> None:
    answer = browser.get(at(webhook, "?created_from=2026-03-06&created_to=2026-03-05"))
    assert answer.status_code == 422
    assert "The period must end after it begins." in answer.content.decode()


def test_the_log_is_read_page_by_page_and_never_counted(
    browser: Client, webhook: Webhook, django_assert_num_queries: Any
) -> None:
    now = timezone.now()
    rows = [
        write_delivery(webhook, "failed", attempts=2, created_at=now - timedelta(minutes=n // 3)) for n in range(60)
    ]
    expected = [str(row.id) for row in sorted(rows, key=lambda row: (row.created_at, row.id), reverse=True)]
    seen, path, queries = [], at(webhook, "?status=failed"), []
    while path:
        with django_assert_num_queries(6):  # session, person, account, webhook, deliveries, their last attempts
            text = page(browser, path)
        seen += re.findall(r'<th scope="row"><a href="/account/webhooks/deliveries/([0-9a-f-]+)"', text)
        older = re.search(r'href="(\?[^"]*before=[^"]*)"[^>]*>Older', text)
        path = at(webhook, older[1].replace("&amp;", "&")) if older else ""
        queries.append(path)
    assert seen == expected
    assert len(queries) == 3


def test_a_delivery_shows_what_was_sent_and_each_attempt(
    browser: Client, webhook: Webhook, django_assert_num_queries: Any
) -> None:
    body = '{"event":"order.confirmed","data":{"customer_name":"<b>سميرة</b> & co"}}'
    row = write_delivery(webhook, "failed", attempts=2, body=body)
    Attempt.objects.filter(number=1).update(failure="timeout", status_code=None, response=b"", milliseconds=3000)
    with django_assert_num_queries(5):  # session, person, account, delivery, attempts
        text = page(browser, page_of(row))
    assert f"{escape(body)}</pre>" in text
    assert "after 3000 ms. No answer within 3 seconds." in " ".join(text.split())
    assert "Erreur \N{REPLACEMENT CHARACTER} &lt;b&gt;" in text
    assert text.index("Attempt 2") < text.index("Attempt 1")


@pytest.mark.parametrize("failure", sorted(REASONS))
def test_each_reason_is_a_sentence(failure: str, browser: Client, webhook: Webhook) -> None:
    row = write_delivery(webhook, "failed", attempts=1)
    Attempt.objects.update(failure=failure, status_code=418)
    text = page(browser, page_of(row))
    assert str(REASONS[failure]) in text


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (301, "Enter the address where it leads"),
        (403, "its firewall blocks us"),
        (404, "There is nothing at this address"),
        (405, "does not accept POST"),
        (419, "wants a CSRF token"),
        (429, "too many requests"),
        (502, "Its own log says why"),
        (418, "Only a status from 200 to 299"),
    ],
)
def test_a_status_says_what_is_to_be_done(status: int, says: str, browser: Client, webhook: Webhook) -> None:
    row = write_delivery(webhook, "failed", attempts=1)
    Attempt.objects.update(failure="status", status_code=status)
    for address in (at(webhook), page_of(row)):
        assert says in page(browser, address)


def test_the_reasons_are_those_of_the_sender() -> None:
    from webhooks import posts

    known = {posts.TIMEOUT, posts.UNREACHABLE, posts.BLOCKED, posts.TLS, posts.BAD_ANSWER, posts.STATUS,
             posts.NO_SECRET, posts.UNRECORDED}  # fmt: skip
    assert set(REASONS) == known


# --- Resending -------------------------------------------------------------------------------------------------------


def test_one_delivery_is_sent_again(browser: Client, webhook: Webhook) -> None:
    row = write_delivery(webhook, "failed", attempts=4)
    assert browser.post(f"{page_of(row)}/resend").url == page_of(row)
    row.refresh_from_db()
    assert (row.status, row.retries_left) == ("pending", 0)
    assert "It is sent again." in page(browser, page_of(row))


def test_a_delivery_with_the_most_attempts_stays(browser: Client, webhook: Webhook) -> None:
    row = write_delivery(webhook, "failed", attempts=1)
    Delivery.objects.update(attempt_count=resending.MOST_ATTEMPTS)
    assert "/resend" not in page(browser, page_of(row))
    browser.post(f"{page_of(row)}/resend")
    row.refresh_from_db()
    assert row.status == "failed"
    assert "it has had 100 attempts, the maximum" in page(browser, page_of(row))


def test_who_resends_what_failed_hears_of_those_with_the_most_attempts(browser: Client, webhook: Webhook) -> None:
    write_delivery(webhook, "failed", attempts=4)
    said = "Deliveries that have had 100 attempts, the maximum, are not included."
    assert said not in page(browser, at(webhook, "/resend"))
    Delivery.objects.update(attempt_count=resending.MOST_ATTEMPTS)
    shown = page(browser, at(webhook, "/resend"))
    assert "0 deliveries have failed." in shown
    assert said in shown


@pytest.mark.parametrize(
    ("status", "is_active", "reason"),
    [("dropped", True, "press “Recover” on its page"), ("failed", False, "This webhook is off. Turn it on first.")],
)
def test_one_that_is_not_sent_again_says_why(
    browser: Client, webhook: Webhook, status: str, is_active: bool, reason: str
) -> None:
    row = write_delivery(webhook, status)
    Webhook.objects.update(is_active=is_active)
    shown = page(browser, page_of(row))
    assert reason in shown
    assert "/resend" not in shown
    browser.post(f"{page_of(row)}/resend")
    row.refresh_from_db()
    assert row.status == status
    assert page(browser, page_of(row)).count(reason) == 2


def test_a_webhook_that_is_off_offers_nothing_that_would_be_refused(browser: Client, webhook: Webhook) -> None:
    write_delivery(webhook, "failed", attempts=4)
    refused = {at(webhook, what) for what in ("/ping", "/recover", "/resend")}
    why = "While it is off, nothing is sent to it"
    for is_active in (True, False):
        Webhook.objects.update(is_active=is_active)
        shown = page(browser, at(webhook))
        assert refused & set(re.findall(r'(?:href|action)="([^"?]+)', shown)) == (refused if is_active else set())
        assert (why in shown) is not is_active
        assert at(webhook, "/change") in shown
        assert (at(webhook, "/ping") in page(browser, HOME)) is is_active


@pytest.mark.parametrize("method", ["get", "post"])
def test_nothing_is_said_to_be_sent_again_to_a_webhook_that_is_off(
    browser: Client, webhook: Webhook, method: str
) -> None:
    write_delivery(webhook, "failed", attempts=4)
    Webhook.objects.update(is_active=False)
    text = getattr(browser, method)(at(webhook, "/resend"), follow=True).content.decode()
    assert "This webhook is off. Turn it on first." in text
    assert "sent again" not in text


def test_all_failed_ones_of_some_days_are_counted_then_sent(
    browser: Client, webhook: Webhook, alice: Account, register: Callable[..., Webhook]
) -> None:
    noon = datetime(2026, 3, 5, 12, tzinfo=UTC)
    chosen = [write_delivery(webhook, "failed", attempts=4, created_at=noon + timedelta(hours=n)) for n in range(3)]
    other_day = write_delivery(webhook, "failed", attempts=4, created_at=noon + timedelta(days=3))
    delivered = write_delivery(webhook, "delivered", attempts=1, created_at=noon)
    elsewhere = write_delivery(register(alice, "https://shop.example/b"), "failed", attempts=4, created_at=noon)
    query = {"created_from": "2026-03-05", "created_to": "2026-03-05", "event": "", "status": "delivered"}

    asked = browser.get(at(webhook, "/resend"), query)
    assert "3 deliveries have failed." in asked.content.decode()
    assert Delivery.objects.filter(status="pending").count() == 0

    assert browser.post(at(webhook, "/resend"), query).url == at(webhook)
    assert set(Delivery.objects.filter(status="pending")) == set(chosen)
    for row in (other_day, delivered, elsewhere):
        status = row.status
        row.refresh_from_db()
        assert row.status == status
    assert "3 deliveries are sent again." in page(browser, at(webhook))


def test_what_failed_and_waits_for_its_next_attempt_is_resent_too_and_keeps_its_schedule(
    browser: Client, webhook: Webhook
) -> None:
    now = timezone.now()
    failed = write_delivery(webhook, "failed", attempts=4)
    said = "Those that wait for their next attempt are included, after all others."
    assert said not in page(browser, at(webhook, "/resend"))
    waiting, due, new = (
        write_delivery(webhook, attempts=attempts, retries_left=2, next_attempt_at=now + wait)
        for attempts, wait in ((1, timedelta(hours=2)), (1, timedelta(0)), (0, timedelta(hours=2)))
    )

    shown = page(browser, at(webhook, "/resend"))
    assert "2 deliveries have failed." in shown
    assert said in shown

    browser.post(at(webhook, "/resend"))
    assert "2 deliveries are sent again." in page(browser, at(webhook))
    assert "0 deliveries have failed." in page(browser, at(webhook, "/resend")), "what is due is on its way"
    for row, retries_left, is_due in ((failed, 0, True), (waiting, 2, True), (due, 2, True), (new, 2, False)):
        row.refresh_from_db()
        assert (row.status, row.retries_left) == ("pending", retries_left)
        assert (row.next_attempt_at <= timezone.now()) is is_due


def test_more_than_a_click_sends_are_sent_oldest_first(
    browser: Client, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resending, "MOST_AT_ONCE", 2)
    now = timezone.now()
    rows = [write_delivery(webhook, "failed", attempts=4, created_at=now - timedelta(hours=n)) for n in range(3)]
    assert "More than 2 deliveries have failed." in page(browser, at(webhook, "/resend"))
    browser.post(at(webhook, "/resend"))
    assert set(Delivery.objects.filter(status="pending")) == set(rows[1:])


def test_of_those_that_wait_each_click_sends_others(
    browser: Client, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while they go on failing, after which they wait longer."""
    monkeypatch.setattr(resending, "MOST_AT_ONCE", 1)
    now = timezone.now()
    failed = write_delivery(webhook, "failed", attempts=4)
    later, sooner = (
        write_delivery(webhook, attempts=attempts, next_attempt_at=now + timedelta(hours=hours))
        for attempts, hours in ((1, 3), (2, 2))
    )
    for sent in (failed, sooner, later):
        browser.post(at(webhook, "/resend"))
        assert list(Delivery.objects.filter(status="pending", next_attempt_at__lte=timezone.now())) == [sent]
        Delivery.objects.filter(id=sent.id).update(next_attempt_at=now + timedelta(hours=12), attempt_count=5)


def test_what_is_not_included_is_told_with_the_last_click_only(
    browser: Client, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To find none may read everything that has failed."""
    monkeypatch.setattr(resending, "MOST_AT_ONCE", 1)
    for more, asked in ((2, False), (0, True)):
        for _ in range(more):
            write_delivery(webhook, "failed", attempts=4)
        with CaptureQueriesContext(connection) as queries:
            assert ("More than 1" in page(browser, at(webhook, "/resend"))) is not asked
        assert any('"attempt_count" >= 100' in query["sql"] for query in queries) is asked
        Delivery.objects.update(status="delivered")


def test_days_that_cannot_be_used_send_nothing(browser: Client, webhook: Webhook) -> None:
    write_delivery(webhook, "failed", attempts=4)
    assert browser.post(at(webhook, "/resend"), {"created_from": "soon"}).url == at(webhook)
    assert Delivery.objects.get().status == "failed"


# --- Other accounts, and deleted webhooks ----------------------------------------------------------------------------


def test_another_accounts_webhooks_are_not_there(
    browser: Client, charlie: Account, register: Callable[..., Webhook], names: dict[str, Any]
) -> None:
    """Always the same 404 as for an id that does not exist, whatever the request, and nothing is changed."""
    foreign = register(charlie, "https://charlie.example/")
    row = write_delivery(foreign, "failed", attempts=4)
    assert "charlie" not in page(browser, HOME)
    before = Webhook.objects.values().get()
    for path in ("", "/rotate", "/delete", "/resend", "/ping"):
        for method in ("get", "post"):
            ours = getattr(browser, method)(f"{HOME}/{foreign.id}{path}")
            nobodys = getattr(browser, method)(f"{HOME}/{uuid4()}{path}")
            assert ours.status_code == nobodys.status_code
            assert ours.status_code == 404 or ours.status_code == 405
            assert _plain(ours) == _plain(nobodys)
    for path in ("", "/resend"):
        assert browser.post(page_of(row) + path).status_code in (404, 405)
    assert browser.get(page_of(row)).status_code == 404
    row.refresh_from_db()
    assert row.status == "failed"
    assert Webhook.objects.values().get() == before


def _plain(response: Any) -> str:
    """Return a page without what differs in each: its own address and tokens."""
    text = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "ID", response.content.decode())
    return re.sub(r'name="csrfmiddlewaretoken" value="\w+"', "", text)


def test_a_deleted_webhooks_deliveries_are_gone_for_its_account(browser: Client, webhook: Webhook) -> None:
    row = write_delivery(webhook, "failed", attempts=4)
    Webhook.objects.update(deleted_at=timezone.now())
    assert browser.get(page_of(row)).status_code == 404
    assert browser.post(f"{page_of(row)}/resend").status_code == 404


def test_an_old_page_of_a_deleted_webhook_is_told_so(browser: Client, webhook: Webhook) -> None:
    row = write_delivery(webhook, "failed", attempts=4)
    browser.post(at(webhook, "/delete"))
    for path in (at(webhook, what) for what in ("/delete", "/ping", "/change", "/recover", "/rotate", "/resend")):
        text = browser.post(path).content.decode()
        assert "This webhook no longer exists: it was deleted." in text, path
        assert f'<a class="button" href="{HOME}">Webhooks</a>' in text
    assert "was deleted" in browser.get(at(webhook)).content.decode()
    assert "This delivery no longer exists" in browser.post(f"{page_of(row)}/resend").content.decode()
    assert "This delivery no longer exists" in browser.get(page_of(row)).content.decode()


def test_strangers_and_people_without_an_account_see_nothing(webhook: Webhook, db: None) -> None:
    from tests.factories import UserFactory

    row = write_delivery(webhook, "failed", attempts=1)
    nobody = browser_of(UserFactory())
    for path in (HOME, at(webhook), at(webhook, "/rotate"), at(webhook, "/resend"), page_of(row)):
        assert Client().get(path).url == f"/account/login?next={path}"
        assert nobody.get(path).status_code == 403


def test_every_change_needs_the_csrf_token_and_none_happens_by_get(
    alice: Account, browser: Client, webhook: Webhook
) -> None:
    strict = browser_of(alice.holder, enforce_csrf_checks=True)
    row = write_delivery(webhook, "failed", attempts=4)
    changes = [
        HOME,
        *(at(webhook, what) for what in ("/ping", "/rotate", "/delete", "/resend")),
        f"{page_of(row)}/resend",
    ]
    before = list(Webhook.objects.values())
    for path in changes:
        assert strict.post(path, {"url": "https://shop.example/", "events": "order.confirmed"}).status_code == 403
        assert browser.get(path).status_code in (200, 405)
    assert list(Webhook.objects.values()) == before
    assert list(Delivery.objects.values_list("status", flat=True)) == ["failed"]


def test_the_list_costs_the_same_whatever_is_in_it(
    alice: Account, browser: Client, register: Callable[..., Webhook], django_assert_num_queries: Any
) -> None:
    for count in (1, 9):
        for number in range(count):
            register(alice, f"https://shop.example/{count}/{number}")
        with django_assert_num_queries(4):  # session, person, account, webhooks
            browser.get(HOME)


def test_subscriptions_name_every_kind(browser: Client, names: dict[str, Any]) -> None:
    text = page(browser, HOME)
    assert re.findall(r'name="events" value="([\w.]+)"', text) == Event.Kind.values


# --- Mending ---------------------------------------------------------------------------------------------------------


def test_a_webhook_is_changed_and_keeps_its_secret(browser: Client, webhook: Webhook) -> None:
    text = page(browser, at(webhook, "/change"))
    assert re.findall(r'name="events" value="([\w.]+)"', text) == Event.Kind.values
    data = {"url": "https://Shop.example/new", "events": ["order.created"], "description": "Orders <b>"}

    answer = browser.post(at(webhook, "/change"), data | {"is_active": "on"})

    assert (answer.status_code, answer.url) == (302, at(webhook))
    secret = bytes(webhook.secret)
    webhook.refresh_from_db()
    assert (webhook.url, webhook.events, webhook.is_active) == ("https://shop.example/new", ["order.created"], True)
    assert bytes(webhook.secret) == secret
    assert escape("Orders <b>") in page(browser, at(webhook))
    assert browser.post(at(webhook, "/change"), data).status_code == 302
    webhook.refresh_from_db()
    assert webhook.is_active is False
    refused = browser.post(at(webhook, "/change"), data | {"url": "http://shop.example/"})
    assert refused.status_code == 422
    assert "Must start with https://." in refused.content.decode()


def test_who_turns_a_webhook_on_again_is_told_how_it_gets_what_it_missed(browser: Client, webhook: Webhook) -> None:
    data, missed = {"url": webhook.url, "events": webhook.events}, "what it missed while it was off"
    for more, is_told in (({"is_active": "on", "description": "x"}, False), ({}, False), ({"is_active": "on"}, True)):
        answer = browser.post(at(webhook, "/change"), data | more, follow=True)
        assert (missed in answer.content.decode()) is is_told


def test_a_webhook_stays_off_while_much_of_before_is_left(
    browser: Client, webhook: Webhook, delivery_of: Callable[..., Delivery], monkeypatch: pytest.MonkeyPatch
) -> None:
    delivery_of(webhook)
    Webhook.objects.update(is_active=False)
    data = {"url": webhook.url, "events": webhook.events, "is_active": "on", "description": "the shop's"}
    monkeypatch.setattr(registry, "DROP_SECONDS", -1)

    answer = browser.post(at(webhook, "/change"), data)

    assert answer.status_code == 503
    assert "still being dropped" in answer.content.decode()
    assert escape("the shop's") in answer.content.decode()
    webhook.refresh_from_db()
    assert (webhook.is_active, webhook.description) == (False, "")


def test_a_webhook_that_was_turned_off_since_its_page_was_opened_stays_off(browser: Client, webhook: Webhook) -> None:
    shown = browser.get(at(webhook, "/change")).context["form"].initial
    assert shown["seen"] in page(browser, at(webhook, "/change"))
    Webhook.objects.update(is_active=False)
    browser.post(at(webhook, "/change"), shown | {"is_active": "on", "description": "the shop's"})
    webhook.refresh_from_db()
    assert (webhook.is_active, webhook.description) == (False, "the shop's")


def test_an_example_of_a_kind_is_sent(browser: Client, webhook: Webhook) -> None:
    answer = browser.post(at(webhook, "/ping"), {"event": "order.shipped"})

    sent = Delivery.objects.get()
    assert (answer.url, sent.event.kind) == (page_of(sent), "order.shipped")
    assert '"example":true' in sent.event.body
    assert browser.post(at(webhook, "/ping"), {"event": "order.eaten"}).url == at(webhook)
    Webhook.objects.update(is_active=False)
    assert browser.post(at(webhook, "/ping")).url == at(webhook)
    assert Delivery.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_what_was_missed_is_sent_by_a_button(
    browser: Client, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_delivery(webhook, "failed", attempts=4)
    today = timezone.now().astimezone(ALGIERS).date()
    assert "Send what was missed" in page(browser, at(webhook, "/recover"))

    answer = browser.post(
        at(webhook, "/recover"), {"since": today.isoformat(), "until": today.isoformat()}, follow=True
    )

    assert "1 delivery is sent." in answer.content.decode()
    assert Delivery.objects.get().status == "pending"
    for since, until in (("2020-01-01", ""), (today.isoformat(), "2020-01-01"), ("x", ""), ("", "")):
        assert browser.post(at(webhook, "/recover"), {"since": since, "until": until}).status_code == 422
    answer = browser.post(at(webhook, "/recover"), {"since": "2020-01-01", "until": "2019-01-01"})
    assert list(answer.context["form"].errors) == ["since", "until"]
    monkeypatch.setattr(recovery, "MOST_AT_ONCE", 0)
    answer = browser.post(at(webhook, "/recover"), {"since": today.isoformat()}, follow=True)
    assert "Earlier recoveries of this webhook are still going on." in answer.content.decode()
