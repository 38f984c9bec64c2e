"""A merchant's figures equal what plain SQL over all rows says, however much is summed up already."""

import threading
import time
from collections import Counter
from datetime import date, timedelta
from decimal import Decimal
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.db import DatabaseError, connection
from django.db.models import F
from django.utils import timezone

from codservice import days, stops
from codservice.accounts.models import Account
from orders import daily, day_sums, editing, lifecycle
from orders.daily import Dimension, Figures
from orders.models import CallNote, ChangedDay, DayFigure, Order, StatusChange, SummedUp
from orders.tasks import sum_up_days
from tests import factories
from tests.harness.background import Background, eventually, open_transaction
from tests.harness.database import one, slow_down_inserts, wait_for_lock
from tests.orders.life import SUPERVISOR, Life, change_while_summed_up

pytestmark = pytest.mark.django_db
EVERYTHING = set(Dimension) - {Dimension.NAME}
LONG = date(2000, 1, 1)


# --- The same by plain SQL, row by row -------------------------------------------------------------------------------

_DAY = "(s.at AT TIME ZONE 'Africa/Algiers')::date"
_WHAT = {
    "all": ("''", "o.total_amount", ""),
    "day": (f"{_DAY}::text", "o.total_amount", ""),
    "wilaya": ("o.wilaya_code", "o.total_amount", ""),
    "source": ("coalesce(o.source, '')", "o.total_amount", ""),
    "reason": (r"trim(E' \t\n\r\u00a0\u202f' FROM split_part(s.reason, ':', 1))", "o.total_amount", ""),
    "product": ("i.product_id::text", "i.quantity * i.unit_price", "AND i.product_id IS NOT NULL"),
    "name": ("i.product_name", "i.quantity * i.unit_price", "AND i.product_id IS NULL"),
}


MOVES = {
    "new": "s.to_status = 'pending_confirmation'",
    "confirmed": "s.to_status = 'confirmed'",
    "canceled": "s.to_status = 'canceled'",
    "refused": "s.to_status = 'canceled' AND s.from_status = 'pending_confirmation'",
    "shipped": "s.to_status = 'shipped'",
    "delivered": "s.to_status = 'delivered'",
    "returned": "s.to_status = 'returned'",
}


def plainly(account: Account, dimension: str, first: date, last: date) -> dict[str, dict[str, tuple[int, Decimal]]]:
    """Return for each of MOVES the number of orders and their sum by key."""
    key, amount, more = _WHAT[dimension]
    items = "JOIN orders_orderitem i ON i.order_id = o.id" if dimension in ("product", "name") else ""
    moves = ", ".join(f"('{move}', {where})" for move, where in MOVES.items())
    found: dict[str, dict[str, tuple[int, Decimal]]] = {move: {} for move in MOVES}
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT move, {key}, count(DISTINCT s.id), sum({amount}) FROM orders_statuschange s"
            f" JOIN orders_order o ON o.id = s.order_id {items}"
            f" JOIN LATERAL (VALUES {moves}) m (move, is_it) ON is_it"
            f" WHERE o.account_id = %s AND {_DAY} BETWEEN %s AND %s {more} GROUP BY 1, 2",
            [account.id, first, last],
        )
        for move, key, count, amount in cursor.fetchall():
            found[move][key] = (count, amount)
    return found


def plain_waits(account: Account, first: date, last: date) -> dict[str, int]:
    calls: dict[Any, CallNote] = {}
    notes = CallNote.objects.filter(order__account=account, outcome__in=CallNote.CALLS).select_related("order")
    for note in notes.order_by("created_at", "id"):
        calls.setdefault(note.order_id, note)
    waits: Counter[str] = Counter()
    for call in calls.values():
        if first <= call.created_at.astimezone(days.ALGIERS).date() <= last:
            minutes = (call.created_at - call.order.created_at) / timedelta(minutes=1)
            waits[str(sum(minutes >= bound for bound in daily.WAITS))] += 1
    return waits


