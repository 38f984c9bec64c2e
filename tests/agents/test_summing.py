"""The call center's figures equal what plain SQL over all rows says, however much is summed up already."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection, connections, transaction
from django.db.models import F
from django.utils import timezone

from agents.desk import overview
from agents.models import CallDay, CallFigure, CallPart
from agents.supervision import performance, summing
from agents.supervision.figures import DIVISIONS
from codservice import days
from codservice.accounts.actor import Actor
from codservice.accounts.models import Account, User
from orders import day_sums, editing, lifecycle
from orders.cancel_reasons import CancelReason
from orders.models import CallNote, ChangedDay, Order, StatusChange
from orders.tasks import sum_up_days
from tests import factories
from tests.harness.background import PATIENCE, eventually, open_transaction
from tests.harness.database import one, slow_down_inserts
from tests.orders.life import Life, change_while_summed_up

pytestmark = pytest.mark.django_db

# --- The same by plain SQL, row by row -------------------------------------------------------------------------------

_LIVE = "o.account_id IN (SELECT id FROM accounts_account WHERE live_id IS NULL)"
_CALLS = "('answered', 'callback', 'no_answer', 'busy', 'switched_off', 'wrong_number')"
_PUNCTUAL = "interval '15 minutes'"
_MADE_IN_TIME = f"""EXISTS (
    SELECT FROM orders_callnote e WHERE e.order_id = o.id AND e.outcome IN {_CALLS} AND e.created_at > n.created_at
        AND e.created_at BETWEEN n.callback_at - {_PUNCTUAL} AND n.callback_at + {_PUNCTUAL})"""
# A part's rows: when, the order, the person, the minutes waited, and the figure that each belongs to.
_PARTS = {
    "calls": f"""SELECT n.created_at AS at, o.*, n.agent_id AS person, NULL::float AS waited, '' AS reason
        FROM orders_callnote n JOIN orders_order o ON o.id = n.order_id WHERE n.outcome IN {_CALLS} AND {_LIVE}""",
    "reached": f"""SELECT n.created_at AS at, o.*, n.agent_id AS person, NULL::float AS waited, '' AS reason
        FROM orders_callnote n JOIN orders_order o ON o.id = n.order_id
        WHERE n.outcome IN ('answered', 'callback') AND {_LIVE}""",
    "first_call": f"""SELECT DISTINCT ON (o.id) n.created_at AS at, o.*, n.agent_id AS person,
            greatest(round(extract(epoch FROM n.created_at - o.created_at) / 60), 0)::float AS waited, '' AS reason
        FROM orders_callnote n JOIN orders_order o ON o.id = n.order_id WHERE n.outcome IN {_CALLS} AND {_LIVE}
        ORDER BY o.id, n.created_at, n.id""",
    **{
        name: f"""SELECT s.at, o.*, s.user_id AS person,
            greatest(round(extract(epoch FROM s.at - o.created_at) / 60), 0)::float AS waited, s.reason
        FROM orders_statuschange s JOIN orders_order o ON o.id = s.order_id
        WHERE s.from_status = 'pending_confirmation' AND s.to_status IN ({moves}) AND {_LIVE}
            AND s.user_id IN (SELECT id FROM accounts_user WHERE is_staff)"""
        for name, moves in (
            ("confirmed", "'confirmed'"), ("canceled", "'canceled'"), ("decision", "'confirmed', 'canceled'")
        )
    },
    **{
        name: f"""SELECT s.at, o.*, (SELECT c.user_id FROM orders_statuschange c
            WHERE c.order_id = o.id AND c.to_status = 'confirmed' ORDER BY c.at DESC LIMIT 1) AS person,
            NULL::float AS waited, '' AS reason
        FROM orders_statuschange s JOIN orders_order o ON o.id = s.order_id WHERE s.to_status = '{name}' AND {_LIVE}"""
        for name in ("delivered", "returned")
    },
    **{
        name: f"""SELECT n.callback_at AS at, o.*, n.agent_id AS person, NULL::float AS waited, '' AS reason
        FROM orders_callnote n JOIN orders_order o ON o.id = n.order_id
        WHERE n.callback_at < now() - {_PUNCTUAL} AND {_LIVE} AND {more} AND NOT EXISTS (
            SELECT FROM orders_callnote e WHERE e.order_id = o.id AND e.outcome IN {_CALLS}
                AND e.created_at > n.created_at AND e.created_at < n.callback_at - {_PUNCTUAL}
        ) AND NOT EXISTS (
            SELECT FROM orders_statuschange s WHERE s.order_id = o.id AND s.from_status = 'pending_confirmation'
                AND (s.at < n.created_at OR s.at < n.callback_at - {_PUNCTUAL}
                    OR (s.at < n.callback_at + {_PUNCTUAL} AND NOT {_MADE_IN_TIME}))
        )"""
        for name, more in (("promises", "true"), ("kept", _MADE_IN_TIME))
    },
}  # fmt: skip
_LOCAL = "(r.at AT TIME ZONE 'Africa/Algiers')"
_KEYS = {
    "all": "''",
    "day": f"{_LOCAL}::date::text",
    "agent": "r.person::text",
    "merchant": "r.account_id::text",
    "wilaya": "r.wilaya_code",
    "source": "coalesce(r.source, '')",
    "hour": f"lpad(extract(hour FROM {_LOCAL})::text, 2, '0')",
    "reason": r"trim(E' \t\n\r\u00a0\u202f' FROM split_part(r.reason, ':', 1))",
    "product": f"coalesce(i.product_id::text, '{performance.NAMED}' || i.product_name)",
}
_LINES = """CROSS JOIN LATERAL (
    SELECT product_id, product_name, sum(quantity * unit_price) AS amount FROM (
        SELECT product_id, CASE WHEN product_id IS NULL THEN product_name END AS product_name, quantity, unit_price
        FROM orders_orderitem WHERE order_id = r.id
    ) l GROUP BY product_id, product_name
) i"""


def plainly(part: str, by: str, first: date, last: date) -> dict[str, tuple[int, Decimal, Any]]:
    """Return by key the count, the amount and the median of the minutes waited."""
    amount = "i.amount" if by == "product" else "r.total_amount"
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT {_KEYS[by]}, count(*), sum({amount}), percentile_cont(0.5) WITHIN GROUP (ORDER BY r.waited)"
            f" FROM ({_PARTS[part]}) r {_LINES if by == 'product' else ''}"
            f" WHERE {_LOCAL}::date BETWEEN %s AND %s GROUP BY 1",
            [first, last],
        )
        rows = cursor.fetchall()
    middle = part in ("first_call", "decision")
    return {
        key: (count, amount, timedelta(minutes=minutes) if middle else None)
        for key, count, amount, minutes in rows
        if key is not None
    }


def assert_rows(rows: list[summing.Figures], by: str, first: date, last: date) -> None:
    for part in _PARTS:
        wanted = plainly(part, by, first, last)
        if part in ("first_call", "decision"):
            found = {row.key: getattr(row, part) for row in rows if getattr(row, part) is not None}
            assert found == {key: middle for key, (_, _, middle) in wanted.items()}, (by, part)
        elif part in ("confirmed", "canceled", "delivered", "returned"):
            sums = {row.key: (getattr(row, part), getattr(row, f"{part}_amount")) for row in rows if getattr(row, part)}
            assert sums == {key: (count, amount) for key, (count, amount, _) in wanted.items()}, (by, part)
        else:
            counts = {row.key: getattr(row, part) for row in rows if getattr(row, part)}
            assert counts == {key: count for key, (count, _, _) in wanted.items()}, (by, part)


def assert_equal_at_the_desk() -> None:
    """What agents see of today at the desk, too, is what plain SQL says."""
    today, parts = days.today(), ("calls", "confirmed", "decision")
    for agent in User.objects.filter(is_staff=True):
        wanted = [plainly(part, "agent", today, today).get(str(agent.pk), (0,))[0] for part in parts]
        wanted += [plainly(part, "all", today, today).get("", (0,))[0] for part in parts[1:]]
        assert overview.today(agent) == overview.Today(*wanted)


def assert_equal(last: date | None = None, length: int = 30) -> None:
    last = last or days.today()
    first = last - timedelta(days=length - 1)
    for by in DIVISIONS:
        summary = performance.read(first, last, by)
        assert_rows(summary.rows, by, first, last)
    assert_equal_at_the_desk()
    assert_rows([summary.total], "all", first, last)
    assert_rows([summary.before], "all", first - timedelta(days=length), first - timedelta(days=1))
    reasons = {row.key: row.canceled for row in summary.reasons}
    assert reasons == {key: count for key, (count, _, _) in plainly("canceled", "reason", first, last).items()}
    waiting = Order.live.filter(status="pending_confirmation").values_list("total_amount", flat=True)
    backlog = performance.backlog(by_merchant=False).by_age
    assert [sum(column) for column in zip(*backlog, strict=True)] == [len(waiting), sum(waiting, Decimal(0))]


# --- Whatever happens ------------------------------------------------------------------------------------------------


class CallsLife(Life):
    """The same life as lived by the call center's people, who also promise calls and make some of them."""

    def __init__(self, seed: int, *accounts: Account) -> None:
        super().__init__(seed, *accounts)
        self.people = [self.agent, factories.AgentFactory(role="Supervisors")]

    def actor(self) -> Actor:
        return Actor.of_staff(self.people[1])

    def call(self, order: Order) -> None:
        outcome = self.chance.choice(["no_answer", "callback", "callback", "answered", "note", "skipped"])
        at = timezone.now() + timedelta(minutes=self.chance.randrange(-3000, 3000)) if outcome == "callback" else None
        lifecycle.add_call_note(
            order.id,
            lifecycle.Call(agent=self.chance.choice(self.people), outcome=CallNote.Outcome(outcome), callback_at=at),
        )

    def confirm(self, order: Order) -> None:
        lifecycle.confirm(order.id, actor=self.actor())

    def cancel(self, order: Order) -> None:
        reason = self.chance.choice([CancelReason.DUPLICATE.kept_as("of Monday's"), "Too\u00a0: dear", "", "<b>"])
        merchants = Actor.of_merchant(order.account.holder) if order.account.holder else self.actor()
        lifecycle.cancel(order.id, actor=self.chance.choice([self.actor(), self.actor(), merchants]), reason=reason)

    def date_back(self, order: Order) -> None:
        """Date back an order, or one of its rows alone, so that it no longer fits what is around it."""
        by = timedelta(minutes=self.chance.choice([10, 400, 1440, 1440, 2880, 7200]))
        one: list[Callable[[], Any]] = [
            lambda: CallNote.objects.filter(order=order).update(callback_at=F("callback_at") - by),
            lambda: CallNote.objects.filter(order=order).update(created_at=F("created_at") - by),
            lambda: StatusChange.objects.filter(order=order).exclude(from_status=None).update(at=F("at") - by),
            lambda: CallNote.objects.filter(order=order).update(agent=self.chance.choice([None, *self.people])),
            lambda: StatusChange.objects.filter(order=order).update(user=self.chance.choice([None, *self.people])),
        ]
        if self.chance.random() < 0.5:
            super().date_back(order)
            CallNote.objects.filter(order=order).update(callback_at=F("callback_at") - by)
        else:
            self.chance.choice(one)()


