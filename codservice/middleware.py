"""What surrounds every request, in the order of the settings; between these stand some of Django's as they are.

The request's id, log line and counters; health checks; headers for security; for /api/v1 the key and the rate limit;
and what only pages pay for: static files, policies, session, language, person, messages, and what is asked of who is
signed in.
"""

import logging
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from csp.middleware import CSPMiddleware
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import SESSION_KEY, logout
from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.messages.middleware import MessageMiddleware
from django.contrib.messages.storage.cookie import CookieStorage
from django.contrib.messages.storage.fallback import FallbackStorage
from django.contrib.messages.storage.session import SessionStorage
from django.contrib.sessions.middleware import SessionMiddleware
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.middleware.locale import LocaleMiddleware
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.urls import Resolver404, resolve
from django.utils import translation
from django.utils.log import log_response
from django.utils.translation import gettext as _
from rest_framework.permissions import AllowAny
from whitenoise.middleware import WhiteNoiseMiddleware

from codservice import health, logs, metrics, ratelimit
from codservice.accounts import authentication, security_log, sessions
from codservice.accounts.key_form import TEST, shows_test_key
from codservice.api.error_answers import error_response, unavailable

GetResponse = Callable[[HttpRequest], HttpResponse]

access = logging.getLogger("codservice.access")


class _Middleware:
    """As Django makes them, each around what gives the answer."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)


class RequestId(_Middleware):
    """`X-Request-Id` on every answer: the client's when it is a sane one, else a new one.

    Outermost, it also sees what becomes of every request: a line in the log and the counters of /metrics.
    """

    def __call__(self, request: HttpRequest) -> HttpResponse:
        request_id = logs.sane_request_id(request.META.get("HTTP_X_REQUEST_ID", ""))
        logs.begin(request_id)
        security_log.begin(request)
        started = time.perf_counter()
        try:
            response = self.get_response(request)
            if response.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
                # Django would log it only when this id is forgotten again.
                log_response("%s: %s", response.reason_phrase, request.path, response=response, request=request)
            if request.path not in health.ANSWERS:  # of those there is one every few seconds
                _observe(request, response.status_code, time.perf_counter() - started)
        finally:
            security_log.end()
            logs.end()
        response.headers["X-Request-Id"] = request_id
        return response


def _observe(request: HttpRequest, status: int, seconds: float) -> None:
    # By the URL's pattern: paths may hold anything, and queries hold telephone numbers.
    method, route = metrics.method_of(request), metrics.route_of(request)
    metrics.count_request(method, route, status, seconds)
    session = getattr(request, "session", None)
    if session is not None and (user_id := session.loaded.get(SESSION_KEY)):
        logs.bind(user_id=user_id)
        request.META["codservice.holder"] = f"user {user_id}"  # for `run.gateway`
    fields = {"method": method, "route": route, "status": status, "ms": round(seconds * 1000, 1)}
    access.info("request", extra=fields)


class HealthChecks(_Middleware):
    """Answers the paths of `health.ANSWERS` before the rest: whoever asks has no key and may name any host."""

    def __call__(self, request: HttpRequest) -> HttpResponse:
        answer = health.ANSWERS.get(request.path)
        if not answer or request.method not in ("GET", "HEAD"):
            return self.get_response(request)
        response = answer(request)
        # What is wrong is in the answer, for who asks again and again; Django would note each time that something is.
        response._has_been_logged = True  # type: ignore[attr-defined]
        return response


class ApiGate(_Middleware):
    """Lets into /api/v1 only requests with a valid key that is within its limit; without any, to a view that allows it.

    It stands before the URL map, so that a stranger learns nothing from unknown paths, and so that every answer to
    a known key carries the rate limit's headers, errors included. The views find the key in `request.api_key`.
    """

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if not request.path.startswith("/api/v1"):
            return self.get_response(request)
        # A page that this thread answered before has left its language; the API speaks one.
        translation.deactivate()
        response = self.admit(request)
        response.headers["Vary"] = "Authorization"  # and not Accept-Language: the API speaks one
        response.headers.setdefault("Cache-Control", "no-store")
        if shows_test_key(request.META.get("HTTP_AUTHORIZATION", "")):
            response.headers["X-Service-Mode"] = TEST
        return response

    def admit(self, request: HttpRequest) -> HttpResponse:
        if settings.SECURE_SSL_REDIRECT and not request.is_secure():
            # A redirect would lose the body, and the client would go on sending its key for all to read.
            return error_response(403, "https_required")
        try:
            key = authentication.find_key(request.META.get("HTTP_AUTHORIZATION", ""))
        except (OperationalError, InterfaceError) as error:
            return unavailable(error)
        if key is None:
            is_open = "HTTP_AUTHORIZATION" not in request.META and _is_open(request)
            if wait := ratelimit.address_limited_for(request):
                headers = {"Retry-After": str(wait)} | (_FOR_ANY_PAGE if is_open else {})
                return error_response(429, "rate_limited", headers=headers)
            if is_open:
                return self.get_response(request)
            return error_response(401, "unauthenticated", headers={"WWW-Authenticate": "Bearer"})
        request.api_key = key  # type: ignore[attr-defined]
        request.META["codservice.holder"] = f"account {key.account_id}"  # for `run.gateway`
        logs.bind(account_id=str(key.account_id), api_key_id=str(key.id))
        usage = ratelimit.use_key(key.id, key.account_id, key.rate_limit)
        if usage.is_exceeded:
            response = error_response(429, "rate_limited", headers={"Retry-After": str(usage.reset)})
        else:
            response = self.get_response(request)
        response.headers["X-RateLimit-Limit"] = str(usage.limit)
        response.headers["X-RateLimit-Remaining"] = str(usage.remaining)
        response.headers["X-RateLimit-Reset"] = str(usage.reset)
        return response


# Any page may read what a view that needs no key answers, which says so itself; and so that it has asked too often.
_FOR_ANY_PAGE = {"Access-Control-Allow-Origin": "*", "Access-Control-Expose-Headers": "Retry-After"}


def _is_open(request: HttpRequest) -> bool:
    """Whether the view at this address says itself that it needs no key."""
    try:
        view = resolve(request.path_info).func
    except Resolver404:
        return False
    return getattr(getattr(view, "cls", None), "permission_classes", None) == [AllowAny]


def _for_pages(middleware: type) -> type:
    """Django's own, for pages: calls of the API, which have no session, language or browser, do not pay for it."""

    class ForPages(middleware):  # type: ignore[misc]
        def __call__(self, request: HttpRequest) -> Any:
            if request.path.startswith("/api/v1/"):
                return self.get_response(request)
            return super().__call__(request)

    ForPages.__name__ = ForPages.__qualname__ = middleware.__name__
    return ForPages