def figures(rows: list[Figures], move: str) -> dict[str, tuple[int, Decimal]]:
    found = {row.key: (getattr(row, f"{move}_count"), getattr(row, f"{move}_amount")) for row in rows}
    return {key: value for key, value in found.items() if value[0]}


def read(account: Account, first: date = LONG, last: date | None = None) -> daily.Summary:
    return daily.read(account.id, first, last or days.today(), today=days.today(), by=EVERYTHING)


def assert_equal(account: Account, first: date = LONG) -> None:
    last = days.today()
    summary = read(account, first, last)
    plain = {dimension: plainly(account, dimension, first, last) for dimension in _WHAT}
    plain_today = plainly(account, "all", last, last)
    for move in MOVES:
        for dimension in ("wilaya", "source", "reason", "product", "name"):
            if dimension != "reason" or move in ("canceled", "refused"):
                rows = summary.parts[Dimension(dimension)]
                assert figures(rows, move) == plain[dimension][move], (dimension, move)
        total = plain["all"][move].get("", (0, 0))
        assert (getattr(summary.total, f"{move}_count"), getattr(summary.total, f"{move}_amount")) == total, move
        today = plain_today[move].get("", (0, 0))
        assert (getattr(summary.today, f"{move}_count"), getattr(summary.today, f"{move}_amount")) == today, move
        assert figures(summary.days, move) == plain["day"][move], move
    waiting = Order.objects.filter(account=account, status="pending_confirmation").values_list(
        "total_amount", flat=True
    )
    assert summary.waiting == (len(waiting), sum(waiting, Decimal(0)))
    waits = {row.key: row.first_call_count for row in summary.parts[Dimension.WAIT]}
    assert waits == plain_waits(account, first, last)
    assert daily.arrivals(account.id) in ([], made(account))


def made(account: Account) -> list[tuple[date, int]]:
    """Return how many orders were made on each day."""
    dates = Order.objects.filter(account=account).values_list("created_at", flat=True)
    return sorted(Counter(at.astimezone(days.ALGIERS).date() for at in dates).items())


# --- Whatever happens ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(2))
def test_figures_are_what_the_rows_say_whatever_happened(
    seed: int, alice: Account, charlie: Account, twin: Account, settings: Any
) -> None:
    settings.CUSTOMER_RETENTION_DAYS = 730
    life = Life(seed, alice, twin, charlie)
    for number in range(260):
        life.step()
        if number % 50 == 49:
            for account in life.accounts:
                assert_equal(account)
    sum_up_days()
    assert not day_sums.due()
    assert not ChangedDay.objects.exists()
    assert not SummedUp.objects.filter(until=None).exists()
    for account in life.accounts:
        assert_equal(account)
        assert_equal(account, days.today() - timedelta(days=6))
        assert daily.arrivals(account.id) == made(account)
    assert DayFigure.objects.filter(account=charlie).exists()
    SummedUp.objects.update(until=None)
    for account in life.accounts:
        assert_equal(account)
        assert daily.arrivals(account.id) == []
    sum_up_days()
    for account in life.accounts:
        assert_equal(account)


def test_a_recount_takes_each_account_week_by_week_and_holds_a_row_for_each(alice: Account, charlie: Account) -> None:
    today = days.today()
    for account, ages in ((alice, (0, 16)), (charlie, (13,))):
        for age in ages:
            order = factories.make_order(account)
            at = timezone.now() - timedelta(days=age)
            Order.objects.filter(id=order.id).update(created_at=at)
            StatusChange.objects.filter(order=order).update(at=at)
    sum_up_days()
    SummedUp.objects.update(until=days.start_of(today))
    SummedUp.objects.create(account=factories.AccountFactory())  # nothing is summed up yet
    held = []

    def note(execute: Any, sql: str, parameters: Any, many: bool, context: Any) -> Any:
        result = execute(sql, parameters, many, context)
        held.append(context["cursor"].rowcount)
        return result

    with connection.execute_wrapper(note):
        weeks, count = day_sums.weeks()

    def from_age(age: int, some: int) -> list[date]:
        return [today - timedelta(days=age - number) for number in range(some)]

    of_alice, of_charlie = [from_age(16, 7), from_age(9, 7), from_age(2, 3)], [from_age(13, 7), from_age(6, 7)]
    expected = {None: of_alice, alice.id: of_alice, charlie.id: of_charlie}
    in_order = [None, *sorted((alice.id, charlie.id))]
    assert list(weeks) == [(account_id, week) for account_id in in_order for week in expected[account_id]]
    assert (count, held) == (8, [3])


