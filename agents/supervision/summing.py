"""Sums of what happened in the call center, by day, and the statement that reads it from the rows.

Each event of an order counts on its day in Algeria: a call, a decision by the call center, the end of a parcel, the
time of a promised call. `CallFigure` has the days that are over, listed in `CallDay`, and the current day up to some
minutes ago (`CallPart`). `orders.day_sums` has the rules for when a sum is out of date and up to when the rows are
final; its round also makes these sums. Whether a promise was kept is known only some time after it, so all events are
left to the rows that long.

The current day's part is never added to. It is summed up anew every few minutes, and when something of its day changes.

Medians cannot be added up, so each sum keeps all waits (`medians`).
"""

from collections.abc import Set
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from functools import cached_property
from typing import Annotated

from django.db import transaction

from agents.models import CallFigure
from agents.supervision.medians import median
from codservice import days, postgresql
from orders import day_sums
from orders.cancel_reasons import counted_as
from orders.daily import STEP, added_up, amount_of, columns, count_of, lines_of
from orders.models import CallNote

Dimension = CallFigure.Dimension
PUNCTUAL = timedelta(minutes=15)  # before and after the promised time

_SUMMING = 0x63616C6C  # the advisory lock of whoever sums up


def _waits(name: str) -> str:
    return f"coalesce(string_agg(int4send({name}), ''::bytea) FILTER (WHERE {name} IS NOT NULL), ''::bytea)"


@dataclass
class Figures:
    """The figures of one day, agent, merchant and so on, or of all. `key` is the date, id or code, empty for all.

    Each but the key is a column of `CallFigure`, with the SQL that counts it from the `facts` of `from_rows`. Amounts
    are in DZD; by product, only that product's lines.
    """

    key: str
    calls: Annotated[int, count_of("called", "reached")] = 0  # notes of calls, reached or not
    reached: Annotated[int, count_of("reached")] = 0  # of these, calls in which the customer spoke
    # Promised calls whose time came and, unless kept, passed, with the order still undecided and no call before it.
    promises: Annotated[int, count_of("promised", "kept")] = 0
    kept: Annotated[int, count_of("kept")] = 0  # of these, customers who were called within PUNCTUAL of that time
    confirmed: Annotated[int, count_of("confirmed")] = 0  # orders that people of the call center confirmed
    canceled: Annotated[int, count_of("canceled")] = 0  # orders that they canceled while the order was pending
    # Parcels that arrived or came back; by agent, those that the agent had confirmed.
    delivered: Annotated[int, count_of("delivered")] = 0
    returned: Annotated[int, count_of("returned")] = 0
    confirmed_amount: Annotated[Decimal, amount_of("confirmed")] = Decimal(0)
    canceled_amount: Annotated[Decimal, amount_of("canceled")] = Decimal(0)
    delivered_amount: Annotated[Decimal, amount_of("delivered")] = Decimal(0)
    returned_amount: Annotated[Decimal, amount_of("returned")] = Decimal(0)
    first_waits: Annotated[bytes, _waits("first_wait")] = b""  # see `medians`
    decision_waits: Annotated[bytes, _waits("decision_wait")] = b""

    @property
    def decisions(self) -> int:
        return self.confirmed + self.canceled

    @property
    def ended(self) -> int:
        """Parcels delivered or returned."""
        return self.delivered + self.returned

    @cached_property
    def first_call(self) -> timedelta | None:
        """The median time from import to first call, over first calls; None if there are none."""
        return median(self.first_waits)

    @cached_property
    def decision(self) -> timedelta | None:
        """The median time from import to decision, over decisions; None if there are none."""
        return median(self.decision_waits)


def confirmation_rate(confirmed: int, decisions: int) -> int | None:
    """The percentage of the decisions that are confirmations; None without decisions."""
    return round(100 * confirmed / decisions) if decisions else None


COLUMNS = columns(Figures)

