"""A result that cannot be written does not keep others from being written, and its delivery is not sent for ever."""

from collections import Counter
from contextlib import ExitStack
from functools import partial
from uuid import uuid4

import pytest
from django.db import connection

from tests.harness.background import Background, open_transaction
from tests.harness.database import one, wait_for_lock
from tests.harness.deliveries import claim_due, pass_time, statuses, write
from tests.harness.receivers import answer
from webhooks import delivery, queue
from webhooks.models import Attempt, Claim, Webhook
from webhooks.posts import Outcome
from webhooks.transfer import KEPT_BYTES

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def refuse():
    """Lets the database refuse what is written to a table when a condition holds of the row."""
    tables = []

    def make(table, condition, state="23514"):
        tables.append(table)
        with connection.cursor() as cursor:
            cursor.execute(
                f"CREATE FUNCTION refuse_{table}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF {condition} THEN"
                f" RAISE EXCEPTION 'refused' USING ERRCODE = '{state}'; END IF; RETURN NEW; END $$;"
                f"CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON {table}"
                f" FOR EACH ROW EXECUTE FUNCTION refuse_{table}()"
            )

    yield make
    with connection.cursor() as cursor:
        for table in tables:
            cursor.execute(f"DROP FUNCTION refuse_{table}() CASCADE")


@pytest.mark.parametrize(
    ("target", "kept"),
    [
        ("https://www.shop.example/hooks/", "https://www.shop.example/hooks/"),
        ("https://" + "joe:pass@shop.example/in?token=abc#def", "https://shop.example/in?…"),
        ("/login?next=/hooks", "/login?…"),
        ("//joe@shop.example#top", "//shop.example#…"),
        ("https://" + "p" * 600 + "@shop.example/", "https://shop.example/"),
        ("https://shop.example/" + "x" * 2000, "https://shop.example/" + "x" * 479),
    ],
)
def test_the_log_keeps_where_a_redirect_leads_without_what_may_be_secret(engine, receiver, webhook_to, target, kept):
    receiver.default = answer("301 Moved", body=b"moved" * 1000, headers=f"LOCATION:  {target} \r\n")
    write(webhook_to(receiver.url("/hooks")))
    assert engine.drain() == 1
    assert [request.path for request in receiver.requests] == ["/hooks"]
    response = bytes(Attempt.objects.get().response)
    assert response.startswith(f"Location: {kept}\n\nmovedmoved".encode())
    assert len(response) == KEPT_BYTES


def test_where_another_answer_points_is_not_kept(engine, receiver, webhook_to):
    receiver.default = answer("201 Created", headers="Location: /made/1\r\n")
    write(webhook_to(receiver.url("/hooks")))
    assert engine.drain() == 1
    assert bytes(Attempt.objects.get().response) == b"ok"


