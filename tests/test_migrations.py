"""Migrations: none is missing, each can be taken back, and each runs beside a service at work or gives up cleanly."""

import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from functools import partial
from io import StringIO

import psycopg
import pytest
from django.apps import apps
from django.conf import settings
from django.core.management import CommandError, call_command
from django.core.management.sql import emit_post_migrate_signal
from django.db import DataError, connection, connections
from django.db.backends.base import base
from django.db.migrations import AddIndex, CreateModel
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django_migration_linter import MigrationLinter
from django_migration_linter.sql_analyser import analyse_sql_statements

from codservice.operations import checks, dumps, new_database
from codservice.operations.management.commands import migrate
from inventory import ledger
from orders import counts
from tests.harness.background import Background, at_once
from tests.harness.database import environment
from tests.new_database import migrate_one_by_one, script

ROOMS = ("agents", "codservice", "inventory", "orders", "webhooks")
OURS = [
    config.label
    for config in apps.get_app_configs()
    if config.name.split(".")[0] in ROOMS and config.label in MigrationLoader(None).migrated_apps
]


@pytest.mark.django_db
def test_no_migration_is_missing():
    call_command("makemigrations", "--check", "--dry-run", verbosity=0)


def test_every_migration_says_what_it_is_for():
    loader = MigrationLoader(None)
    names = [name for label, name in loader.disk_migrations if label in OURS]
    assert names
    assert not [name for name in names if "auto" in name]


def test_every_migration_has_a_reverse():
    loader = MigrationLoader(None)
    ours = {key: migration for key, migration in loader.disk_migrations.items() if key[0] in OURS}
    one_way = [key for key, migration in ours.items() if not all(step.reversible for step in migration.operations)]
    assert one_way == []


@contextmanager
def database_of_its_own(blocker, name, template="template1", options=""):
    """Make a database and let the connection lead to it meanwhile."""
    with blocker.unblock():
        original = connection.settings_dict["NAME"]
        name = f"{original}_{name}"
        with connection.cursor() as cursor:
            cursor.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
            cursor.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}" {options}')
        connection.close()
        connection.settings_dict["NAME"] = name
        try:
            yield connection
        finally:
            connections.close_all()
            connection.settings_dict["NAME"] = original


@pytest.fixture
def scratch(django_db_setup, django_db_blocker):
    """An empty database."""
    with database_of_its_own(django_db_blocker, "scratch") as made:
        yield made


def tables(database):
    """Return the existing tables, columns, indexes, constraints and triggers."""
    with database.cursor() as cursor:
        cursor.execute(
            "SELECT table_name || '.' || column_name || ' ' || data_type || ' ' || is_nullable"
            " FROM information_schema.columns WHERE table_schema = 'public'"
            " UNION SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'"
            " UNION SELECT pg_get_constraintdef(oid) || conname FROM pg_constraint WHERE conrelid <> 0"
            " UNION SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal"
            " UNION SELECT pg_get_functiondef(p.oid) FROM pg_proc p JOIN pg_namespace n ON n.oid = pronamespace"
            " WHERE nspname = 'public' AND prokind = 'f'"
        )
        return {row for (row,) in cursor.fetchall()}


def test_a_new_database_is_as_all_migrations_one_by_one_leave_it(scratch, django_db_blocker, monkeypatch, tmp_path):
    def copied():
        """Return the script of this database's copy: PostgreSQL rewords a few conditions once it read its own."""
        (tmp_path / "copy.sql").write_text(script())
        with database_of_its_own(django_db_blocker, "copy"), monkeypatch.context() as patch:
            patch.setattr(new_database, "SCRIPT", tmp_path / "copy.sql")
            new_database.fill()
            return script()

    new_database.fill()
    migrate_one_by_one()  # those newer than the script
    at_once = copied()
    with database_of_its_own(django_db_blocker, "stepwise"):
        migrate_one_by_one()
        assert copied() == at_once, "run `make new-database`"


def test_a_new_database_is_made_at_once(scratch, monkeypatch):
    def apply(executor, state, migration, **kwargs):
        pytest.fail(f"{migration} is younger than the script: run `make new-database`")

    monkeypatch.setattr(MigrationExecutor, "apply_migration", apply)
    said = StringIO()
    call_command("migrate", stdout=said)
    assert checks.migrations() == ""
    assert said.getvalue().startswith("The database was empty. Its tables have been created.\n")