# Within `spans`, one row for each event of an order. `person` called, decided or promised; for the end of a parcel,
# confirmed the order. The number of rows cannot be estimated: `orders.daily` explains LIMIT and OFFSET 0.
_EVENTS = """
-- Calls, and whether each is the first about its order.
SELECT n.created_at AS at, CASE WHEN n.outcome = ANY(%(reached)s) THEN 'reached' ELSE 'called' END AS kind, n.order_id,
    n.agent_id AS person, '' AS reason, NOT EXISTS (
        SELECT FROM orders_callnote e WHERE e.order_id = n.order_id AND e.outcome = ANY(%(calls)s)
            AND (e.created_at, e.id) < (n.created_at, n.id)
    ) AS is_first
FROM spans CROSS JOIN LATERAL (
    SELECT id, order_id, agent_id, outcome, created_at FROM orders_callnote
    WHERE created_at >= spans.starts AND created_at < spans.ends AND outcome = ANY(%(calls)s) OFFSET 0
) n
UNION ALL
-- Decisions on pending orders, by staff.
SELECT s.at, s.to_status, s.order_id, s.user_id, s.reason, false
FROM spans CROSS JOIN LATERAL (
    SELECT at, to_status, order_id, user_id, reason FROM orders_statuschange
    WHERE at >= spans.starts AND at < spans.ends
        AND from_status = 'pending_confirmation' AND to_status IN ('confirmed', 'canceled') OFFSET 0
) s JOIN accounts_user u ON u.id = s.user_id AND u.is_staff
UNION ALL
-- Ends of parcels. They count for the person who confirmed the order last.
SELECT s.at, s.to_status, s.order_id, (
        SELECT c.user_id FROM orders_statuschange c WHERE c.order_id = s.order_id AND c.to_status = 'confirmed'
        ORDER BY c.at DESC LIMIT 1
    ), '', false
FROM spans CROSS JOIN LATERAL (
    SELECT at, to_status, order_id FROM orders_statuschange
    WHERE at >= spans.starts AND at < spans.ends AND to_status IN ('delivered', 'returned') OFFSET 0
) s
UNION ALL
-- Promises whose time is over, unless the customer was called before it, or the order was decided first: before the
-- time in which a promise is kept, or before that had passed without a call. What decides an order may be a promised
-- call, since some reasons note none.
SELECT n.callback_at, CASE WHEN was.kept THEN 'kept' ELSE 'promised' END, n.order_id, n.agent_id, '', false
FROM spans CROSS JOIN LATERAL (
    SELECT id, order_id, agent_id, created_at, callback_at FROM orders_callnote
    WHERE callback_at >= spans.starts AND callback_at < least(spans.ends, now() - %(punctual)s) OFFSET 0
) n CROSS JOIN LATERAL (
    SELECT EXISTS (
        SELECT FROM orders_callnote e WHERE e.order_id = n.order_id AND e.created_at > n.created_at
            AND e.created_at BETWEEN n.callback_at - %(punctual)s AND n.callback_at + %(punctual)s
            AND e.outcome = ANY(%(calls)s)
    ) AS kept OFFSET 0
) was WHERE NOT EXISTS (
    SELECT FROM orders_callnote e WHERE e.order_id = n.order_id AND e.created_at > n.created_at
        AND e.created_at < n.callback_at - %(punctual)s AND e.outcome = ANY(%(calls)s) OFFSET 0
) AND NOT EXISTS (
    SELECT FROM orders_statuschange s WHERE s.order_id = n.order_id AND s.from_status = 'pending_confirmation'
        AND s.at < greatest(n.created_at, n.callback_at + CASE WHEN was.kept THEN -%(punctual)s ELSE %(punctual)s END)
    OFFSET 0
)
"""
_HAPPENED = f"""
happened AS MATERIALIZED (
    SELECT (e.at AT TIME ZONE 'Africa/Algiers') AS at, e.kind, e.person, e.reason, o.id AS order_id, o.account_id,
        o.wilaya_code, o.source, o.total_amount AS amount, CASE WHEN e.is_first THEN minutes END AS first_wait,
        CASE WHEN e.kind IN ('confirmed', 'canceled') THEN minutes END AS decision_wait
    FROM ({_EVENTS}) e CROSS JOIN LATERAL (
            SELECT id, account_id, wilaya_code, source, total_amount, created_at FROM orders_order
            WHERE id = e.order_id AND call_state <> 'test' LIMIT 1
        ) o CROSS JOIN LATERAL (SELECT greatest(0, round(extract(epoch FROM e.at - o.created_at) / 60))::int) w(minutes)
)"""  # noqa: S608  (our own text)
# How events are divided. By product and name, an event counts for each product of its order.
_FACTS = {
    Dimension.ALL: "SELECT at::date, 'all', '', {event} FROM happened",
    Dimension.AGENT: "SELECT at::date, 'agent', person::text, {event} FROM happened WHERE person IS NOT NULL",
    Dimension.MERCHANT: "SELECT at::date, 'merchant', account_id::text, {event} FROM happened",
    Dimension.WILAYA: "SELECT at::date, 'wilaya', wilaya_code, {event} FROM happened",
    Dimension.SOURCE: "SELECT at::date, 'source', coalesce(source, ''), {event} FROM happened",
    Dimension.HOUR: "SELECT at::date, 'hour', to_char(at, 'HH24'), {event} FROM happened",
    Dimension.REASON: f"""SELECT at::date, 'reason', {counted_as("reason")}, {{event}}
        FROM happened WHERE kind = 'canceled'""",  # noqa: S608  (our own text)
    Dimension.PRODUCT: """SELECT at::date, dimension, key, kind, lines.amount, first_wait, decision_wait
        FROM happened JOIN lines USING (order_id)""",
}

