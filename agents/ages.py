"""Orders grouped by age into a few spans, for the backlog figures and the list's filter."""

from datetime import timedelta

from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from codservice.charts import spans

# In hours. The first span is everything younger than the first bound, the last everything older than the last.
BOUNDS = (4, 24, 48, 72, 168)
LATE = BOUNDS.index(24) + 1  # the first span of orders that have waited for a day


def names() -> list[str]:
    """The names of the spans, the youngest first."""
    return spans([_said(hours) for hours in BOUNDS])


def _said(hours: int) -> str:
    if hours < 24:
        return _("%(count)d h") % {"count": hours}
    return ngettext("%(count)d day", "%(count)d days", hours // 24) % {"count": hours // 24}


def between(span: int) -> Q:
    """A condition for the orders whose age lies in this span."""
    found = Q()
    if span > 0:
        found &= Q(created_at__lte=Now() - timedelta(hours=BOUNDS[span - 1]))
    if span < len(BOUNDS):
        found &= Q(created_at__gt=Now() - timedelta(hours=BOUNDS[span]))
    return found