def test_the_script_is_read_in_its_own_encoding_whatever_the_locale(scratch):
    """As on a server in ISO-8859-6 or Latin-1; here it is ASCII."""
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "manage.py", "migrate", "--verbosity=0"]
    subprocess.run(command, cwd=settings.BASE_DIR, env=environment(**plain), check=True)
    assert checks.migrations() == ""


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_a_new_database_that_is_not_unicode_is_refused_before_anything_is_in_it(
    django_db_setup, django_db_blocker, tmp_path, encoding
):
    """As on a server that was installed without a locale. SQL_ASCII would count bytes as letters."""
    options = f"ENCODING {encoding} LOCALE 'C' LOCALE_PROVIDER libc"
    (tmp_path / "a.dump").touch()
    with database_of_its_own(django_db_blocker, "other", "template0", options):
        for command in (["migrate"], ["restore", str(tmp_path / "a.dump")]):
            with pytest.raises(CommandError, match=f"encoding {encoding}.* --encoding UTF8"):
                call_command(*command, verbosity=0)
        assert dumps.is_empty()


@pytest.mark.parametrize("major", [14, 13])
def test_a_new_database_of_an_old_postgresql_is_refused(scratch, monkeypatch, major):
    """Django itself opens no connection to 13."""
    monkeypatch.setattr(base, "RAN_DB_VERSION_CHECK", set())
    scratch.close()
    with monkeypatch.context() as patch:
        patch.setitem(vars(connections["default"]), "pg_version", major * 10000 + 4)
        with pytest.raises(CommandError, match=f"PostgreSQL {major} is too old: 15 or newer"):
            call_command("migrate", verbosity=0)
    assert dumps.is_empty()


@pytest.mark.parametrize(("path", "where"), [("shop, public", "in the schema shop"), ("missing", "nowhere")])
def test_a_new_database_whose_tables_would_not_be_in_public_is_refused(scratch, tmp_path, path, where):
    """As for a role whose DBA gave it a schema of its own. The tables were created twice, and used were the others."""
    (tmp_path / "a.dump").touch()
    for command in (["migrate"], ["restore", str(tmp_path / "a.dump")]):
        with scratch.cursor() as cursor:
            cursor.execute(f"CREATE SCHEMA IF NOT EXISTS shop; SET search_path = {path}")
        with pytest.raises(CommandError, match=rf"{where}, but .* IN DATABASE \w+ SET search_path = public`"):
            call_command(*command, verbosity=0)
    assert scratch.introspection.table_names(scratch.cursor()) == []


def test_who_may_not_make_tables_is_told_what_to_do(scratch):
    with scratch.cursor() as cursor:
        cursor.execute("CREATE ROLE guest; SET ROLE guest")
    try:
        with pytest.raises(CommandError, match=r"denied for schema public\. Let the user of DATABASE_URL own"):
            call_command("migrate", verbosity=0)
    finally:
        with scratch.cursor() as cursor:
            cursor.execute("RESET ROLE; DROP ROLE guest")


def test_of_a_new_database_that_could_not_be_made_nothing_is_left(scratch, monkeypatch, tmp_path):
    broken = tmp_path / "broken.sql"
    broken.write_text(f"{new_database.SCRIPT.read_text()}\nSELECT 1 / 0;")
    monkeypatch.setattr(new_database, "SCRIPT", broken)
    with pytest.raises(DataError):
        call_command("migrate", verbosity=0)
    assert dumps.is_empty()


# --- Safe beside a running service -----------------------------------------------------------------------------------

# What the linter says of migrations, and why it is harmless. Its own marks in the migrations would make production
# import a development tool.
HARMLESS = {
    # It misreads indexes on expressions: the same migration makes the table, which is empty.
    ("accounts", "0001_initial"): {"CREATE_INDEX", "CREATE_INDEX_EXCLUSIVE"},
    # Likewise with a GIN index.
    ("orders", "0017_search"): {"CREATE_INDEX", "CREATE_INDEX_EXCLUSIVE"},
    # The code of before has not used the column for a long time.
    ("orders", "0025_summed_through"): {"DROP_COLUMN"},
    # Only the way back drops the table.
    ("webhooks", "0014_feed_gaps"): {"DROP_TABLE"},
}


