"""The commands about webhooks: look, resend, encrypt anew, receive; and what /readyz says of the queue."""

import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import time
from contextlib import suppress
from datetime import datetime, timedelta
from io import StringIO
from urllib.parse import urlsplit
from urllib.request import Request, urlopen
from weakref import WeakSet

import pytest
from cryptography.fernet import Fernet
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from codservice.accounts.models import SecurityEntry
from codservice.operations import duties
from tests.harness.background import PATIENCE, Background, at_once, eventually
from tests.harness.database import environment
from tests.harness.manage import output
from tests.harness.plans import explain
from tests.harness.processes import CHECKOUT
from webhooks import posts, queue, registry, resending, secrets
from webhooks.models import Delivery, Webhook

OLD = timedelta(days=100)


# --- deliveries ------------------------------------------------------------------------------------------------------


def test_deliveries_are_shown_newest_first_with_their_last_attempt(webhook, delivery_of):
    now = timezone.now()
    older = delivery_of(webhook, "failed", attempts=4, created_at=now - timedelta(hours=1))
    newer = delivery_of(webhook, "delivered", attempts=1)

    rows = json.loads(output("deliveries", "--json"))

    assert [row["id"] for row in rows] == [str(newer.id), str(older.id)]
    last = [(row["status"], row["last_attempt"], row["last_attempt_ms"]) for row in rows]
    assert last == [("delivered", 200, 12), ("failed", 500, 12)]
    assert datetime.fromisoformat(rows[1]["created_at"]) == older.created_at
    lines = output("deliveries").splitlines()
    assert str(newer.id) in lines[0]
    assert lines[0].endswith(f"200  12  {webhook.url}")
    call_command("deliveries", stdout=StringIO(), stderr=(said := StringIO()))
    assert said.getvalue().startswith("id  created_at  status")


@pytest.mark.parametrize("is_active", [True, False])
def test_only_what_waits_has_a_next_attempt(webhook, delivery_of, is_active):
    delivery_of(webhook)
    Webhook.objects.update(is_active=is_active)

    (row,) = json.loads(output("deliveries", "--json"))

    assert (row["status"], row["next_attempt_at"] is not None) == ("pending" if is_active else "dropped", is_active)


def test_any_number_is_shown_by_one_statement(webhook, delivery_of, django_assert_num_queries):
    for _ in range(3):
        delivery_of(webhook)

    with django_assert_num_queries(1):
        assert len(json.loads(output("deliveries", "--json"))) == 3


@pytest.mark.parametrize(
    ("options", "index"),
    [
        ([], "one_delivery_per_event_and_webhook"),
        (["--webhook", "{webhook}"], "delivery_log"),
        (["--account", "{account}"], "delivery_log"),
    ],
    ids=["of all", "of a webhook", "of an account"],
)
def test_the_newest_are_read_along_an_index(alice, webhook, options, index):
    with CaptureQueriesContext(connection) as queries:
        output("deliveries", *(option.format(webhook=webhook.id, account=alice.holder.email) for option in options))

    plan = explain(queries[-1]["sql"], without=["sort", "incremental_sort", "seqscan"]).partition("SubPlan")[0]
    assert "Sort" not in plan, plan
    assert f"using {index} " in plan, plan


def test_those_of_an_account_are_the_newest_of_all_its_webhooks(alice, register, webhook, delivery_of):
    """Also of one that was deleted."""
    now, deleted = timezone.now(), register(alice)
    made = [
        delivery_of(each, "delivered", attempts=1, created_at=now - timedelta(hours=hours))
        for hours, each in enumerate([webhook, deleted, deleted, webhook])
    ]
    registry.delete(alice.id, deleted.id)

    rows = json.loads(output("deliveries", "--account", alice.holder.email, "--limit", "3", "--json"))

    assert [row["id"] for row in rows] == [str(each.id) for each in made[:3]]


def test_of_many_webhooks_little_more_is_read_at_once_than_is_listed(alice, register, delivery_of, monkeypatch):
    for webhook in [register(alice) for _ in range(4)]:
        for _ in range(10):
            delivery_of(webhook)
    read, made = WeakSet(), Delivery.from_db.__func__
    most = 0

    def note(*args):
        nonlocal most
        read.add(found := made(*args))
        most = max(most, len(read))
        return found

    monkeypatch.setattr(Delivery, "from_db", classmethod(note))
    assert len(json.loads(output("deliveries", "--account", alice.holder.email, "--limit", "10", "--json"))) == 10
    assert most <= 21


