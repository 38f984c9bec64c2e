"""The sums of an account's days (`DayFigure`), which `daily` reads: how they are made, checked, and made anew.

`sum_up` writes them by `daily`'s own statement; a task that beat sends every minute calls it. The sums are right at any
moment. They end some time before any transaction began that is still open (`complete_until`), and triggers (migration
`days`) note the day of any earlier row that changes afterwards in `ChangedDay`, in the same transaction.

If the database's clock is set back by no more than that time, `daily.SET_BACK`, what is written then is still dated
after the sums' end. If by more, that end is less than SET_BACK ago, or is still to come, for longer than SET_BACK:
meanwhile the days are read from the rows, and a round of beat makes their sums anew. Only if none comes in that time
may the sums miss something for good. `problem` tells of orders that they miss.

What is summed up over all accounts (`OVER_ALL`) follows the same rules, with `complete_until` and a time of its own,
and `take_changed` without an account.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any
from uuid import UUID

from django.db import transaction

from codservice import days, postgresql
from orders import daily
from orders.daily import COLUMNS, STEP, Dimension

LATE = timedelta(minutes=5)  # an account is due when something could have been summed up so long ago
MOST_KEPT = Decimal("9999999999999999.99")  # DZD: the most a column holds; lines may have any quantity and price

_DUE = """
SELECT account.id FROM accounts_account account LEFT JOIN orders_summedup summed ON summed.account_id = account.id
WHERE summed.until IS NULL OR summed.until > clock_timestamp() - %(set_back)s
    OR EXISTS (SELECT FROM orders_changedday changed WHERE changed.account_id = account.id)
    OR EXISTS (
        SELECT FROM orders_statuschange s
        WHERE s.account_id = account.id AND s.at >= summed.until AND s.at < now() - %(set_back)s - %(late)s
    ) OR EXISTS (
        SELECT FROM orders_callnote n
        WHERE n.account_id = account.id AND n.created_at >= summed.until
            AND n.created_at < now() - %(set_back)s - %(late)s
    )
ORDER BY coalesce(summed.until > clock_timestamp() - %(set_back)s, FALSE) DESC, summed.until NULLS FIRST, account.id
"""
# All writers of orders connect as we do, so we see when their transactions began. A row is dated no earlier than the
# start of its transaction; if one is, a trigger notes its day, and another notes the order (`trigrams`).
_BEGAN = """
SELECT least(now(), min(xact_start)) AS at FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend'
"""
_FIRST = """
SELECT (least(
    (SELECT min(at) FROM orders_statuschange WHERE account_id = %(account)s),
    (SELECT min(created_at) FROM orders_callnote WHERE account_id = %(account)s)
) AT TIME ZONE 'Africa/Algiers')::date
"""
# The days whose notes are deleted are summed up in this transaction, or have never been summed up yet.
_TAKE_CHANGED = """
WITH taken AS (
    DELETE FROM orders_changedday WHERE account_id {whose} AND day IN (
        SELECT DISTINCT day FROM orders_changedday WHERE account_id {whose} ORDER BY day LIMIT %(step)s
    ) RETURNING day
) SELECT DISTINCT day FROM taken
"""
# The days that are summed up anew, and what has happened since `until`.
_SPANS_OF_SUMS = """
    SELECT day::timestamp AT TIME ZONE 'Africa/Algiers',
        least((day + 1)::timestamp AT TIME ZONE 'Africa/Algiers', %(until)s)
    FROM unnest(%(days)s::date[]) AS day
    UNION ALL
    SELECT %(until)s, %(end)s
