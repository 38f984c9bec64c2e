"""Migrations: none is missing, and every one of ours can be taken back and made again."""

import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import connection, connections
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

OURS = [config.label for config in apps.get_app_configs() if config.name.split(".")[0] in
        ("agents", "codservice", "inventory", "orders", "webhooks")]  # fmt: skip


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


@pytest.fixture
def scratch(django_db_setup, django_db_blocker):
    """An empty database of its own."""
    with django_db_blocker.unblock():
        original = connection.settings_dict["NAME"]
        name = f"{original}_scratch"
        with connection.cursor() as cursor:
            cursor.execute(f'DROP DATABASE IF EXISTS "{name}"')
            cursor.execute(f'CREATE DATABASE "{name}"')
        connection.close()
        connection.settings_dict["NAME"] = name
        yield connection
        connection.close()
        connection.settings_dict["NAME"] = original
        with connection.cursor() as cursor:
            cursor.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
        connections.close_all()


def tables(database):
    """The tables, columns, indexes, constraints and triggers there are."""
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


def test_all_can_be_taken_back_and_made_again(scratch):
    call_command("migrate", verbosity=0)
    made = tables(scratch)
    for label in reversed(OURS):
        call_command("migrate", label, "zero", verbosity=0)
    left = set(MigrationRecorder(scratch).applied_migrations())
    assert {key for key in left if key[0] in OURS} == set()
    with scratch.cursor() as cursor:
        names = set(scratch.introspection.table_names(cursor))
    assert not {name for name in names if name.split("_")[0] in OURS}
    call_command("migrate", verbosity=0)
    assert tables(scratch) == made
