"""`/api/schema`, and `/api/v1/me`, which tells a key's details."""

from functools import cache
from typing import Annotated

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from drf_spectacular.renderers import OpenApiYamlRenderer
from msgspec import Meta, Struct
from rest_framework import viewsets
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from codservice.accounts.authentication import Key
from codservice.accounts.key_form import LIVE, TEST
from codservice.accounts.models import SCOPES
from codservice.api.conditional import answer_unless_etag_known, weak_etag
from codservice.api.description import description
from codservice.api.schema import GUIDES, describe
from codservice.wire import Id, Moment


class DescriptionView(APIView):
    """The OpenAPI description, public and made once in each process because that takes about 0.2 s."""

    schema = None  # describes others
    authentication_classes, permission_classes = (), (AllowAny,)
    http_method_names = ["get", "head"]

    def get(self, request: Request) -> HttpResponseBase:
        body = _description().replace(GUIDES, request.build_absolute_uri("/docs/"))
        response = answer_unless_etag_known(request, weak_etag(body), lambda: HttpResponse(body), cache="no-cache")
        response.headers["Content-Type"] = OpenApiYamlRenderer.media_type
        return response


@cache
def _description() -> str:
    return OpenApiYamlRenderer().render(description(), renderer_context={}).decode()


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