def test_the_linter_finds_nothing_that_is_not_known_to_be_harmless(transactional_db):
    linter = MigrationLinter(include_apps=OURS, no_cache=True, no_output=True)
    found = {}
    for migration in linter._gather_all_migrations():
        if migration.app_label in OURS:
            key = (migration.app_label, migration.name)
            errors, _, warnings = analyse_sql_statements(linter.sql_analyser_class, linter.get_sql(*key))
            of_data, _, warnings_of_data = linter.analyse_data_migration(migration)
            if issues := {issue.code for issue in [*errors, *warnings, *of_data, *warnings_of_data]}:
                found[key] = issues

    assert found == HARMLESS


def test_indexes_of_tables_that_may_be_large_are_built_beside_writes():
    """The linter does not look into what runs outside of a transaction."""
    loader = MigrationLoader(None)
    for key, migration in loader.disk_migrations.items():
        if key[0] in OURS and not migration.initial and migration.atomic:
            made = {step.name_lower for step in migration.operations if isinstance(step, CreateModel)}
            added = [step for step in migration.operations if isinstance(step, AddIndex)]
            assert {step.model_name_lower for step in added} <= made, key


# A migration that builds several indexes beside writes.
BUILDS_INDEXES = "0005_call_desk_indexes"

# The first state of each app, and rows as it held them.
FIRST = {
    "accounts": "0001_initial", "inventory": "0001_initial", "webhooks": "0001_initial", "orders": "0001_initial"
}  # fmt: skip
FIRST_ROWS = """
INSERT INTO accounts_user (id, password, is_superuser, username, first_name, last_name, email, is_staff, is_active,
    date_joined) VALUES (gen_random_uuid(), '', false, 'a@example.dz', '', '', 'a@example.dz', false, true, now());
INSERT INTO accounts_account (id, name, holder_id, is_active, created_at)
    SELECT gen_random_uuid(), 'Shop', id, true, now() FROM accounts_user;
INSERT INTO webhooks_event (id, account_id, kind, body, created_at)
    SELECT gen_random_uuid(), id, 'order.confirmed', '{}', now() FROM accounts_account, generate_series(1, 30);
INSERT INTO inventory_product (id, account_id, sku, name, price, stock_quantity, is_active, created_at, updated_at)
    SELECT gen_random_uuid(), id, 'SKU-' || n, 'Product', 10, n, true, now(), now()
    FROM accounts_account, generate_series(1, 50) AS n;
"""
FIRST_ORDERS = """
INSERT INTO orders_order (id, account_id, status, version, customer_name, customer_phone, phone_e164, customer_address,
    customer_wilaya, wilaya_code, customer_commune, total_amount, shipping_fee, notes, cancel_reason, created_at,
    updated_at)
    SELECT gen_random_uuid(), id, (ARRAY['pending_confirmation', 'confirmed', 'canceled', 'delivered'])[1 + n %% 4], 1,
    'Amine', '0550123456', '+213550123456', 'rue ' || n, '16', '16', '', 100, 0, '', '', now(), now()
    FROM accounts_account, generate_series(1, %s) AS n;
"""
FIRST_COUNTS = {"accounts_account": 1, "webhooks_event": 30, "inventory_product": 50, "orders_order": 200}


def counted(database):
    with database.cursor() as cursor:
        cursor.execute(" UNION ALL ".join(f"SELECT '{name}', count(*) FROM {name}" for name in FIRST_COUNTS))
        return dict(cursor.fetchall())


@pytest.fixture(scope="module")
def first_state(django_db_setup, django_db_blocker):
    """The name of a database in the first state, with rows, as a template for others."""
    with database_of_its_own(django_db_blocker, "first") as made:
        state = MigrationExecutor(made).migrate(list(FIRST.items()))
        emit_post_migrate_signal(0, False, made.alias, apps=state.apps)  # `migrate` wrote permissions then
        with made.cursor() as cursor:
            cursor.execute(FIRST_ROWS)
            cursor.execute(FIRST_ORDERS, [FIRST_COUNTS["orders_order"]])
        return made.settings_dict["NAME"]


