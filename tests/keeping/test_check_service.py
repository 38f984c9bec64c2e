"""`check_service`: each part that is out of order is named, with what to do about it."""

import json
import re
import socketserver
import threading
import time
from contextlib import contextmanager
from datetime import timedelta
from io import StringIO

import pytest
from cryptography.fernet import Fernet
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.db.models import F
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from codservice import health
from codservice.accounts.actor import Actor
from codservice.operations import checks, duties, tasks
from codservice.operations.models import Duty
from codservice.retention import DatabaseClock
from inventory import ledger, stock
from inventory.models import Product
from orders import counts, daily, day_sums
from orders.models import ChangedDay, DayFigure, OrderCount
from orders.tasks import sum_up_days
from tests import factories
from tests.harness.background import PATIENCE, Background, at_once
from tests.harness.database import slow_down_reads, wait_for_lock
from tests.harness.manage import output
from tests.harness.plans import explain
from tests.orders.life import date_back
from webhooks.models import Webhook

COMMAND = Actor.of_command("test")
PARTS = {
    "database", "broker", "deliveries", "secrets", "migrations", "clock", "beat", "retention", "ledger",
    "order_counts", "day_sums", "worker", "sessions", "disk", "mail",
}  # fmt: skip


def run(*args):
    """Return what the command prints, and its error, or "" when all is well."""
    out = StringIO()
    try:
        call_command("check_service", "--timeout", "0.1", *args, stdout=out, stderr=StringIO())
    except CommandError as error:
        return out.getvalue(), str(error)
    return out.getvalue(), ""


@pytest.fixture
def all_is_well(db):
    """A worker and beat have given their signs of life, though none runs in the tests."""
    tasks.note_worker()
    tasks.note_beat()


def problem(name):
    """Return what it says of one part; no other part may be wrong, and the exit status must agree."""
    said, error = run("--json")
    parts = json.loads(said)
    assert parts.pop("ok") is (error == "")
    wrong = [part for part in PARTS if parts[part] != "ok"]
    assert wrong in ([], [name]), parts
    return parts[name] if wrong else ""


def test_all_parts_are_looked_at_and_well(all_is_well):
    said, error = run("--json")

    assert error == ""
    parts = json.loads(said)
    assert re.fullmatch(r"\d+ [kMG]B, of which (\w+ \d+ [kM]B, ){4}\w+ \d+ [kM]B", parts.pop("disk_space"))
    assert parts == {"ok": True, **dict.fromkeys(PARTS, "ok"), "oldest_due_seconds": 0.0}
    assert "order counts: ok\n" in run()[0]


def test_sessions_that_cannot_be_relied_on_are_told_of_with_the_way_out(all_is_well):
    wrong = {
        "datestyle": "German",
        "intervalstyle": "postgres_verbose",
        "standard_conforming_strings": "off",
        "lock_timeout": "0",
    }
    with connection.cursor() as cursor:
        for name, value in wrong.items():
            cursor.execute(f"SET LOCAL {name} = {value}")

    said, _error = run("--json")

    assert f"have a wrong {', '.join(wrong)}. " in json.loads(said)["sessions"]
    assert "docs/operations/pgbouncer/role.sql" in json.loads(said)["sessions"]
    assert "can't parse timestamptz" in json.loads(said)["migrations"]


class RefusingMailServer(socketserver.StreamRequestHandler):
    to_sender = b"250 OK\r\n"

    def handle(self):
        self.wfile.write(b"220 mail.example ESMTP\r\n")
        answers = {
            b"EHLO": b"250-mail.example\r\n250 AUTH PLAIN\r\n",
            b"AUTH": b"535 5.7.8 shop is wrong\r\n",
            b"MAIL": self.to_sender,
        }
        while line := self.rfile.readline():
            self.asked.append(line.decode())
            self.wfile.write(answers.get(line[:4].upper(), b"221 Bye\r\n"))


@contextmanager
def mail_server(settings, to_sender=b"250 OK\r\n"):
    """Serve without taking a log-in. Yields the lines that it is sent."""
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    asked = []
    handler = type("Handler", (RefusingMailServer,), {"to_sender": to_sender, "asked": asked})
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler) as server:
        settings.EMAIL_HOST, settings.EMAIL_PORT = server.server_address
        serving = Background(server.serve_forever)
        try:
            yield asked
        finally:
            server.shutdown()
            serving.result()


