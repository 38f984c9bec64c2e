"""`prune` and beat's task: what is old goes, in batches that may end anywhere, and nothing else does."""

import json
import sys
import threading
from datetime import timedelta
from io import StringIO
from uuid import uuid4

import pytest
from django.contrib.sessions.models import Session
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.utils import timezone

from agents.models import Claim
from codservice import stops
from codservice.accounts.models import SecurityEntry
from codservice.api.models import IdempotencyRecord
from codservice.operations import duties, tasks
from codservice.retention import SETTLING, SWEEPS, DatabaseClock, SweepsFailed, sweep
from inventory.models import StockMovement
from tests import factories
from tests.harness.background import PATIENCE, at_once
from tests.harness.database import stopped_before_its_locks
from tests.harness.deliveries import claim_due
from tests.harness.manage import output
from webhooks import registry, resending, retention
from webhooks.models import Attempt, Delivery, Event, Webhook
from webhooks.models import Claim as DeliveryClaim

OLD = timedelta(days=100)
NINETY_DAYS = timedelta(days=90)


def test_what_is_old_is_forgotten_in_batches_and_nothing_else(alice, webhook, register, delivery_of, monkeypatch):
    monkeypatch.setattr(retention, "BATCH", 3)
    past = timezone.now() - OLD
    for status in ("delivered", "failed", "dropped"):
        for _ in range(3):
            delivery_of(webhook, status, attempts=2, created_at=past)
    waiting = delivery_of(webhook, attempts=1, created_at=past)
    resent = delivery_of(webhook, "delivered", attempts=1, created_at=past, finished_at=timezone.now())
    fresh = delivery_of(webhook, "delivered", attempts=1)
    gone, kept = register(alice), register(alice)
    Webhook.objects.filter(id__in=[gone.id, kept.id]).update(deleted_at=past)
    in_log = delivery_of(kept, "delivered", attempts=1)
    IdempotencyRecord.objects.create(account=alice, key="k", fingerprint=b"", status=201, body=b"{}", created_at=past)
    Session.objects.create(session_key="over", session_data="", expire_date=past)
    Session.objects.create(session_key="open", session_data="", expire_date=timezone.now() + OLD)
    agent = factories.AgentFactory()
    for phone, expires_at in (("+213550000001", past), ("+213550000002", timezone.now())):
        Claim.objects.create(phone_e164=phone, agent=agent, claimed_at=past, expires_at=expires_at)
    went = {
        "idempotency_keys": 1, "sessions": 1, "deliveries": 9, "attempts": 18, "events": 9, "webhooks": 1,
        "previous_secrets": 0, "customers": 0, "test_orders": 0, "claims": 1,
        "security_entries": 1, "upload_pieces": 0, "upload_blocks": 0, "refused_rows": 0,
        "invitations": 0,
    }  # fmt: skip
    SecurityEntry.objects.filter(id=SecurityEntry.objects.first().id).update(created_at=timezone.now() - 4 * OLD)

    counted = json.loads(output("prune", "--dry-run", "--json"))
    # Events that would be left without deliveries cannot be counted while those are there.
    assert counted == went | {"events": 0, "dry_run": True}
    assert (Delivery.objects.count(), Session.objects.count()) == (13, 2)
    pruned = json.loads(output("prune", "--json"))

    went["uploads"] = 0
    assert pruned == went | {"dry_run": False}
    left = {waiting.id, resent.id, fresh.id, in_log.id}
    assert set(Delivery.objects.values_list("id", flat=True)) == left
    assert set(Attempt.objects.values_list("delivery_id", flat=True)) == left
    assert Event.objects.count() == 4
    assert set(Webhook.objects.values_list("id", flat=True)) == {webhook.id, kept.id}
    assert Session.objects.get().session_key == "open"
    assert Claim.objects.get().phone_e164 == "+213550000002"
    assert json.loads(output("prune", "--json")) == dict.fromkeys(went, 0) | {"dry_run": False}


