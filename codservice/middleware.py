"""The middleware around every request, in the order of the settings, where some of Django's own come in between.

The request's id, log line and counters; health checks; security headers; for /api/v1 the key and the rate limit. And
what only pages pay for: static files, policies, session, language, user, messages, and rules for signed-in people.
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
from codservice.accounts.key_format import TEST, shows_test_key
from codservice.accounts.models import MOST_WORKING_KEYS
from codservice.api.error_answers import error_response, only_reading, unavailable

GetResponse = Callable[[HttpRequest], HttpResponse]

access = logging.getLogger("codservice.access")

API = "/api/v1"  # without a slash, so that an address that is cut off there is refused without a key too


class _Middleware:
    """The usual base class of Django middleware."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)


class RequestId(_Middleware):
    """Set `X-Request-Id` on every answer: the client's if it is acceptable, else a new one.

    As the outermost, it also writes a log line for every request but health checks, and counts it for /metrics.
    """

    def __call__(self, request: HttpRequest) -> HttpResponse:
        request_id = logs.sane_request_id(request.META.get("HTTP_X_REQUEST_ID", ""))
        logs.begin(request_id)
        security_log.begin(request)
        started = time.perf_counter()
        try:
            response = self.get_response(request)
            if response.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
                # Django would log it only after this id has been forgotten.
                log_response("%s: %s", response.reason_phrase, request.path, response=response, request=request)
            if request.path not in health.ANSWERS:  # these come every few seconds
                _observe(request, response.status_code, time.perf_counter() - started)
        finally:
            security_log.end()
            logs.end()
        response.headers["X-Request-Id"] = request_id
        return response


def _observe(request: HttpRequest, status: int, seconds: float) -> None:
    # The URL's pattern, not the URL: paths may contain anything, and queries contain telephone numbers.
    method, route = metrics.method_of(request), metrics.route_of(request)
    metrics.count_request(method, route, status, seconds)
    session = getattr(request, "session", None)
    if session is not None and (user_id := session.loaded.get(SESSION_KEY)):
        logs.bind(user_id=user_id)
        request.META["codservice.holder"] = f"user {user_id}"  # for `run.gateway`
    fields = {"method": method, "route": route, "status": status, "ms": round(seconds * 1000, 1)}
    access.info("request", extra=fields)


class HealthChecks(_Middleware):
    """Answer the paths of `health.ANSWERS` before all else: health checkers have no key and may name any host."""

    def __call__(self, request: HttpRequest) -> HttpResponse:
        answer = health.ANSWERS.get(request.path)
        if not answer:
            return self.get_response(request)
        if request.method not in ("GET", "HEAD"):
            return only_reading()
        response = answer(request)
        # The answer says what is wrong. Django would also log it each time, and checkers ask again and again.
        response._has_been_logged = True  # type: ignore[attr-defined]
        return response


class ApiGate(_Middleware):
    """Admit requests to /api/v1 only with a valid key that is within its limit, or without any to views that need none.

    It runs before URLs are resolved, so that strangers learn nothing from unknown paths, and every answer to a known
    key has the rate limit's headers, errors included. DRF's views find the key in `request.auth`
    (`ApiKeyAuthentication`); what comes before DRF, in `request.api_key`.
    """

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if not request.path.startswith(API):
            return self.get_response(request)
        # The last page of this thread may have left its language active; the API has only one.
        translation.deactivate()
        response = self.admit(request)
        response.headers["Vary"] = "Authorization"  # not Accept-Language: the API has only one
        response.headers.setdefault("Cache-Control", "no-store")
        if shows_test_key(request.META.get("HTTP_AUTHORIZATION", "")):
            response.headers["X-Service-Mode"] = TEST
        return response

    def admit(self, request: HttpRequest) -> HttpResponse:
        if settings.SECURE_SSL_REDIRECT and not request.is_secure():
            # A redirect would lose the body, and the client would go on sending its key in clear text.
            return error_response(403, "https_required")
        try:
            key = authentication.find_key(request.META.get("HTTP_AUTHORIZATION", ""))
        except (OperationalError, InterfaceError) as error:
            return unavailable(error)
        if isinstance(key, str):  # why there is none
            is_open = "HTTP_AUTHORIZATION" not in request.META and _is_open(request)
            if wait := ratelimit.address_limited_for(request):
                headers = {"Retry-After": str(wait)} | (_FOR_ANY_PAGE if is_open else {})
                return error_response(429, "rate_limited", headers=headers)
            if is_open:
                return self.get_response(request)
            return error_response(401, "unauthenticated", headers={"WWW-Authenticate": "Bearer"}, message=key)
        request.api_key = key  # type: ignore[attr-defined]
        request.META["codservice.holder"] = f"account {key.account_id}"  # for `run.gateway`
        logs.bind(account_id=str(key.account_id), api_key_id=str(key.id))
        usage = ratelimit.use_key(key.id, key.account_id, key.rate_limit, MOST_WORKING_KEYS)
        if usage.is_exceeded:
            response = error_response(429, "rate_limited", headers={"Retry-After": str(usage.reset)})
        else:
            response = self.get_response(request)
        response.headers["X-RateLimit-Limit"] = str(usage.limit)
        response.headers["X-RateLimit-Remaining"] = str(usage.remaining)
        response.headers["X-RateLimit-Reset"] = str(usage.reset)
        return response


