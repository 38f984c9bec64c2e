"""How the call center does in a period, divided in one of several ways. Each figure counts what happened in it.

One statement reads everything: what is summed up (`summing`) from its sums, the rest from the rows. A call about two
orders of one customer counts for both. What merchants cancel themselves is no decision of the call center. A figure is
`None` when there is nothing to count, such as no calls.
"""

from collections import defaultdict
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

from django.db import connection

from agents import ages
from agents.supervision import summing
from agents.supervision.summing import COLUMNS, WAITS, Dimension
from codservice import days
from orders import daily

MOST_DAYS = 92


@dataclass(slots=True)
class Figures:
    """The figures of one day, agent, merchant and so on, or of all. `key` is the date, id or code, empty for all.

    Amounts are in DZD.
    """

    key: str
    calls: int = 0  # notes of calls, reached or not
    reached: int = 0  # of these, calls in which the customer spoke
    confirmed: int = 0  # orders that people of the call center confirmed
    canceled: int = 0  # orders that they canceled while the order was pending
    promises: int = 0  # promised calls whose time came, with the order still undecided and no call before it
    kept: int = 0  # of these, customers who were called within 15 minutes of the promised time
    delivered: int = 0  # parcels that arrived; by agent, those the agent had confirmed
    returned: int = 0  # parcels that came back; likewise
    confirmed_amount: Decimal = Decimal(0)  # what these orders amount to; by product, only that product's lines
    canceled_amount: Decimal = Decimal(0)
    delivered_amount: Decimal = Decimal(0)
    returned_amount: Decimal = Decimal(0)
    first_call: timedelta | None = None  # median time from import to first call, over first calls, in minutes
    decision: timedelta | None = None  # median time from import to decision, over decisions, likewise

    @property
    def decisions(self) -> int:
        return self.confirmed + self.canceled

    @property
    def ended(self) -> int:
        """Parcels delivered or returned."""
        return self.delivered + self.returned

    @property
    def confirmation_rate(self) -> float | None:
        """Confirmed orders as a share of decided ones."""
        return _ratio(self.confirmed, self.decisions)

    @property
    def calls_per_decision(self) -> float | None:
        """The period's calls divided by its decisions."""
        return _ratio(self.calls, self.decisions)

    @property
    def contact_rate(self) -> float | None:
        """Calls in which the customer spoke as a share of all calls."""
        return _ratio(self.reached, self.calls)

    @property
    def kept_rate(self) -> float | None:
        """Kept promises as a share of those whose time came."""
        return _ratio(self.kept, self.promises)

    @property
    def return_rate(self) -> float | None:
        """Returned parcels as a share of those that ended; only confirmed orders are ever shipped."""
        return _ratio(self.returned, self.ended)


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


@dataclass(slots=True)
class Summary:
    """`rows` divide the period, `before` is the period of equal length before it, `reasons` say why orders were
    canceled.

    Beyond `daily.MOST_KEYS` keys, the rest is summed in `others`; further reasons are left out. `backlog` has the
    number and amount of orders that wait for a call or review now, by the spans of `ages`. By merchant, `waiting` has
    for each merchant's id how many wait for a day or longer, and how many in all, those with the most first.
    """

    total: Figures
    rows: list[Figures]
    before: Figures
    reasons: list[Figures]
    others: Figures | None
    backlog: list[tuple[int, Decimal]]
    waiting: list[tuple[str, int, int]]


_Row = list[Any]  # the COLUMNS of one row
_COUNTS = tuple(name for name in COLUMNS if name not in WAITS)
# Reads all orders by day from `before` on, and the period by key, with all keys after the first ones in one row without
# a key. Sums and rows are read apart, since PostgreSQL can estimate the sums only. Sums of the future are ignored: the
# clock was put back.
_READ = """
WITH changed AS MATERIALIZED (SELECT DISTINCT day FROM orders_changedday WHERE account_id IS NULL),
summed AS MATERIALIZED (
    SELECT day, max(until) AS until FROM (
        SELECT day, timestamptz 'infinity' AS until FROM agents_callday
        WHERE day < ((now() - %(punctual)s) AT TIME ZONE 'Africa/Algiers')::date
        UNION ALL
        SELECT day, until FROM agents_callpart WHERE until <= now() - %(punctual)s
    ) of_day
    WHERE day BETWEEN %(before)s AND %(last)s AND day NOT IN (SELECT day FROM changed) GROUP BY day
), spans(starts, ends) AS MATERIALIZED (
    SELECT greatest(day AT TIME ZONE 'Africa/Algiers', until), (day + interval '1 day') AT TIME ZONE 'Africa/Algiers'
    FROM generate_series(%(before)s::timestamp, least(%(last)s, %(today)s), interval '1 day') AS day
    LEFT JOIN summed USING (day) WHERE until IS DISTINCT FROM 'infinity'
), {from_rows}, found(dimension, own, key, {columns}) AS MATERIALIZED (
    SELECT dimension, CASE WHEN dimension = 'all' THEN day END, key, {sums} FROM from_rows
    WHERE dimension = 'all' OR day BETWEEN %(first)s AND %(last)s GROUP BY 1, 2, 3
    UNION ALL
    SELECT dimension, NULL, key, {sums} FROM agents_callfigure
    WHERE dimension = ANY(%(divided)s) AND day = ANY(ARRAY(SELECT day FROM summed WHERE day >= %(first)s))
    GROUP BY 1, 3
), placed AS (
    SELECT dimension, key, row_number() OVER (
        PARTITION BY dimension ORDER BY sum(calls) DESC, sum(confirmed + canceled) DESC, key
    ) AS place FROM found WHERE dimension <> 'all' GROUP BY dimension, key
)
SELECT dimension, own, key, {columns} FROM found WHERE dimension = 'all'
UNION ALL
SELECT dimension, day, key, {columns} FROM agents_callfigure
WHERE dimension = 'all' AND day = ANY(ARRAY(SELECT day FROM summed))
UNION ALL
SELECT dimension, NULL, CASE WHEN place <= %(most_keys)s THEN key END, {sums}
FROM found JOIN placed USING (dimension, key) GROUP BY 1, 3
UNION ALL
SELECT 'backlog', NULL,
    concat(width_bucket(extract(epoch FROM now() - created_at) / 3600, %(ages)s::numeric[]), {shop}),
    count(*), {nothing}, sum(total_amount), ''::bytea, ''::bytea
FROM orders_order
WHERE status = 'pending_confirmation' AND call_state IN ('new', 'retry', 'callback', 'review') GROUP BY 3
"""