@pytest.mark.parametrize("seed", range(2))
def test_figures_are_what_the_rows_say_whatever_happened(
    seed: int, alice: Account, charlie: Account, twin: Account, settings: Any
) -> None:
    settings.CUSTOMER_RETENTION_DAYS = 730
    life = CallsLife(seed, alice, twin, charlie)
    for number in range(260):
        life.step()
        if number % 50 == 49:
            assert_equal()
    while sum_up_days() > 1:
        pass
    yesterday = days.today() - timedelta(days=1)
    assert not ChangedDay.objects.exists()
    assert CallDay.objects.filter(day=yesterday - timedelta(days=1)).exists()
    assert CallPart.objects.count() == 1
    assert CallFigure.objects.exists()
    assert_equal()
    assert_equal(yesterday, 3)
    CallFigure.objects.update(calls=90)  # written past the triggers
    weeks = list(day_sums.weeks()[0])
    for week in weeks:
        day_sums.sum_anew(*week)
    assert not ChangedDay.objects.exists()
    assert_equal()
    noted = {day for account_id, some in weeks if account_id is None for day in some}
    assert {yesterday, days.today()} <= noted
    ChangedDay.objects.bulk_create(ChangedDay(day=day) for day in noted)
    assert_equal()
    while sum_up_days() > 1:
        pass
    assert not ChangedDay.objects.exists()
    assert_equal()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("past", [timedelta(days=3), timedelta(hours=1)], ids=str)
