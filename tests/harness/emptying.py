"""The database between tests that commit: what they wrote is taken away, what `migrate` fills stays.

Django's own way truncates all tables and sends `post_migrate` after each such test, whose receivers write content
types, permissions, groups and holidays anew: ten times the work of the truncation, and a fifth of a whole run.
"""

import pytest
from django.core.management.color import no_style
from django.db import connection
from django.test import TransactionTestCase

from .database import contents

_whole_way = TransactionTestCase._fixture_teardown
# Each table that is not empty when nobody has written anything, with a digest of its rows; none before the first test.
_given: dict[str, str | None] = {}


def pytest_configure(config: pytest.Config) -> None:
    TransactionTestCase._fixture_teardown = _empty  # type: ignore[method-assign]


def _empty(case: TransactionTestCase) -> None:
    tables = {*connection.introspection.django_table_names(only_existing=True, include_views=False)}
    if _given and contents(tables=_given) == _given:
        statements = connection.ops.sql_flush(no_style(), sorted(tables - _given.keys()))
        connection.ops.execute_sql_flush(statements)
        return
    _whole_way(case)
    _given.clear()
    _given.update({table: digest for table, digest in contents(tables=tables).items() if digest})