def test_deliveries_are_chosen_by_filters(alice, charlie, register, webhook, delivery_of):
    other = register(charlie)
    failed = delivery_of(webhook, "failed", attempts=4)
    cancelled = delivery_of(webhook, kind="order.cancelled")
    theirs = delivery_of(other)
    old = delivery_of(webhook, "delivered", attempts=1, created_at=timezone.now() - OLD)

    def ids(*args):
        return {row["id"] for row in json.loads(output("deliveries", "--json", *args))}

    def those(*rows):
        return {str(row.id) for row in rows}

    assert ids() == those(failed, cancelled, theirs, old)
    assert ids("--status", "failed,delivered") == those(failed, old)
    assert ids("--event", "order.cancelled") == those(cancelled)
    assert ids("--webhook", str(other.id)) == those(theirs)
    assert ids("--account", charlie.holder.email) == those(theirs)
    assert ids("--to", (timezone.now() - timedelta(days=2)).date().isoformat()) == those(old)
    assert len(ids("--limit", "1")) == 1


@pytest.mark.parametrize(
    "args",
    [("--status", "lost"), ("--event", "order.eaten"), ("--account", "nobody@example.com"), ("--from", "yesterday"),
     ("--account", ""), ("--from", ""), ("--to", ""), ("--from", "2026-03-03", "--to", "2026-03-02"),
     ("--status", ""), ("--event", ""), ("--webhook", "01981f1e-6f43-7b52-8c7e-000000000001")],
)  # fmt: skip
def test_filters_that_cannot_be_used_are_refused(db, args):
    """An option left empty, such as a script's unset variable, does not count as left out."""
    with pytest.raises(CommandError):
        output("deliveries", *args)
    with pytest.raises(CommandError):
        output("resend_deliveries", "--all", *args)


# --- resend_deliveries -----------------------------------------------------------------------------------------------


def test_failed_ones_are_resent_by_filter_in_batches(alice, webhook, register, delivery_of, monkeypatch):
    monkeypatch.setattr(resending, "MOST_AT_ONCE", 2)
    failed = [delivery_of(webhook, "failed", attempts=4) for _ in range(5)]
    others = [
        delivery_of(webhook, "delivered", attempts=1),
        delivery_of(webhook, "dropped"),
        delivery_of(register(alice), "failed", attempts=4),
    ]

    assert output("resend_deliveries", "--webhook", str(webhook.id), "--dry-run") == "5\n"
    assert Delivery.objects.filter(status="pending").count() == 0
    assert output("resend_deliveries", "--webhook", str(webhook.id)) == "5\n"

    assert set(Delivery.objects.filter(status="pending").values_list("id", flat=True)) == {row.id for row in failed}
    assert {row.status for row in Delivery.objects.filter(id__in=[row.id for row in others])} == {
        "delivered", "dropped", "failed"
    }  # fmt: skip
    noted = SecurityEntry.objects.filter(action="deliveries_resent", by="command", account=alice)
    assert [entry.target_id for entry in noted] == [webhook.id], "once, whatever the batches"


def test_single_ones_are_resent_whatever_their_status(webhook, delivery_of):
    done, failed = delivery_of(webhook, "delivered", attempts=1), delivery_of(webhook, "failed", attempts=4)

    assert json.loads(output("resend_deliveries", str(done.id), str(failed.id), "--json")) == {
        "resent": 2, "left_alone": 0, "dry_run": False
    }  # fmt: skip


@pytest.mark.parametrize("filters", [["--status", "pending"], ["--all"], ["--from", "2026-11-01"]])
def test_ids_and_filters_together_are_refused(webhook, delivery_of, filters):
    done = delivery_of(webhook, "delivered", attempts=1)

    with pytest.raises(CommandError, match="not both"):
        output("resend_deliveries", str(done.id), *filters)

    done.refresh_from_db()
    assert done.status == "delivered"


def test_whatever_ends_it_says_how_many_are_resent(webhook, delivery_of, monkeypatch):
    for _ in range(3):
        delivery_of(webhook, "failed", attempts=4)
    whole, said = resending.resend, StringIO()

    def stopped(ids):
        if Delivery.objects.filter(status="pending").exists():
            raise KeyboardInterrupt
        return whole(ids)

    monkeypatch.setattr(resending, "MOST_AT_ONCE", 2)
    monkeypatch.setattr(resending, "resend", stopped)
    with pytest.raises(KeyboardInterrupt):
        call_command("resend_deliveries", "--all", stderr=said)

    assert "Not all were sent again, only 2." in said.getvalue()