def test_a_mail_server_that_refuses_the_log_in_or_is_not_there_is_told_of(all_is_well, settings):
    login = "shop"
    settings.EMAIL_HOST_USER = settings.EMAIL_HOST_PASSWORD = login
    with mail_server(settings):
        assert problem("mail") == (
            "the server refuses the user or password of EMAIL_URL (535). Correct them, and restart."
        )
        settings.EMAIL_HOST_USER = "boutique-été"
        assert problem("mail") == "the host, user or password of EMAIL_URL has signs that SMTP cannot send. Use ASCII."
    assert re.fullmatch(r"cannot be sent \(.*refused\). Check the mail server and EMAIL_URL.", problem("mail"))


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"530-5.7.0 Must issue\r\n530 5.7.0 a STARTTLS command first\r\n", "530 5.7.0 Must issue 5.7.0 a STARTTLS"),
        (b"550 5.7.1 Not your domain\r\n", "550 5.7.1 Not your domain"),
        (b"451 4.3.0 Try later\r\n", "451 4.3.0 Try later"),
        (b"250 OK\r\n", ""),
    ],
)
def test_a_mail_server_that_does_not_take_our_sender_is_told_of(all_is_well, settings, answer, said):
    settings.DEFAULT_FROM_EMAIL = "Cod <cod@boutique-été.example>"
    with mail_server(settings, answer) as asked:
        found = problem("mail")
    assert "mail FROM:<cod@xn--boutique-t-j7ab.example>\r\n" in asked
    assert not [line for line in asked if line[:4].upper() == "RCPT"], "nothing is sent"
    if said:
        assert found.startswith(f"the server does not take mail from DEFAULT_FROM_EMAIL ({said}")
        assert found.endswith("). Check EMAIL_URL (STARTTLS, user) and DEFAULT_FROM_EMAIL.")
    else:
        assert found == ""


@pytest.mark.parametrize(
    ("name", "ends"),
    [
        ("worker", "(`python -m codservice.run.worker`)."),
        ("beat", "records what beat sends. End a worker that runs and takes no tasks."),
    ],
)
def test_one_that_never_lived_or_died_is_told_with_how_to_start_it(all_is_well, name, ends):
    duty = Duty.objects.filter(name=name)
    duty.update(done_at=F("done_at") - timedelta(seconds=75))  # by the database's clock, as its age is
    said = problem(name)
    assert said.startswith("has given no sign of life for 75 s. Start ")
    assert f"`python -m codservice.run.{name}`" in said
    assert said.endswith(ends)

    duty.delete()
    assert problem(name).startswith("has never given a sign of life. Start ")


@pytest.mark.django_db(transaction=True)
def test_what_was_started_a_moment_ago_is_waited_for(all_is_well, monkeypatch):
    """After a start, `/readyz` is content before beat and a worker have given a sign of life."""
    Duty.objects.all().delete()
    asked = threading.Event()

    def asked_for_worker():
        asked.set()
        return checks.worker()

    monkeypatch.setitem(health.SLOW_CHECKS, "worker", asked_for_worker)

    def start():
        asked.wait(PATIENCE)
        tasks.note_worker()
        tasks.note_beat()

    starting = Background(start)
    call_command("check_service", "--timeout", str(PATIENCE), stdout=StringIO(), stderr=StringIO())
    starting.result()


def test_beats_sign_of_life_is_no_key_of_redis(all_is_well):
    from django.core.cache import cache

    cache.clear()

    assert problem("beat") == ""
    assert duties.age("beat") < 60


@pytest.mark.django_db
def test_what_was_done_by_a_clock_that_was_ahead_is_done_now():
    Duty.objects.create(name="beat", done_at=timezone.now() + timedelta(hours=1), taken_until=timezone.now())
    assert duties.ages() == {"beat": 0}


def test_only_beat_gives_beats_sign_of_life(settings):
    """A worker that catches up on what was waiting does not make a dead beat look alive for long."""
    entry = settings.CELERY_BEAT_SCHEDULE["note-beat"]

    assert entry["options"]["expires"] <= checks.SIGN_LATE.total_seconds()
    assert entry["schedule"] * 3 < checks.SIGN_LATE.total_seconds()


def test_a_round_of_retention_that_never_ends_is_told(all_is_well, monkeypatch):
    monkeypatch.setattr("codservice.retention.database_clock", DatabaseClock(settling=timedelta(0)))
    tasks.prune()
    assert problem("retention") == ""

    with connection.cursor() as cursor:
        cursor.execute("UPDATE operations_duty SET done_at = now() - interval '3 days' WHERE name = 'prune'")
    assert problem("retention").startswith("no deletion of old data has ended for 3 days. ")

    # Its advice helps, unless the command is told to keep more than it should.
    for arguments, helps in ((["--dry-run"], False), (["--older-than", "365"], False), ([], True)):
        call_command("prune", *arguments, stdout=StringIO(), stderr=StringIO())
        assert (problem("retention") == "") is helps, arguments