def test_figures_stay_right_while_days_change_and_are_summed_up_at_once(
    past: timedelta, alice: Account, charlie: Account, monkeypatch: Any
) -> None:
    monkeypatch.setattr(day_sums, "LATE", timedelta(0))
    change_while_summed_up(alice, charlie, past=past, sum_up=summing.sum_up, step_back=past / 3)
    assert_equal()
    while summing.sum_up():
        pass
    assert_equal()


def test_a_day_takes_longer_than_a_statement_may_elsewhere(alice: Account) -> None:
    call_and_confirm(alice, timedelta(days=1))
    slow_down_inserts("agents_callfigure")
    sum_up_what_changed()
    assert counted() == 1


def counted() -> int:
    """Return the calls in the sums."""
    return sum(CallFigure.objects.filter(dimension="all").values_list("calls", flat=True))


def sum_up_what_changed() -> None:
    """Sum up, again if somebody else was just doing so."""
    eventually(lambda: (summing.sum_up(), not ChangedDay.objects.filter(account=None).exists())[1])


def call_and_confirm(account: Account, ago: timedelta = timedelta(0)) -> Order:
    """Note a call that confirms an order, this long ago."""
    agent, order = factories.AgentFactory(), factories.make_order(account)
    lifecycle.add_call_note(order.id, lifecycle.Call(agent=agent, outcome=CallNote.Outcome.ANSWERED))
    lifecycle.confirm(order.id, actor=Actor.of_staff(agent))
    if ago:
        StatusChange.objects.filter(order=order).update(at=F("at") - ago)
        CallNote.objects.filter(order=order).update(created_at=F("created_at") - ago)
    return order


