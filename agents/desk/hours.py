"""When a merchant's customers may be called. Rules, seasons, holidays, openings and closings are combined here only.

One piece of SQL says it. Statements that serve, count and find the next call include it; Python gets the windows.
"""

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from functools import cache
from typing import Any, NamedTuple
from uuid import UUID

from django.utils import timezone

from agents import public_holidays
from agents.models import CallingRules
from codservice import postgresql
from codservice.days import today

OVERDUE = timedelta(minutes=15)  # of calling hours, after which any agent may make another's promised call
# One row for each account and day with calling hours, or two if the day has a break: from when until when. `{accounts}`
# and `{days}` select them. A merchant without rules has the defaults of CallingRules. The few periods of these days are
# read once for all accounts. Of several, openings and closings go before seasons, then a merchant's own before those of
# all, then the latest.
WINDOWS = """
    WITH asked AS (
        SELECT (statement_timestamp() AT TIME ZONE 'Africa/Algiers')::date + n AS day
        FROM generate_series(0, {days}) AS n
    ), of_day AS (
        SELECT DISTINCT ON (p.account_id, asked.day)
            p.account_id, asked.day, p.is_opening OR p.is_closed AS goes_first, p AS period
        FROM agents_callingperiod p JOIN asked ON asked.day BETWEEN p.first_day AND p.last_day
        WHERE p.account_id IS NULL OR p.account_id IN (SELECT a.id FROM accounts_account a WHERE {accounts})
        ORDER BY p.account_id, asked.day, goes_first DESC, p.id DESC
    ), found AS (
        SELECT a.id AS account_id, asked.day,
            CASE WHEN own.day IS NULL OR every.goes_first AND NOT own.goes_first THEN every.period ELSE own.period END
                AS p
        FROM accounts_account a CROSS JOIN asked
        LEFT JOIN of_day own ON own.account_id = a.id AND own.day = asked.day
        LEFT JOIN of_day every ON every.account_id IS NULL AND every.day = asked.day
        WHERE {accounts}
    ), day AS (
        SELECT account_id, day,
            COALESCE((p).opens_at, r.opens_at, %(opens_at)s) AS opens_at,
            COALESCE((p).closes_at, r.closes_at, %(closes_at)s) AS closes_at,
            CASE WHEN (p).opens_at IS NULL THEN r.break_from ELSE (p).break_from END AS break_from,
            CASE WHEN (p).opens_at IS NULL THEN r.break_until ELSE (p).break_until END AS break_until
        FROM found LEFT JOIN agents_callingrules r USING (account_id)
        WHERE (p).is_closed IS NOT TRUE AND ((p).is_opening IS TRUE OR NOT (
            extract(isodow FROM day)::integer = ANY(COALESCE(r.days_off, %(days_off)s))
            OR r.keeps_holidays IS TRUE AND found.day IN (SELECT unnest(%(holidays)s::date[]))
        ))
    )
    SELECT account_id, (day + opens_at) AT TIME ZONE 'Africa/Algiers' AS opens_at,
        (day + COALESCE(break_from, closes_at)) AT TIME ZONE 'Africa/Algiers' AS closes_at
    FROM day
    UNION ALL
    SELECT account_id, (day + break_until) AT TIME ZONE 'Africa/Algiers',
        (day + closes_at) AT TIME ZONE 'Africa/Algiers'
    FROM day WHERE break_until IS NOT NULL
"""
_NOW = "opens_at <= statement_timestamp() AND statement_timestamp() < closes_at"
# Steps of a statement: today's windows, and the accounts whose customers may be called now.
TODAY = f"today AS MATERIALIZED ({WINDOWS.format(accounts='TRUE', days=0)})"
OPEN = f"{TODAY}, open AS MATERIALIZED (SELECT account_id FROM today WHERE {_NOW})"  # noqa: S608  (our own)
# The accounts that have been open long enough today for an earlier promise to be late, however much of its time was
# left at the end of the last hours. Hours from midnight on pass for a continuation of the day before, also when that
# was a day off: then what was promised before it is late at once.
GOES_ON = "(opens_at AT TIME ZONE 'Africa/Algiers')::time = '00:00'"
OPEN_LONG = f"""open_long AS MATERIALIZED (
    SELECT account_id FROM today
    WHERE {_NOW} AND (opens_at <= statement_timestamp() - %(overdue)s::interval OR {GOES_ON})
)"""  # noqa: S608  (our own)
# About an order `o`. Not a join: the order's own index keeps the sort, and each account is looked up in a hash.
IS_OPEN = "(o.account_id IN (SELECT account_id FROM open)) IS TRUE"
IS_OPEN_LONG = "(o.account_id IN (SELECT account_id FROM open_long)) IS TRUE"
_OF_ORDERS = WINDOWS.format(
    accounts="a.id IN (SELECT account_id FROM orders_order WHERE id = ANY(%(orders)s))", days="%(days)s"
)
_OF_ACCOUNT = WINDOWS.format(accounts="a.id = %(account)s", days="%(days)s")
# Days; further than any series of days off with one closing among them. A call that would come later is planned as if
# there were no hours; nobody is served before they begin.
AHEAD = 28


