"""`ETag`, `If-None-Match` and `If-Match`.

A client that has the newest state is told so in a few bytes, and one that does not cannot change anything.
"""

import hashlib
from collections.abc import Callable
from typing import Any

from django.http import HttpResponseNotModified
from django.http.response import HttpResponseBase
from django.utils.http import parse_etags
from rest_framework.request import Request
from rest_framework.response import Response

from codservice.errors import Refused
from codservice.wire import dump_json


def weak_etag(data: Any) -> str:
    """A weak `ETag` that changes whenever the content of `data` does."""
    return f'W/"{hashlib.sha256(dump_json(data)).hexdigest()[:32]}"'


class PreconditionFailed(Refused):
    """The state has changed since the client read it, or nobody can tell."""

    code, status = "precondition_failed", 412
    message = "It has changed since you read it. Read it again before you change it."


def check_match(request: Request, read: Callable[[], Any]) -> None:
    """Raise PreconditionFailed if `If-Match` was sent and does not name the tag of the body that `read` returns.

    The comparison is weak, because our tags are. They still change with every change of a body's content.
    """
    sent = request.META.get("HTTP_IF_MATCH")
    if sent is None:
        return
    if not parse_etags(sent):  # reading again, as the usual sentence says, would never end
        raise PreconditionFailed("`If-Match` names no ETag. Send the ETag as it came, with its quotes.")
    if not _names(sent, weak_etag(read())):
        raise PreconditionFailed


def _names(header: str, etag: str) -> bool:
    """Whether an `If-…` header names this tag (compared weakly) or any tag (`*`)."""
    sent = parse_etags(header)
    return sent == ["*"] or etag.removeprefix("W/") in (tag.removeprefix("W/") for tag in sent)


def answer_unless_known(request: Request, body: Any) -> HttpResponseBase:
    """`body` with its weak `ETag`, or 304 if the client has it already."""
    return answer_unless_etag_known(request, weak_etag(body), lambda: Response(body))


def answer_unless_etag_known(
    request: Request, etag: str, answer: Callable[[], HttpResponseBase], *, cache: str = "private, no-cache"
) -> HttpResponseBase:
    """`answer()` with `etag`, which its body is known to have, or 304 if the client has that already.

    `cache` is the `Cache-Control`: who may keep the answer, and for how long without asking.
    """
    is_known = _names(request.META.get("HTTP_IF_NONE_MATCH", ""), etag)
    response = HttpResponseNotModified() if is_known else answer()
    response.headers["ETag"] = etag
    response.headers["Cache-Control"] = cache
    return response