def test_an_id_that_cannot_be_resent_fails_the_command_and_not_the_others(webhook, delivery_of):
    dropped, failed = delivery_of(webhook, "dropped"), delivery_of(webhook, "failed", attempts=4)

    with pytest.raises(CommandError, match="1 of the ids cannot be sent again: unknown, dropped, "):
        output("resend_deliveries", str(dropped.id), str(failed.id))

    failed.refresh_from_db()
    assert failed.status == "pending"


def test_a_dry_run_counts_what_a_run_sends_again(alice, webhook, register, delivery_of):
    off = register(alice)
    there, left = delivery_of(webhook, "failed", attempts=4), delivery_of(off, "failed", attempts=4)
    Webhook.objects.filter(id=off.id).update(is_active=False)

    for options in (["--dry-run"], []):
        assert output("resend_deliveries", "--account", alice.holder.email, *options) == "1\n"
        with pytest.raises(CommandError, match="1 of the ids"):
            output("resend_deliveries", str(there.id), str(left.id), *options)


@pytest.mark.parametrize("options", [[], ["--dry-run"]])
def test_of_what_the_filters_choose_it_says_how_many_are_left_alone(webhook, delivery_of, options):
    delivery_of(webhook, "failed", attempts=4)
    Webhook.objects.update(is_active=False)
    said = StringIO()

    told = json.loads(output("resend_deliveries", "--webhook", str(webhook.id), "--json", *options))
    call_command("resend_deliveries", "--all", *options, stdout=StringIO(), stderr=said)

    assert (told["resent"], told["left_alone"]) == (0, 1)
    assert said.getvalue().endswith(": 0, left alone 1.\n")


def test_all_has_to_be_asked_for(webhook, delivery_of):
    delivery_of(webhook, "failed", attempts=4)

    with pytest.raises(CommandError, match="--all"):
        output("resend_deliveries")
    assert output("resend_deliveries", "--all") == "1\n"


# --- rotate_encryption_key -------------------------------------------------------------------------------------------


def test_all_secrets_get_under_the_new_key_and_still_sign(alice, register, settings):
    first, second = register(alice), register(alice)
    registry.rotate_secret(alice.id, second.id)
    Webhook.objects.filter(id=first.id).update(deleted_at=timezone.now())
    before = {row.id: secrets.decrypt(bytes(row.secret)) for row in Webhook.objects.all()}
    old, new = settings.ENCRYPTION_KEYS[0], Fernet.generate_key().decode()
    settings.ENCRYPTION_KEYS = [new, old]

    counts = {"webhooks": 2, "encrypted_anew": 2, "unreadable": []}
    written = list(Webhook.objects.order_by("id").values("secret", "previous_secret"))
    assert json.loads(output("rotate_encryption_key", "--dry-run", "--json")) == {**counts, "dry_run": True}
    assert list(Webhook.objects.order_by("id").values("secret", "previous_secret")) == written
    assert json.loads(output("rotate_encryption_key", "--json")) == {**counts, "dry_run": False}

    settings.ENCRYPTION_KEYS = [new]
    secrets.decrypt.cache_clear()
    assert output("rotate_encryption_key").splitlines() == [
        "webhooks: 2, deleted ones included",
        "encrypted anew: 0, from an older key",
        "unreadable: 0",
    ]
    assert {row.id: secrets.decrypt(bytes(row.secret)) for row in Webhook.objects.all()} == before
    assert json.loads(output("rotate_encryption_key", "--json"))["encrypted_anew"] == 0
    second.refresh_from_db()
    assert secrets.decrypt(bytes(second.previous_secret))


def test_a_secret_that_no_key_reads_is_named_and_left(webhook, settings):
    kept = bytes(webhook.secret)
    settings.ENCRYPTION_KEYS = [Fernet.generate_key().decode()]

    with pytest.raises(CommandError, match=str(webhook.id)):
        output("rotate_encryption_key")

    webhook.refresh_from_db()
    assert bytes(webhook.secret) == kept


