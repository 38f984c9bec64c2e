"""What happened to an account's orders, day by day: read from sums, and for the last minutes from the rows.

A day's figures count what happened on that day: orders that arrived, were confirmed, canceled, shipped, delivered or
returned, whenever each of them came in. An order counts with its present contents, which do not change once it is
confirmed. It counts with its total; by product, once for each of its products, with the sum of that product's lines.

What happened before the account's `SummedUp.until` is in `DayFigure`, which `day_sums` writes. Later changes and noted
days (`ChangedDay`) are read from the rows, by the same statement that makes the sums. So the figures are right whatever
was killed when, and reading writes nothing; only its speed depends on beat, unless the clock is set back (`day_sums`).
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import Annotated, Any, NamedTuple, get_origin, get_type_hints
from uuid import UUID

from codservice import days, postgresql
from orders.cancel_reasons import counted_as
from orders.models import CallNote, DayFigure

Dimension = DayFigure.Dimension
# Bounds of the spans between an order's import and its first call, in minutes. Waits below the first bound have the key
# 0, waits from the last bound on have the number of bounds.
WAITS = (5, 15, 30, 60, 120, 240, 480, 1440, 2880)
# By how much the database's clock may be set back, as by a failover or NTP, without anything having to notice it: a few
# rounds of beat. What a worker makes of rows ends so long ago; what ends later than that is not used.
SET_BACK = timedelta(minutes=3)
STEP = 7  # days that one transaction sums up, which takes seconds at millions of orders a year
MOST_UNSUMMED = 300_000  # moves that a page view may read from the rows, which takes a second or a few
MOST_PASSED = 10_000  # moves that `arrivals` may read: more would take longer than OFFSET does on most pages
MOST_KEYS = 5000  # of a dimension; shops may write a different name or reason into each order


def count_of(*kinds: str) -> str:
    """SQL: how many events of these kinds there are."""
    return f"count(*) FILTER (WHERE {_is_one_of(kinds)})"


def amount_of(*kinds: str) -> str:
    """SQL: what the orders of the events of these kinds amount to, in DZD."""
    return f"coalesce(sum(amount) FILTER (WHERE {_is_one_of(kinds)}), 0)"


def _is_one_of(kinds: Iterable[str]) -> str:
    return "kind IN ({})".format(", ".join(f"'{kind}'" for kind in kinds))


@dataclass(slots=True)
class Figures:
    """The figures of one day, wilaya and so on, or of a whole period. Amounts are in DZD.

    Each but the key is a column of `DayFigure`, with the SQL that counts it from the `facts` of `from_rows`.
    """

    key: str = ""
    new_count: Annotated[int, count_of("new")] = 0
    new_amount: Annotated[Decimal, amount_of("new")] = Decimal(0)
    # Pieces in the new orders; only by product.
    unit_count: Annotated[int, "coalesce(sum(units) FILTER (WHERE kind = 'new'), 0)"] = 0
    confirmed_count: Annotated[int, count_of("confirmed")] = 0
    confirmed_amount: Annotated[Decimal, amount_of("confirmed")] = Decimal(0)
    canceled_count: Annotated[int, count_of("canceled", "refused")] = 0
    canceled_amount: Annotated[Decimal, amount_of("canceled", "refused")] = Decimal(0)
    refused_count: Annotated[int, count_of("refused")] = 0  # canceled orders that were never confirmed
    refused_amount: Annotated[Decimal, amount_of("refused")] = Decimal(0)
    shipped_count: Annotated[int, count_of("shipped")] = 0
    shipped_amount: Annotated[Decimal, amount_of("shipped")] = Decimal(0)
    delivered_count: Annotated[int, count_of("delivered")] = 0
    delivered_amount: Annotated[Decimal, amount_of("delivered")] = Decimal(0)
    returned_count: Annotated[int, count_of("returned")] = 0
    returned_amount: Annotated[Decimal, amount_of("returned")] = Decimal(0)
    first_call_count: Annotated[int, count_of("called")] = 0  # orders that were called for the first time; only by wait

    @property
    def decided_count(self) -> int:
        """Orders that were confirmed, or canceled without having been confirmed."""
        return self.confirmed_count + self.refused_count

    @property
    def ended_count(self) -> int:
        """Parcels that arrived or came back."""
        return self.delivered_count + self.returned_count


def columns(figures: type) -> dict[str, str]:
    """The figures that are columns of the sums, by name, each with the SQL that counts it."""
    hints = get_type_hints(figures, include_extras=True)
    return {name: hint.__metadata__[0] for name, hint in hints.items() if get_origin(hint) is Annotated}


COLUMNS = columns(Figures)


class Summary(NamedTuple):
    """Today's figures and those of a period; `waiting` is the number of orders that are undecided now, and their sum.

    `days` has the period's days on which something happened, oldest first. `parts` has the period by other dimensions,
    a row for each key; all after the first MOST_KEYS in the order of `most_first` are added up in `others`.
    """

    today: Figures
    total: Figures
    waiting: tuple[int, Decimal]
    days: list[Figures]
    parts: Mapping[Dimension, list[Figures]]
    others: Mapping[Dimension, Figures]


# What happened within `spans`. PostgreSQL cannot estimate how much that is and would read whole tables for one day, so
# a LIMIT or OFFSET in the subqueries makes it look up row by row.
_CHANGES = """
changes AS MATERIALIZED (
    SELECT (s.at AT TIME ZONE 'Africa/Algiers')::date AS day, s.order_id, s.kind, s.reason, o.*
    FROM spans CROSS JOIN LATERAL (
        SELECT order_id, reason, at, CASE
                WHEN to_status = 'pending_confirmation' THEN 'new'
                WHEN to_status = 'canceled' AND from_status = 'pending_confirmation' THEN 'refused'
                ELSE to_status
            END AS kind
        FROM orders_statuschange
        WHERE account_id = %(account)s AND at >= spans.starts AND at < spans.ends OFFSET 0
    ) s CROSS JOIN LATERAL (
        SELECT wilaya_code, source, total_amount FROM orders_order WHERE id = s.order_id LIMIT 1
    ) o
)"""
# The first of all calls about an order, if it was within `spans`.
_CALLED = """
called AS MATERIALIZED (
    SELECT n.at, o.created_at FROM spans CROSS JOIN LATERAL (
        SELECT order_id, min(created_at) AS at FROM orders_callnote
        WHERE account_id = %(account)s AND created_at >= spans.starts AND created_at < spans.ends
            AND outcome = ANY(%(calls)s)
        GROUP BY order_id
    ) n CROSS JOIN LATERAL (SELECT created_at FROM orders_order WHERE id = n.order_id LIMIT 1) o
    WHERE NOT EXISTS (
        SELECT FROM orders_callnote e WHERE e.order_id = n.order_id AND e.outcome = ANY(%(calls)s)
            AND e.created_at < n.at OFFSET 0
    )
)"""
_FACTS = {
    Dimension.ALL: "SELECT day, 'all', '', kind, total_amount, 0 FROM changes",
    Dimension.WILAYA: "SELECT day, 'wilaya', wilaya_code, kind, total_amount, 0 FROM changes",
    Dimension.SOURCE: "SELECT day, 'source', coalesce(source, ''), kind, total_amount, 0 FROM changes",
    Dimension.REASON: f"""SELECT day, 'reason', {counted_as("reason")}, kind, total_amount, 0
        FROM changes WHERE kind IN ('canceled', 'refused')""",  # noqa: S608  (our own text)
    Dimension.PRODUCT: "SELECT day, dimension, key, kind, amount, units FROM changes JOIN lines USING (order_id)",
    Dimension.WAIT: """SELECT (at AT TIME ZONE 'Africa/Algiers')::date, 'wait',
        width_bucket(extract(epoch FROM at - created_at) / 60, %(waits)s::numeric[])::text, 'called', 0, 0
        FROM called""",
}


def from_rows(spans: str, dimensions: Set[Dimension]) -> str:
    """Steps (CTEs) of a statement; the last, `from_rows`, has day, dimension, key and COLUMNS of what is in `spans`."""
    steps = [
        f"spans(starts, ends) AS MATERIALIZED ({spans})",
        _CHANGES,
        *([_CALLED] if Dimension.WAIT in dimensions else []),
        *([lines_of("changes")] if Dimension.PRODUCT in dimensions else []),
        added_up((text for name, text in _FACTS.items() if name in dimensions), "kind, amount, units", COLUMNS),
    ]
    return ", ".join(steps)


def lines_of(step: str) -> str:
    """A step (CTE), `lines`: what the orders of this step have of each product, or of each name without a product."""
    return f"""
