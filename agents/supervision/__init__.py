"""The supervisors' pages of the console, and an agent's own day. Each page is one address: GET shows, POST changes.

Supervisors see orders for review, current claims, bulk moves, people, calling rules and figures.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.utils.functional import Promise
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods

from codservice.i18n_tags import counted

View = Callable[..., HttpResponse]


def needs(permission: str) -> Callable[[View], View]:
    """Only for staff with this permission; others get 403. The console sends strangers to the login before this."""

    def decorate(view: View) -> View:
        @wraps(view)
        def checked(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            if not request.user.has_perm(permission):
                raise PermissionDenied
            return view(request, *args, **kwargs)

        return require_http_methods(["GET", "HEAD", "POST"])(checked)

    return decorate


for_supervisors = needs("orders.supervise_order")


def moved(count: int, status: str | Promise) -> str:
    """A sentence: so many orders now have this status."""
    text = ngettext("%(count)s order is now “%(status)s”.", "%(count)s orders are now “%(status)s”.", count)
    return text % {"count": counted(count), "status": status}


def requeued(count: int) -> str:
    text = ngettext("%(count)s order is back in the queue.", "%(count)s orders are back in the queue.", count)
    return text % {"count": counted(count)}


def stays(count: int, why: str) -> str:
    """A sentence: so many orders were left unchanged, and why."""
    text = ngettext("%(count)s order stays as it is: %(why)s", "%(count)s orders stay as they are: %(why)s", count)
    return text % {"count": counted(count), "why": why}