def test_a_lost_key_costs_what_was_under_it_and_nothing_else(alice, register, settings):
    """A secret rotated since is still readable, and nobody misses the secret of a deleted webhook."""
    rotated, deleted = register(alice), register(alice)
    Webhook.objects.filter(id=deleted.id).update(deleted_at=timezone.now())
    settings.ENCRYPTION_KEYS = [Fernet.generate_key().decode()]
    _, shown = registry.rotate_secret(alice.id, rotated.id)
    settings.ENCRYPTION_KEYS = [Fernet.generate_key().decode(), *settings.ENCRYPTION_KEYS]

    assert json.loads(output("rotate_encryption_key", "--dry-run", "--json"))["encrypted_anew"] == 1
    rotated.refresh_from_db()
    assert rotated.previous_secret
    counts = json.loads(output("rotate_encryption_key", "--json"))
    assert counts == {"webhooks": 2, "encrypted_anew": 1, "unreadable": [], "dry_run": False}

    settings.ENCRYPTION_KEYS = settings.ENCRYPTION_KEYS[:1]
    secrets.decrypt.cache_clear()
    rotated.refresh_from_db()
    assert secrets.decrypt(bytes(rotated.secret)) == shown
    assert (rotated.previous_secret, rotated.previous_secret_until) == (None, None)
    assert json.loads(output("rotate_encryption_key", "--json"))["encrypted_anew"] == 0


@pytest.mark.django_db(transaction=True)
def test_a_merchant_who_rotates_meanwhile_keeps_the_newest_secret(alice, register, settings):
    webhooks = [register(alice) for _ in range(10)]
    settings.ENCRYPTION_KEYS = [Fernet.generate_key().decode(), *settings.ENCRYPTION_KEYS]

    def work(number):
        if number == 0:
            return output("rotate_encryption_key")
        return {row.id: registry.rotate_secret(alice.id, row.id)[1] for row in webhooks}

    _, shown = at_once(2, work)

    assert {row.id: secrets.decrypt(bytes(row.secret)) for row in Webhook.objects.all()} == shown


# --- /readyz ---------------------------------------------------------------------------------------


def test_a_due_delivery_that_nobody_takes_is_told(client, webhook, delivery_of):
    assert client.get("/readyz").json()["deliveries"] == "ok"
    delivery_of(webhook, created_at=timezone.now() - timedelta(seconds=100))

    answer = client.get("/readyz")

    assert answer.status_code == 503
    assert re.fullmatch(
        r"the oldest due delivery has waited for \d+ s. Check that workers run, .*", answer.json()["deliveries"]
    )
    assert 90 <= queue.oldest_due() < 110


def test_what_is_not_due_or_waits_for_its_receiver_is_no_problem(alice, register, delivery_of):
    duties.note("worker")
    late = timezone.now() - timedelta(hours=1)
    failing, deleted, patient, busy = (register(alice) for _ in range(4))
    for webhook in (failing, deleted, busy):
        delivery_of(webhook, created_at=late)
    claimed = delivery_of(busy, created_at=late)
    delivery_of(patient, attempts=1, next_attempt_at=timezone.now() + timedelta(hours=1))
    Webhook.objects.filter(id=failing.id).update(is_failing=True)
    Webhook.objects.filter(id=deleted.id).update(deleted_at=timezone.now())
    from webhooks.models import Claim

    Claim.objects.create(delivery=claimed, webhook=busy, token=claimed.id, until=timezone.now() + timedelta(seconds=9))

    assert queue.oldest_due() == 0
    Claim.objects.update(until=late)
    assert queue.oldest_due() > 3500


def test_when_no_worker_lives_what_waits_for_a_failing_receiver_waits_for_a_worker(client, webhook, delivery_of):
    delivery_of(webhook, created_at=timezone.now() - timedelta(hours=1))
    Webhook.objects.update(is_failing=True)
    assert queue.oldest_due() > 3500
    assert client.get("/readyz").status_code == 503

    duties.note("worker")
    assert queue.oldest_due() == 0
    with connection.cursor() as cursor:
        cursor.execute("UPDATE operations_duty SET done_at = now() - interval '61 s'")
    assert queue.oldest_due() > 3500


# --- webhook_sink ----------------------------------------------------------------------------------------------------


class Sink:
    """The command in a thread, on its own port."""

    def __init__(self, *args):
        self.out, self.err = StringIO(), StringIO()
        streams = {"stdout": self.out, "stderr": self.err}
        self.command = Background(lambda: call_command("webhook_sink", "--port", "0", *args, **streams))
        self.url = eventually(lambda: re.search(r"http://\S+", self.err.getvalue()))[0]

    def lines(self):
        self.command.result()
        return self.out.getvalue().splitlines()