class Window(NamedTuple):
    """A time span; its end is outside."""

    opens_at: datetime
    closes_at: datetime

    def __contains__(self, at: object) -> bool:
        return isinstance(at, datetime) and self.opens_at <= at < self.closes_at


Windows = list[Window]


def parameters() -> dict[str, Any]:
    """The parameters that the SQL above always has: the defaults of CallingRules, OVERDUE, and the next holidays."""
    yesterday = today() - timedelta(days=1)  # today, while the database's clock is behind this host's
    ahead = public_holidays.ahead(yesterday)
    holidays = ",".join(map(str, ahead))  # an array in PostgreSQL's words: a list costs 25 µs more
    return {**_usual(), "holidays": f"{{{holidays}}}"}


@cache
def _usual() -> dict[str, Any]:
    rules = CallingRules()
    usual = {"opens_at": rules.opens_at, "closes_at": rules.closes_at, "days_off": rules.days_off}
    return usual | {"overdue": OVERDUE}


def by_account(order_ids: Collection[UUID], days: int = AHEAD) -> dict[UUID, Windows]:
    """The windows of the orders' merchants from today on, in order of time."""
    windows: dict[UUID, Windows] = {}
    values = {**parameters(), "orders": list(order_ids), "days": days}
    for account_id, *times in postgresql.rows(f"{_OF_ORDERS} ORDER BY opens_at", values):
        windows.setdefault(account_id, []).append(Window(*times))
    return windows


def of_account(account_id: UUID, days: int) -> Windows:
    """The merchant's windows for today and the given number of days after it."""
    values = {**parameters(), "account": account_id, "days": days}
    found = postgresql.rows(f"{_OF_ACCOUNT} ORDER BY opens_at", values)
    return [Window(opens_at, closes_at) for _account_id, opens_at, closes_at in found]


def of_customer(order_ids: Collection[UUID], days: int) -> Windows:
    """When one call may be about all of these orders, as computed by `in_common`."""
    return in_common(by_account(order_ids, days).values(), timezone.now())


def in_common(of_merchants: Iterable[Windows], now: datetime) -> Windows:
    """When all these merchants' customers may be called; if that is never within AHEAD, when those of some may be."""
    every = list(of_merchants)
    common = every[0] if every else []
    for windows in every[1:]:
        common = list(_common(common, windows))
    is_near = any(window.opens_at < now + timedelta(days=AHEAD) for window in common)
    return common if is_near else sorted(window for windows in every for window in windows)


def _common(some: Windows, others: Windows) -> Iterable[Window]:
    for one in some:
        for other in others:
            opens_at, closes_at = max(one.opens_at, other.opens_at), min(one.closes_at, other.closes_at)
            if opens_at < closes_at:
                yield Window(opens_at, closes_at)