@_for_pages
class StaticFiles(WhiteNoiseMiddleware):
    """Our own of that name for a file of another version: while webs are replaced one by one, a page of one of them has
    its styles and scripts from any, and without them it would be bare."""

    def __call__(self, request: HttpRequest) -> HttpResponse:
        path = request.path_info
        if path not in self.files and path.startswith(self.static_prefix):
            name = self.get_name_without_hash(path.removeprefix(self.static_prefix))
            if ours := self.files.get(self.get_static_url(name)):
                response = self.serve(ours, request)
                response.headers["Cache-Control"] = "no-store"  # it is not what the address says
                return response
        return super().__call__(request)


# What no page of ours asks a browser for, and what stays shut if a page were ever made to.
_SHUT = (
    *("accelerometer", "autoplay", "bluetooth", "camera", "display-capture", "encrypted-media", "geolocation"),
    *("gyroscope", "hid", "magnetometer", "microphone", "midi", "payment", "publickey-credentials-get"),
    *("screen-wake-lock", "serial", "usb", "xr-spatial-tracking"),
)


@_for_pages
class Policies(CSPMiddleware):
    """Content-Security-Policy and Permissions-Policy."""

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        response.headers["Permissions-Policy"] = ", ".join(f"{feature}=()" for feature in _SHUT)
        return super().process_response(request, response)


@_for_pages
class WithoutNul(_Middleware):
    """In the console NUL in a page's parameters becomes U+FFFD, which is found nowhere.

    PostgreSQL takes NUL in no text, so that lists of Django's would fail. Pages of our own say what is wrong with it.
    """

    def __call__(self, request: HttpRequest) -> HttpResponse:
        query = request.META.get("QUERY_STRING", "")
        if request.path.startswith("/console/") and "%00" in query:
            request.META["QUERY_STRING"] = query.replace("%00", "%EF%BF%BD")
            request.__dict__.pop("GET", None)  # where somebody has looked already
        return self.get_response(request)


Sessions = _for_pages(SessionMiddleware)
Language = _for_pages(LocaleMiddleware)
Authentication = _for_pages(AuthenticationMiddleware)
Messages = _for_pages(MessageMiddleware)


class _CookieStorage(CookieStorage):
    cookie_name = f"{settings.COOKIE_PREFIX}messages"


class MessageStorage(FallbackStorage):
    """Django's own, with a cookie that has our prefix."""

    storage_classes = (_CookieStorage, SessionStorage)


@_for_pages
class InWords(_Middleware):
    """Gives people a page where Django answers with an empty one, for which browsers show an error of theirs."""

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if request.method == "GET" and response.status_code == HTTPStatus.METHOD_NOT_ALLOWED and not response.content:
            response.content = render_to_string("405.html", request=request)
        return response


class SignedIn(_Middleware):
    """What is asked of people who are signed in, on the pages behind a login: that they do not ask too often, that
    staff are there, and that who was given a password changes it before anything else."""

    ROOMS = ("/account/", "/console/")
    # Where somebody with a one-time password may go.
    OPEN = {"password", "logout", "admin:password_change", "admin:logout", "admin:jsi18n"}

    def process_view(self, request: HttpRequest, view: Any, args: Any, kwargs: Any) -> HttpResponse | None:
        if not request.path.startswith(self.ROOMS) or not request.user.is_authenticated:
            return None
        usage = ratelimit.use_page(request.user.pk)
        if usage.is_exceeded:
            response = render(request, "429.html", status=429)
            response.headers["Retry-After"] = str(usage.reset)
            return response
        if request.user.is_staff and sessions.is_idle(request.session, view):
            logout(request)
            messages.info(request, _("You were away for a long time. Sign in again."))
            return None
        if not request.user.is_staff and not hasattr(view, "is_asked_by_itself"):
            sessions.see(request, request.user)
        if request.user.has_one_time_password and request.resolver_match.view_name not in self.OPEN:
            return redirect("admin:password_change" if request.user.is_staff else "password")
        return None
