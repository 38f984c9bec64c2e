"""How the call center does: in a period, divided in one of several ways, and what waits for it now.

Each figure counts what happened in the period. One statement reads them all: what is summed up (`summing`) from its
sums, the rest from the rows. A call about two orders of one customer counts for both. What merchants cancel themselves
is no decision of the call center.
"""

from collections import defaultdict
from datetime import date, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

from agents import ages
from agents.supervision import summing
from agents.supervision.summing import COLUMNS, Dimension, Figures
from codservice import days, postgresql
from orders import daily


class Summary(NamedTuple):
    """`rows` divide the period, `before` is the period of equal length before it, `reasons` say why orders were
    canceled.

    Beyond `daily.MOST_KEYS` keys, the rest is summed in `others`; further reasons are left out.
    """

    total: Figures
    rows: list[Figures]
    before: Figures
    reasons: list[Figures]
    others: Figures | None


class Backlog(NamedTuple):
    """The orders that wait for a call or review now: their number and amount by the spans of `ages`; by merchant's id,
    how many wait for a day or longer and how many in all, those with the most first.
    """

    by_age: list[tuple[int, Decimal]]
    by_merchant: list[tuple[str, int, int]]


NAMED = "name:"  # before the key of lines without a product, which may be called like the id of one
_Row = list[Any]  # the COLUMNS of one row

# Reads all orders by day from `before` on, and the period by key, with all keys after the first ones in one row without
# a key. Sums and rows are read apart, since PostgreSQL can estimate the sums only.
_READ = """
WITH {summed}, spans(starts, ends) AS MATERIALIZED (
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
"""
_WAITING = """
SELECT width_bucket(extract(epoch FROM now() - created_at) / 3600, %(ages)s::numeric[]),
    CASE WHEN %(by_merchant)s THEN account_id::text END, count(*), sum(total_amount)
FROM orders_order
WHERE status = 'pending_confirmation' AND call_state IN ('new', 'retry', 'callback', 'review') GROUP BY 1, 2
"""


def read(first_day: date, last_day: date, by: str) -> Summary:
    """The period, by day or a dimension of CallFigure, and what is shown beside it.

    Days and hours are in their own order, all else by most calls. Keys to which nothing happened are left out. By
    product, lines without one have their name after NAMED as the key.
    """
    own, earlier, others = list[_Row](), list[_Row](), list[_Row]()
    parts, of_reasons = defaultdict[str, list[_Row]](list), defaultdict[str, list[_Row]](list)
    for dimension, day, key, *row in _rows(first_day, last_day, by):
        if dimension == Dimension.ALL and day < first_day:
            earlier.append(row)
        elif dimension == Dimension.ALL:
            own.append(row)
            if by == "day":
                parts[day.isoformat()].append(row)
        elif dimension == Dimension.REASON:
            if key is not None:
                of_reasons[key].append(row)
        elif key is None:
            others.append(row)
        else:
            parts[f"{NAMED}{key}" if dimension == Dimension.NAME else key].append(row)
    rows = [_together(key, some) for key, some in parts.items()]
    rows.sort(key=lambda row: row.key if by in ("day", "hour") else (-row.calls, -row.decisions, row.key))
    reasons = [_together(key, some) for key, some in of_reasons.items()]
    reasons.sort(key=lambda row: (-row.canceled, row.key))
    rest = _together("", others) if others else None
    return Summary(_together("", own), rows, _together("", earlier), reasons, rest)


def first_day_before(first_day: date, last_day: date) -> date:
    """The first day of the period of equal length before this one."""
    return first_day - (last_day - first_day) - timedelta(days=1)


def backlog(*, by_merchant: bool) -> Backlog:
    """What waits now; without `by_merchant`, by age only."""
    waiting = postgresql.rows(_WAITING, {"ages": list(ages.BOUNDS), "by_merchant": by_merchant})
    by_age = [(0, Decimal(0))] * (len(ages.BOUNDS) + 1)
    shops = defaultdict[str, list[int]](lambda: [0, 0])
    for age, shop, count, amount in waiting:
        by_age[age] = (by_age[age][0] + count, by_age[age][1] + amount)
        if shop:
            late, whole = shops[shop]
            shops[shop] = [late + count * (age >= ages.LATE), whole + count]
    most_first = sorted(shops.items(), key=lambda item: (-item[1][0], -item[1][1], item[0]))
    return Backlog(by_age, [(shop, late, whole) for shop, (late, whole) in most_first])


def _rows(first_day: date, last_day: date, by: str) -> list[tuple[Any, ...]]:
    """The rows of _READ: dimension, day, key and COLUMNS."""
    divided = {Dimension.REASON} if by == "day" else {Dimension.REASON, Dimension(by)}
    names = [*divided, *({Dimension.NAME} if by == "product" else ())]
    values: dict[str, Any] = {
        "before": first_day_before(first_day, last_day), "first": first_day, "last": last_day, "today": days.today(),
        "divided": [name.value for name in names], "most_keys": daily.MOST_KEYS,
        **summing.VALUES,
    }  # fmt: skip
    statement = _READ.format(
        summed=summing.SUMMED,
        from_rows=summing.from_rows({Dimension.ALL, *divided}),
        columns=", ".join(COLUMNS),
        sums=", ".join(f"string_agg({n}, ''::bytea)" if n.endswith("_waits") else f"sum({n})" for n in COLUMNS),
    )
    return postgresql.rows(statement, values)


def _together(key: str, rows: list[_Row]) -> Figures:
    """The sum of these rows."""
    figures = Figures(key)
    for name, values in zip(COLUMNS, zip(*rows, strict=True), strict=False):  # no rows: no values
        is_waits = name.endswith("_waits")
        setattr(figures, name, b"".join(values) if is_waits else daily.number(name, sum(values)))
    return figures
