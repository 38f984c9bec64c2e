"""Django's middleware for pages. Calls of the API, which have no session, language or browser, do not pay for it."""

from typing import Any

from csp.middleware import CSPMiddleware
from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.messages.middleware import MessageMiddleware
from django.contrib.sessions.middleware import SessionMiddleware
from django.http import HttpRequest
from django.middleware.locale import LocaleMiddleware
from whitenoise.middleware import WhiteNoiseMiddleware


def _for_pages(middleware: type) -> type:
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