def test_nothing_is_counted_beforehand(db, monkeypatch):
    """Counting takes as long as deleting where there is nothing to delete."""
    asked = []

    def counted(before, *, dry_run):
        asked.append(dry_run)
        yield {"things": 0}

    monkeypatch.setitem(SWEEPS, "things", counted)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False)
    call_command("prune", stdout=StringIO(), stderr=(said := StringIO()))
    assert asked == [False]
    assert f"{len(SWEEPS) - 1} of {len(SWEEPS)} kinds" in said.getvalue(), "how far it is, without a terminal too"


def test_what_the_feed_shows_keeps_its_deliveries_so_that_a_recovery_repeats_none(webhook, delivery_of):
    for days in (10, 40):
        delivery_of(webhook, "delivered", attempts=1, created_at=timezone.now() - timedelta(days=days))

    assert json.loads(output("prune", "--json", "--older-than", "7"))["deliveries"] == 1

    since = timezone.now() - timedelta(days=20)
    assert Event.objects.count() == Delivery.objects.filter(created_at__gt=since).count() == 1


def test_no_event_outlives_the_customers_time_because_it_was_resent(webhook, delivery_of, settings):
    settings.CUSTOMER_RETENTION_DAYS = 95
    delivery_of(webhook, "delivered", attempts=2, created_at=timezone.now() - OLD, finished_at=timezone.now())

    assert json.loads(output("prune", "--json"))["events"] == 1


@pytest.mark.django_db(transaction=True)
def test_what_a_dead_worker_had_claimed_of_what_was_dropped_goes_with_it(alice, webhook, delivery_of):
    delivery_of(webhook, "pending", created_at=timezone.now() - OLD)
    claim_due(uuid4(), 1)
    registry.delete(alice.id, webhook.id)
    Delivery.objects.update(finished_at=timezone.now() - OLD)
    assert json.loads(output("prune", "--json"))["deliveries"] == 1
    assert DeliveryClaim.objects.count() == 0


def test_what_is_resent_meanwhile_stays(webhook, delivery_of):
    """The row is locked and checked again before it is deleted."""
    old = delivery_of(webhook, "failed", attempts=4, created_at=timezone.now() - OLD)
    batches = sweep(NINETY_DAYS)
    while next(batches)[0] != "sessions":
        pass
    resending.resend([old.id])

    list(batches)

    assert Delivery.objects.get().status == "pending"


@pytest.mark.django_db(transaction=True)
def test_what_somebody_holds_is_passed_over_and_goes_the_next_time(webhook, delivery_of):
    held, _ = (delivery_of(webhook, "failed", attempts=1, created_at=timezone.now() - OLD) for _ in range(2))

    def work(number):
        if number == 0:
            with transaction.atomic():
                Delivery.objects.select_for_update().get(id=held.id)
                barrier.wait(PATIENCE)
                barrier.wait(PATIENCE)
            return None
        barrier.wait(PATIENCE)
        try:
            return json.loads(output("prune", "--json"))["deliveries"]
        finally:
            barrier.wait(PATIENCE)

    barrier = threading.Barrier(2)
    assert at_once(2, work) == [None, 1]
    assert Delivery.objects.get().id == held.id
    assert json.loads(output("prune", "--json"))["deliveries"] == 1


@pytest.mark.django_db(transaction=True)
def test_it_can_stop_anywhere_and_two_at_once_share_the_work(webhook, delivery_of, monkeypatch):
    monkeypatch.setattr(retention, "BATCH", 2)
    for _ in range(9):
        delivery_of(webhook, "delivered", attempts=3, created_at=timezone.now() - OLD)
    for name, _ in sweep(NINETY_DAYS):
        if name == "deliveries":
            break
    assert Delivery.objects.count() == 7

    counted = at_once(2, lambda _: json.loads(output("prune", "--json")))

    assert sum(counts["deliveries"] for counts in counted) == 7
    assert sum(counts["attempts"] for counts in counted) == 21
    assert sum(counts["events"] for counts in counted) == 9
    assert Attempt.objects.count() == Event.objects.count() == 0


