"""What happened in the call center, day by day, summed up: the statement that reads it from the rows, and the sums.

Each event of an order counts on its day in Algeria: a call, a decision of the call center's people, a parcel's end, the
time of a promised call. `CallFigure` has the days that are over, which are in `CallDay`, and of the day under way what
happened until some minutes ago (`CallPart`). Which of them no longer fit, and since when nothing can be written any
more, are the rules of `orders.day_sums`, and its round sums up these too. Whether a promise was kept is known some time
after it: so long all of it is left to the rows.

The part of a day is never added to: it is summed up anew, every few minutes and when something of its day has changed.

Medians cannot be added up, so each sum keeps all waits: minutes, as big-endian integers of four bytes.
"""

from collections.abc import Set
from datetime import timedelta

from django.db import connection, transaction

from agents.models import CallFigure
from codservice import days
from orders import day_sums
from orders.cancel_reasons import counted_as
from orders.daily import STEP
from orders.models import CallNote

Dimension = CallFigure.Dimension
Outcome = CallNote.Outcome
REACHED = (Outcome.ANSWERED, Outcome.CALLBACK)  # the customer spoke
PUNCTUAL = timedelta(minutes=15)  # before and after the promised time

_SUMMING = 0x63616C6C  # the advisory lock of whoever sums up
_AMOUNT = "coalesce(sum(amount) FILTER (WHERE {}), 0)"
_WAITS = "coalesce(string_agg(int4send({0}), ''::bytea) FILTER (WHERE {0} IS NOT NULL), ''::bytea)"
# A figure → how it is counted among events.
_COUNTED = {
    "calls": "count(*) FILTER (WHERE kind IN ('called', 'reached'))",
    "promises": "count(*) FILTER (WHERE kind IN ('promised', 'kept'))",
    **{
        name: f"count(*) FILTER (WHERE kind = '{name}')"
        for name in ("reached", "kept", "confirmed", "canceled", "delivered", "returned")
    },
    **{
        f"{name}_amount": _AMOUNT.format(f"kind = '{name}'")
        for name in ("confirmed", "canceled", "delivered", "returned")
    },
    "first_waits": _WAITS.format("first_wait"),
    "decision_waits": _WAITS.format("decision_wait"),
}
COLUMNS = tuple(_COUNTED)
WAITS = ("first_waits", "decision_waits")