lines AS MATERIALIZED (
    SELECT order_id, CASE WHEN product_id IS NULL THEN 'name' ELSE 'product' END AS dimension,
        coalesce(product_id::text, product_name) AS key, sum(quantity) AS units, sum(quantity * unit_price) AS amount
    FROM (SELECT DISTINCT order_id FROM {step}) AS concerned CROSS JOIN LATERAL (
        SELECT product_id, product_name, quantity, unit_price FROM orders_orderitem
        WHERE order_id = concerned.order_id OFFSET 0
    ) AS item GROUP BY 1, 2, 3
)"""  # noqa: S608  (our own text)


def added_up(facts: Iterable[str], counted: str, columns: Mapping[str, str]) -> str:
    """The steps `facts`, with day, dimension, key and what is `counted`, and `from_rows`, with `columns` of these."""
    return f"""
facts(day, dimension, key, {counted}) AS ({" UNION ALL ".join(facts)}),
from_rows(day, dimension, key, {", ".join(columns)}) AS (
    SELECT day, dimension, key, {", ".join(columns.values())} FROM facts GROUP BY day, dimension, key
)"""  # noqa: S608  (our own text)


_UNSUMMED_SPANS = """
    SELECT coalesce((SELECT until FROM summed), '-infinity'), timestamptz 'infinity'
    UNION ALL
    SELECT day::timestamp AT TIME ZONE 'Africa/Algiers',
        least((day + 1)::timestamp AT TIME ZONE 'Africa/Algiers', (SELECT until FROM summed))
    FROM changed
