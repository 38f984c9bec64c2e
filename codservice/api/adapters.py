"""How DRF reads and writes: thin classes over `codservice.wire`, named in the settings."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any
from uuid import UUID

from django.db.models import QuerySet
from django.http import Http404
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

from codservice.errors import Invalid
from codservice.wire import MAX_BODY, MalformedJSON, PayloadTooLarge, dump_json, load_json, media_type


def needed_body(request: Request) -> dict[str, Any]:
    """The body of a call that needs one. Raises MalformedJSON without a body, where `request.data` would be empty."""
    if request.stream is None:
        raise MalformedJSON("It is empty.")
    return request.data


def optional_body(request: Request) -> dict[str, Any]:
    """The body of a call that needs none. Without one it is {}, also for a Content-Type of which DRF makes a form."""
    return {} if request.stream is None else request.data


@contextmanager
def unknown_first(found: QuerySet) -> Iterator[None]:
    """Reading a body within this raises Http404, and not Invalid, if `found` is empty: nothing is told of another's.

    A body that can be used costs no query.
    """
    try:
        yield
    except Invalid:
        if not found.exists():
            raise Http404 from None
        raise


def location(request: Request, id: UUID | str) -> dict[str, str]:
    """The header that says where what was just created can be read: beneath the list that it was posted to."""
    return {"Location": f"{request.path}/{id}"}


# What a body may be compressed with. With any other value, such as `UTF-8`, the body came as it is.
_COMPRESSED = re.compile(r"\b(gzip|compress|deflate|br|zstd)\b", re.IGNORECASE)


class StrictJSONParser(BaseParser):
    """Parse a body with `load_json`. Raises PayloadTooLarge for a body over MAX_BODY."""

    media_type = "application/json"

    def parse(
        self, stream: IO, media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        body = stream.read(MAX_BODY + 1)
        if len(body) > MAX_BODY:
            raise PayloadTooLarge
        return load_json(body)


class ExactJSONRenderer(BaseRenderer):
    media_type = "application/json"
    format = "json"
    charset = None  # JSON is always UTF-8

    def render(
        self, data: Any, accepted_media_type: str | None = None, renderer_context: Mapping[str, Any] | None = None
    ) -> bytes:
        if data is None:
            return b""
        return dump_json(data)


class AlwaysJSON(BaseContentNegotiation):
    """Answer in JSON whatever `Accept` says: refusing a request over a header would help nobody.

    A body must be JSON in UTF-8, and not compressed.
    """

    def select_parser(self, request, parsers):
        sent, parameters = media_type(request.content_type or "")
        if sent != StrictJSONParser.media_type or _COMPRESSED.search(request.META.get("HTTP_CONTENT_ENCODING", "")):
            return None
        return parsers[0] if parameters.get("charset", "utf-8").lower() in ("utf-8", "utf8") else None

    def select_renderer(self, request, renderers, format_suffix=None):
        return renderers[0], renderers[0].media_type
