"""Empties the database after tests that commit: what they wrote is deleted, what `migrate` wrote stays.

Django truncates all tables and sends `post_migrate` after each such test. Its receivers write content types,
permissions and groups again: ten times the work of the truncation, and a fifth of a whole run. And truncating
makes every table and index a new file, while deleting the few rows of the few filled tables costs far less.
"""

import threading
from collections.abc import Callable

import pytest
from django.core.management import CommandError
from django.core.management.color import no_style
from django.db import OperationalError, connection, transaction
from django.http import HttpRequest, HttpResponse
from django.test import TransactionTestCase
from psycopg.errors import DeadlockDetected, LockNotAvailable

from .background import eventually
from .database import contents

_whole_way = TransactionTestCase._fixture_teardown
# The tables that `migrate` fills, each with a digest of its rows. Empty before the first such test.
_given: dict[str, str | None] = {}
# Bytes. Deleted rows leave pages behind, which slow reading down and change plans. Larger tables are truncated.
LARGE = 512 * 1024
ATTEMPTS = 10


class UnderWay:
    """A middleware that tests/conftest.py puts before all others. It counts the requests that have no answer yet."""

    count = 0
    _counting = threading.Lock()

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        self._add(1)
        try:
            return self.get_response(request)
        finally:
            self._add(-1)

    @classmethod
    def _add(cls, some: int) -> None:
        with cls._counting:
            cls.count += some


def pytest_configure(config: pytest.Config) -> None:
    TransactionTestCase._fixture_teardown = _empty  # type: ignore[method-assign]


def _empty(case: TransactionTestCase) -> None:
    """Empty the database once the requests have ended that closed pages left behind.

    Whoever else still locks tables, such as a thread, may be in the way: then again.
    """
    eventually(lambda: not UnderWay.count)
    for attempt in range(1, ATTEMPTS + 1):
        try:
            _empty_once(case)
        except (OperationalError, CommandError) as error:
            refused = error.__cause__ if isinstance(error, CommandError) else error
            if attempt == ATTEMPTS or not isinstance(refused.__cause__, DeadlockDetected | LockNotAvailable):
                raise
        else:
            return


def _empty_once(case: TransactionTestCase) -> None:
    tables = {*connection.introspection.django_table_names(only_existing=True, include_views=False)}
    if _given and contents(tables=_given) == _given:
        written = sorted(tables - _given.keys())
        if not _delete(written):
            connection.ops.execute_sql_flush(connection.ops.sql_flush(no_style(), written))
        return
    from tests.factories import make_groups  # Django was not ready when this module was loaded

    _whole_way(case)
    make_groups()  # no signal does, and otherwise every test with agents would have to
    _delete(["accounts_securityentry"])  # the log entries about that
    _given.clear()
    _given.update({table: digest for table, digest in contents(tables=tables).items() if digest})


@transaction.atomic
def _delete(tables: list[str]) -> bool:
    """Delete the tables' rows and return whether it was possible.

    It is not if a filled table is LARGE, or if we may not switch the checks of references off.
    """
    with connection.cursor() as cursor:
        # As a truncation does, to wait for whoever is still writing.
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
