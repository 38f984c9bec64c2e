"""`ETag` and `If-None-Match`: a client that has seen the newest state is told so in a few bytes."""

from typing import Any

from django.http import HttpResponse, HttpResponseNotModified
from django.utils.http import parse_etags
from rest_framework.request import Request
from rest_framework.response import Response

from codservice.api.bodies import weak_etag


def is_known(request: Request, etag: str) -> bool:
    """Whether `If-None-Match` names this tag, weakly compared. The other conditions of HTTP are no promise of ours."""
    sent = parse_etags(request.META.get("HTTP_IF_NONE_MATCH", ""))
    return sent == ["*"] or etag.removeprefix("W/") in (tag.removeprefix("W/") for tag in sent)


def answer_unless_known(request: Request, body: Any) -> HttpResponse:
    """`body` with its weak `ETag`, or 304 when the client has it already."""
    etag = weak_etag(body)
    response: HttpResponse = HttpResponseNotModified() if is_known(request, etag) else Response(body)
    response.headers["ETag"] = etag
    response.headers["Cache-Control"] = "private, no-cache"
    return response