@pytest.mark.django_db(transaction=True)
def test_recounting_leaves_no_more_than_a_week_to_be_read_from_the_rows(
    alice: Account, charlie: Account, monkeypatch: Any
) -> None:
    """A year of a merchant's million orders is more than a page has time to read."""
    for account in (alice, charlie):
        for age in (0, 1, 30, 31, 60, 90):
            order = factories.make_order(account)
            at = timezone.now() - timedelta(days=age)
            Order.objects.filter(id=order.id).update(created_at=at)
            StatusChange.objects.filter(order=order).update(at=at)
    sum_up_days()
    DayFigure.objects.update(new_count=90)  # written past the triggers
    left = []

    def sum_anew(*args: Any) -> None:
        day_sums_sum_anew(*args)
        left.append(max([0, *(ChangedDay.objects.filter(account=each).count() for each in (alice, charlie))]))
        assert not SummedUp.objects.filter(until=None).exists()

    day_sums_sum_anew = day_sums.sum_anew
    monkeypatch.setattr(day_sums, "sum_anew", sum_anew)
    call_command("recount_orders", stdout=StringIO(), stderr=StringIO())
    assert len(left) >= 3 * 13
    assert max(left) <= daily.STEP
    assert not ChangedDay.objects.exists()
    for account in (alice, charlie):
        assert_equal(account)


@pytest.mark.django_db(transaction=True)
def test_what_came_since_is_added_to_the_sums(alice: Account, monkeypatch: Any) -> None:
    monkeypatch.setattr(daily, "SET_BACK", timedelta(0))
    agent = factories.AgentFactory()
    waiting = factories.make_order(alice)
    for number in range(1, 4):
        order = factories.make_order(alice, source="facebook")
        lifecycle.add_call_note(order.id, lifecycle.Call(agent=agent, outcome=CallNote.Outcome.ANSWERED))
        lifecycle.confirm(order.id, actor=SUPERVISOR)
        assert_equal(alice)
        assert day_sums.due() == ([alice.id] if number == 1 else [])  # what came in the last minutes can wait
        assert day_sums.sum_up(alice.id) is False
        of_facebook = DayFigure.objects.filter(dimension=Dimension.SOURCE, key="facebook")
        assert sum(of_facebook.values_list("confirmed_count", flat=True)) == number
        assert not StatusChange.objects.filter(at__gt=SummedUp.objects.get().until).exists()
        assert_equal(alice)
    assert day_sums.due() == []
    editing.edit(waiting.id, editing.Edit(total_amount=Decimal(7)), actor=SUPERVISOR)
    assert ChangedDay.objects.filter(account=alice).exists()
    assert_equal(alice)
    assert day_sums.due() == [alice.id]
    day_sums.sum_up(alice.id)
    assert not ChangedDay.objects.filter(account=alice).exists()
    assert_equal(alice)
    factories.make_order(alice)
    monkeypatch.setattr(day_sums, "LATE", timedelta(0))
    assert day_sums.due() == [alice.id]


@pytest.mark.django_db(transaction=True)
def test_nothing_is_done_while_the_first_sum_of_the_account_is_made(alice: Account) -> None:
    def lock_sums() -> None:
        with connection.cursor() as cursor:
            cursor.execute("LOCK orders_dayfigure IN SHARE MODE")

    def sum_up_patiently() -> bool:
        one("SELECT set_config('lock_timeout', '0', false)")
        return day_sums.sum_up(alice.id)

    with open_transaction(lock_sums):
        first = Background(sum_up_patiently)
        wait_for_lock()
        assert day_sums.sum_up(alice.id) is False
        assert not first.is_over
    assert first.result() is False
    assert SummedUp.objects.get().until is not None


