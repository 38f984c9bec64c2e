"""What the desk shows beside its button. Every list is bounded, however much is waiting."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from django.db.models import Case, QuerySet, Value, When
from django.utils.translation import gettext as _

from agents.desk import assignment, hours
from agents.desk.forms import FARTHEST_CALLBACK
from agents.models import Claim
from agents.supervision import summing
from codservice import days, postgresql
from codservice.accounts.models import User
from codservice.i18n_tags import moment
from orders.models import CallState, Order, Status

COUNTED_TO = 1000  # the counters stop here, so that no table is counted as a whole
MOST_CLAIMS = 30
MOST_PROMISED = 20  # orders, in promises for today
# How far to look for the next call: where it nearly always is, then as far as a promise and the window after it reach.
DAYS_AHEAD = (14, FARTHEST_CALLBACK.days + hours.AHEAD)


def counters(agent: User) -> dict[str, int]:
    """What waits, each counted up to COUNTED_TO: orders that are `due` now, `later` today or in `review`; `mine`, the
    customers whom the agent promised to call, and `overdue`, those of them who are due.

    Due is what the agent may be served (`assignment`), whoever holds the customer now. An order outside its merchant's
    hours is not due. It counts as later if hours begin or resume today, as does a colleague's promise until it is
    overdue.
    """
    end_of_day = days.end_of(days.today())
    values = {"agent": agent.id, "end_of_day": end_of_day, "most": COUNTED_TO, **hours.parameters()}
    return dict(zip(_COUNTED, postgresql.row(_COUNTERS, values), strict=True))


_PENDING = "FROM orders_order o WHERE o.status = 'pending_confirmation' AND o.call_state"
_WAITS = f"SELECT {_PENDING}"
_CALLED = f"{_WAITS} IN ('new', 'retry', 'callback') AND o.call_due_at"
_KEPT_BY_COLLEAGUES = f"""(
    o.call_state = 'callback' AND o.callback_agent_id IS DISTINCT FROM %(agent)s
        AND (o.call_due_at > statement_timestamp() - %(overdue)s::interval OR NOT {hours.IS_OPEN_LONG})
)"""
_SERVED = f"{_CALLED} <= statement_timestamp() AND {assignment.SOMEBODY_IS_SERVED} AND {assignment.IS_SERVED}"
_PROMISED = f"SELECT DISTINCT o.phone_e164 {_PENDING} = 'callback' AND o.callback_agent_id = %(agent)s"
# While nobody may be called, whole queues of due orders would be read in vain, so that is checked once, first.
_COUNTED = {
    "due": f"""{_SERVED} AND NOT {_KEPT_BY_COLLEAGUES}
    UNION ALL {_WAITS} = 'callback' AND o.call_due_at <= statement_timestamp() AND o.callback_agent_id = %(agent)s
        AND {hours.IS_OPEN} AND NOT {assignment.IS_SERVED}""",
    "later": f"""{_CALLED} > statement_timestamp() AND o.call_due_at < %(end_of_day)s
        AND EXISTS (SELECT FROM today t WHERE t.account_id = o.account_id AND o.call_due_at < t.closes_at)
        AND {assignment.IS_THEIRS}
    UNION ALL {_SERVED} AND {_KEPT_BY_COLLEAGUES}
    UNION ALL {_CALLED} <= statement_timestamp() AND EXISTS (SELECT FROM opening)
        AND (o.account_id IN (SELECT account_id FROM opening)) IS TRUE AND {assignment.IS_THEIRS}""",  # noqa: S608  (our own conditions)
    "mine": _PROMISED,
    "review": f"{_WAITS} = 'review'",
    "overdue": f"{_PROMISED} AND o.call_due_at <= statement_timestamp() AND {hours.IS_OPEN}",
}
_COUNT = "(SELECT count(*) FROM ({which} LIMIT %(most)s) AS counted)"
_COUNTS = ", ".join(_COUNT.format(which=which) for which in _COUNTED.values())
_COUNTERS = f"""
WITH {hours.OPEN}, {hours.OPEN_LONG}, {assignment.MINE}, {assignment.SERVED},
opening AS MATERIALIZED (
    SELECT account_id FROM today WHERE opens_at > statement_timestamp() EXCEPT SELECT account_id FROM open
)
SELECT {_COUNTS}
"""  # noqa: S608  (our own conditions)


@dataclass(frozen=True)
class Today:
    """What an agent, and the whole call center, have done today. Decisions are of pending orders."""

    calls: int
    confirmed: int
    decided: int
    team_confirmed: int
    team_decided: int

    @property
    def rate(self) -> int | None:
        return summing.confirmation_rate(self.confirmed, self.decided)

    @property
    def team_rate(self) -> int | None:
        return summing.confirmation_rate(self.team_confirmed, self.team_decided)


_SINCE = "coalesce((SELECT until FROM summed), '-infinity')"
# What the figures say of the day so far and, along the indexes by time, what came since. Orders are not read: a twin
# has test orders only, and nobody else has any.
_TODAY = f"""
WITH {summing.SUMMED}
SELECT sum(calls)::int, sum(confirmed)::int, sum(decided)::int, sum(team_confirmed)::int, sum(team_decided)::int FROM (
    SELECT calls, confirmed, confirmed + canceled, 0, 0 FROM agents_callfigure
    WHERE dimension = 'agent' AND day = (SELECT day FROM summed) AND key = %(agent)s::text
    UNION ALL
    SELECT 0, 0, 0, confirmed, confirmed + canceled FROM agents_callfigure
    WHERE dimension = 'all' AND day = (SELECT day FROM summed)
    UNION ALL
    SELECT count(*), 0, 0, 0, 0 FROM orders_callnote n JOIN accounts_account a ON a.id = n.account_id
    WHERE n.created_at >= %(start)s AND n.created_at >= {_SINCE}
        AND n.agent_id = %(agent)s AND n.outcome = ANY(%(calls)s) AND a.live_id IS NULL
    UNION ALL
    SELECT 0, count(*) FILTER (WHERE s.user_id = %(agent)s AND s.to_status = 'confirmed'),
        count(*) FILTER (WHERE s.user_id = %(agent)s), count(*) FILTER (WHERE s.to_status = 'confirmed'), count(*)
    FROM orders_statuschange s JOIN accounts_user u ON u.id = s.user_id JOIN accounts_account a ON a.id = s.account_id
    WHERE s.at >= %(start)s AND s.at >= {_SINCE}
        AND s.from_status = 'pending_confirmation' AND s.to_status IN ('confirmed', 'canceled')
        AND u.is_staff AND a.live_id IS NULL
) AS part(calls, confirmed, decided, team_confirmed, team_decided)
"""  # noqa: S608  (our own conditions)


def today(agent: User) -> Today:
    """Read by one statement: the day's sums, and the notes and moves since."""
    day = days.today()
    values = {"agent": agent.id, "before": day, "last": day, "start": days.start_of(day), **summing.VALUES}
    return Today(*postgresql.row(_TODAY, values))