def test_secrets_that_have_stopped_signing_are_forgotten(alice, webhook):
    registry.rotate_secret(alice.id, webhook.id)
    assert "previous secrets: 0" in output("prune")
    Webhook.objects.update(previous_secret_until=timezone.now() - timedelta(hours=1))

    assert "previous secrets: 1" in output("prune")

    webhook.refresh_from_db()
    assert webhook.previous_secret is None


def test_they_are_forgotten_by_few_at_once(alice, register, monkeypatch):
    for number in range(5):
        registry.rotate_secret(alice.id, register(alice, url=f"https://shop.example/{number}").id)
    Webhook.objects.update(previous_secret_until=timezone.now() - timedelta(hours=1))
    monkeypatch.setattr(retention, "BATCH", 2)

    swept = list(retention.previous_secrets(timezone.now(), dry_run=False))

    assert swept == [{"previous_secrets": 2}, {"previous_secrets": 2}, {"previous_secrets": 1}]
    assert not Webhook.objects.exclude(previous_secret=None).exists()


@pytest.mark.django_db(transaction=True)
def test_a_secret_that_is_rotated_meanwhile_signs_for_its_day(alice, webhook):
    """The sweep pauses after it has begun to look, the merchant rotates, and the sweep goes on."""
    registry.rotate_secret(alice.id, webhook.id)
    Webhook.objects.update(previous_secret_until=timezone.now() - timedelta(hours=1))

    def sweep_secrets():
        return list(retention.previous_secrets(timezone.now(), dry_run=False))

    with stopped_before_its_locks("webhooks_webhook", sweep_secrets) as sweeping:
        registry.rotate_secret(alice.id, webhook.id)

    assert sweeping.result() == [{"previous_secrets": 0}]
    assert Webhook.objects.get().previous_secret is not None


@pytest.mark.parametrize("days", ["0", "10001", "20800"])
def test_to_keep_nothing_at_all_or_from_before_there_are_ids_is_refused(db, days):
    with pytest.raises(CommandError, match="from 1 to 10000 days"):
        output("prune", "--older-than", days)


def test_the_longest_time_that_may_be_set_is_gone_through(webhook, delivery_of):
    delivery_of(webhook, "delivered", created_at=timezone.now() - OLD)

    assert json.loads(output("prune", "--json", "--older-than", "10000"))["deliveries"] == 0


def test_the_ledger_is_no_log_that_retention_ends(alice):
    """Stock can be checked against the chain of movements, from the first one on."""
    product = factories.ProductFactory(account=alice)
    long_ago = timezone.now() - timedelta(days=5000)
    StockMovement.objects.create(
        account=alice, product=product, old_quantity=0, new_quantity=10, at=long_ago, actor="test"
    )

    output("prune", "--older-than", "1")

    assert StockMovement.objects.count() == 1


# --- Beat's task -----------------------------------------------------------------------------------------------------


def days_pass(name, days):
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE operations_duty SET done_at = done_at - %(time)s, taken_until = taken_until - %(time)s"
            " WHERE name = %(name)s",
            {"time": timedelta(days=days), "name": name},
        )


@pytest.fixture
def seven_old(webhook, delivery_of, monkeypatch):
    monkeypatch.setattr(retention, "BATCH", 2)
    monkeypatch.setattr("codservice.retention.database_clock", DatabaseClock(settling=timedelta(0)))
    monkeypatch.setattr(tasks, "_left", None)
    for _ in range(7):
        delivery_of(webhook, "delivered", attempts=1, created_at=timezone.now() - OLD)


def test_a_round_is_gone_through_once_a_day(seven_old, webhook, delivery_of):
    assert tasks.prune()["deliveries"] == 7
    delivery_of(webhook, "delivered", created_at=timezone.now() - OLD)

    assert tasks.prune() == {}
    days_pass("prune", 1)
    assert tasks.prune()["deliveries"] == 1


def test_a_task_ends_in_time_and_the_next_goes_on(seven_old, monkeypatch):
    monkeypatch.setattr(tasks, "PRUNE_SECONDS", 0.0)
    runs = []
    while (counts := tasks.prune()) != {}:
        runs.append(counts)
        monkeypatch.setattr(tasks, "PRUNE_SECONDS", 0.0 if len(runs) < 3 else 20.0)

    assert len(runs) == 4
    assert not Delivery.objects.exists()
    assert not Event.objects.exists()


