"""The supervisors' pages in the console: what agents leave for review, who holds whom, moves of many orders, people,
calling rules and figures; and an agent's own day. Each is one address: GET shows, POST changes."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_http_methods

View = Callable[..., HttpResponse]


def needs(permission: str) -> Callable[[View], View]:
    """For staff with this permission; others get 403. Strangers are sent to the login by the console before."""

    def decorate(view: View) -> View:
        @wraps(view)
        def checked(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            if not request.user.has_perm(permission):
                raise PermissionDenied
            return view(request, *args, **kwargs)

        return require_http_methods(["GET", "HEAD", "POST"])(checked)

    return decorate


for_supervisors = needs("orders.supervise_order")