"""


def kept(name: str, value: str) -> str:
    """The SQL of what a column of sums keeps of `value`: of an amount, at most MOST_KEPT."""
    return f"least({value}, {MOST_KEPT})" if name.endswith("_amount") else value


_SUM_UP = f"""
WITH {daily.from_rows(_SPANS_OF_SUMS, set(Dimension))}
INSERT INTO orders_dayfigure AS figure (account_id, day, dimension, key, {", ".join(COLUMNS)})
SELECT %(account)s, day, dimension, key, {", ".join(kept(name, name) for name in COLUMNS)} FROM from_rows
ON CONFLICT (account_id, dimension, day, key) DO UPDATE
SET {", ".join(f"{name} = {kept(name, f'figure.{name} + EXCLUDED.{name}')}" for name in COLUMNS)}
"""  # noqa: S608  (our own text)


# What other rooms sum up over all accounts: name → a function that does one step and returns whether more is left.
OVER_ALL: dict[str, Callable[[], bool]] = {}


def complete_until() -> datetime:
    """The moment before which nothing more can be written without a trigger noting it, unless the clock is set back."""
    (at,) = postgresql.row(_BEGAN)
    return at


def take_changed(account_id: UUID | None) -> tuple[set[date], bool]:
    """Delete the notes of up to STEP changed days; return the days, and whether more may be noted."""
    whose = "IS NULL" if account_id is None else "= %(account)s"
    taken = postgresql.rows(_TAKE_CHANGED.format(whose=whose), {"account": account_id, "step": STEP})
    changed = {day for (day,) in taken}
    return changed, len(changed) == STEP


def due() -> list[UUID]:
    """The accounts for which `sum_up` has something to do: after a clock was set back, then longest waiting first."""
    return [account_id for (account_id,) in postgresql.rows(_DUE, {"late": LATE, "set_back": daily.SET_BACK})]


def sum_up(account_id: UUID) -> bool:
    """Sum up at most a week more of what happened to the account's orders, and some days that have changed.

    Returns whether more is left. One transaction after the account's row is there, and one at a time: while another
    runs, does nothing and returns False.
    """
    parameters: dict[str, Any] = {"account": account_id, "set_back": daily.SET_BACK}
    # Committed beforehand: others would wait for a new row, and not skip it.
    postgresql.execute(
        "INSERT INTO orders_summedup (account_id) VALUES (%(account)s) ON CONFLICT DO NOTHING", parameters
    )
    with transaction.atomic():
        found = postgresql.row(
            "SELECT until, until > clock_timestamp() - %(set_back)s FROM orders_summedup"
            " WHERE account_id = %(account)s FOR UPDATE SKIP LOCKED",
            parameters,
        )
        if not found:
            return False
        until, is_ahead = found
        postgresql.take_time()  # in vain it would be tried every minute, before all others
        # Separate statements, so that each sees at least what the one before it has found.
        over = complete_until() - daily.SET_BACK
        again, more = take_changed(account_id)
        if is_first := until is None:
            postgresql.execute("DELETE FROM orders_dayfigure WHERE account_id = %(account)s", parameters)
            (first,) = postgresql.row(_FIRST, parameters)
            until = over if first is None else min(over, days.start_of(first))
        if is_ahead:  # the clock was set back: what happens now may be dated before `until`
            first_ahead, last_ahead = (at.astimezone(days.ALGIERS).date() for at in (over, until))
            again |= {*days.between(first_ahead, last_ahead)}
            until = over
        end = max(until, min(over, until + timedelta(days=STEP)))
        if is_first or again or until < end:
            postgresql.execute(
                "DELETE FROM orders_dayfigure WHERE account_id = %(account)s AND day = ANY(%(days)s)",
                parameters | {"days": list(again)},
            )
            postgresql.execute(_SUM_UP, daily.parameters(account_id, days=list(again), until=until, end=end))
            postgresql.execute(
                "UPDATE orders_summedup SET until = %(end)s WHERE account_id = %(account)s", parameters | {"end": end}
            )
    return more or end < over


# One snapshot. Reads the sums, and of the rows only what came since. Nothing is known yet of an account with days that
# are still to be summed up anew, or ahead of the clock.
_WRONG = """
SELECT count(*) FROM orders_summedup AS summed
WHERE until <= now() - %(set_back)s
    AND NOT EXISTS (SELECT FROM orders_changedday WHERE account_id = summed.account_id)
    AND (
        SELECT coalesce(sum(new_count), 0) FROM orders_dayfigure
        WHERE account_id = summed.account_id AND dimension = 'all'
    ) + (
        SELECT count(*) FROM orders_statuschange
        WHERE account_id = summed.account_id AND at >= summed.until AND to_status = 'pending_confirmation'
    ) <> (SELECT coalesce(sum(delta), 0) FROM orders_ordercount WHERE account_id = summed.account_id)
"""


def problem() -> str:
    """What is wrong with the sums, for `check_service`; empty if nothing is. Compares new orders with `counts`."""
    with transaction.atomic():
        postgresql.take_time()
        (count,) = postgresql.row(_WRONG, {"set_back": daily.SET_BACK})
    if not count:
        return ""
    return f"the figures of home pages do not have all orders (accounts: {count}). Run `manage.py recount_orders`."


# The first and the last day, first without an account (for OVER_ALL), then of each account that is summed up. Days
# without an account that are not summed up yet are noted to no effect.
_SPANS = """
SELECT account_id, first, last FROM (
    SELECT NULL::uuid, (SELECT min(day) FROM orders_dayfigure), (now() AT TIME ZONE 'Africa/Algiers')::date
    UNION ALL
    SELECT account_id, least(
        (SELECT min(day) FROM orders_dayfigure WHERE account_id = summed.account_id),
        (SELECT min(at) FROM orders_statuschange WHERE account_id = summed.account_id)
            AT TIME ZONE 'Africa/Algiers'
    )::date, (until AT TIME ZONE 'Africa/Algiers')::date FROM orders_summedup summed
) AS span (account_id, first, last)
WHERE first <= last
ORDER BY account_id NULLS FIRST
"""


def weeks() -> tuple[Iterator[tuple[UUID | None, list[date]]], int]:
    """The arguments for `sum_anew`, and how many they are: up to STEP days of an account, or of OVER_ALL if the account
    is None.

    They are made one by one; of each account only the first and the last day are held.
    """
    spans = [
        (account, range(first.toordinal(), last.toordinal() + 1)) for account, first, last in postgresql.rows(_SPANS)
    ]
    found = (
        (account, [date.fromordinal(number) for number in some[at : at + STEP]])
        for account, some in spans
        for at in range(0, len(some), STEP)
    )
    return found, sum(-(-len(some) // STEP) for _account, some in spans)


def sum_anew(account_id: UUID | None, changed: Sequence[date]) -> None:
    """Sum up these days anew, because something may have changed past the triggers.

    Call it with a week at a time: until they are summed up, days are read from the rows, and a year of rows is more
    than a page view has time for. What another process is summing up is left to the next round.
    """
    postgresql.execute(
        "INSERT INTO orders_changedday (account_id, day) SELECT %s, unnest(%s::date[])", [account_id, changed]
    )
    for step in OVER_ALL.values() if account_id is None else [partial(sum_up, account_id)]:
        step()