def look(first_day: date, last_day: date, by: str) -> Summary:
    """The period, by day or a dimension of CallFigure, and what is shown beside it, read by one statement.

    Days and hours are in their own order, all else by most calls. Keys to which nothing happened are left out.
    """
    own, earlier, others = list[_Row](), list[_Row](), list[_Row]()
    backlog, waiting = [(0, Decimal(0))] * (len(ages.BOUNDS) + 1), defaultdict[str, list[int]](lambda: [0, 0])
    parts: dict[tuple[str, str], list[_Row]] = defaultdict(list)
    for dimension, day, key, *counts in _rows(first_day, last_day, by):
        if dimension == "backlog":
            age, shop, count = int(key[0]), key[1:], int(counts[0])
            backlog[age] = (backlog[age][0] + count, backlog[age][1] + counts[len(_COUNTS) - 1])
            if shop:
                late, whole = waiting[shop]
                waiting[shop] = [late + count * (age >= ages.LATE), whole + count]
        elif key is None:
            others += [counts] if dimension != Dimension.REASON else []
        elif dimension != Dimension.ALL:
            parts[dimension, key].append(counts)
        elif day < first_day:
            earlier.append(counts)
        else:
            own.append(counts)
            if by == "day":
                parts[by, day.isoformat()].append(counts)
    reasons = [_figures(key, some) for (dimension, key), some in parts.items() if dimension == Dimension.REASON]
    rows = [_figures(key, some) for (dimension, key), some in parts.items() if dimension != Dimension.REASON]
    rows.sort(key=lambda row: row.key if by in ("day", "hour") else (-row.calls, -row.decisions, row.key))
    reasons.sort(key=lambda row: (-row.canceled, row.key))
    rest = _figures("", others) if others else None
    shops = sorted(((shop, *counts) for shop, counts in waiting.items()), key=lambda row: (-row[1], -row[2], row[0]))
    return Summary(_figures("", own), rows, _figures("", earlier), reasons, rest, backlog, shops)


def _rows(first_day: date, last_day: date, by: str) -> list[tuple[Any, ...]]:
    """The rows of _READ: dimension, day, key and COLUMNS."""
    divided = {Dimension.REASON} if by == "day" else {Dimension.REASON, Dimension(by)}
    before = first_day - (last_day - first_day) - timedelta(days=1)
    names = [*divided, *({Dimension.NAME} if by == "product" else ())]
    values: dict[str, Any] = {
        "before": before, "first": first_day, "last": last_day, "today": days.today(),
        "divided": [name.value for name in names], "ages": list(ages.BOUNDS), "most_keys": daily.MOST_KEYS,
        **summing.VALUES,
    }  # fmt: skip
    statement = _READ.format(
        from_rows=summing.from_rows({Dimension.ALL, *divided}),
        columns=", ".join(COLUMNS),
        sums=", ".join(f"string_agg({n}, ''::bytea)" if n in WAITS else f"sum({n})" for n in COLUMNS),
        nothing=", ".join("0" for _ in _COUNTS[2:]),
        shop="account_id" if by == "merchant" else "''",
    )
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return cursor.fetchall()


def _figures(key: str, parts: list[_Row]) -> Figures:
    """The sum of these rows."""
    columns = dict(zip(COLUMNS, zip(*parts, strict=True), strict=False))
    counts = {name: daily.number(name, sum(columns.get(name, ()))) for name in _COUNTS}
    first, decision = (_middle(b"".join(columns.get(name, ()))) for name in WAITS)
    return Figures(key, **counts, first_call=first, decision=decision)


def _middle(waits: bytes) -> timedelta | None:
    """The median; halfway between the two middle waits if their number is even, like `percentile_cont`."""
    if not (count := len(waits) // 4):
        return None
    lower, after = _at(waits, (count - 1) // 2)
    upper = lower if count % 2 or after else _at(waits, count // 2)[0]
    return timedelta(minutes=(lower + upper) / 2)


def _at(waits: bytes, place: int) -> tuple[int, bool]:
    """The wait at this place in sorted order, and whether the next one is equal.

    It works bit by bit from the highest, splitting all waits at once into those with the bit and those without, in
    integers with one byte for each wait. `among` has a 1 for each wait that is still a candidate.
    """
    left = len(waits) // 4
    among, found = int.from_bytes(b"\1" * left), 0
    for number in range(4):
        plane = int.from_bytes(waits[number::4])
        if not plane:  # no wait is that long
            continue
        for bit in reversed(range(8)):
            having = plane >> bit & among
            with_it = having.bit_count()
            if place < left - with_it:
                among, left = among ^ having, left - with_it
            else:
                among, left, place = having, with_it, place - (left - with_it)
                found |= 1 << 8 * (3 - number) + bit
    return found, place + 1 < left