"""
# Gives four kinds of rows, by (dimension, day, key): ('all', day, '') for each day of the period, and today;
# ('all', NULL, '') for all other days together; (other, NULL, key) for each of the first MOST_KEYS parts of the period,
# in the order of `most_first`; (other, NULL, NULL) for all parts after these. Sums of parts are first added up on their
# own, because PostgreSQL can estimate their number of keys. All in one, it would sort a year of many products on disk.
_READ = """
WITH summed AS MATERIALIZED (
    SELECT until FROM orders_summedup WHERE account_id = %(account)s
), changed AS MATERIALIZED (
    SELECT day FROM orders_changedday
    WHERE account_id = %(account)s AND day <= ((SELECT until FROM summed) AT TIME ZONE 'Africa/Algiers')::date
    UNION
    -- The clock was set back: what happens now may be dated before `until`.
    SELECT day::date FROM summed CROSS JOIN LATERAL generate_series(
        ((now() - %(set_back)s) AT TIME ZONE 'Africa/Algiers')::date, (until AT TIME ZONE 'Africa/Algiers')::date,
        interval '1 day'
    ) AS day WHERE until > now() - %(set_back)s
), {from_rows}, found AS (
    SELECT * FROM from_rows WHERE dimension = 'all' OR day BETWEEN %(first)s AND %(last)s
    UNION ALL
    SELECT NULL, dimension, key, {sums} FROM orders_dayfigure
    WHERE account_id = %(account)s AND dimension = ANY(%(dimensions)s) AND day BETWEEN %(first)s AND %(last)s
        AND (SELECT until FROM summed) IS NOT NULL AND day NOT IN (SELECT day FROM changed)
    GROUP BY dimension, key
    UNION ALL
    SELECT day, dimension, key, {columns} FROM orders_dayfigure
    WHERE account_id = %(account)s AND dimension = 'all'
        AND (SELECT until FROM summed) IS NOT NULL AND day NOT IN (SELECT day FROM changed)
), parts(dimension, day, key, {columns}) AS (
    SELECT dimension, CASE WHEN dimension = 'all' AND (day BETWEEN %(first)s AND %(last)s OR day = %(today)s)
        THEN day END, key, {sums}
    FROM found GROUP BY 1, 2, 3
), placed AS (
    SELECT *, row_number() OVER (PARTITION BY dimension ORDER BY new_count DESC, confirmed_count + canceled_count DESC,
        delivered_count + returned_count DESC, key) AS place
    FROM parts
)
SELECT dimension, day, CASE WHEN dimension = 'all' OR place <= %(most_keys)s THEN key END, {sums}
FROM placed GROUP BY 1, 2, 3
"""


class Outlook(NamedTuple):
    """Whether there is anything to `read` of an account, and whether it can be read in time.

    It `is_behind` while more is left to sum up than a page view has time for, as after an upgrade; beat works on it.
    """

    has_orders: bool
    is_behind: bool


_OUTLOOK = """
SELECT EXISTS (SELECT FROM orders_order WHERE account_id = %(account)s), EXISTS (
    SELECT FROM orders_statuschange WHERE account_id = %(account)s
        AND at >= coalesce((SELECT until FROM orders_summedup WHERE account_id = %(account)s), '-infinity')
    OFFSET %(most)s
)
"""


def outlook(account_id: UUID) -> Outlook:
    return Outlook(*postgresql.row(_OUTLOOK, {"account": account_id, "most": MOST_UNSUMMED}))


def read(account_id: UUID, first: date, last: date, *, today: date, by: Set[Dimension] = frozenset()) -> Summary:
    """The account's figures of today and of the days from `first` to `last`, both included.

    The period is also divided by the dimensions in `by`; PRODUCT adds NAME, for lines without a product. Costs one
    statement, which may time out after half a minute while the account `is_behind`.
    """
    dimensions = {*by, *({Dimension.NAME} if Dimension.PRODUCT in by else ())} - {Dimension.ALL}
    asked = parameters(account_id, first=first, last=last, today=today, dimensions=[each.value for each in dimensions])
    by_day: dict[date | None, Figures] = {}  # None: all other days
    parts: dict[Dimension, list[Figures]] = defaultdict(list)
    others: dict[Dimension, Figures] = {}
    for name, day, key, *figures in postgresql.rows(_reading({Dimension.ALL, *dimensions}), asked):
        dimension = Dimension(name)
        row = Figures(day.isoformat() if day else key or "", *map(number, COLUMNS, figures))
        if dimension == Dimension.ALL:
            by_day[day] = row
        elif key is None:
            others[dimension] = row
        else:
            parts[dimension].append(row)
    period = [by_day[day] for day in sorted(filter(None, by_day)) if first <= day <= last]
    ever = together(by_day.values())
    waiting = ever.new_count - ever.decided_count, ever.new_amount - ever.confirmed_amount - ever.refused_amount
    return Summary(by_day.get(today, Figures(today.isoformat())), together(period), waiting, period, parts, others)


def most_first(row: Figures) -> tuple[int, int, int, str]:
    """The sort key of a period's parts."""
    return -row.new_count, -row.confirmed_count - row.canceled_count, -row.ended_count, row.key


