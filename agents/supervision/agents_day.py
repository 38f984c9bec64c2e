"""An agent's day, for quality checks: every call they noted, what it decided, and the order's status since.

Above it are the day's totals, counted as in the figures.
"""

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from uuid import UUID

from django.db import connection
from django.db.models import F, OuterRef, QuerySet, Subquery, Window
from django.db.models.functions import Lag
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from agents.console import show
from agents.supervision import for_supervisors, needs
from codservice import days
from codservice.accounts.models import User
from codservice.bidi import unturned
from codservice.form_fields import DayField, Form
from codservice.long_lists import BoundedPaginator
from orders.models import CallNote, CallState, Status, StatusChange

PER_PAGE = 100
_PAUSE = timedelta(minutes=1)  # shorter pauses are not shown


class DayForm(Form):
    day = DayField(label=gettext_lazy("Day"), required=False)


@dataclass(frozen=True)
class Day:
    """What one person noted and decided on a day. `pause` is the longest time between two notes.

    As in the figures, a call about two orders of a customer counts for both, and only decisions of pending orders
    count.
    """

    calls: int
    silent: int
    first: datetime | None
    last: datetime | None
    pause: timedelta | None
    confirmed: int
    canceled: int

    @property
    def rate(self) -> int | None:
        """The percentage of their decisions that are confirmations; None without decisions."""
        decided = self.confirmed + self.canceled
        return round(100 * self.confirmed / decided) if decided else None


# Both read along the indexes by time.
_DAY = """
WITH noted AS MATERIALIZED (
    SELECT n.created_at, n.outcome, n.created_at - lag(n.created_at) OVER (ORDER BY n.created_at, n.id) AS pause
    FROM orders_callnote n JOIN orders_order o ON o.id = n.order_id AND o.call_state <> 'test'
    WHERE n.agent_id = %(agent)s AND n.created_at >= %(start)s AND n.created_at < %(end)s
), decided AS MATERIALIZED (
    SELECT s.to_status FROM orders_statuschange s JOIN orders_order o ON o.id = s.order_id AND o.call_state <> 'test'
    WHERE s.user_id = %(agent)s AND s.at >= %(start)s AND s.at < %(end)s
        AND s.from_status = 'pending_confirmation' AND s.to_status IN ('confirmed', 'canceled')
)
SELECT count(*) FILTER (WHERE outcome = ANY(%(calls)s)), count(*) FILTER (WHERE outcome = ANY(%(silent)s)),
    min(created_at) FILTER (WHERE outcome = ANY(%(calls)s)), max(created_at) FILTER (WHERE outcome = ANY(%(calls)s)),
    max(pause),
    (SELECT count(*) FROM decided WHERE to_status = 'confirmed'),
    (SELECT count(*) FROM decided WHERE to_status = 'canceled')
FROM noted
"""


def summary(agent: User, day: date) -> Day:
    """The day's totals, read by one statement."""
    values = {
        "agent": agent.pk, "start": days.start_of(day), "end": days.end_of(day),
        "calls": CallNote.CALLS, "silent": [outcome.value for outcome in CallNote.SILENT],
    }  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(_DAY, values)
        return Day(*cursor.fetchone())


def notes(agent: User, day: date) -> QuerySet[CallNote]:
    """Everything the person noted on the day, earliest first.

    Each note has the `pause` since the one before, and the status that it `decided`, if any.
    """
    theirs = CallNote.objects.filter(agent=agent, created_at__gte=days.start_of(day), created_at__lt=days.end_of(day))
    made = StatusChange.objects.filter(order_id=OuterRef("order_id"), at=OuterRef("created_at"))
    made = made.filter(user_id=OuterRef("agent_id"), from_status=Status.PENDING)
    pause = F("created_at") - Window(Lag("created_at"), order_by=["created_at", "id"])
    found = theirs.exclude(order__call_state=CallState.TEST).select_related("order__account")
    return found.annotate(pause=pause, decided=Subquery(made.values("to_status")[:1])).order_by("created_at", "id")


@for_supervisors
def page(request: HttpRequest, user_id: UUID) -> HttpResponse:
    """The day in `?day=`, by default today. For any member of staff, whoever manages their account."""
    return _page(request, get_object_or_404(User, pk=user_id, is_staff=True))


@needs("orders.work_order")
def own(request: HttpRequest) -> HttpResponse:
    """The same page for the signed-in person."""
    return _page(request, request.user)


def _page(request: HttpRequest, agent: User) -> HttpResponse:
    today, form = days.today(), DayForm(request.GET)
    status = 200 if form.is_valid() else 422
    day = form.cleaned_data.get("day") or today
    found = BoundedPaginator(notes(agent, day), PER_PAGE).get_page(request.GET.get("p"))
    return show(
        request,
        "agents/supervision/agents_day.html",
        title=_("The day of %(name)s") % {"name": unturned(agent.display_name)},
        person=agent,
        form=form,
        day=day,
        before=day - timedelta(days=1),
        after=day + timedelta(days=1) if day < today else None,
        today=today,
        summary=summary(agent, day),
        notes=found,
        shortest=_PAUSE,
        statuses=dict(Status.choices),
        status=status,
    )
