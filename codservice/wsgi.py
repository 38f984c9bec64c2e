import logging
import os
from typing import Any

from django.conf import settings
from django.core.handlers.wsgi import WSGIRequest
from django.core.wsgi import get_wsgi_application
from django.http.multipartparser import MultiPartParserError

from codservice.wire import media_type

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "codservice.settings")


class Request(WSGIRequest):
    """Django's request, except that the query is UTF-8 whatever charset `Content-Type` names for the body.

    Django would decode the query with that charset before any of our code runs, and crash for `idna`, `zlib` or
    parameters that cannot be read.
    """

    def _set_content_type_params(self, meta: dict) -> None:
        self.content_type, self.content_params = media_type(meta.get("CONTENT_TYPE", ""))

    def parse_file_upload(self, *args: Any) -> Any:
        """Refuse a part whose head Python cannot read, like any other that cannot be read (`media_type`)."""
        try:
            return super().parse_file_upload(*args)
        except TypeError as error:
            raise MultiPartParserError("The head of a part cannot be read.") from error


application = get_wsgi_application()
if settings.SECURE_SSL_REDIRECT and not settings.TRUSTED_PROXIES:
    logging.getLogger(__name__).warning(
        "HTTPS is on, but TRUSTED_PROXIES is 0: every request is taken for one without TLS, and redirected or refused."
        " Set it to the number of proxies in front of web."
    )
application.request_class = Request
