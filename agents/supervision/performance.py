"""How the call center does, by day, agent, merchant or wilaya. Each figure counts what happened within the period.

All are read by one statement, whatever the period. A call about two orders of one customer counts for both; what
merchants cancel themselves is no decision of the call center. `None` is a figure of nothing: nobody called or decided.
"""

from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from django.db import connection

from codservice import days
from orders.models import CallNote

DIMENSIONS = ("day", "agent", "merchant", "wilaya")
MOST_DAYS = 92
PUNCTUAL = timedelta(minutes=15)  # before and after the promised time

Outcome = CallNote.Outcome
REACHED = (Outcome.ANSWERED, Outcome.CALLBACK)  # the customer spoke
CALLS = (*REACHED, Outcome.NO_ANSWER, Outcome.BUSY, Outcome.SWITCHED_OFF, Outcome.WRONG_NUMBER)


@dataclass
class Figures:
    """Counts of one day, agent, merchant or wilaya, or of all: `key` is the date, id or code, empty for all."""

    key: str
    calls: int = 0  # notes of calls, reached or not
    reached: int = 0  # of these, calls in which the customer spoke
    confirmed: int = 0  # orders that people of the call center confirmed
    canceled: int = 0  # orders that they canceled while the order was pending
    promises: int = 0  # promised calls whose time came, with the order still undecided and no call before it
    kept: int = 0  # of these, customers who were called within 15 minutes of the promised time
    delivered: int = 0  # parcels that arrived; by agent: those that the agent had confirmed
    returned: int = 0  # parcels that came back; likewise
    first_call: timedelta | None = None  # median from an order's import to its first call, of first calls
    decision: timedelta | None = None  # median from an order's import to its decision, of decisions

    @property
    def decisions(self) -> int:
        return self.confirmed + self.canceled

    @property
    def confirmation_rate(self) -> float | None:
        """Confirmed orders among decided ones."""
        return _ratio(self.confirmed, self.decisions)

    @property
    def calls_per_decision(self) -> float | None:
        """Calls of the period by decisions of the period."""
        return _ratio(self.calls, self.decisions)

    @property
    def contact_rate(self) -> float | None:
        """Calls in which the customer spoke among all calls."""
        return _ratio(self.reached, self.calls)

    @property
    def kept_rate(self) -> float | None:
        """Kept promises among those whose time came."""
        return _ratio(self.kept, self.promises)

    @property
    def return_rate(self) -> float | None:
        """Returned parcels among those that arrived or came back; only confirmed orders are ever sent."""
        return _ratio(self.returned, self.delivered + self.returned)


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