@pytest.mark.django_db(transaction=True)
def test_today_is_summed_up_until_some_minutes_ago(alice: Account, monkeypatch: Any) -> None:
    waiting = factories.make_order(alice)
    call_and_confirm(alice, timedelta(minutes=16))
    call_and_confirm(alice, timedelta(minutes=5))
    assert_equal()
    sum_up_what_changed()
    assert not summing.sum_up()
    part = CallPart.objects.get()
    assert timedelta(0) < timezone.now() - summing.PUNCTUAL - part.until < timedelta(seconds=PATIENCE)
    assert not CallDay.objects.filter(day__gte=part.day).exists()  # the version before takes these for complete
    assert counted() == 1
    call_and_confirm(alice)
    assert_equal()
    summing.sum_up()
    assert CallPart.objects.get().until == part.until  # what came in the last minutes can wait
    monkeypatch.setattr(day_sums, "LATE", timedelta(0))
    summing.sum_up()
    assert CallPart.objects.get().until > part.until
    assert_equal()
    editing.edit(waiting.id, editing.Edit(total_amount=Decimal(7)), actor=Actor.of_staff(factories.AgentFactory()))
    Order.objects.exclude(id=waiting.id).update(total_amount=Decimal(8))
    assert ChangedDay.objects.filter(account=None).exists()
    assert_equal()
    sum_up_what_changed()
    assert CallFigure.objects.get(dimension="all", calls=1).confirmed_amount == 8
    assert_equal()


