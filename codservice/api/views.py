"""`/api/schema`, and `/api/v1/me`, which tells a key's details."""

from functools import cache, lru_cache
from typing import Annotated

from django.http import Http404, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.cache import patch_vary_headers
from drf_spectacular.views import SpectacularAPIView
from msgspec import Meta, Struct
from rest_framework import viewsets
from rest_framework.exceptions import NotAcceptable
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.permissions import AllowAny
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from codservice import ratelimit
from codservice.accounts.authentication import Key
from codservice.accounts.key_format import LIVE, TEST
from codservice.accounts.models import SCOPES
from codservice.api.conditional import answer_unless_etag_known, weak_etag
from codservice.api.error_answers import error_response
from codservice.api.schema import GUIDES, describe, description
from codservice.wire import Id, Moment


class DescriptionView(APIView):
    """The OpenAPI description, public, and made once in each process.

    YAML, or JSON if `Accept` or `format=json` asks for it.
    """

    schema = None  # describes others
    authentication_classes, permission_classes = (), (AllowAny,)
    http_method_names = ["get", "head"]

    def get(self, request: Request) -> HttpResponseBase:
        if wait := ratelimit.address_limited_for(request):
            return error_response(429, "rate_limited", headers={"Retry-After": str(wait)})
        renderer = _renderer(request)
        body, etag = _with_guides(renderer.format, request.build_absolute_uri("/docs/"))
        response = answer_unless_etag_known(request, etag, lambda: HttpResponse(body), cache="no-cache")
        response.headers["Content-Type"] = renderer.media_type
        patch_vary_headers(response, ["Accept"])
        return response


# Chosen among here and not by the view, whose refusals would be written by them too.
_RENDERERS = [renderer() for renderer in SpectacularAPIView.renderer_classes]


def _renderer(request: Request) -> BaseRenderer:
    """What writes the description as the request asks for it: in YAML if it asks for nothing that there is."""
    try:
        return DefaultContentNegotiation().select_renderer(request, _RENDERERS)[0]
    except (NotAcceptable, Http404, TypeError):  # TypeError: parameters that Python cannot read (`wire.media_type`)
        return _RENDERERS[0]


@lru_cache(maxsize=4)  # up to 1 MB each; a `Host` may be any that ALLOWED_HOSTS matches
def _with_guides(form: str, guides: str) -> tuple[bytes, str]:
    """The description that links to the guides at this address, and its `ETag`."""
    text = _description(form).replace(GUIDES, guides)
    return text.encode(), weak_etag(text)


@cache
def _description(form: str) -> str:
    renderer = next(each for each in _RENDERERS if each.format == form)
    return renderer.render(description(), renderer_context={}).decode()


class OwnAccountBody(Struct):
    id: Annotated[Id, Meta(description="For a test key, the id of the account's twin.")]
    name: str
    mode: Annotated[str, Meta(extra_json_schema={"enum": [LIVE, TEST]})]


class OwnKeyBody(Struct):
    name: str
    prefix: Annotated[str, Meta(description="The key's first 12 characters.")]
    scopes: Annotated[list[str], Meta(extra_json_schema={"items": {"type": "string", "enum": list(SCOPES)}})]
    expires_at: Moment | None


class MeBody(Struct):
    account: OwnAccountBody
    key: OwnKeyBody
    rate_limit: Annotated[int, Meta(ge=1, description="Requests allowed per minute.")]


class MeViewSet(viewsets.ViewSet):
    scopes = {"retrieve": None}
    http_method_names = ["get", "head"]

    @describe("Read the key's details", answers={200: MeBody})
    def retrieve(self, request: Request) -> Response:
        """The key's account, and what the key may do. Any key may ask."""
        key: Key = request.auth
        own = OwnKeyBody(key.name, key.prefix, [scope for scope in SCOPES if scope in key.scopes], key.expires_at)
        return Response(MeBody(OwnAccountBody(key.account_id, key.account_name, key.mode), own, key.rate_limit))