# The parameters of a statement that includes `from_rows`.
VALUES = {
    "calls": CallNote.CALLS,
    "reached": [outcome.value for outcome in CallNote.REACHED],
    "punctual": PUNCTUAL,
}
# Two steps of a statement, with these parameters: the days from `before` to `last` whose sums may be read, each with
# the time that they reach. Sums of the future are ignored: the clock was put back.
SUMMED = """
changed AS MATERIALIZED (SELECT DISTINCT day FROM orders_changedday WHERE account_id IS NULL),
summed AS MATERIALIZED (
    SELECT day, max(until) AS until FROM (
        SELECT day, timestamptz 'infinity' AS until FROM agents_callday
        WHERE day < ((now() - %(punctual)s) AT TIME ZONE 'Africa/Algiers')::date
        UNION ALL
        SELECT day, until FROM agents_callpart WHERE until <= now() - %(punctual)s
    ) of_day
    WHERE day BETWEEN %(before)s AND %(last)s AND day NOT IN (SELECT day FROM changed) GROUP BY day
)"""


def from_rows(dimensions: Set[str]) -> str:
    """Steps of a statement that needs a step `spans`. The last, `from_rows`, has day, dimension, key and COLUMNS."""
    event = "kind, amount, first_wait, decision_wait"
    facts = (text.format(event=event) for name, text in _FACTS.items() if name in dimensions)
    return ", ".join([_HAPPENED, lines_of("happened"), added_up(facts, event, COLUMNS)])


# Latest days first, as they are looked at most. Days without any event are included.
_MISSING = """
SELECT day::date FROM generate_series((
    SELECT (min(first.at) AT TIME ZONE 'Africa/Algiers')::date FROM accounts_account a CROSS JOIN LATERAL (
        SELECT min(s.at) AS at FROM orders_statuschange s WHERE s.account_id = a.id
    ) first WHERE a.live_id IS NULL
), %(today)s - 1, interval '1 day') AS day
EXCEPT SELECT day FROM agents_callday ORDER BY day DESC LIMIT %(most)s
"""
# A part that reaches nearly as far is kept.
_END_PART = "DELETE FROM agents_callpart WHERE day <> %s OR day = ANY(%s) OR until NOT BETWEEN %s AND %s"
_BEGIN_PART = "INSERT INTO agents_callpart (day, until) VALUES (%s, %s) ON CONFLICT DO NOTHING"
_SUM_UP = f"""
WITH spans(starts, ends) AS MATERIALIZED (
    SELECT * FROM unnest(%(starts)s::timestamptz[], %(ends)s::timestamptz[])
), {from_rows(set(Dimension))}
INSERT INTO agents_callfigure (day, dimension, key, {", ".join(COLUMNS)})
SELECT day, dimension, key, {", ".join(day_sums.kept(name, name) for name in COLUMNS)} FROM from_rows
"""  # noqa: S608  (our own text)


def sum_up() -> bool:
    """Sum up some days that are over, some that have changed, and the current day so far. Returns whether more is left.

    Runs in one transaction, one at a time. While another is running, it does nothing and returns False.
    """
    with transaction.atomic():
        (is_ours,) = postgresql.row("SELECT pg_try_advisory_xact_lock(%s)", [_SUMMING])
        if not is_ours:
            return False
        postgresql.take_time()
        # Separate statements: each sees data no older than what the one before found out.
        until = day_sums.complete_until() - PUNCTUAL
        today = until.astimezone(days.ALGIERS).date()
        changed, is_more_changed = day_sums.take_changed(None)
        # Days that are not over were summed up while the clock was ahead.
        summed = "SELECT day FROM agents_callday WHERE day = ANY(%s) OR day >= %s"
        again = [day for (day,) in postgresql.rows(summed, [list(changed), today])]
        if ahead := [day for day in again if day >= today]:  # a trigger then removes the part as well
            postgresql.execute("DELETE FROM agents_callday WHERE day = ANY(%s)", [ahead])
        missing = [day for (day,) in postgresql.rows(_MISSING, {"today": today, "most": STEP})]
        more = is_more_changed or len(missing) == STEP
        postgresql.execute("INSERT INTO agents_callday (day) SELECT unnest(%s::date[])", [missing])
        ends = {day: days.end_of(day) for day in (*missing, *again) if day < today}
        postgresql.execute(_END_PART, [today, list(changed), until - day_sums.LATE, until])
        if postgresql.execute(_BEGIN_PART, [today, until]):
            ends[today] = until
        if ends:
            postgresql.execute("DELETE FROM agents_callfigure WHERE day = ANY(%s)", [list(ends)])
            starts = [days.start_of(day) for day in ends]
            postgresql.execute(_SUM_UP, {"starts": starts, "ends": list(ends.values()), **VALUES})
    return more