# For each part of the statement, what the dimensions are called there.
_KEYS = {
    "day": "({at} AT TIME ZONE 'Africa/Algiers')::date",
    "agent": "{agent}",
    "merchant": "{row}.account_id",
    "wilaya": "o.wilaya_code",
}
# Each part: (name, key, count, of which, median seconds), the row of all with the key NULL and `of_all` 1.
_PARTS = """
WITH calls AS (
    SELECT n.id, n.order_id, n.account_id, n.agent_id, n.outcome, n.created_at, o.wilaya_code,
        o.created_at AS imported_at
    FROM orders_callnote n JOIN orders_order o ON o.id = n.order_id
    WHERE n.created_at >= %(start)s AND n.created_at < %(end)s AND n.outcome = ANY(%(calls)s)
), firsts AS (
    SELECT DISTINCT ON (order_id) * FROM calls c
    WHERE imported_at >= %(start)s OR NOT EXISTS (
        SELECT FROM orders_callnote e WHERE e.order_id = c.order_id AND e.created_at < %(start)s
            AND e.outcome = ANY(%(calls)s)
    )
    ORDER BY order_id, created_at, id
)
SELECT 'calls', {calls_key} AS key, grouping({calls_key}) AS of_all, count(*),
    count(*) FILTER (WHERE outcome = ANY(%(reached)s)), NULL::float
FROM calls o GROUP BY GROUPING SETS ((), ({calls_key}))
UNION ALL
SELECT 'firsts', {calls_key}, grouping({calls_key}), count(*), 0,
    percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM created_at - imported_at))
FROM firsts o GROUP BY GROUPING SETS ((), ({calls_key}))
UNION ALL
SELECT 'decisions', {changes_key}, grouping({changes_key}), count(*), count(*) FILTER (WHERE to_status = 'confirmed'),
    percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM s.at - o.created_at))
FROM orders_statuschange s JOIN orders_order o ON o.id = s.order_id JOIN accounts_user u ON u.id = s.user_id
WHERE s.at >= %(start)s AND s.at < %(end)s AND s.from_status = 'pending_confirmation'
    AND s.to_status IN ('confirmed', 'canceled') AND u.is_staff
GROUP BY GROUPING SETS ((), ({changes_key}))
UNION ALL
SELECT 'ended', {ended_key}, grouping({ended_key}), count(*), count(*) FILTER (WHERE s.to_status = 'returned'), NULL
FROM orders_statuschange s JOIN orders_order o ON o.id = s.order_id {confirmed_by}
WHERE s.at >= %(start)s AND s.at < %(end)s AND s.to_status IN ('delivered', 'returned')
GROUP BY GROUPING SETS ((), ({ended_key}))
UNION ALL
SELECT 'promises', {promises_key}, grouping({promises_key}), count(*), count(*) FILTER (WHERE EXISTS (
    SELECT FROM orders_callnote e WHERE e.order_id = n.order_id AND e.created_at > n.created_at
        AND e.created_at BETWEEN n.callback_at - %(punctual)s AND n.callback_at + %(punctual)s
        AND e.outcome = ANY(%(calls)s)
)), NULL
FROM orders_callnote n JOIN orders_order o ON o.id = n.order_id
WHERE n.callback_at >= %(start)s AND n.callback_at < least(%(end)s, now() - %(punctual)s) AND NOT EXISTS (
    SELECT FROM orders_callnote e WHERE e.order_id = n.order_id AND e.created_at > n.created_at
        AND e.created_at < n.callback_at - %(punctual)s AND e.outcome = ANY(%(calls)s)
) AND NOT EXISTS (
    SELECT FROM orders_statuschange s WHERE s.order_id = n.order_id AND s.at > n.created_at
        AND s.at < n.callback_at - %(punctual)s
)
GROUP BY GROUPING SETS ((), ({promises_key}))
"""
# Who confirmed what arrived or came back.
_CONFIRMED_BY = """LEFT JOIN LATERAL (
    SELECT user_id FROM orders_statuschange c WHERE c.order_id = s.order_id AND c.to_status = 'confirmed'
    ORDER BY c.at DESC LIMIT 1
) confirmed ON true"""


def read(first_day: date, last_day: date, by: str) -> tuple[Figures, list[Figures]]:
    """All of the period, days of Algeria's, both ends included; and each day, agent, merchant or wilaya of it.

    Days come in their order, everything else with the most calls first. Those that nothing happened to are left out.
    """
    statement = _PARTS.format(
        calls_key=_key(by, at="o.created_at", agent="o.agent_id", row="o"),
        changes_key=_key(by, at="s.at", agent="s.user_id", row="s"),
        ended_key=_key(by, at="s.at", agent="confirmed.user_id", row="s"),
        promises_key=_key(by, at="n.callback_at", agent="n.agent_id", row="n"),
        confirmed_by=_CONFIRMED_BY if by == "agent" else "",
    )
    values: dict[str, Any] = {
        "start": days.start_of(first_day),
        "end": days.end_of(last_day),
        "calls": [outcome.value for outcome in CALLS],
        "reached": [outcome.value for outcome in REACHED],
        "punctual": PUNCTUAL,
    }
    everything, found = Figures(""), {}
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        for part, key, of_all, count, of_which, seconds in cursor.fetchall():
            if of_all:
                _add(everything, part, count, of_which, seconds)
            elif key is not None:  # nobody: an agent who has been deleted
                _add(found.setdefault(str(key), Figures(str(key))), part, count, of_which, seconds)
    rows = list(found.values())
    rows.sort(key=lambda row: row.key if by == "day" else (-row.calls, -row.decisions, row.key))
    return everything, rows


def _key(by: str, **names: str) -> str:
    return _KEYS[by].format(**names)


def _add(row: Figures, part: str, count: int, of_which: int, seconds: float | None) -> None:
    median = None if seconds is None else timedelta(seconds=float(seconds))
    match part:
        case "calls":
            row.calls, row.reached = count, of_which
        case "firsts":
            row.first_call = median
        case "decisions":
            row.confirmed, row.canceled, row.decision = of_which, count - of_which, median
        case "ended":
            row.delivered, row.returned = count - of_which, of_which
        case "promises":
            row.promises, row.kept = count, of_which
