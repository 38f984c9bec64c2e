"""Every error of /api/ as `{"error": code, "message": sentence}` (docs/errors.md), wherever it was raised."""

import logging
import re
import sys
from http import HTTPStatus
from typing import Annotated

from django.core.exceptions import DisallowedHost, ObjectDoesNotExist, PermissionDenied, TooManyFieldsSent
from django.db import Error as DatabaseError
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import Resolver404, is_valid_path
from django.views import defaults
from msgspec import Meta, Struct
from rest_framework import exceptions
from rest_framework.response import Response

from codservice.accounts.key_format import TEST
from codservice.api.adapters import ExactJSONRenderer
from codservice.errors import Errors, Refused
from codservice.postgresql import is_behind
from codservice.wire import dump_json

logger = logging.getLogger(__name__)

MESSAGES = {
    "bad_request": "The request cannot be read.",
    "unauthenticated": "Send a valid API key: Authorization: Bearer <API_KEY>.",
    "https_required": "Use https. A key that was sent unencrypted is not accepted: revoke it and create a new one.",
    "insufficient_scope": "This API key lacks the scope that this call needs.",
    "not_found": "There is nothing at this address, or it belongs to another account.",
    "method_not_allowed": "This address does not accept this method. `Allow` says which it accepts.",
    "unsupported_media_type": "Send the body with Content-Type: application/json, in UTF-8 and not compressed.",
    "rate_limited": "Too many requests. Try again after `Retry-After` seconds.",
    "server_error": "Something went wrong on our side. Try again later, an import with the same Idempotency-Key, and "
    "tell us the X-Request-Id if it goes on.",
    "unavailable": "The service cannot answer just now. Try again after `Retry-After` seconds.",
}


# Why Django cannot read a request's head, where that is for the client to mend.
_UNREADABLE = {
    DisallowedHost: "This service does not answer to the host name of this address. Use the address that it was given.",
    TooManyFieldsSent: "The address has more than 1 000 parameters.",
}


class Error(Struct):
    error: Annotated[str, Meta(description="A short code that does not change.")]
    message: Annotated[str, Meta(description="A sentence for people.")]


class ValidationFailed(Error):
    errors: Annotated[
        dict[str, list[str]],
        Meta(description="Dotted paths of fields (`items.0.quantity`) and what is wrong with them."),
    ]


def _error_body(code: str, message: str = "", errors: Errors | None = None) -> Error:
    message = message or MESSAGES[code]
    return Error(code, message) if errors is None else ValidationFailed(code, message, errors)


def error_response(status: int, code: str, headers: dict | None = None, message: str = "") -> HttpResponse:
    """An error answer for code outside DRF's views."""
    body = dump_json(_error_body(code, message))
    return HttpResponse(body, status=status, content_type="application/json", headers=headers)


def only_reading() -> HttpResponse:
    """The refusal of all methods but GET and HEAD, outside DRF's views."""
    return error_response(HTTPStatus.METHOD_NOT_ALLOWED, "method_not_allowed", headers={"Allow": "GET, HEAD"})


def unavailable(error: BaseException) -> HttpResponse:
    """The answer while the database is away, outside DRF's views."""
    note_outage(error)
    return error_response(HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", headers={"Retry-After": "1"})


def note_outage(error: BaseException) -> None:
    """Log why the database did not serve a request. What else is known of the request is in its access line."""
    reason = str(error).partition("\n")[0] or type(error).__name__
    logger.warning("a request is answered with 503, because the database did not serve it: %s", reason)


def _is_outage(error: DatabaseError) -> bool:
    """Whether the database is away, busy or takes no writes, or its migrations have not been run."""
    return isinstance(error, OperationalError | InterfaceError) or is_behind(error)


def exception_handler(exc: Exception, context: dict) -> Response | None:
    """Turn an exception of a view into an answer (DRF's hook). None, for a crash, leaves it to Django's 500 handler."""
    if request := context.get("request"):  # JSON also from a view that otherwise answers with pages or YAML
        request.accepted_renderer, request.accepted_media_type = ExactJSONRenderer(), ExactJSONRenderer.media_type
    message, errors, headers, wait = "", None, {}, Refused.wait
    match exc:
        case Refused():
            status, code, message, wait = exc.status, exc.code, exc.message, exc.wait
            if status == HTTPStatus.UNPROCESSABLE_ENTITY:
                errors = exc.by_field(exc.in_the_way)
        case DatabaseError() if _is_outage(exc):
            note_outage(exc)
            status, code = HTTPStatus.SERVICE_UNAVAILABLE, "unavailable"
        case Http404() | ObjectDoesNotExist():
            status, code = HTTPStatus.NOT_FOUND, "not_found"
        case exceptions.MethodNotAllowed():
            # `Allow` is set by the view.
            status, code = HTTPStatus.METHOD_NOT_ALLOWED, "method_not_allowed"
        case exceptions.UnsupportedMediaType():
            status, code = HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type"
        case exceptions.NotAuthenticated() | exceptions.AuthenticationFailed():
            status, code, headers = HTTPStatus.UNAUTHORIZED, "unauthenticated", {"WWW-Authenticate": "Bearer"}
        case exceptions.PermissionDenied() | PermissionDenied():
            status, code, message = HTTPStatus.FORBIDDEN, "insufficient_scope", str(getattr(exc, "detail", ""))
        case _:
            return None
    if status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE):
        headers = {"Retry-After": str(wait)}
    return Response(_error_body(code, message, errors), status, headers=headers)


# --- Django's own error pages, for what happens outside the views ------------------------------------------------


def _is_call(request: HttpRequest) -> bool:
    """Whether a program asks: also by `//api/`, which a base URL with a slash at its end comes to."""
    return request.path.lstrip("/").startswith("api/")


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    if not _is_call(request):
        return defaults.bad_request(request, exception)
    return error_response(HTTPStatus.BAD_REQUEST, "bad_request", message=_UNREADABLE.get(type(exception), ""))


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer 404, or redirect to the page if the address that was typed has only a final slash too many or too few.

    A call is never redirected, but told of the slash."""
    if _is_call(request):
        return error_response(HTTPStatus.NOT_FOUND, "not_found", message=_why_not_found(request))
    if request.method in ("GET", "HEAD") and isinstance(exception, Resolver404):
        path = request.path.removesuffix("/") if request.path.endswith("/") else f"{request.path}/"
        if is_valid_path(path):
            query = request.META.get("QUERY_STRING", "")
            return redirect(f"{path}?{query}" if query else path)
    return defaults.page_not_found(request, exception)


def _why_not_found(request: HttpRequest) -> str:
    """Why there is nothing at a call's address; empty if nobody knows."""
    path = re.sub("/+", "/", request.path).removesuffix("/")
    if path != request.path and is_valid_path(path):
        return "There is nothing at this address: it has a slash too many."
    key = getattr(request, "api_key", None)
    if path.startswith("/api/v1/test/") and key and key.mode != TEST:
        return "The calls of test mode need a test key (`cod_test_…`)."
    return ""


def server_error(request: HttpRequest) -> HttpResponse:
    """The answer to what a view or a middleware raised: 503 when the database cannot serve it now, else 500."""
    if isinstance(error := sys.exception(), DatabaseError) and _is_outage(error):
        if _is_call(request):
            return unavailable(error)
        note_outage(error)
        page = defaults.server_error(request, template_name="503.html")
        page.status_code, page.headers["Retry-After"] = HTTPStatus.SERVICE_UNAVAILABLE, "1"
        return page
    if _is_call(request):
        return error_response(HTTPStatus.INTERNAL_SERVER_ERROR, "server_error")
    return defaults.server_error(request)
