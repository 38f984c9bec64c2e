"""`/api/v1/regions`: which wilayas and communes there are, and what an import takes a text for (docs/regions.md).

This is public data: no key is needed, any shop's page may ask for it from a browser, and anyone may cache it for a day.
"""

from functools import cache
from typing import Annotated, Any

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from drf_spectacular.utils import OpenApiParameter, extend_schema
from msgspec import Meta, Struct
from rest_framework import viewsets
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response

from codservice import values
from codservice.api import schema
from codservice.api.conditional import answer_unless_etag_known, weak_etag
from codservice.api.filters import need_utf8
from codservice.errors import Invalid, read_all
from codservice.wire import converter, dump_json
from orders import regions

KEPT_FOR = 24 * 60 * 60  # seconds
_Code = Annotated[str, Meta(pattern="^[0-9]{2}$", description="Two digits.")]


class WilayaBody(Struct):
    code: _Code
    name: Annotated[str, Meta(description="The French name.")]
    name_ar: str


class CommuneBody(Struct):
    code: Annotated[str, Meta(pattern="^[0-9]{4}$", description="Four-digit ONS code.")]
    name: Annotated[str, Meta(description="The French name.")]
    name_ar: str
    wilaya: Annotated[_Code, Meta(description="Its wilaya today, among 69.")]
    wilaya_58: Annotated[_Code, Meta(description="Its wilaya from 2019 to 2026, among 58.")]
    wilaya_48: Annotated[_Code, Meta(description="Its wilaya before 2019, among 48.")]
    postal_code: str


class WilayaListBody(Struct):
    data: list[WilayaBody]


class CommuneListBody(Struct):
    data: list[CommuneBody]


class LookupBody(Struct):
    wilaya: WilayaBody
    commune: Annotated[CommuneBody | None, Meta(description="Null if no commune was asked for.")]


_wilaya_list, _commune_list, _lookup = converter(WilayaListBody), converter(CommuneListBody), converter(LookupBody)


def _parameter(name: str, description: str, *, is_required: bool, may_be_empty: bool = False) -> OpenApiParameter:
    kind: dict[str, Any] = {"type": "string"} if may_be_empty else {"type": "string", "minLength": 1}
    return OpenApiParameter(name, kind, OpenApiParameter.QUERY, required=is_required, description=description)


class RegionViewSet(viewsets.GenericViewSet):
    permission_classes = [AllowAny]
    http_method_names = ["get", "head", "options"]
    pagination_class = None

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        response.headers["Access-Control-Allow-Origin"] = "*"
        return super().finalize_response(request, response, *args, **kwargs)

    def options(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Response:
        """A browser asks for this before a shop's page sends a header of its own."""
        allowed = {"Methods": "GET, HEAD", "Headers": "*"}
        headers = {f"Access-Control-Allow-{name}": value for name, value in allowed.items()}
        return Response(status=204, headers=headers | {"Access-Control-Max-Age": str(KEPT_FOR)})

    @schema.describe("List wilayas", answers={200: WilayaListBody}, has_etag=True, is_open=True)
    def wilayas(self, request: Request) -> HttpResponseBase:
        """All 69 wilayas, by code."""
        return _answer(request, *_wilayas())

    @schema.describe("List communes", answers={200: CommuneListBody}, errors=(422,), has_etag=True, is_open=True)
    @extend_schema(
        parameters=[_parameter("wilaya", "Only communes that an order to this wilaya may name.", is_required=False)]
    )
    def communes(self, request: Request) -> HttpResponseBase:
        """All 1 541 communes, by code. With `wilaya`, those in it on any of the maps of 69, 58 and 48 wilayas."""
        return _answer(request, *_communes(_wilaya(request).code if "wilaya" in request.query_params else None))

    @schema.describe("Look up a place", answers={200: LookupBody}, errors=(422,), has_etag=True, is_open=True)
    @extend_schema(
        parameters=[
            _parameter("wilaya", "A code or a name, as in `customer_wilaya` of an order.", is_required=True),
            _parameter(
                "commune",
                "A code or a name, as in `customer_commune` of an order. Empty: none.",
                is_required=False,
                may_be_empty=True,
            ),
        ]
    )
    def lookup(self, request: Request) -> HttpResponseBase:
        """The place that an import finds by these texts. An unknown or ambiguous text is 422, with suggestions."""
        wilaya, text = read_all(lambda: _wilaya(request), lambda: _text(request, "commune", may_be_blank=True))
        commune = _found("commune", regions.find_commune, text, wilaya.code) if text else None
        body = dump_json(_lookup({"wilaya": wilaya, "commune": commune}, from_attributes=True))
        return _answer(request, body, weak_etag(body))


def _text(request: Request, name: str, *, may_be_blank: bool = False) -> str:
    need_utf8(request, [name])
    try:
        return values.text(request.query_params.get(name, ""), max_length=255, may_be_blank=may_be_blank)
    except ValueError as error:
        raise Invalid({name: [str(error)]}) from None


def _wilaya(request: Request) -> regions.Wilaya:
    if "wilaya" not in request.query_params:
        raise Invalid({"wilaya": ["Send the code or the name of a wilaya."]})
    return _found("wilaya", regions.find_wilaya, _text(request, "wilaya"))


def _found(name: str, find: Any, *asked: str) -> Any:
    try:
        return find(*asked)
    except regions.NotFound as error:
        raise Invalid({name: [str(error)]}) from None


def _answer(request: Request, body: bytes, etag: str) -> HttpResponseBase:
    def answer() -> HttpResponse:
        return HttpResponse(body, content_type="application/json")

    return answer_unless_etag_known(request, etag, answer, cache=f"public, max-age={KEPT_FOR}")


# The tables do not change while a process runs, so each answer is made once.
@cache
def _wilayas() -> tuple[bytes, str]:
    body = dump_json(_wilaya_list({"data": regions.WILAYAS}, from_attributes=True))
    return body, weak_etag(body)


@cache
def _communes(wilaya_code: str | None) -> tuple[bytes, str]:
    """The list of communes, of one wilaya or all, with its ETag."""
    found = regions.communes_of(wilaya_code) if wilaya_code else regions.COMMUNES
    body = dump_json(_commune_list({"data": found}, from_attributes=True))
    return body, weak_etag(body)