def test_the_next_goes_on_behind_what_is_kept(seven_old, monkeypatch):
    """A round that began anew each minute, where reading what is kept takes longer, never came to the rest."""
    in_front = Delivery.objects.order_by("event_id").values("id")[:6]
    Delivery.objects.filter(id__in=in_front).update(finished_at=timezone.now())
    monkeypatch.setattr(tasks, "PRUNE_SECONDS", 0.0)
    monkeypatch.setattr("codservice.retention.SWEEPS", {"deliveries": SWEEPS["deliveries"]})

    counts = [tasks.prune().get("deliveries") for _ in range(6)]

    assert counts == [0, 0, 0, 1, None, None]


def test_a_round_that_was_left_a_day_ago_is_not_gone_on_with(seven_old, delivery_of, webhook, monkeypatch):
    """Another worker may have ended its own meanwhile."""
    monkeypatch.setattr("codservice.retention.SWEEPS", {"deliveries": SWEEPS["deliveries"]})
    with monkeypatch.context() as short:
        short.setattr(tasks, "PRUNE_SECONDS", 0.0)
        assert tasks.prune() == {"deliveries": 2, "attempts": 2}
    delivery_of(webhook, "delivered", created_at=timezone.now() - 2 * OLD)
    monkeypatch.setattr(tasks, "PRUNE_EVERY", timedelta(0))

    assert tasks.prune()["deliveries"] == 6


def test_a_worker_that_is_to_stop_leaves_the_rest_to_the_next(seven_old, monkeypatch):
    def stop(before, *, dry_run):
        while True:
            stops.stopping.set()
            yield {"looks": 1}

    with monkeypatch.context() as told:
        told.setattr(stops, "stopping", threading.Event())
        told.setattr(tasks, "PRUNE_SECONDS", 1.0)
        told.setattr("codservice.retention.SWEEPS", {"first": stop} | SWEEPS)
        assert tasks.prune() == {"looks": 1}
    assert tasks.prune()["deliveries"] == 7


def test_one_worker_at_a_time_is_at_it_and_a_dead_one_does_not_block_it(seven_old):
    assert duties.take("prune", every=tasks.PRUNE_EVERY, lease=tasks.PRUNE_LEASE)
    assert tasks.prune() == {}

    days_pass("prune", 1)  # its lease has run out
    assert tasks.prune()["deliveries"] == 7


@pytest.mark.django_db(transaction=True)
def test_a_worker_that_was_paused_past_its_lease_gives_back_nothing_of_the_next_ones(seven_old):
    paused = duties.take("prune", every=tasks.PRUNE_EVERY, lease=tasks.PRUNE_LEASE)
    days_pass("prune", 1)
    taken = duties.take("prune", every=tasks.PRUNE_EVERY, lease=tasks.PRUNE_LEASE)
    assert paused
    assert taken

    duties.leave("prune", paused, is_done=True)

    assert duties.age("prune") >= tasks.PRUNE_EVERY.total_seconds()  # it is not marked as done, either
    assert tasks.prune() == {}
    duties.leave("prune", taken, is_done=False)
    assert tasks.prune()["deliveries"] == 7


def test_what_was_noted_by_a_clock_that_was_ahead_holds_up_nothing(seven_old):
    """As when a machine has started with a wrong date. Otherwise nothing would be pruned until that day comes."""
    assert duties.take("prune", every=tasks.PRUNE_EVERY, lease=tasks.PRUNE_LEASE)
    days_pass("prune", -4000)

    assert tasks.prune()["deliveries"] == 7
    assert tasks.prune() == {}
    days_pass("prune", -1)
    assert tasks.prune() != {}