@pytest.fixture
def first(first_state, django_db_blocker):
    """A database in the first state, with rows."""
    with database_of_its_own(django_db_blocker, "scratch", template=first_state) as made:
        yield made


# A migration whose successor nothing else depends on, and the table that this successor changes.
LAST_BUT_ONE, CHANGED = ("inventory", "0004_check_bound_of_stock"), "inventory_product"


@pytest.fixture(scope="module")
def last_state(first_state, django_db_blocker):
    """The same after all migrations."""
    with database_of_its_own(django_db_blocker, "last", template=first_state) as made:
        call_command("migrate", verbosity=0)
        return made.settings_dict["NAME"]


@pytest.fixture
def last(last_state, django_db_blocker):
    """A database with rows that lived through all migrations."""
    with database_of_its_own(django_db_blocker, "scratch", template=last_state) as made:
        yield made


@pytest.fixture(scope="module")
def late_state(last_state, django_db_blocker):
    """The same with one migration left to apply: to see how that one waits, those before need not be applied again."""
    with database_of_its_own(django_db_blocker, "late", template=last_state) as made:
        call_command("migrate", *LAST_BUT_ONE, verbosity=0)
        assert len(MigrationExecutor(made).migration_plan(MigrationLoader(None).graph.leaf_nodes())) == 1
        return made.settings_dict["NAME"]


@pytest.fixture
def late(late_state, django_db_blocker):
    """A database with rows, and one migration left to apply."""
    with database_of_its_own(django_db_blocker, "scratch", template=late_state) as made:
        yield made


def test_rows_live_through_all_migrations_and_back_and_all_can_be_taken_back(last, django_db_blocker):
    assert counted(last) == FIRST_COUNTS
    assert (checks.migrations(), ledger.problem(), counts.problem()) == ("", "", "")
    with last.cursor() as cursor:
        cursor.execute("SELECT status, sum(delta) FROM orders_ordercount GROUP BY status")
        assert dict(cursor.fetchall()) == dict.fromkeys(
            ("pending_confirmation", "confirmed", "canceled", "delivered"), 50
        )
    made = tables(last)
    take_back(last, FIRST)
    assert counted(last) == FIRST_COUNTS
    last.close()  # PostgreSQL copies no database that is in use
    with database_of_its_own(django_db_blocker, "copy", template=last.settings_dict["NAME"]):
        take_back(last, dict.fromkeys(OURS))
        assert {key for key in MigrationRecorder(last).applied_migrations() if key[0] in OURS} == set()
        # Nothing is in the way of applying all of them again, as to an empty database.
        assert not {row for row in tables(last) if row.split("_")[0] in OURS or " FUNCTION " in row}
    call_command("migrate", verbosity=0)
    assert counted(last) == FIRST_COUNTS
    assert tables(last) == made


def test_what_other_rules_summed_up_is_summed_up_anew(last):
    def rows(sql):
        with last.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetchall()

    take_back(last, {"agents": "0011_holidays_from_file"})
    with last.cursor() as cursor:
        cursor.execute("""
            INSERT INTO agents_callday (day) VALUES ('2026-03-01'), ('2026-03-02');
            INSERT INTO agents_callpart (day, until) VALUES ('2026-03-03', '2026-03-03 12:00Z');
            INSERT INTO orders_dayfigure (account_id, day, dimension, key, new_count, new_amount, unit_count,
                confirmed_count, confirmed_amount, canceled_count, canceled_amount, refused_count, refused_amount,
                shipped_count, shipped_amount, delivered_count, delivered_amount, returned_count, returned_amount,
                first_call_count)
            SELECT id, day, 'reason', key, 0, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0 FROM accounts_account,
                (VALUES (date '2026-03-01', E'dear\u00a0'), ('2026-03-01', 'dear'), ('2026-03-02', 'dear')) d(day, key);
            INSERT INTO orders_summedup (account_id, until) SELECT id, now() FROM accounts_account
                ON CONFLICT (account_id) DO UPDATE SET until = now();
        """)
    call_command("migrate", verbosity=0)
    assert rows("SELECT 1 FROM agents_callday UNION ALL SELECT 1 FROM agents_callpart") == []
    assert rows("SELECT DISTINCT until FROM orders_summedup") == [(None,)]


