"""When to call a customer again: pure functions of the call, the merchant's rules and the calls so far."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from itertools import chain, count
from math import ceil
from uuid import UUID

from agents.desk.hours import Window, in_common
from agents.models import CallingRules
from codservice import days
from codservice.accounts.models import User
from codservice.days import ALGIERS
from orders.lifecycle import Call, CallPlan
from orders.models import CallNote, CallState, Order

Outcome = CallNote.Outcome
PACE = timedelta(minutes=2)  # from one call to the next
SKIPPED_FOR = timedelta(minutes=15)  # before a skipped customer is served again
# Morning, afternoon and evening: people who do not answer at work may answer at home.
AFTERNOON, EVENING = time(12, 30), time(17)
EVENING_CALL, MORNING_CALL = time(18), time(10)  # what customers mean by “this evening” and “tomorrow”


def after(
    call: Call,
    order: Order,
    rules: CallingRules,
    *,
    tried: Sequence[datetime],
    windows: Sequence[Window],
    to: User | None,
) -> CallPlan:
    """What a locked order waits for after a call that decided nothing.

    `tried` are the times of its earlier unanswered calls, `windows` when its merchant's customers may be called. After
    the last attempt it waits for a supervisor, as does one with a wrong number or one handed over to nobody in
    particular. A call handed to a colleague is due at once within hours, otherwise when they begin: due earlier, it
    would be late by then.

    A skip brings no planned call forward. An unanswered call neither changes a promise that is still ahead nor takes an
    order back from review, whichever of the customer's orders it was about. Raises ValueError for an outcome that does
    not imply a next call.
    """
    attempts, now = order.call_attempts, order.now
    match call.outcome:
        case Outcome.CALLBACK:
            assert call.callback_at is not None  # noqa: S101  (the form asks for it)
            return CallPlan(
                CallState.CALLBACK, call.callback_at, attempts=0, agent_id=call.agent.id if call.agent else None
            )
        case Outcome.HANDED_OVER if to is not None:
            return CallPlan(CallState.CALLBACK, opening(now, windows), attempts=attempts, agent_id=to.id)
        case Outcome.WRONG_NUMBER | Outcome.HANDED_OVER:
            return CallPlan(CallState.REVIEW, now, attempts=attempts)
        case Outcome.SKIPPED:
            again_at = max(order.call_due_at, now + SKIPPED_FOR)
            state = CallState(order.call_state)
            return CallPlan(state, again_at, attempts=attempts, agent_id=order.callback_agent_id)
        case outcome if outcome in CallNote.SILENT:
            return _after_silence(order, rules, tried, windows)
        case outcome:
            raise ValueError(f"Nothing says when the next call is after one that came to {outcome}.")


def _after_silence(order: Order, rules: CallingRules, tried: Sequence[datetime], windows: Sequence[Window]) -> CallPlan:
    attempts, now = order.call_attempts + 1, order.now
    if _is_promised(order):
        return CallPlan(CallState.CALLBACK, order.call_due_at, attempts=attempts, agent_id=order.callback_agent_id)
    if order.call_state == CallState.REVIEW or attempts >= rules.most_attempts:
        return CallPlan(CallState.REVIEW, now, attempts=attempts)
    return CallPlan(CallState.RETRY, next_try(now, rules, [*tried, now], windows), attempts=attempts)


def _is_promised(order: Order) -> bool:
    """Whether a promised call is still ahead."""
    return order.call_state == CallState.CALLBACK and order.call_due_at > order.now


def assigned(
    customers: Sequence[Sequence[Order]],
    to: User,
    windows: Mapping[UUID, Sequence[Window]],
    *,
    promised: Iterable[datetime],
) -> dict[UUID, CallPlan]:
    """What locked orders wait for when their customers are given to an agent at once.

    `windows` are those of the merchants, `promised` the times of the agent's other promised calls. The customers fall
    due one after the other within calling hours, so that no call is overdue before the agent can reach it. All orders
    of a customer fall due together, as one call is about them. Orders planned for later stay so.
    """
    if not customers:
        return {}
    now = customers[0][0].now
    # A turn is a moment for a call, one every PACE from now on, numbered from 0. `taken` are the numbers in use.
    plans, taken = dict[UUID, CallPlan](), set[int]()
    for due_at in sorted(promised):
        _take(count(max(0, _turn(due_at, now))), taken)
    for orders in customers:
        theirs = in_common(([*windows.get(id_, ())] for id_ in {order.account_id for order in orders}), now)
        open_turns = (range(max(0, _turn(opens, now)), _turn(closes, now)) for opens, closes in theirs)
        turn = _take(chain(*open_turns, count()), taken)
        for order in orders:
            due_at = max(order.call_due_at, now + turn * PACE)
            plans[order.id] = CallPlan(CallState.CALLBACK, due_at, attempts=order.call_attempts, agent_id=to.id)
    return plans


def _take(turns: Iterable[int], taken: set[int]) -> int:
    """Take the first free one of the turns."""
    turn = next(turn for turn in turns if turn not in taken)
    taken.add(turn)
    return turn


def _turn(at: datetime, now: datetime) -> int:
    """The number of the first turn at or after `at`; 0 or less if that is past."""
    return ceil((at - now) / PACE)


def opening(at: datetime, windows: Sequence[Window]) -> datetime:
    """When the customer may first be called from `at` on; `at` itself within hours, or without any hours."""
    return next((max(window.opens_at, at) for window in windows if window.closes_at > at), at)


def next_try(now: datetime, rules: CallingRules, tried: Sequence[datetime], windows: Sequence[Window]) -> datetime:
    """When to call again after the unanswered calls at `tried`, the last of which was just now.

    Never before `retry_minutes` are over and, if there are any, never outside the merchant's `windows`. The part of the
    day with the fewest unanswered calls is preferred, and of several the soonest; the last call that counts for a part
    counts twice. Only two days are considered, that on which the wait ends and the next with hours: a part of the day
    that only a season's hours have may be weeks away. A call outside all hours, the usual ones and those of `windows`,
    counts for no part.
    """
    earliest = now + timedelta(minutes=rules.retry_minutes)
    hours = {*rules.shifts, *((_clock(opens), _clock(closes)) for opens, closes in windows)}
    missed = [_part_of(at) for at in tried if any(opens <= _clock(at) < closes for opens, closes in hours)]
    missed += missed[-1:]
    moments = [moment for window in windows for moment in _moments(window, earliest)]
    near = sorted({_day(at) for at in (earliest, *moments)})[:2]
    best = min(
        (at for at in moments if _day(at) in near),
        key=lambda at: (missed.count(_part_of(at)), at),
        default=earliest,
    )
    return best.astimezone(ALGIERS)


def presets(now: datetime, windows: Sequence[Window]) -> dict[str, datetime]:
    """The usual callback times at which the customer may be called: in an hour, this evening, and the morning of the
    next day with a window. Hours from midnight on pass for a continuation of the evening before, if there are others:
    from midnight until the day's own hours or the morning, the next day is the one that has begun.
    """
    here = now.astimezone(ALGIERS)
    hour, evening = now + timedelta(hours=1), days.at(here, EVENING_CALL)
    found = {"hour": hour} if may_call(hour, windows) else {}
    begun = [window for window in windows if _day(window.opens_at) == here.date() and window.opens_at <= now]
    is_night = bool(begun) and all(map(_goes_on, begun)) and here.time() < MORNING_CALL
    later = [window for window in windows if window.opens_at >= (now if is_night else days.end_of(here.date()))]
    if later:
        day = _day(later[0].opens_at)
        starts = [window.opens_at.astimezone(ALGIERS) for window in later if _day(window.opens_at) == day]
        morning = days.at(day, MORNING_CALL)
        by_day = [at for at in starts if at.time() > time.min]
        found["tomorrow"] = morning if may_call(morning, later) else (by_day or starts)[0]
    is_early = evening > now + timedelta(minutes=30) and evening != found.get("tomorrow")
    if is_early and may_call(evening, windows):
        found["evening"] = evening
    return found


def may_call(at: datetime, windows: Sequence[Window]) -> bool:
    return any(at in window for window in windows)


def _day(at: datetime) -> date:
    return at.astimezone(ALGIERS).date()


def _clock(at: datetime) -> time:
    return at.astimezone(ALGIERS).time()


def _part_of(at: datetime) -> int:
    """The index of the part of the day."""
    return sum(edge <= _clock(at) for edge in (AFTERNOON, EVENING))


def _goes_on(window: Window) -> bool:
    """Whether the window goes on from the evening before, and is over when a morning begins."""
    return _clock(window.opens_at) == time.min and _clock(window.closes_at) <= MORNING_CALL


def _moments(window: Window, earliest: datetime) -> list[datetime]:
    """The first moment of each part of the day within the window, from `earliest` on."""
    starts = [max(window.opens_at, earliest)]
    starts += [days.at(window.opens_at.astimezone(ALGIERS), edge) for edge in (AFTERNOON, EVENING)]
    return [start for start in starts if start >= earliest and start in window]