def post(url, body, secret):
    from uuid import uuid4

    one = posts.Post(uuid4(), url, "order.confirmed", body, [secret], 1)
    headers = dict(line.split(": ", 1) for line in posts.headers(one, time.time()) if ": " in line)
    with urlopen(Request(url, body, headers)) as answer:
        return answer.status


def test_the_sink_prints_and_verifies():
    secret = secrets.make_secret()
    sink, before = Sink("--secret", secret, "--count", "2", "--delay", "0.2", "--json"), timezone.now()

    assert post(sink.url, '{"name": "سميرة"}'.encode(), secret) == 200
    answered = timezone.now()
    assert post(sink.url, b"{}", secrets.make_secret()) == 200

    first, second = map(json.loads, sink.lines())
    assert (first["verified"], first["body"]) == (True, '{"name": "سميرة"}')
    assert before < datetime.fromisoformat(first["at"]) < answered - timedelta(seconds=0.2)  # the time of arrival
    assert (second["verified"], second["event"], second["attempt"]) == (False, "order.confirmed", "1")


def test_the_sink_answers_what_it_is_told_to():
    from urllib.error import HTTPError

    sink = Sink("--status", "503", "--count", "1")

    with pytest.raises(HTTPError, match="503"):
        post(sink.url, b"\x1b]0;title\x07", secrets.make_secret())

    first, second = sink.lines()
    assert "signature not checked" in first
    assert second == r"  \u001b]0;title\u0007", "a terminal obeys nothing that a stranger sends"


@pytest.fixture
def hasty_threads():
    """Threads take turns a thousand times as often as usual."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(usual / 1000)
    yield
    sys.setswitchinterval(usual)


@pytest.mark.usefixtures("hasty_threads")
@pytest.mark.parametrize("_", range(5))
def test_the_sink_stops_though_more_come_at_once_than_it_is_to_receive(_):
    sink = Sink("--count", "1", "--delay", "0.5")
    to = urlsplit(sink.url)
    open_ones = [socket.create_connection((to.hostname, to.port)) for _ in range(5)]
    for one in open_ones:
        one.sendall(b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 2\r\n\r\n{}")
    assert sink.lines()
    for one in open_ones:
        one.close()


def test_the_sink_stops_without_a_word_of_a_sender_that_did_not_wait_for_the_answer(capfd):
    sink = Sink("--count", "1", "--delay", "0.5")
    to = urlsplit(sink.url)
    with socket.create_connection((to.hostname, to.port)) as sender:
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # so that closing is a reset
        sender.sendall(b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 2\r\n\r\n{}")
    assert sink.lines()
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("to", "status", "problem"),
    [
        ("| true", 128 + signal.SIGPIPE, ""),  # a reader that has seen enough
        ("> /dev/full", 1, "CommandError: The output cannot be written: No space left on device.\n"),
    ],
)
def test_the_sink_ends_when_its_output_takes_no_more(to, status, problem):
    script = f'set -o pipefail; "$0" manage.py webhook_sink --port 0 --count 5 --json {to}'
    with subprocess.Popen(
        ["bash", "-c", script, sys.executable],
        cwd=CHECKOUT, env=environment(), stderr=subprocess.PIPE, text=True, start_new_session=True,
    ) as sink:  # fmt: skip
        try:
            url = re.search(r"http://\S+", sink.stderr.readline())[0]
            with suppress(OSError):  # without an answer, since it could not be shown
                post(url, b"{}", secrets.make_secret())
            assert sink.communicate(timeout=PATIENCE)[1] == problem
        finally:
            with suppress(ProcessLookupError):
                os.killpg(sink.pid, signal.SIGKILL)
    assert sink.returncode == status


@pytest.mark.parametrize("host", ["a..b", "192.0.2.1", "caf\udce9.example"])
def test_a_host_that_is_no_address_is_a_sentence(host):
    with pytest.raises(CommandError, match="Cannot listen on "):
        output("webhook_sink", "--host", host)


def test_a_port_that_is_taken_is_a_sentence():
    sink = Sink("--count", "1")
    port = sink.url.rstrip("/").rpartition(":")[2]
    with pytest.raises(CommandError, match="Cannot listen"):
        output("webhook_sink", "--port", port)
    post(sink.url, b"{}", secrets.make_secret())
    sink.lines()


def test_a_resend_is_committed_with_its_transaction(webhook, delivery_of):
    failed = delivery_of(webhook, "failed", attempts=4)
    with transaction.atomic():
        assert resending.resend([failed.id]) == [failed.id]
        transaction.set_rollback(True)

    failed.refresh_from_db()
    assert failed.status == "failed"
