"""`ETag` and `If-None-Match`: a client that has seen the newest state is told so in a few bytes."""

import hashlib
from collections.abc import Callable
from typing import Any

from django.http import HttpResponseNotModified
from django.http.response import HttpResponseBase
from django.utils.http import parse_etags
from rest_framework.request import Request
from rest_framework.response import Response

from codservice.wire import dump_json


def weak_etag(data: Any) -> str:
    """A weak `ETag` that changes with any change of what `data` says."""
    return f'W/"{hashlib.sha256(dump_json(data)).hexdigest()[:32]}"'


def is_known(request: Request, etag: str) -> bool:
    """Whether `If-None-Match` names this tag, weakly compared. The other conditions of HTTP are no promise of ours."""
    sent = parse_etags(request.META.get("HTTP_IF_NONE_MATCH", ""))
    return sent == ["*"] or etag.removeprefix("W/") in (tag.removeprefix("W/") for tag in sent)


def answer_unless_known(request: Request, body: Any) -> HttpResponseBase:
    """`body` with its weak `ETag`, or 304 when the client has it already."""
    return answer_unless_etag_known(request, weak_etag(body), lambda: Response(body))


def answer_unless_etag_known(request: Request, etag: str, answer: Callable[[], HttpResponseBase]) -> HttpResponseBase:
    """`answer()` with the tag that its body is known to have, or 304 when the client has that already."""
    response = HttpResponseNotModified() if is_known(request, etag) else answer()
    response.headers["ETag"] = etag
    response.headers["Cache-Control"] = "private, no-cache"
    return response