def test_what_is_ahead_of_the_clock_is_summed_up_first_then_what_waits_longest() -> None:
    behind, never, ahead = factories.AccountFactory.create_batch(3)
    SummedUp.objects.create(account=ahead, until=timezone.now())
    SummedUp.objects.create(account=behind, until=timezone.now() - timedelta(days=2))
    ChangedDay.objects.create(account=behind, day=days.today())
    assert day_sums.due() == [ahead.id, never.id, behind.id]


def put_clock(forward: timedelta) -> None:
    """Date all that there is as it would be dated if the database's clock were put forward, or back if negative."""
    Order.objects.update(created_at=F("created_at") - forward)
    StatusChange.objects.update(at=F("at") - forward)
    first = Order.objects.earliest("created_at").created_at
    DayFigure.objects.update(day=first.astimezone(days.ALGIERS).date())
    ChangedDay.objects.all().delete()
    SummedUp.objects.update(until=F("until") - forward)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("later", [timedelta(0), timedelta(minutes=1)], ids=["at-once", "a-round-later"])
@pytest.mark.parametrize(
    "by", [timedelta(seconds=30), daily.SET_BACK + timedelta(seconds=30), timedelta(days=3)], ids=str
)
def test_orders_count_once_though_the_clock_was_set_back(
    by: timedelta, later: timedelta, alice: Account, monkeypatch: Any
) -> None:
    factories.make_order(alice)
    put_clock(daily.SET_BACK + timedelta(minutes=1))
    day_sums.sum_up(alice.id)
    assert DayFigure.objects.exists()
    put_clock(-by)
    factories.make_order(alice)
    put_clock(later)
    if by > daily.SET_BACK:
        assert day_sums.due() == [alice.id]

    def assert_both() -> None:
        summary = daily.read(alice.id, LONG, days.today() + timedelta(days=9), today=days.today())
        assert (summary.total.new_count, summary.waiting[0]) == (2, 2)

    assert_both()
    sum_up_days()
    assert day_sums.due() == []
    assert_both()
    monkeypatch.setattr(daily, "SET_BACK", timedelta(0))
    day_sums.sum_up(alice.id)
    assert_both()


def test_a_day_takes_longer_than_a_statement_may_elsewhere(alice: Account) -> None:
    factories.make_order(alice)
    StatusChange.objects.update(at=F("at") - timedelta(days=1))
    slow_down_inserts("orders_dayfigure")
    assert day_sums.sum_up(alice.id) is False
    assert DayFigure.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_day_is_summed_up_when_all_that_began_before_its_end_is_over() -> None:
    """Uses a zone whose midnight falls between the start of a transaction and now. Zones have whole seconds."""

    def over() -> date:
        return (day_sums.complete_until() + timedelta(seconds=ahead)).date() - timedelta(days=1)

    with open_transaction(lambda: one("SELECT now()")) as start:
        midnight = start.replace(microsecond=0) + timedelta(seconds=1)
        ahead = -int(midnight.timestamp()) % 86400
        new_day = (midnight + timedelta(seconds=ahead)).date()
        while one("SELECT now()") < midnight:
            time.sleep(0.1)
        assert over() == new_day - timedelta(days=2)
    assert eventually(lambda: over() == new_day - timedelta(days=1))


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("past", [timedelta(days=3), timedelta(0)], ids=["days-ago", "today"])
def test_figures_stay_right_while_days_change_and_are_summed_up_at_once(
    past: timedelta, alice: Account, charlie: Account, monkeypatch: Any
) -> None:
    monkeypatch.setattr(daily, "SET_BACK", timedelta(0))
    change_while_summed_up(alice, charlie, past=past, sum_up=sum_up_days, step_back=timedelta(days=1))
    for account in (alice, charlie):
        assert_equal(account)
    while day_sums.due():
        sum_up_days()
    for account in (alice, charlie):
        assert_equal(account)


