"""What surrounds every request, in the order of the settings; between these stand some of Django's as they are.

The request's id, log line and counters; health checks; for /api/v1 the key and the rate limit; and what only pages pay
for: static files, policy, session, language, person, messages.
"""

import logging
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from csp.middleware import CSPMiddleware
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.messages.middleware import MessageMiddleware
from django.contrib.sessions.middleware import SessionMiddleware
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.middleware.locale import LocaleMiddleware
from django.utils import translation
from django.utils.log import log_response
from whitenoise.middleware import WhiteNoiseMiddleware

from codservice import health, logs, metrics, ratelimit
from codservice.accounts import authentication
from codservice.api.error_answers import error_response, unavailable

GetResponse = Callable[[HttpRequest], HttpResponse]

access = logging.getLogger("codservice.access")


class RequestId:
    """`X-Request-Id` on every answer: the client's when it is a sane one, else a new one.

    Outermost, it also sees what becomes of every request: a line in the log and the counters of /metrics.
    """

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        sent = request.META.get("HTTP_X_REQUEST_ID", "")
        request_id = logs.sane_request_id(sent)
        logs.begin(request_id, is_ours=request_id != sent)
        started = time.perf_counter()
        try:
            response = self.get_response(request)
            if response.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
                # Django would log it only when this id is forgotten again.
                log_response("%s: %s", response.reason_phrase, request.path, response=response, request=request)
            if request.path not in health.ANSWERS:  # of those there is one every few seconds
                _observe(request, response.status_code, time.perf_counter() - started)
        finally:
            logs.end()
        response.headers["X-Request-Id"] = request_id
        return response


def _observe(request: HttpRequest, status: int, seconds: float) -> None:
    # By the URL's pattern: paths may hold anything, and queries hold telephone numbers.
    method, route = metrics.method_of(request), metrics.route_of(request)
    metrics.count_request(method, route, status, seconds)
    session = getattr(request, "session", None)
    if session is not None and session.accessed and SESSION_KEY in session:
        logs.bind(user_id=session[SESSION_KEY])
    fields = {"method": method, "route": route, "status": status, "ms": round(seconds * 1000, 1)}
    access.info("request", extra=fields)


class HealthChecks:
    """Answers the paths of `health.ANSWERS` before the rest: whoever asks has no key and may name any host."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        answer = health.ANSWERS.get(request.path)
        return answer(request) if answer and request.method in ("GET", "HEAD") else self.get_response(request)


class ApiGate:
    """Lets into /api/v1 only requests with a valid key that is within its limit.

    It stands before the URL map, so that a stranger learns nothing from unknown paths, and so that every answer to
    a known key carries the rate limit's headers, errors included. The views find the key in `request.api_key`.
    """

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if not request.path.startswith("/api/v1"):
            return self.get_response(request)
        # A page that this thread answered before has left its language; the API speaks one.
        translation.deactivate()
        response = self.admit(request)
        response.headers["Vary"] = "Authorization"  # and not Accept-Language: the API speaks one
        response.headers.setdefault("Cache-Control", "no-store")
        return response

    def admit(self, request: HttpRequest) -> HttpResponse:
        try:
            key = authentication.find_key(request.META.get("HTTP_AUTHORIZATION", ""))
        except (OperationalError, InterfaceError):
            return unavailable()
        if key is None:
            if wait := ratelimit.is_address_limited(request):
                return error_response(429, "rate_limited", headers={"Retry-After": str(wait)})
            return error_response(401, "unauthenticated", headers={"WWW-Authenticate": "Bearer"})
        request.api_key = key  # type: ignore[attr-defined]
        logs.bind(account_id=str(key.account_id), api_key_id=str(key.id))
        usage = ratelimit.use_key(key.id, key.rate_limit)
        if usage.is_exceeded:
            response = error_response(429, "rate_limited", headers={"Retry-After": str(usage.reset)})
        else:
            response = self.get_response(request)
        response.headers["X-RateLimit-Limit"] = str(usage.limit)
        response.headers["X-RateLimit-Remaining"] = str(usage.remaining)
        response.headers["X-RateLimit-Reset"] = str(usage.reset)
        return response


def _for_pages(middleware: type) -> type:
    """Django's own, for pages: calls of the API, which have no session, language or browser, do not pay for it."""

    class ForPages(middleware):  # type: ignore[misc]
        def __call__(self, request: HttpRequest) -> Any:
            if request.path.startswith("/api/v1/"):
                return self.get_response(request)
            return super().__call__(request)

    ForPages.__name__ = ForPages.__qualname__ = middleware.__name__
    return ForPages


StaticFiles = _for_pages(WhiteNoiseMiddleware)
ContentSecurityPolicy = _for_pages(CSPMiddleware)
Sessions = _for_pages(SessionMiddleware)
Language = _for_pages(LocaleMiddleware)
Authentication = _for_pages(AuthenticationMiddleware)
Messages = _for_pages(MessageMiddleware)