@pytest.mark.django_db(transaction=True)
def test_the_part_of_today_stays_when_other_days_change(alice: Account) -> None:
    order = call_and_confirm(alice, timedelta(days=1, minutes=20))
    day = StatusChange.objects.latest("at").at.astimezone(days.ALGIERS).date()
    call_and_confirm(alice, timedelta(minutes=16))
    sum_up_what_changed()
    until = CallPart.objects.get().until
    assert CallDay.objects.filter(day=day).exists()
    ChangedDay.objects.create(day=day - timedelta(days=400))
    Order.objects.filter(id=order.id).update(total_amount=Decimal(9))
    assert ChangedDay.objects.filter(account=None, day=day).exists()
    sum_up_what_changed()
    assert CallPart.objects.get().until == until
    assert CallFigure.objects.get(dimension="all", day=day).confirmed_amount == 9
    assert_equal()


@pytest.mark.django_db(transaction=True)
def test_the_desk_adds_to_the_sums_of_today_what_came_since(alice: Account) -> None:
    for ago in (20, 5):
        call_and_confirm(alice, timedelta(minutes=ago))
    agent = User.objects.get(id=CallNote.objects.earliest("created_at").agent_id)
    before = overview.today(agent)
    sum_up_what_changed()
    sums = CallFigure.objects.filter(day=days.today())
    more = sums.filter(dimension="all").update(confirmed=F("confirmed") + 1)
    assert (
        sums.filter(dimension="agent", key=agent.id).update(confirmed=F("confirmed") + 1, calls=F("calls") + 1) == more
    )
    assert more == (timezone.now() - timedelta(minutes=20) >= days.start_of(days.today()))  # else they are yesterday's
    after = overview.today(agent)
    assert [after.calls, after.confirmed, after.decided] == [
        before.calls + more,
        before.confirmed + more,
        before.decided + more,
    ]
    assert [after.team_confirmed, after.team_decided] == [before.team_confirmed + more, before.team_decided + more]


@pytest.mark.django_db(transaction=True)
def test_what_a_transaction_under_way_may_still_write_is_summed_up_by_none(alice: Account) -> None:
    with open_transaction(lambda: one("SELECT now()")) as start:
        summing.sum_up()
    assert CallPart.objects.get().until == start - summing.PUNCTUAL


@pytest.mark.django_db(transaction=True)
def test_a_move_of_yesterday_changes_what_was_promised_for_today(alice: Account) -> None:
    order, at = factories.make_order(alice), one("SELECT now() - interval '20 minutes'")
    lifecycle.add_call_note(
        order.id, lifecycle.Call(agent=factories.AgentFactory(), outcome=CallNote.Outcome.CALLBACK, callback_at=at)
    )
    StatusChange.objects.update(at=F("at") - timedelta(days=3))
    CallNote.objects.update(created_at=F("created_at") - timedelta(days=3))
    sum_up_what_changed()
    assert_equal()
    part = CallPart.objects.get()
    assert at < part.until, one("SELECT json_agg(a) FROM pg_stat_activity a")  # whose transaction holds it back?
    assert sum(CallFigure.objects.filter(dimension="all").values_list("promises", flat=True)) == 1
    moved = at - timedelta(days=1)
    StatusChange.objects.create(
        account=alice, order=order, from_status="pending_confirmation", to_status="b", at=moved, actor="x"
    )
    assert_equal()
    assert ChangedDay.objects.filter(account=None, day=at.astimezone(days.ALGIERS).date()).exists()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("ahead", [timedelta(minutes=5), timedelta(days=3)], ids=str)