def take_back(database, states):
    """Go back to the state of each app, or to before its first migration. The command, which takes one app at a time,
    would work out the states of all migrations for each.
    """
    MigrationExecutor(database).migrate(list(reversed(states.items())))


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(migrate, "LOCK_TIMEOUT", "200ms")
    monkeypatch.setattr(migrate, "TRIES", 2)
    monkeypatch.setattr(migrate, "PAUSE", 0.3)


@pytest.fixture
def other(request):
    """Another session of the test's database, with an open transaction."""
    made = request.getfixturevalue("late" if "late" in request.fixturenames else "first")
    with psycopg.connect(**made.get_connection_params() | {"context": None, "application_name": "psql"}) as session:
        yield session


def half_built(database):
    with database.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_index WHERE NOT indisvalid")
        return cursor.fetchone()[0]


def test_a_lock_that_somebody_holds_fails_the_migration_soon_and_the_next_run_succeeds(late, other, impatient):
    other.execute(f"SELECT count(*) FROM {CHANGED}")  # its lock stays until its transaction ends
    time.sleep(1.1)

    with pytest.raises(
        CommandError, match=r"could not get a lock in 2 tries \(process \d+, “psql”, has had .* run migrate again"
    ):
        call_command("migrate", verbosity=0, stderr=StringIO())

    assert checks.migrations() != ""
    other.execute(f"UPDATE {CHANGED} SET name = 'nobody waits'")  # nothing of the migration is left in the way
    other.commit()
    call_command("migrate", verbosity=0)
    assert checks.migrations() == ""
    assert counted(late) == FIRST_COUNTS


def test_it_tries_again_by_itself(late, other, impatient):
    other.execute(f"SELECT count(*) FROM {CHANGED}")

    class Said(StringIO):
        def write(self, text):
            other.rollback()
            return super().write(text)

    call_command("migrate", verbosity=0, stderr=(said := Said()))

    assert "A migration could not get a lock" in said.getvalue()
    assert checks.migrations() == ""


# What goes on running with the old code: an import, a decision, a list.
OLD_CODE = (
    FIRST_ORDERS,
    """UPDATE orders_order SET status = 'confirmed', version = version + %s WHERE id = (
        SELECT id FROM orders_order WHERE status = 'pending_confirmation' LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED)""",
    """SELECT id, status, customer_name, total_amount, created_at FROM orders_order
    WHERE account_id = (SELECT id FROM accounts_account) ORDER BY created_at DESC, id DESC LIMIT 15 * %s""",
)


@pytest.mark.hosts
def test_migrations_of_100_000_orders_keep_nobody_waiting_who_works_with_the_code_of_before(first):
    with first.cursor() as cursor:
        cursor.execute(FIRST_ORDERS, [100_000])
    parameters = first.get_connection_params() | {"context": None, "autocommit": True}
    stop = threading.Event()

    def work(statement):
        longest, done = 0.0, 0
        with psycopg.connect(**parameters) as session:
            session.execute("SET lock_timeout = '2s'")  # as a request has it, where it makes a 503
            while not stop.is_set():
                began = time.monotonic()
                session.execute(statement, [1])
                longest, done = max(longest, time.monotonic() - began), done + 1
        return longest, done

    at_work = [Background(partial(work, statement)) for statement in OLD_CODE]
    time.sleep(1)
    began = time.monotonic()
    call_command("migrate", verbosity=0)
    seconds = time.monotonic() - began
    stop.set()
    results = [worker.result() for worker in at_work]
    print(f"{seconds:.1f} s; (longest statement, statements) of each:", results)

    assert checks.migrations() == ""
    assert all(done > 100 for _, done in results)
    assert max(longest for longest, _ in results) < 2
    assert counts.problem() == ""


def test_an_index_that_was_half_built_is_built_anew_and_those_beside_it_are_let_be(first, other, impatient):
    call_command("migrate", "orders", "0004", verbosity=0)
    first.close()
    # It holds up the indexes of orders' table after the first, since these wait for whoever writes there.
    with first.cursor() as cursor:
        cursor.execute(
            "CREATE INDEX order_to_call ON orders_order (call_state, call_due_at, id)"
            " WHERE status = 'pending_confirmation'"
        )
    other.execute("UPDATE orders_order SET notes = 'x'")
    with pytest.raises(CommandError, match="could not get a lock in"):
        call_command("migrate", "orders", BUILDS_INDEXES, verbosity=0, stderr=StringIO())
    assert half_built(first) == 1
    other.rollback()

    call_command("migrate", "orders", BUILDS_INDEXES, verbosity=0)

    assert half_built(first) == 0
    assert ("orders", BUILDS_INDEXES) in MigrationRecorder(first).applied_migrations()