# Stands for any failure: a row that cannot be read, a full disk.
FAILS = """
CREATE FUNCTION fails() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'this disk is full'; END $$;
CREATE TRIGGER fails BEFORE INSERT ON orders_dayfigure FOR EACH ROW
    WHEN (NEW.account_id = '{}') EXECUTE FUNCTION fails();
"""


def test_what_fails_for_one_account_keeps_nobody_from_theirs(alice: Account, charlie: Account) -> None:
    for account in (alice, charlie):
        factories.make_order(account)
    StatusChange.objects.update(at=F("at") - timedelta(days=2))
    first, second = day_sums.due()
    with connection.cursor() as cursor:
        cursor.execute(FAILS.format(first))
    with pytest.raises(DatabaseError, match="this disk is full") as failed:
        sum_up_days()
    assert f"account {first}" in str(failed.value.__notes__)
    assert list(DayFigure.objects.values_list("account", flat=True).distinct()) == [second]
    assert day_sums.due() == [first]


def test_to_look_costs_one_statement_and_writes_nothing(alice: Account, django_assert_num_queries: Any) -> None:
    factories.make_order(alice)
    StatusChange.objects.update(at=F("at") - timedelta(days=2))
    with django_assert_num_queries(1):
        read(alice)
    assert not SummedUp.objects.exists()


def test_products_of_many_days_are_added_up_without_a_sort_on_disk(alice: Account) -> None:
    today, columns = days.today(), ", ".join(daily.COLUMNS)
    SummedUp.objects.create(account=alice, until=timezone.now())
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO orders_dayfigure (account_id, day, dimension, key, {columns})"
            f" SELECT %s, %s - day, 'product', md5(product::text), {', '.join('1' for _ in daily.COLUMNS)}"
            " FROM generate_series(1, 1000) AS day, generate_series(1, 150) AS product",
            [alice.id, today],
        )
        # Less memory than a session has, in proportion to fewer rows than a large shop's year has.
        cursor.execute("ANALYZE orders_dayfigure; SET LOCAL work_mem = '300kB'")
        asked = daily.parameters(alice.id, first=LONG, last=today, today=today, dimensions=["product", "name"])
        statement = daily._reading({Dimension.ALL, Dimension.PRODUCT})
        cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}", asked)
        (plan,) = cursor.fetchone()[0]
    assert plan["Plan"]["Temp Written Blocks"] == 0
    assert {row.new_count for row in read(alice).parts[Dimension.PRODUCT]} == {1000}


def test_days_are_told_of_all_orders_or_of_none(alice: Account) -> None:
    first, second = factories.make_order(alice), factories.make_order(alice)
    for model, name in ((Order, "created_at"), (StatusChange, "at")):
        model.objects.update(**{name: F(name) - timedelta(days=30)})
    factories.make_order(alice)
    assert daily.arrivals(alice.id) == []  # nothing is summed up
    sum_up_days()
    assert [count for _, count in daily.arrivals(alice.id)] == [2, 1]
    factories.make_order(alice)
    second.delete()
    assert daily.arrivals(alice.id) == made(alice)
    StatusChange.objects.filter(order=first).delete()
    assert daily.arrivals(alice.id) == []
    sum_up_days()
    assert daily.arrivals(alice.id) == []