def who_calls_whom(agent: User) -> QuerySet[Claim]:
    """The current claims, the agent's own first, each with the `order_id` and `customer_name` of one order."""
    claims = Claim.objects.unexpired().with_customers(Order.live.filter(status=Status.PENDING))
    is_other = Case(When(agent=agent, then=Value(0)), default=Value(1))
    return claims.filter(customer_name__isnull=False).order_by(is_other, "claimed_at")[:MOST_CLAIMS]


class Promise(NamedTuple):
    """A call promised to a customer about all of these orders. `order` is the one due first."""

    order: Order
    shops: list[str]


def promises(agent: User) -> list[Promise]:
    """The calls that the agent promised until the end of today, the next one first."""
    mine = Order.live.filter(status=Status.PENDING, call_state=CallState.CALLBACK, callback_agent=agent)
    today = mine.filter(call_due_at__lt=days.end_of(days.today()))
    customers: dict[str, list[Order]] = {}
    for order in today.select_related("account").order_by("call_due_at", "id")[:MOST_PROMISED]:
        customers.setdefault(order.phone_e164, []).append(order)
    return [Promise(orders[0], sorted({order.account.name for order in orders})) for orders in customers.values()]


# What is due already, even if its merchant is closed, and the head of each queue; then the first window for each, in
# which a colleague's promise must first be `late`. Statuses and states are literals for the partial indexes.
_QUEUES = [
    ("interval '0'", f"o.call_state = 'new' AND {assignment.IS_MINE}"),
    ("interval '0'", f"o.call_state = 'retry' AND {assignment.IS_MINE}"),
    ("interval '0'", "o.call_state = 'callback' AND o.callback_agent_id = %(agent)s"),
    ("%(overdue)s::interval", f"o.call_state = 'callback' AND {assignment.IS_MINE}"),
]
_HEAD = """(
    SELECT o.account_id, o.call_due_at AS due, {late} AS late FROM orders_order o
    WHERE o.status = 'pending_confirmation' AND {which} AND o.call_due_at > statement_timestamp() - {late}
    ORDER BY o.call_due_at LIMIT %(most)s
)"""
_DUE = """
    SELECT a.id AS account_id, statement_timestamp() - {late} AS due, {late} AS late FROM accounts_account a
    WHERE EXISTS (
        SELECT FROM orders_order o WHERE o.account_id = a.id AND o.status = 'pending_confirmation'
            AND ({which}) AND o.call_due_at <= statement_timestamp() - {late}
    )"""
_WAITING = " UNION ALL ".join([
    *(_DUE.format(late=late, which=" OR ".join(w for each, w in _QUEUES if each == late)) for late in dict(_QUEUES)),
    *(_HEAD.format(late=late, which=which) for late, which in _QUEUES),
])  # fmt: skip
_WINDOWS = hours.WINDOWS.format(accounts="a.id IN (SELECT account_id FROM waiting)", days="%(days)s")
_NEXT_DUE = f"""
WITH {assignment.MINE}, waiting AS MATERIALIZED ({_WAITING}), windows AS MATERIALIZED ({_WINDOWS})
SELECT NULLIF(called_at, statement_timestamp()), opens_at > due AND late = interval '0'
FROM waiting JOIN windows USING (account_id) CROSS JOIN LATERAL (
    SELECT greatest(due + late, CASE WHEN {hours.GOES_ON} THEN opens_at ELSE opens_at + late END) AS called_at
) AS call
WHERE closes_at > called_at ORDER BY called_at, 2 DESC LIMIT 1
"""  # noqa: S608  (our own conditions)


class NextCall(NamedTuple):
    """When somebody can be called next, None for now, and whether calling hours begin then."""

    at: datetime | None
    is_opening: bool

    def __str__(self) -> str:
        if self.at is None:
            return _("Your colleagues are already calling every customer who is due.")
        said = {"when": moment(self.at)}
        if self.is_opening:
            return _("Nobody can be called now. The next calling hours begin on %(when)s.") % said
        return _("No calls are due now. The next one is due on %(when)s.") % said


def next_call(agent: User) -> NextCall | None:
    """When the agent will next be served a customer, if nobody is due now. None when nothing is planned."""
    values = {"agent": agent.id, "most": COUNTED_TO, **hours.parameters()}
    for ahead in DAYS_AHEAD:
        if found := postgresql.row(_NEXT_DUE, values | {"days": ahead}):
            return NextCall(*found)
    return None