def test_sums_of_a_clock_that_was_ahead_are_none(ahead: timedelta, alice: Account) -> None:
    """The clock was put back between the round and the call."""
    call_and_confirm(alice, timedelta(hours=1))
    sum_up_what_changed()
    at = timezone.now() - summing.PUNCTUAL + ahead
    day = at.astimezone(days.ALGIERS).date()
    CallFigure.objects.update_or_create(day=day, dimension="all", key="", defaults={"calls": 90})
    CallPart.objects.update(day=day, until=at)
    CallDay.objects.bulk_create(CallDay(day=day - timedelta(days=number)) for number in range(1, ahead.days + 1))
    call_and_confirm(alice)
    assert_equal()
    assert_equal(day)
    summing.sum_up()
    assert CallPart.objects.get().until < timezone.now() - summing.PUNCTUAL
    assert not CallDay.objects.filter(day__gte=CallPart.objects.get().day).exists()
    assert_equal()
    assert_equal(day)


@pytest.mark.django_db(transaction=True)
def test_what_the_version_before_sums_up_leaves_today_to_the_rows(alice: Account, monkeypatch: Any) -> None:
    """The version before notes today's changes in vain, and removes no day."""
    monkeypatch.setattr(summing, "PUNCTUAL", timedelta(0))  # a day that has just begun has nothing older
    order = call_and_confirm(alice)
    summing.sum_up()
    assert counted() == 1
    Order.objects.filter(id=order.id).update(total_amount=Decimal(7))
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM orders_changedday")
        cursor.execute("DELETE FROM agents_callday WHERE day = ANY('{}')")
    assert_equal()
    summing.sum_up()
    assert CallPart.objects.exists()
    assert_equal()


def test_a_promise_for_a_day_that_is_summed_up_counts_there(alice: Account) -> None:
    agent, order = factories.AgentFactory(), factories.make_order(alice)
    StatusChange.objects.update(at=F("at") - timedelta(days=5))
    sum_up_what_changed()
    assert CallDay.objects.exists()
    past = timezone.now() - timedelta(days=2)
    lifecycle.add_call_note(order.id, lifecycle.Call(agent=agent, outcome=CallNote.Outcome.CALLBACK, callback_at=past))
    assert_equal()


def test_to_look_costs_one_statement_and_writes_nothing(alice: Account, django_assert_num_queries: Any) -> None:
    factories.make_order(alice)
    StatusChange.objects.update(at=F("at") - timedelta(days=2))
    with django_assert_num_queries(1):
        performance.read(days.today() - timedelta(days=91), days.today(), "product")
    assert not CallDay.objects.exists()


def test_one_sums_up_at_a_time(alice: Account, transactional_db: None) -> None:
    factories.make_order(alice)
    StatusChange.objects.update(at=F("at") - timedelta(days=2))

    def meanwhile() -> bool:
        try:
            return summing.sum_up()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool, transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [summing._SUMMING])
        assert pool.submit(meanwhile).result() is False
    assert not CallDay.objects.exists()
    sum_up_what_changed()
    assert CallDay.objects.exists()


def test_what_is_decided_costs_no_note_of_a_day(alice: Account, django_user_model: type[User]) -> None:
    agent = factories.AgentFactory()
    order = factories.make_order(alice)
    lifecycle.add_call_note(
        order.id, lifecycle.Call(agent=agent, outcome=CallNote.Outcome.CALLBACK, callback_at=timezone.now())
    )
    lifecycle.confirm(order.id, actor=Actor.of_staff(agent))
    assert not ChangedDay.objects.exists()


def test_a_sum_that_is_too_large_to_be_kept_stops_no_others(alice: Account, charlie: Account) -> None:
    line = factories.order_line(product_name="Robe", quantity=10_000, unit_price=Decimal("99999999.99"))
    factories.make_orders(charlie, [{"items": [line] * 100}] * 101)
    with transaction.atomic():
        orders = lifecycle.lock(Order.objects.all())
        lifecycle.cancel_many(orders, actor=Actor.of_staff(factories.AgentFactory()), reason="")
    StatusChange.objects.update(at=F("at") - timedelta(days=1))
    call_and_confirm(alice, timedelta(days=1))
    sum_up_what_changed()
    assert counted() == 1
    (robe,) = CallFigure.objects.filter(dimension="name", canceled__gt=0)
    assert (robe.key, robe.canceled, robe.canceled_amount) == ("Robe", 101, day_sums.MOST_KEPT)