# Within `spans`, each row one event of one order. `person` is who called, decided or promised; of a parcel's end, who
# had confirmed the order. How many there are cannot be foreseen: see `orders.daily` of LIMIT and OFFSET 0.
_EVENTS = """
-- Calls; whether it is the first about its order.
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
-- Decisions of pending orders, by people who work here.
SELECT s.at, s.to_status, s.order_id, s.user_id, s.reason, false
FROM spans CROSS JOIN LATERAL (
    SELECT at, to_status, order_id, user_id, reason FROM orders_statuschange
    WHERE at >= spans.starts AND at < spans.ends
        AND from_status = 'pending_confirmation' AND to_status IN ('confirmed', 'canceled') OFFSET 0
) s JOIN accounts_user u ON u.id = s.user_id AND u.is_staff
UNION ALL
-- Ends of parcels; theirs who confirmed the order last.
SELECT s.at, s.to_status, s.order_id, (
        SELECT c.user_id FROM orders_statuschange c WHERE c.order_id = s.order_id AND c.to_status = 'confirmed'
        ORDER BY c.at DESC LIMIT 1
    ), '', false
FROM spans CROSS JOIN LATERAL (
    SELECT at, to_status, order_id FROM orders_statuschange
    WHERE at >= spans.starts AND at < spans.ends AND to_status IN ('delivered', 'returned') OFFSET 0
) s
UNION ALL
-- Promises whose time is over, unless the customer was called before it or the order was decided by then.
SELECT n.callback_at, CASE WHEN EXISTS (
        SELECT FROM orders_callnote e WHERE e.order_id = n.order_id AND e.created_at > n.created_at
            AND e.created_at BETWEEN n.callback_at - %(punctual)s AND n.callback_at + %(punctual)s
            AND e.outcome = ANY(%(calls)s)
    ) THEN 'kept' ELSE 'promised' END, n.order_id, n.agent_id, '', false
FROM spans CROSS JOIN LATERAL (
    SELECT id, order_id, agent_id, created_at, callback_at FROM orders_callnote
    WHERE callback_at >= spans.starts AND callback_at < least(spans.ends, now() - %(punctual)s) OFFSET 0
) n WHERE NOT EXISTS (
    SELECT FROM orders_callnote e WHERE e.order_id = n.order_id AND e.created_at > n.created_at
        AND e.created_at < n.callback_at - %(punctual)s AND e.outcome = ANY(%(calls)s) OFFSET 0
) AND NOT EXISTS (
    SELECT FROM orders_statuschange s WHERE s.order_id = n.order_id AND s.from_status = 'pending_confirmation'
        AND s.at < greatest(n.created_at, n.callback_at - %(punctual)s) OFFSET 0
)
"""
_HAPPENED = f"""
happened AS MATERIALIZED (
    SELECT (e.at AT TIME ZONE 'Africa/Algiers') AS at, e.kind, e.person, e.reason, o.id AS order_id, o.account_id,
        o.wilaya_code, o.source, o.total_amount, CASE WHEN e.is_first THEN minutes END AS first_wait,
        CASE WHEN e.kind IN ('confirmed', 'canceled') THEN minutes END AS decision_wait
    FROM ({_EVENTS}) e CROSS JOIN LATERAL (
            SELECT id, account_id, wilaya_code, source, total_amount, created_at FROM orders_order
            WHERE id = e.order_id AND call_state <> 'test' LIMIT 1
        ) o CROSS JOIN LATERAL (SELECT greatest(0, round(extract(epoch FROM e.at - o.created_at) / 60))::int) w(minutes)
), lines AS MATERIALIZED (
    SELECT order_id, CASE WHEN product_id IS NULL THEN 'name' ELSE 'product' END AS dimension,
        coalesce(product_id::text, product_name) AS key, sum(quantity * unit_price) AS amount
    FROM (SELECT DISTINCT order_id FROM happened) AS happened_to CROSS JOIN LATERAL (
        SELECT product_id, product_name, quantity, unit_price FROM orders_orderitem
        WHERE order_id = happened_to.order_id OFFSET 0
    ) AS item GROUP BY 1, 2, 3
)"""  # noqa: S608  (our own text)
_REST = "kind, {amount}, first_wait, decision_wait"
# How an event is divided; by product and name it counts for each product of its order.
_FACTS = {
    Dimension.ALL: "SELECT at::date, 'all', '', {rest} FROM happened",
    Dimension.AGENT: "SELECT at::date, 'agent', person::text, {rest} FROM happened WHERE person IS NOT NULL",
    Dimension.MERCHANT: "SELECT at::date, 'merchant', account_id::text, {rest} FROM happened",
    Dimension.WILAYA: "SELECT at::date, 'wilaya', wilaya_code, {rest} FROM happened",
    Dimension.SOURCE: "SELECT at::date, 'source', coalesce(source, ''), {rest} FROM happened",
    Dimension.HOUR: "SELECT at::date, 'hour', to_char(at, 'HH24'), {rest} FROM happened",
    Dimension.REASON: f"""SELECT at::date, 'reason', {counted_as("reason")}, {{rest}}
        FROM happened WHERE kind = 'canceled'""",  # noqa: S608  (our own text)
    Dimension.PRODUCT: "SELECT at::date, dimension, key, {line} FROM happened JOIN lines USING (order_id)",
}


# What a statement is executed with that has `from_rows` in it.
VALUES = {
    "calls": CallNote.CALLS,
    "reached": [outcome.value for outcome in REACHED],
    "punctual": PUNCTUAL,
}