@pytest.mark.parametrize(
    ("charset", "body", "read"),
    [
        ("ISO-8859-1", "Commande refusée".encode("latin-1"), "Commande refusée"),
        ('"windows-1256"; a=b', "مرفوض".encode("cp1256") * 500, ("مرفوض" * 500)[: KEPT_BYTES // 2]),
        ("rot13", "refusée".encode(), "refusée"),
        ("iso-8859-12", b"refus\xe9e", "refus\ufffde"),  # there is none
    ],
)
def test_an_answer_is_read_in_the_charset_that_it_names(engine, receiver, webhook_to, charset, body, read):
    receiver.default = answer("500 No", body=body, headers=f"CONTENT-TYPE: text/html;Charset={charset}\r\n")
    write(webhook_to(receiver.url("/hooks")))
    assert engine.drain() == 1
    assert Attempt.objects.get().answer == read


@pytest.mark.parametrize("state", ["23514", "22000", "P0001", "XX000", "42501"])
@pytest.mark.parametrize(("status", "kept"), [("200 OK", "delivered"), ("500 No", "pending")])
def test_an_attempt_that_cannot_be_noted_as_it_went_is_noted_as_an_error_of_ours(
    engine, receiver, webhook_to, refuse, state, status, kept
):
    receiver.default = answer(status, body=b"poison")
    receiver.behaviours["/good"] = answer()
    good, bad = write(webhook_to(receiver.url("/good")), 20), write(webhook_to(receiver.url("/bad")))
    refuse("webhooks_attempt", "NEW.response = 'poison'", state)
    assert engine.drain() == 21
    for _ in range(3):
        pass_time(seconds=delivery.LEASE.total_seconds() + 1)
        assert engine.drain() == 0
    assert Counter(request.delivery for request in receiver.requests) == {str(id_): 1 for id_ in [*good, *bad]}
    assert statuses() == Counter(["delivered"] * 20 + [kept])
    noted = Attempt.objects.get(delivery_id=bad[0])
    assert (noted.failure, noted.status_code, noted.milliseconds, noted.response) == ("unrecorded", None, 0, b"")
    assert Claim.objects.count() == 0


@pytest.mark.parametrize(("status", "kept"), [("200 OK", "delivered"), ("500 No", "failed")])
def test_a_delivery_whose_attempts_cannot_be_noted_at_all_is_ended(engine, receiver, webhook_to, refuse, status, kept):
    receiver.default = answer(status)
    receiver.behaviours["/good"] = answer()
    write(webhook_to(receiver.url("/good")), 20)
    (bad,) = write(webhook_to(receiver.url("/bad")))
    refuse("webhooks_attempt", f"NEW.delivery_id = '{bad}'")
    assert engine.drain() == 21
    pass_time(days=1)
    assert engine.drain() == 0
    assert len(receiver.requests) == 21
    assert statuses() == Counter(["delivered"] * 20 + [kept])
    assert Claim.objects.count() == 0


def test_a_delivery_that_another_worker_is_just_taking_over_is_not_ended(webhook_to, refuse, monkeypatch):
    write(webhook_to("https://shop.example/"))
    refuse("webhooks_attempt", "true")
    late, other = uuid4(), uuid4()
    (post,) = claim_due(late, 1)
    pass_time(seconds=delivery.LEASE.total_seconds() + 1)
    taking_over, write_result = ExitStack(), delivery._write

    def write_after_the_claim(statement, *results):
        if statement == delivery._END:
            assert len(taking_over.enter_context(open_transaction(partial(claim_due, other, 1)))) == 1
        return write_result(statement, *results)

    def settle_patiently():
        one("SELECT set_config('lock_timeout', '0', false)")
        delivery.settle(late, [Outcome(post, "status", 500, 5, b"")])

    with taking_over, monkeypatch.context() as patched:
        patched.setattr(delivery, "_write", write_after_the_claim)
        patched.setattr(delivery, "close_old_connections", lambda: None)  # it would close one in a transaction
        settling = Background(settle_patiently)
        wait_for_lock()
        taking_over.close()
        settling.result()
    assert statuses() == {"pending": 1}
    delivery.settle(other, [Outcome(post, "", 200, 5, b"")])
    assert statuses() == {"delivered": 1}
    assert Claim.objects.count() == 0


def test_a_delivery_that_cannot_be_written_is_tried_once_an_hour(engine, receiver, webhook_to, refuse):
    write(webhook_to(receiver.url("/good")), 20)
    (bad,) = write(webhook_to(receiver.url("/bad")))
    refuse("webhooks_delivery", f"NEW.id = '{bad}' AND NEW.status <> 'pending'")
    assert engine.drain() == 21
    with connection.cursor() as cursor:
        cursor.execute("UPDATE webhooks_claim SET until = until - interval '50 minutes'")
    assert engine.drain() == 0
    with connection.cursor() as cursor:
        cursor.execute("UPDATE webhooks_claim SET until = until - interval '11 minutes'")
    assert engine.drain() == 1
    assert len(receiver.of("/good")) == 20
    assert len(receiver.of("/bad")) == 2
    assert statuses() == {"delivered": 20, "pending": 1}


@pytest.mark.parametrize("is_failing", [False, True])
def test_those_that_cannot_be_written_keep_no_other_of_their_webhook_from_being_sent_or_missed(
    engine, receiver, webhook_to, refuse, is_failing
):
    webhook = webhook_to(receiver.url())
    Webhook.objects.update(is_failing=is_failing)
    receiver.default = answer("500 No" if is_failing else "200 OK")
    count = delivery.AT_ONCE_FAILING if is_failing else delivery.AT_ONCE
    write(webhook, count, age=100)
    refuse("webhooks_delivery", "TG_OP = 'UPDATE'")
    assert engine.drain() == count
    assert queue.oldest_due() == queue.count_claims() == 0
    write(webhook, age=90)
    assert queue.oldest_due() > 80
    assert engine.drain() == 1
    assert len(receiver.requests) == count + 1


def test_while_nothing_can_be_written_everything_is_kept_and_tried_again(engine, receiver, webhook_to, refuse):
    """A database that is read-only after a failover refuses all alike: that is no fault of a result."""
    written = write(webhook_to(receiver.url()), 20)
    refuse("webhooks_attempt", "true", "25006")
    draining = Background(engine.drain)
    receiver.wait_for(20)
    draining._thread.join(1.5)
    assert not draining.is_over
    assert statuses() == {"pending": 20}
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE webhooks_attempt DISABLE TRIGGER refuse")
    assert draining.result() == 20
    assert Counter(request.delivery for request in receiver.requests) == {str(id_): 1 for id_ in written}
    assert statuses() == {"delivered": 20}
