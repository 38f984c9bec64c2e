"""The operators' pages: they show everything but secrets, edit nothing, and have a button to resend."""

import html
import re

import pytest
from django.contrib.admin.models import LogEntry
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from codservice.accounts.models import SecurityEntry
from tests.factories import AgentFactory, UserFactory
from tests.harness.client import browser_of
from webhooks import registry, secrets
from webhooks.models import Attempt, Delivery, Webhook

KINDS = ("webhook", "event", "delivery", "attempt")
NASTY = b"<script>alert(1)</script><img src=x onerror=alert(1)>\xff\x00\"'>"


@pytest.fixture
def operator(db):
    return browser_of(UserFactory(is_staff=True, is_superuser=True))


@pytest.fixture
def rows(alice, register, delivery_of):
    """One row of each kind, all with hostile texts."""
    webhook = register(alice, "https://shop.example/hooks?x='%3Cscript%3E")
    registry.rotate_secret(alice.id, webhook.id)
    delivery = delivery_of(webhook, "failed", attempts=4, body='{"name":"<script>alert(1)</script>"}')
    Attempt.objects.update(response=NASTY)
    attempt = delivery.attempts.first()
    return {"webhook": webhook, "event": delivery.event, "delivery": delivery, "attempt": attempt}


def address(kind, page, *args):
    return reverse(f"admin:webhooks_{kind}_{page}", args=args)


@pytest.mark.parametrize("kind", KINDS)
def test_lists_and_pages_show_all_and_no_secret(operator, rows, kind):
    webhook = Webhook.objects.get()
    hidden = [secrets.decrypt(bytes(value)) for value in (webhook.secret, webhook.previous_secret)]
    hidden += [bytes(value).decode() for value in (webhook.secret, webhook.previous_secret)]

    for page in (address(kind, "changelist"), address(kind, "change", rows[kind].pk)):
        answer = operator.get(page)
        text = answer.content.decode()
        assert answer.status_code == 200
        assert not any(secret in text for secret in hidden)
        assert not re.search(r"<script>alert|<img src=x", text)
        assert 'name="_save"' not in text


def test_a_response_is_shown_as_text(operator, rows):
    for kind in ("delivery", "attempt"):
        text = operator.get(address(kind, "change", rows[kind].pk)).content.decode()
        assert "<script>alert(1)</script><img" in html.unescape(text)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_can_be_added_changed_or_deleted(operator, rows, kind):
    pk = rows[kind].pk

    assert operator.get(address(kind, "add")).status_code == 403
    assert operator.post(address(kind, "change", pk), {"url": "https://evil.example/"}).status_code == 403
    assert operator.post(address(kind, "delete", pk), {"post": "yes"}).status_code == 403
    action = {"action": "delete_selected", "_selected_action": [str(pk)], "post": "yes"}
    operator.post(address(kind, "changelist"), action)
    assert type(rows[kind]).objects.filter(pk=pk).exists()
    assert not LogEntry.objects.exists()


@pytest.mark.parametrize("kind", KINDS)
def test_agents_and_holders_see_none_of_it(rows, alice, kind):
    for person, code in ((AgentFactory(), 403), (AgentFactory(role="Supervisors"), 403), (alice.holder, 302)):
        client = browser_of(person)
        for page in (address(kind, "changelist"), address(kind, "change", rows[kind].pk)):
            assert client.get(page).status_code == code


def test_chosen_deliveries_are_resent(operator, rows, delivery_of):
    dropped = delivery_of(rows["webhook"], "dropped")
    chosen = [str(rows["delivery"].pk), str(dropped.pk)]

    answer = operator.post(
        address("delivery", "changelist"), {"action": "resend", "_selected_action": chosen}, follow=True
    )

    text = answer.content.decode()
    assert "1 delivery is sent again." in text
    assert "The others were not sent" in text
    assert dict(Delivery.objects.values_list("id", "status")) == {rows["delivery"].pk: "pending", dropped.pk: "dropped"}


