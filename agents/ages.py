"""How old orders are, in a few spans: for the figures of what waits, and to find them in the list."""

from datetime import timedelta

from django.db.models import Q
from django.db.models.expressions import Combinable
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from codservice.charts import spans

# Hours: the first span is under the first, the next from there to the next, the last from the last on.
BOUNDS = (4, 24, 48, 72, 168)


def names() -> list[str]:
    """Of the spans, the youngest first."""
    return spans([_said(hours) for hours in BOUNDS])


def _said(hours: int) -> str:
    if hours < 24:
        return _("%(count)d h") % {"count": hours}
    return ngettext("%(count)d day", "%(count)d days", hours // 24) % {"count": hours // 24}


def between(span: int, now: Combinable) -> Q:
    """The orders of a span; `now` is the time from which it is reckoned."""
    found = Q()
    if span > 0:
        found &= Q(created_at__lte=now - timedelta(hours=BOUNDS[span - 1]))
    if span < len(BOUNDS):
        found &= Q(created_at__gt=now - timedelta(hours=BOUNDS[span]))
    return found
