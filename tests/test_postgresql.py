"""Our backend for PostgreSQL, where it is not Django's."""

from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from django.db import connection
from psycopg.pq import Format

from codservice.days import ALGIERS

SOME = datetime(2026, 3, 1, 23, 30, 5, 7, tzinfo=ALGIERS)


@pytest.mark.django_db
@pytest.mark.parametrize("cursor", [connection.cursor, connection.chunked_cursor])
def test_times_are_read_in_utc_by_what_psycopg_has_for_them(cursor: Any) -> None:
    with cursor() as opened:
        opened.execute("SELECT %s::timestamptz, NULL::timestamptz", [SOME])
        (row,) = opened.fetchall()
    assert row == (SOME, None)
    assert row[0].tzinfo is UTC
    times = psycopg.postgres.types["timestamptz"].oid
    reader = psycopg.adapters.get_loader(times, Format.TEXT)
    assert connection.connection.adapters.get_loader(times, Format.TEXT) is reader