@pytest.fixture(params=["PostgreSQL", "PgBouncer"])
def pooled(request, monkeypatch):
    """Whether what is set for a session would be lost."""
    monkeypatch.setitem(connection.settings_dict, "DISABLE_SERVER_SIDE_CURSORS", request.param == "PgBouncer")
    return request.param == "PgBouncer"


def test_one_migrates_at_a_time(late, pooled):
    """Each of several hosts may start with `migrate`."""
    at_once(3, lambda _: call_command("migrate", verbosity=0, stderr=StringIO()))

    assert checks.migrations() == ""
    assert counted(late) == FIRST_COUNTS


def test_one_makes_a_new_database_at_a_time(scratch, pooled):
    at_once(3, lambda _: call_command("migrate", verbosity=0, stderr=StringIO()))

    assert checks.migrations() == ""


def test_behind_pgbouncer_it_tells_of_the_limits_there_when_there_is_something_to_do(scratch, pooled):
    for is_new in (True, False):
        call_command("migrate", verbosity=0, stderr=(said := StringIO()))
        assert ("PostgreSQL's own address in DATABASE_URL" in said.getvalue()) is (pooled and is_new)
        assert checks.migrations() == ""


def test_whoever_migrates_behind_pgbouncer_holds_up_no_index_of_its_own(scratch, impatient, monkeypatch):
    monkeypatch.setitem(connection.settings_dict, "DISABLE_SERVER_SIDE_CURSORS", True)
    call_command("migrate", verbosity=0, stderr=StringIO())
    call_command("migrate", "orders", "0023", verbosity=0, stderr=(said := StringIO()))  # which builds one anew

    assert "could not get a lock" not in said.getvalue()


def test_who_is_in_the_way_behind_pgbouncer_is_not_taken_for_whoever_migrates(late, other, impatient, monkeypatch):
    monkeypatch.setitem(connection.settings_dict, "DISABLE_SERVER_SIDE_CURSORS", True)
    monkeypatch.setattr(migrate, "PAUSE", 1.1)
    with late.cursor() as cursor:  # the role's limit, as it is for a session
        cursor.execute("SET lock_timeout = '200ms'")
    other.execute(f"SELECT count(*) FROM {CHANGED}")

    class Said(StringIO):
        def write(self, text):
            other.rollback()
            other.execute(f"SELECT count(*) FROM {CHANGED}")  # a younger transaction than the one that holds the lock
            return super().write(text)

    with pytest.raises(CommandError, match=r"in 2 tries \(process \d+, “psql”, has had"):
        call_command("migrate", verbosity=0, stderr=Said())


def test_keys_keep_what_they_could_do_when_a_part_of_it_gets_a_scope_of_its_own(first):
    call_command("migrate", "accounts", "0003", verbosity=0)
    with first.cursor() as cursor:
        cursor.execute("SELECT account_id FROM orders_order LIMIT 1")
        (account,) = cursor.fetchone()
        for prefix, scopes in (("stock", ["inventory:read", "inventory:write"]), ("hooks", ["webhooks:read"])):
            cursor.execute(
                "INSERT INTO accounts_apikey (id, account_id, name, prefix, digest, scopes, created_at)"
                " VALUES (gen_random_uuid(), %s, 'Shop', %s, sha256(%s::bytea), %s, now())",
                [account, prefix, prefix, scopes],
            )

    call_command("migrate", "accounts", verbosity=0)

    with first.cursor() as cursor:
        cursor.execute("SELECT prefix, scopes FROM accounts_apikey WHERE prefix IN ('stock', 'hooks')")
        assert dict(cursor.fetchall()) == {
            "stock": ["inventory:read", "inventory:write", "products:read", "products:write"],
            "hooks": ["webhooks:read", "events:read"],
        }