@pytest.mark.parametrize("jump", [timedelta(days=40), -timedelta(hours=2)])
def test_nothing_is_pruned_by_a_clock_that_has_just_been_set(seven_old, monkeypatch, caplog, jump):
    """As when a machine starts with a wrong date, or somebody mistypes one. What is deleted does not come back."""
    start, gone, wrong = timezone.now(), timedelta(0), timedelta(0)
    monkeypatch.setattr("time.clock_gettime", lambda _: 1000 + gone.total_seconds())
    monkeypatch.setattr("codservice.retention.now", lambda: start + gone + wrong)
    monkeypatch.setattr("codservice.retention.database_clock", DatabaseClock())

    gone += timedelta(days=5)  # a worker is forked again long after its code was loaded
    assert tasks.prune() == {}
    gone += SETTLING - timedelta(seconds=1)
    wrong += jump
    assert tasks.prune() == {}
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    gone += timedelta(hours=23)
    assert tasks.prune() == {}
    gone += timedelta(hours=1)
    wrong += timedelta(minutes=50)  # little by little
    assert tasks.prune()["deliveries"] == 7
    assert len(caplog.records) == 1


@pytest.mark.parametrize("jump", [timedelta(days=40), -timedelta(hours=2)])
def test_a_worker_that_starts_after_the_clock_was_set_prunes_nothing_either(seven_old, monkeypatch, jump):
    start, gone, wrong = timezone.now(), timedelta(0), timedelta(0)
    monkeypatch.setattr("time.clock_gettime", lambda _: 1000 + gone.total_seconds())
    monkeypatch.setattr("codservice.retention.now", lambda: start + gone + wrong)

    old, new = DatabaseClock(settling=timedelta(0)), DatabaseClock(settling=timedelta(0))
    assert old.is_trusted()
    wrong += jump
    assert not old.is_trusted()
    gone += timedelta(hours=23)
    assert not new.is_trusted()
    gone += timedelta(hours=1)
    assert new.is_trusted()


def test_a_clock_that_was_set_right_while_no_worker_ran_is_trusted_after_a_day(seven_old, monkeypatch):
    """Not only on the day that a clock which was years ahead has noted."""
    start, gone, wrong = timezone.now(), timedelta(0), timedelta(0)
    monkeypatch.setattr("time.clock_gettime", lambda _: 1000 + gone.total_seconds())
    monkeypatch.setattr("codservice.retention.now", lambda: start + gone + wrong)
    old, new = DatabaseClock(settling=timedelta(0)), DatabaseClock(settling=timedelta(0))
    assert old.is_trusted()
    wrong += timedelta(days=4000)
    assert not old.is_trusted()

    wrong = timedelta(0)
    assert not new.is_trusted()
    gone += timedelta(hours=23)
    assert not new.is_trusted()
    gone += timedelta(hours=1)
    assert new.is_trusted()


@pytest.mark.django_db(transaction=True)
def test_of_two_beats_one_wins(db):
    taken = at_once(8, lambda _: duties.take("prune", every=tasks.PRUNE_EVERY, lease=tasks.PRUNE_LEASE))

    assert len([each for each in taken if each]) == 1


def test_a_task_that_fails_is_taken_up_again(seven_old, monkeypatch):
    def fail(before, *, dry_run):
        raise RuntimeError
        yield

    with monkeypatch.context() as broken:
        broken.setitem(SWEEPS, "events", fail)
        with pytest.raises(SweepsFailed):
            tasks.prune()

    assert tasks.prune()["events"] == 7


def test_a_sweep_that_fails_does_not_stop_those_after_it(seven_old, monkeypatch):
    def fail(before, *, dry_run):
        yield {"sessions": 0}
        raise RuntimeError("a row that cannot be read")

    assert list(SWEEPS).index("sessions") < list(SWEEPS).index("deliveries")
    monkeypatch.setitem(SWEEPS, "sessions", fail)

    with pytest.raises(CommandError, match="the sweep of sessions failed: a row that cannot be read"):
        output("prune", "--json")

    assert not Delivery.objects.exists()
    assert not Event.objects.exists()


def test_beat_sends_all_of_it(settings):
    from codservice.celery import app

    app.loader.import_default_modules()
    assert {entry["task"] for entry in settings.CELERY_BEAT_SCHEDULE.values()} <= set(app.tasks)