# Pages of any origin may read the answers of views that need no key; these set the header themselves, and a refusal for
# too many requests needs it too.
_FOR_ANY_PAGE = {"Access-Control-Allow-Origin": "*", "Access-Control-Expose-Headers": "Retry-After"}


def _is_open(request: HttpRequest) -> bool:
    """Whether the view at this address declares that it needs no key."""
    try:
        view = resolve(request.path_info).func
    except Resolver404:
        return False
    return getattr(getattr(view, "cls", None), "permission_classes", None) == [AllowAny]


def _for_pages(middleware: type) -> type:
    """Apply a middleware to pages only: API calls, which have no session, language or browser, do not pay for it."""

    class ForPages(middleware):  # type: ignore[misc]
        def __call__(self, request: HttpRequest) -> Any:
            if request.path.startswith(API):
                return self.get_response(request)
            return super().__call__(request)

    ForPages.__name__ = ForPages.__qualname__ = middleware.__name__
    return ForPages


@_for_pages
class StaticFiles(WhiteNoiseMiddleware):
    """Serve our file of the same name when another version of it is requested.

    While web processes are replaced one by one, a page of one version may ask another for its styles and scripts."""

    def __call__(self, request: HttpRequest) -> HttpResponse:
        path = request.path_info
        if path not in self.files and path.startswith(self.static_prefix):
            name = self.get_name_without_hash(path.removeprefix(self.static_prefix))
            if ours := self.files.get(self.get_static_url(name)):
                response = self.serve(ours, request)
                response.headers["Cache-Control"] = "no-store"  # not the version that the URL names
                return response
        return super().__call__(request)


# Browser features that no page of ours uses, denied in case a page is ever made to.
_SHUT = (
    *("accelerometer", "autoplay", "bluetooth", "camera", "display-capture", "encrypted-media", "geolocation"),
    *("gyroscope", "hid", "magnetometer", "microphone", "midi", "payment", "publickey-credentials-get"),
    *("screen-wake-lock", "serial", "usb", "xr-spatial-tracking"),
)


@_for_pages
class Policies(CSPMiddleware):
    """Set Content-Security-Policy and Permissions-Policy."""

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        response.headers["Permissions-Policy"] = ", ".join(f"{feature}=()" for feature in _SHUT)
        return super().process_response(request, response)


@_for_pages
class WithoutNul(_Middleware):
    """In the console, replace NUL in a page's parameters by U+FFFD, which matches nothing.

    PostgreSQL text cannot contain NUL, so Django's lists would fail. Our own pages report it as an error.
    """

    def __call__(self, request: HttpRequest) -> HttpResponse:
        query = request.META.get("QUERY_STRING", "")
        if request.path.startswith("/console/") and "%00" in query:
            request.META["QUERY_STRING"] = query.replace("%00", "%EF%BF%BD")
            request.__dict__.pop("GET", None)  # it may be cached already
        return self.get_response(request)


Sessions = _for_pages(SessionMiddleware)
Language = _for_pages(LocaleMiddleware)
Authentication = _for_pages(AuthenticationMiddleware)
Messages = _for_pages(MessageMiddleware)


class _CookieStorage(CookieStorage):
    cookie_name = f"{settings.COOKIE_PREFIX}messages"


class MessageStorage(FallbackStorage):
    """Django's storage, with our prefix for the cookie's name."""

    storage_classes = (_CookieStorage, SessionStorage)


@_for_pages
class MethodNotAllowedPage(_Middleware):
    """Show people a page for Django's empty 405, for which browsers would show an error of their own."""

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if request.method == "GET" and response.status_code == HTTPStatus.METHOD_NOT_ALLOWED and not response.content:
            response.content = render_to_string("405.html", request=request)
        return response


class SignedIn(_Middleware):
    """Rules for signed-in people on the pages behind a login.

    They may not make too many requests, staff who are idle are signed out, and a one-time password must be changed
    before anything else."""

    BEHIND_LOGIN = ("/account/", "/console/")
    # The views that are open to people with a one-time password.
    OPEN = {"password", "logout", "admin:password_change", "admin:logout", "admin:jsi18n"}

    def process_view(self, request: HttpRequest, view: Any, args: Any, kwargs: Any) -> HttpResponse | None:
        if not request.path.startswith(self.BEHIND_LOGIN) or not request.user.is_authenticated:
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
