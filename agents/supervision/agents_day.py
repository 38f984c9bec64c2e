"""An agent's day, for quality checks: every call they noted, what it decided, and the order's status since.

Above it are the day's totals, counted as in the figures.
"""

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from uuid import UUID

from django.core.paginator import Paginator
from django.db.models import Count, F, Max, Min, OuterRef, Q, QuerySet, Subquery, Window
from django.db.models.functions import Lag
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from agents.console import show
from agents.supervision import for_supervisors, needs, summing
from codservice import days
from codservice.accounts.models import User
from codservice.bidi import unturned
from codservice.form_fields import DayField, Form
from orders.models import CallNote, CallState, Status, StatusChange

PER_PAGE = 100
_PAUSE = timedelta(minutes=1)  # shorter pauses are not shown


class DayForm(Form):
    day = DayField(label=gettext_lazy("Day"), required=False)


@dataclass(frozen=True)
class Day:
    """What one person noted and decided on a day. `longest_pause` is between two notes.

    As in the figures, a call about two orders of a customer counts for both, and only decisions of pending orders
    count.
    """

    calls: int
    silent: int
    first: datetime | None
    last: datetime | None
    longest_pause: timedelta | None
    confirmed: int
    canceled: int

    @property
    def rate(self) -> int | None:
        return summing.confirmation_rate(self.confirmed, self.confirmed + self.canceled)


def summary(agent: User, day: date) -> Day:
    """The day's totals. Read along the indexes by time, like the list."""
    calls, silent = Q(outcome__in=CallNote.CALLS), Q(outcome__in=CallNote.SILENT)
    noted = _noted(agent, day).aggregate(
        calls=Count("id", filter=calls),
        silent=Count("id", filter=silent),
        first=Min("created_at", filter=calls),
        last=Max("created_at", filter=calls),
        longest_pause=Max("pause"),
    )
    moves = StatusChange.objects.filter(user=agent, at__gte=days.start_of(day), at__lt=days.end_of(day))
    decided = moves.filter(from_status=Status.PENDING).exclude(order__call_state=CallState.TEST)
    return Day(
        **noted,
        **decided.aggregate(
            confirmed=Count("id", filter=Q(to_status=Status.CONFIRMED)),
            canceled=Count("id", filter=Q(to_status=Status.CANCELED)),
        ),
    )


def notes(agent: User, day: date) -> QuerySet[CallNote]:
    """Everything the person noted on the day, earliest first.

    Each note has the `pause` since the one before, and the status that it `decided`, if any.
    """
    made = StatusChange.objects.filter(order_id=OuterRef("order_id"), at=OuterRef("created_at"))
    made = made.filter(user_id=OuterRef("agent_id"), from_status=Status.PENDING)
    found = _noted(agent, day).select_related("order__account")
    return found.annotate(decided=Subquery(made.values("to_status")[:1])).order_by("created_at", "id")


def _noted(agent: User, day: date) -> QuerySet[CallNote]:
    theirs = CallNote.objects.filter(agent=agent, created_at__gte=days.start_of(day), created_at__lt=days.end_of(day))
    pause = F("created_at") - Window(Lag("created_at"), order_by=["created_at", "id"])
    return theirs.exclude(order__call_state=CallState.TEST).annotate(pause=pause)


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
    found = Paginator(notes(agent, day), PER_PAGE).get_page(request.GET.get("p"))
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