def test_what_an_operator_resends_is_in_the_merchants_log(operator, rows, alice, register, delivery_of):
    other = delivery_of(register(alice, "https://other.example/hooks"), "failed", attempts=4)
    dropped = delivery_of(register(alice, "https://third.example/hooks"), "dropped")
    SecurityEntry.objects.all().delete()

    chosen = [str(each.pk) for each in (rows["delivery"], other, dropped)]
    operator.post(address("delivery", "changelist"), {"action": "resend", "_selected_action": chosen})
    operator.post(address("delivery", "change", rows["delivery"].pk), {"action": "resend"})

    noted = SecurityEntry.objects.filter(action="deliveries_resent", by="staff", account=alice)
    assert sorted(noted.values_list("target", flat=True)) == ["other.example", "shop.example", "shop.example"]
    assert set(noted.values_list("target_id", flat=True)) == {rows["webhook"].pk, other.webhook_id}


def test_no_secret_is_read_to_resend(operator, rows):
    chosen = {"action": "resend", "_selected_action": str(rows["delivery"].pk)}
    with CaptureQueriesContext(connection) as captured:
        operator.post(address("delivery", "changelist"), chosen)
    assert SecurityEntry.objects.filter(action="deliveries_resent").exists()
    assert [query["sql"] for query in captured if '."secret"' in query["sql"]] == []


def test_what_a_list_no_longer_shows_is_resent_all_the_same(operator, rows):
    """As when the button is pressed twice: by the second press the delivery is no longer failed."""
    failed = f"{address('delivery', 'changelist')}?webhook={rows['webhook'].pk}&status=failed"
    chosen = {"action": "resend", "_selected_action": str(rows["delivery"].pk)}
    operator.post(failed, chosen, follow=True)

    assert "1 delivery is sent again." in operator.post(failed, chosen, follow=True).content.decode()


@pytest.mark.parametrize("state", [{"is_active": False}, {"deleted_at": timezone.now()}])
def test_what_cannot_be_resent_is_not_offered_nor_said_to_be_sent(operator, rows, state):
    Webhook.objects.update(**state)
    url = address("delivery", "change", rows["delivery"].pk)
    assert 'value="resend"' not in operator.get(url).content.decode()

    text = operator.post(url, {"action": "resend"}, follow=True).content.decode()

    assert "their webhook is deleted or off" in text
    assert "sent again" not in text
    assert Delivery.objects.get().status == "failed"


def test_a_get_resends_nothing(operator, rows):
    operator.get(address("delivery", "changelist"), {"action": "resend", "_selected_action": str(rows["delivery"].pk)})

    assert Delivery.objects.get().status == "failed"


def test_resending_needs_the_csrf_token(rows):
    client = browser_of(UserFactory(is_staff=True, is_superuser=True), enforce_csrf_checks=True)
    body = {"action": "resend", "_selected_action": [str(rows["delivery"].pk)]}

    assert client.post(address("delivery", "changelist"), body).status_code == 403
    assert Delivery.objects.get().status == "failed"


def test_deliveries_are_found_by_any_id_that_somebody_may_quote(operator, rows):
    page = address("delivery", "changelist")
    for found in (rows["delivery"].pk, rows["webhook"].pk, rows["event"].pk):
        assert str(rows["delivery"].pk) in operator.get(page, {"q": str(found)}).content.decode()
    for nothing in ("nonsense", "00000000-0000-0000-0000-000000000000"):
        assert str(rows["delivery"].pk) not in operator.get(page, {"q": nothing}).content.decode()


@pytest.mark.parametrize("lookup", ["secret__startswith", "previous_secret__isnull", "webhook__secret__startswith"])
def test_secrets_cannot_be_guessed_through_filters(operator, rows, lookup):
    for kind in ("webhook", "delivery"):
        assert operator.get(address(kind, "changelist"), {lookup: "g"}).status_code in (302, 400)


@pytest.mark.parametrize("kind", KINDS)
def test_a_list_takes_the_same_number_of_statements_and_counts_no_table(operator, rows, delivery_of, kind):
    def statements():
        with CaptureQueriesContext(
            connection,
        ) as captured:
            operator.get(address(kind, "changelist"))
        return [query["sql"] for query in captured]

    few = statements()
    for _ in range(10):
        delivery_of(rows["webhook"], "failed", attempts=2)
    many = statements()

    assert len(few) == len(many)
    counts = [sql for sql in many if "COUNT(" in sql]
    assert counts
    assert all("LIMIT 1000" in sql for sql in counts)
    assert not any('."secret"' in sql for sql in many)