def _reading(dimensions: set[Dimension], spans: str = _UNSUMMED_SPANS) -> str:
    return _READ.format(
        from_rows=from_rows(spans, dimensions),
        columns=", ".join(COLUMNS),
        sums=", ".join(f"sum({name})" for name in COLUMNS),
    )


# No spans at all while much is left to sum up: then the days do not add up to the number of orders.
_FEW_SPANS = f"""
    SELECT * FROM ({_UNSUMMED_SPANS}) AS other
    WHERE (SELECT until FROM summed) IS NOT NULL AND (SELECT count(*) FROM changed) <= %(step)s AND NOT EXISTS (
        SELECT FROM orders_statuschange
        WHERE account_id = %(account)s AND at >= (SELECT until FROM summed) OFFSET %(most)s
    )
"""  # noqa: S608  (our own text)
_ARRIVALS = f"""
WITH found(dimension, day, key, {", ".join(COLUMNS)}) AS MATERIALIZED ({_reading({Dimension.ALL}, _FEW_SPANS)})
SELECT day, new_count FROM found WHERE new_count > 0 AND (SELECT sum(new_count) FROM found)
    = (SELECT sum(delta) FROM orders_ordercount WHERE account_id = %(account)s)
ORDER BY day
"""  # noqa: S608  (our own text)


def arrivals(account_id: UUID) -> list[tuple[date, int]]:
    """How many of the account's orders arrived on each day, oldest day first; an order is as old as its first change.

    Empty until the account is summed up but for MOST_PASSED moves, and whenever the days do not add up to its number of
    orders.
    """
    asked = parameters(
        account_id, first=date.min, last=date.max, today=days.today(), dimensions=[], step=STEP, most=MOST_PASSED
    )
    return [(day, int(count)) for day, count in postgresql.rows(_ARRIVALS, asked)]


def number(name: str, value: Any) -> Any:
    """The value as the type of the figure `name`. PostgreSQL's sums of integers may be decimals or integers."""
    return Decimal(value) if name.endswith("_amount") else int(value)


def together(rows: Iterable[Figures]) -> Figures:
    by_name = zip(*([getattr(row, name) for name in COLUMNS] for row in rows), strict=True)
    return Figures("", *map(sum, by_name))


def parameters(account_id: UUID, **values: Any) -> dict[str, Any]:
    """The parameters of a statement that contains `from_rows`, with `values` of its own."""
    known = {
        "account": account_id, "most_keys": MOST_KEYS, "waits": list(WAITS), "calls": CallNote.CALLS,
        "set_back": SET_BACK,
    }  # fmt: skip
    return known | values