def test_days_are_not_told_while_much_is_left_to_sum_up(alice: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    """`sum_up` commits a week at a time, so years may come after `until`."""
    for back in (30, 20, 0):
        order = factories.make_order(alice)
        for found, name in ((Order.objects.filter(id=order.id), "created_at"), (order.status_changes.all(), "at")):
            found.update(**{name: F(name) - timedelta(days=back)})
    sum_up_days()
    monkeypatch.setattr(daily, "MOST_PASSED", 2)
    first, second, today = daily.arrivals(alice.id)
    DayFigure.objects.filter(day__gte=second[0]).delete()
    SummedUp.objects.update(until=days.start_of(second[0]))
    assert daily.arrivals(alice.id) == [first, second, today]
    monkeypatch.setattr(daily, "MOST_PASSED", 1)
    assert daily.arrivals(alice.id) == []


def test_an_account_without_orders_is_done_with_at_once(alice: Account, charlie: Account) -> None:
    factories.make_order(alice)
    sum_up_days()
    assert day_sums.due() == []


def test_an_import_notes_no_day(alice: Account) -> None:
    order = factories.make_order(alice)
    lifecycle.confirm(order.id, actor=SUPERVISOR)
    lifecycle.move("ship", order.id, actor=SUPERVISOR)
    assert not ChangedDay.objects.exists()


def test_of_edits_only_those_that_figures_show_note_days(alice: Account) -> None:
    order = factories.make_order(alice)
    (item,) = order.items.all()
    for shown_nowhere in (
        editing.Edit(customer_name="Nadia"),
        editing.Edit(line_changes={item.id: {"attributes": {"size": "XL"}}}),
    ):
        assert editing.edit(order.id, shown_nowhere, actor=SUPERVISOR)
        assert not ChangedDay.objects.exists()
    editing.edit(order.id, editing.Edit(line_changes={item.id: {"quantity": 7}}), actor=SUPERVISOR)
    assert {day.account_id for day in ChangedDay.objects.all()} == {alice.id, None}
    ChangedDay.objects.all().delete()
    line = {"product_name": "Foulard", "quantity": 1, "unit_price": Decimal(0), "attributes": {}}
    editing.edit(order.id, editing.Edit(added=[line]), actor=SUPERVISOR)
    assert {day.account_id for day in ChangedDay.objects.all()} == {alice.id, None}


def test_test_orders_note_no_day_of_all_accounts(alice: Account, twin: Account) -> None:
    order = factories.make_order(twin)
    agent = factories.AgentFactory()
    lifecycle.add_call_note(order.id, lifecycle.Call(agent=agent, outcome=CallNote.Outcome.ANSWERED))
    for move in ("confirm", "ship", "deliver"):
        lifecycle.move(move, order.id, actor=SUPERVISOR)
    order.delete()
    assert {day.account_id for day in ChangedDay.objects.all()} == {twin.id}


def test_no_account_waits_until_all_is_done_for_others(alice: Account, monkeypatch: Any) -> None:
    factories.make_order(alice)
    monkeypatch.setitem(day_sums.OVER_ALL, "calls", lambda: not SummedUp.objects.exists())
    assert sum_up_days() == 3
    assert SummedUp.objects.get().account == alice


def test_a_worker_that_is_to_stop_leaves_the_rest_of_the_round_to_others(
    alice: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    factories.make_order(alice)
    with monkeypatch.context() as told:
        told.setattr(stops, "stopping", threading.Event())
        told.setattr(day_sums, "OVER_ALL", {"calls": lambda: not stops.stopping.set()})
        assert sum_up_days() == 1
    assert not SummedUp.objects.exists()
    sum_up_days()
    assert SummedUp.objects.get().account == alice


def test_what_one_account_does_another_does_not_see(alice: Account, charlie: Account) -> None:
    factories.make_order(charlie)
    assert read(alice).total.new_count == 0
    assert read(alice).waiting == (0, 0)


def test_a_sum_that_is_too_large_to_be_kept_stops_nobodys_others(alice: Account, charlie: Account) -> None:
    line = factories.order_line(product_name="Robe", quantity=10_000, unit_price=Decimal("99999999.99"))
    factories.make_orders(charlie, [{"items": [line] * 100}] * 101)
    factories.make_order(alice)
    for model, name in ((Order, "created_at"), (StatusChange, "at")):
        model.objects.update(**{name: F(name) - timedelta(days=2)})
    sum_up_days()
    assert day_sums.due() == []
    assert_equal(alice)
    (robe,) = read(charlie).parts[Dimension.NAME]
    assert (robe.new_count, robe.new_amount) == (101, day_sums.MOST_KEPT)
