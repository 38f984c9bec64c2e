"""The database between tests that commit: what they wrote is taken away, what `migrate` fills stays.

Django's own way truncates all tables and sends `post_migrate` after each such test, whose receivers write content
types, permissions, groups and holidays anew: ten times the work of the truncation, and a fifth of a whole run. And to
truncate makes every table and index a new file: deleting the few rows of the few tables that have any costs far less.
"""

import pytest
from django.core.management.color import no_style
from django.db import connection, transaction
from django.test import TransactionTestCase

from .database import contents

_whole_way = TransactionTestCase._fixture_teardown
# Each table that is not empty when nobody has written anything, with a digest of its rows; none before the first test.
_given: dict[str, str | None] = {}
# Bytes. Deleted rows leave their pages, which make a table slow to read and change plans: none keeps more than these.
LARGE = 512 * 1024


def pytest_configure(config: pytest.Config) -> None:
    TransactionTestCase._fixture_teardown = _empty  # type: ignore[method-assign]


def _empty(case: TransactionTestCase) -> None:
    tables = {*connection.introspection.django_table_names(only_existing=True, include_views=False)}
    if _given and contents(tables=_given) == _given:
        written = sorted(tables - _given.keys())
        if not _delete(written):
            connection.ops.execute_sql_flush(connection.ops.sql_flush(no_style(), written))
        return
    from tests.factories import make_groups  # Django was not ready when this module was loaded

    _whole_way(case)
    make_groups()  # no signal does, and every test that has agents would have to
    _delete(["accounts_securityentry"])  # what is noted of it
    _given.clear()
    _given.update({table: digest for table, digest in contents(tables=tables).items() if digest})


@transaction.atomic
def _delete(tables: list[str]) -> bool:
    """Whether their rows are gone: not where they have taken much room, nor where we may not pass the references."""
    with connection.cursor() as cursor:
        # As a truncation does: whoever still writes has ended then.
        cursor.execute(f"LOCK TABLE {', '.join(tables)}")
        facts = [f"({i}, EXISTS(SELECT FROM {t}), pg_table_size('{t}'))" for i, t in enumerate(tables)]
        cursor.execute(
            "SELECT i, size, has_parameter_privilege('session_replication_role', 'SET')"
            f" FROM (VALUES {', '.join(facts)}) facts (i, is_filled, size) WHERE is_filled"
        )
        filled = cursor.fetchall()
        if not all(may and size <= LARGE for _, size, may in filled):
            return False
        if filled:
            deletes = [f"DELETE FROM {tables[i]}" for i, _, _ in filled]
            cursor.execute("; ".join(["SET LOCAL session_replication_role = replica", *deletes]))
    return True