def test_a_retention_that_has_always_failed_is_not_said_to_have_ended(all_is_well, monkeypatch):
    monkeypatch.setattr("codservice.retention.database_clock", DatabaseClock(settling=timedelta(0)))
    monkeypatch.setattr("codservice.retention.sweep", lambda older_than: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        tasks.prune()
    with connection.cursor() as cursor:
        cursor.execute("UPDATE operations_duty SET done_at = done_at - interval '2 days' WHERE name = 'prune'")

    assert problem("retention").startswith("no deletion of old data has ended for 3 days. ")


def test_an_old_database_whose_retention_has_never_run_is_told(all_is_well):
    assert problem("retention") == ""

    with connection.cursor() as cursor:
        cursor.execute("UPDATE django_migrations SET applied = now() - interval '3 days' WHERE name = '0001_initial'")
    assert problem("retention").startswith("no deletion of old data has ended for 3 days. ")

    call_command("prune", stdout=StringIO(), stderr=StringIO())
    assert problem("retention") == ""


def test_a_migration_that_is_not_applied_is_named(all_is_well):
    ((app, newest),) = MigrationLoader(connection).graph.leaf_nodes("orders")
    MigrationRecorder(connection).record_unapplied(app, newest)

    assert problem("migrations").startswith(f"1 not applied, starting with orders.{newest}. Run")


def test_a_user_who_may_use_the_tables_but_does_not_own_them_is_told(all_is_well):
    with connection.cursor() as cursor:
        cursor.execute("CREATE ROLE guest; GRANT SELECT ON django_migrations TO guest; SET LOCAL ROLE guest")
        assert checks.migrations().endswith("Let the user of DATABASE_URL own them.")
        cursor.execute("RESET ROLE")
        assert checks.migrations() == ""


def test_clocks_that_differ_are_told(all_is_well, monkeypatch):
    real = time.time
    monkeypatch.setattr(checks.time, "time", lambda: real() + 20)
    assert problem("clock").startswith("this host's is 20 s ahead of the database's. ")
    monkeypatch.setattr(checks.time, "time", lambda: real() - 60)
    assert problem("clock").startswith("this host's is 60 s behind the database's. ")


def test_secrets_that_no_key_reads_are_counted(all_is_well, alice, register, settings):
    first, gone = register(alice), register(alice)
    Webhook.objects.filter(id=gone.id).update(deleted_at=timezone.now())
    assert problem("secrets") == ""
    settings.ENCRYPTION_KEYS = [Fernet.generate_key().decode()]

    assert problem("secrets").startswith("some cannot be read (unreadable: 1), so")
    assert "ENCRYPTION_KEYS" in problem("secrets")
    assert first.secret_hint not in problem("secrets")


def test_a_due_delivery_that_nobody_takes_is_told(all_is_well, alice, register, delivery_of):
    delivery_of(register(alice), created_at=timezone.now() - timedelta(seconds=100))

    assert "start more if all are busy" in problem("deliveries")
    assert 90 < json.loads(run("--json")[0])["oldest_due_seconds"] < 90 + PATIENCE


# --- Figures that two tables keep ------------------------------------------------------------------------------------


@pytest.fixture
def product(alice):
    product = factories.ProductFactory(account=alice, sku="ROB-1", stock_quantity=0)
    stock.set_quantities(alice.id, [stock.Update(quantity=7, sku="ROB-1")], actor=COMMAND)
    return product


def test_stock_that_the_ledger_does_not_tell_of_is_named(all_is_well, alice, product):
    factories.ProductFactory(account=alice, stock_quantity=12)  # never moved
    assert problem("ledger") == ""
    Product.objects.filter(id=product.id).update(stock_quantity=5)

    told = problem("ledger")

    assert told.startswith("stock differs from its last movement (products: 1): ROB-1 of Alice's shop (5, ")
    stock.set_quantities(alice.id, [stock.Update(quantity=5, sku="ROB-1")], actor=COMMAND)
    assert problem("ledger") == "", "the true number is set, even where the stock is right"


def test_the_ledger_is_read_by_one_statement_and_a_look_at_an_index_each(alice):
    skus = [factories.ProductFactory(account=alice, stock_quantity=0).sku for _ in range(50)]
    for quantity in (1, 2):
        stock.set_quantities(alice.id, [stock.Update(quantity=quantity, sku=sku) for sku in skus], actor=COMMAND)
    with CaptureQueriesContext(connection) as captured:
        assert ledger.problem() == ""
    assert len([each for each in captured if "inventory_" in each["sql"]]) == 1
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE inventory_stockmovement")  # on no rows all plans would look alike to PostgreSQL
    assert "stock_movement_chain" in explain(ledger._WRONG, [5], without=["seqscan"])


@pytest.mark.django_db(transaction=True)
def test_no_change_that_is_under_way_looks_wrong(alice):
    skus = [factories.ProductFactory(account=alice).sku for _ in range(20)]

    def work(number):
        if number:
            return {ledger.problem() or counts.problem() for _ in range(100)}
        for quantity in range(100):
            stock.set_quantities(alice.id, [stock.Update(quantity=quantity, sku=sku) for sku in skus], actor=COMMAND)
            factories.make_order(alice)
        return {""}

    assert at_once(3, work) == [{""}] * 3


def test_counts_that_are_wrong_are_told_and_set_right(all_is_well, api, alice, charlie):
    for _ in range(3):
        factories.make_order(alice)
    factories.make_order(charlie)
    assert problem("order_counts") == ""
    OrderCount.objects.filter(account=alice).delete()
    OrderCount.objects.create(account=charlie, status="shipped", delta=4)

    assert problem("order_counts").startswith("the totals of order lists are wrong (accounts: 2). Run")

    assert json.loads(output("recount_orders", "--json")) == {"corrected": 2}
    assert problem("order_counts") == ""
    assert api.get("/api/v1/orders").json()["meta"]["total"] == 3


def test_figures_that_are_not_those_of_all_orders_are_told_and_set_right(all_is_well, alice, charlie):
    for account in (alice, charlie):
        factories.make_order(account)
        date_back(timedelta(days=1))
    sum_up_days()
    factories.make_order(alice)
    assert problem("day_sums") == ""
    DayFigure.objects.filter(account=charlie).update(new_count=0)
    assert problem("day_sums").startswith("the figures of home pages do not have all orders (accounts: 1). Run")

    date_back(timedelta(days=1))
    assert problem("day_sums") == ""  # a worker is about to make these days anew
    ChangedDay.objects.all().delete()

    output("recount_orders", "--json")
    assert problem("day_sums") == ""
    assert DayFigure.objects.filter(account=charlie, dimension="all", new_count=1).exists()


@pytest.mark.django_db(transaction=True)
def test_no_order_that_is_under_way_makes_figures_wrong(alice, monkeypatch):
    monkeypatch.setattr(daily, "SET_BACK", timedelta(0))
    factories.make_order(alice)
    done = threading.Event()

    def change():
        for number in range(40):
            order = factories.make_order(alice)
            if number % 3 == 0:
                order.delete()
        done.set()

    def work(number):
        if number == 0:
            change()
        said = {""}
        while not done.is_set():
            if number == 1:
                day_sums.sum_up(alice.id)
            else:
                said.add(day_sums.problem())
        return said

    assert at_once(3, work) == [{""}] * 3


@pytest.mark.parametrize(("look", "found"), [(counts.problem, "the totals of"), (counts.recount, "1")])
def test_to_count_all_orders_takes_longer_than_a_statement_may_elsewhere(look, found, alice):
    factories.make_order(alice)
    OrderCount.objects.all().delete()
    slow_down_reads("orders_order")
    assert str(look()).startswith(found)


def test_so_does_to_compare_all_stock_with_the_ledger(alice, product):
    Product.objects.update(stock_quantity=5)
    slow_down_reads("inventory_product")
    assert ledger.problem().startswith("stock differs")


@pytest.mark.django_db(transaction=True)
def test_to_recount_beside_imports_makes_no_count_wrong(alice):
    OrderCount.objects.create(account=alice, status="canceled", delta=9)

    def work(number):
        for _ in range(30):
            counts.recount() if number == 0 else factories.make_order(alice)

    at_once(4, work)

    assert counts.problem() == ""


@pytest.mark.django_db(transaction=True)
def test_two_recounts_at_once_correct_it_once(alice):
    factories.make_order(alice)
    OrderCount.objects.create(account=alice, status="canceled", delta=9)
    with transaction.atomic():
        assert counts.recount() == 1
        other = Background(counts.recount)
        wait_for_lock()
    assert other.result() == 0

    assert counts.problem() == ""


def test_without_the_database_it_still_says_so(all_is_well, monkeypatch):
    from django.db import OperationalError

    def away():
        raise OperationalError("connection refused")

    for checklist in (health.CHECKS, health.SLOW_CHECKS):
        for name in checklist:
            monkeypatch.setitem(checklist, name, away)
    for name in health.FIGURES:
        monkeypatch.setitem(health.FIGURES, name, away)

    said, error = run("--json")

    assert error.startswith("Something is wrong: database, broker, deliveries")
    assert json.loads(said)["ledger"] == "cannot be checked (connection refused). Fix the database first."
    assert json.loads(said)["oldest_due_seconds"] is None