def from_rows(dimensions: Set[str]) -> str:
    """Steps of a statement: the last, `from_rows`, has day, dimension, key and COLUMNS within its step `spans`."""
    rest, line = _REST.format(amount="total_amount"), _REST.format(amount="amount")
    facts = " UNION ALL ".join(text.format(rest=rest, line=line) for name, text in _FACTS.items() if name in dimensions)
    counted = ", ".join(f"{expression} AS {name}" for name, expression in _COUNTED.items())
    return f"""
{_HAPPENED},
facts(day, dimension, key, kind, amount, first_wait, decision_wait) AS ({facts}),
from_rows AS (SELECT day, dimension, key, {counted} FROM facts GROUP BY day, dimension, key)
"""  # noqa: S608  (our own text)


# The latest first: they are looked at most. A day without anything is one of them too.
_MISSING = """
SELECT day::date FROM generate_series((
    SELECT (min(first.at) AT TIME ZONE 'Africa/Algiers')::date FROM accounts_account a CROSS JOIN LATERAL (
        SELECT min(s.at) AS at FROM orders_statuschange s WHERE s.account_id = a.id
    ) first WHERE a.live_id IS NULL
), %(today)s - 1, interval '1 day') AS day
EXCEPT SELECT day FROM agents_callday ORDER BY day DESC LIMIT %(most)s
"""
# A part that reaches almost as far stays.
_END_PART = "DELETE FROM agents_callpart WHERE day <> %s OR until NOT BETWEEN %s AND %s"
_BEGIN_PART = "INSERT INTO agents_callpart (day, until) VALUES (%s, %s) ON CONFLICT DO NOTHING"
_SUM_UP = f"""
WITH spans(starts, ends) AS MATERIALIZED (
    SELECT * FROM unnest(%(starts)s::timestamptz[], %(ends)s::timestamptz[])
), {from_rows(set(Dimension))}
INSERT INTO agents_callfigure (day, dimension, key, {", ".join(COLUMNS)}) SELECT * FROM from_rows
"""  # noqa: S608  (our own text)


def sum_up() -> bool:
    """Sum up some days that are over and are not yet, some that have changed, and the day under way so far; whether
    more is left.

    One transaction. One at a time: nothing is done, and nothing left, while another is at it.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [_SUMMING])
        if not cursor.fetchone()[0]:
            return False
        day_sums.take_time(cursor)
        # Each by a statement of its own: what it sees is no older than what the one before has found out.
        until = day_sums.complete_until(cursor) - PUNCTUAL
        today = until.astimezone(days.ALGIERS).date()
        changed, is_more_changed = day_sums.take_changed(cursor, None)
        # A day that is not over is one of a clock that was ahead.
        cursor.execute("SELECT day FROM agents_callday WHERE day = ANY(%s) OR day >= %s", [list(changed), today])
        again = [day for (day,) in cursor.fetchall()]
        if changed or again:  # and with them the part goes
            cursor.execute("DELETE FROM agents_callday WHERE day = ANY(%s)", [again])
        cursor.execute(_MISSING, {"today": today, "most": STEP + len(again)})
        ends = {day: days.end_of(day) for (day,) in cursor.fetchall()}
        more = is_more_changed or len(ends) == STEP + len(again)
        cursor.execute("INSERT INTO agents_callday (day) SELECT unnest(%s::date[])", [list(ends)])
        cursor.execute(_END_PART, [today, until - day_sums.LATE, until])
        cursor.execute(_BEGIN_PART, [today, until])
        if cursor.rowcount:
            ends[today] = until
        if ends:
            cursor.execute("DELETE FROM agents_callfigure WHERE day = ANY(%s)", [list(ends)])
            starts = [days.start_of(day) for day in ends]
            cursor.execute(_SUM_UP, {"starts": starts, "ends": list(ends.values()), **VALUES})
    return more
