"""The OpenAPI description, served at /api/schema: what each call takes and every answer that it can give.

`describe` decorates a view's method. It adds what all calls share: the errors of the gate (401, 403, 429), our own
(500, 503), and the headers that the middleware sets. A list's parameters come from its view's filters and pagination,
a request body from its serializer's fields, a response body from its `msgspec.Struct`.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from typing import Any

import msgspec
from django.conf import settings
from django.utils import translation
from drf_spectacular.extensions import (
    OpenApiAuthenticationExtension,
    OpenApiSerializerExtension,
    OpenApiSerializerFieldExtension,
)
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import ComponentIdentity, ResolvedComponent, append_meta
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse, extend_schema

from codservice.api.error_answers import Error, ValidationFailed
from codservice.api.idempotency import KEY_PATTERN
from codservice.api.models import MAX_KEY
from codservice.api.paging import NAMED
from codservice.wire import dump_json

ERRORS = {
    400: (
        "malformed_json",
        "The body is not a JSON object, is too deep, or repeats a key. `bad_request`: It breaks off.",
    ),
    401: (
        "unauthenticated",
        "The key is missing, malformed, unknown, revoked or expired, or its account is closed or its holder may not"
        " sign in. `message` says which.",
    ),
    403: ("insufficient_scope", "The key lacks the scope that the message names. `https_required`: It came by http."),
    404: ("not_found", "It does not exist, or it belongs to another account."),
    409: ("idempotency_conflict", "A request with this Idempotency-Key is still being processed."),
    410: (
        "cursor_expired",
        "This `after` is too old, or newer than the backup that the service was restored from. Start again without it.",
    ),
    412: ("precondition_failed", "The order has changed since you read it. Read it again."),
    413: ("payload_too_large", "The body is larger than 1 MiB."),
    415: ("unsupported_media_type", "The body is not application/json in UTF-8, or is compressed."),
    422: ("validation_failed", "Some fields cannot be used. `errors` says why, by their dotted paths."),
    429: ("rate_limited", "Too many requests. Wait for `Retry-After` seconds."),
    500: ("server_error", "An error on our side. The request id finds it in our log."),
    503: (
        "unavailable",
        "The service cannot answer just now: its database is away or busy, or too much is asked at once. Try again"
        " after `Retry-After` seconds. If `message` says that a change may have been made, read what became of it.",
    ),
}
_ALWAYS = (401, 403, 429, 500, 503)
_OPEN = {403: ("https_required", "The request came by plain http. Use https.")}


class Schema(AutoSchema):
    """Names operations as the API does: `orders_list`, `orders_cancel`, `webhooks_rotate_secret`."""

    def get_operation_id(self) -> str:
        first, *others = [name for name in self.path.removeprefix("/api/v1/").split("/") if not name.startswith("{")]
        return "_".join([first, *(others or [self.view.action])]).replace("-", "_")

    def get_description(self) -> str:
        """What the method's docstring says, and the scope without which `HasScope` refuses the call."""
        scope = getattr(self.view, "scopes", {}).get(self.view.action)
        return " ".join(filter(None, [super().get_description(), scope and f"Needs the scope `{scope}`."]))

    def _map_serializer(self, serializer: Any, direction: str, bypass_extensions: bool = False) -> dict[str, Any]:
        schema = super()._map_serializer(serializer, direction, bypass_extensions)
        return schema | getattr(serializer, "openapi_extra", {})

    def _map_serializer_field(self, field: Any, direction: str, bypass_extensions: bool = False) -> dict[str, Any]:
        if hasattr(field, "openapi"):  # one of our strict fields, which define what they accept
            # A deep copy, because `append_meta` adds null to the list under `anyOf`. No defaults: client generators
            # take a field with one for always present, so that it would have to be sent.
            meta = self._get_serializer_field_meta(field, direction)
            meta.pop("default", None)
            schema = deepcopy(field.openapi)
            if field.allow_null and "enum" in schema:  # null within the choice gets three names from generators
                schema = {"anyOf": [schema]}
            return append_meta(schema, meta)
        return super()._map_serializer_field(field, direction, bypass_extensions)

    def _is_list_view(self, serializer: Any = None) -> bool:
        # Filters and pagination are looked up without a serializer. The body of a list already describes the list.
        return serializer is None and self.view.action == "list"

    def _insert_field_validators(self, field: Any, schema: dict[str, Any]) -> None:
        if not hasattr(field, "openapi"):  # strict fields are fully described already
            super()._insert_field_validators(field, schema)


def describe(
    summary: str,
    *,
    answers: Mapping[int, Any],
    request: Any = None,
    example: dict[str, Any] | None = None,
    shown: Mapping[int, msgspec.Struct] | None = None,
    errors: Iterable[int] = (),
    is_idempotent: bool = False,
    has_etag: bool = False,
    has_precondition: bool = False,
    has_location: bool = False,
    is_open: bool = False,
) -> Callable:
    """Describe a view's method: its body with an `example` that can be sent, its answers, its own errors.

    `shown` are examples of answers, by status, where not any values of the right types would be true.
    With `is_open` it needs no key, and so no scope: its view's permission is `AllowAny`.
    """
    responses: dict[int, Any] = dict(answers)
    said = ERRORS | (_OPEN if is_open else {})
    for code in sorted({*errors, *_ALWAYS}):
        error, meaning = said[code]
        responses[code] = OpenApiResponse(ValidationFailed if code == 422 else Error, f"`{error}`: {meaning}")
    if has_etag:
        responses[304] = OpenApiResponse(None, "Nothing has changed since the answer with this `ETag`.")
    parameters = _gate_headers(sorted(responses), uncounted={401} | (_OPEN.keys() if is_open else set()))
    if is_idempotent:
        key = {"type": "string", "minLength": 1, "maxLength": MAX_KEY, "pattern": KEY_PATTERN}
        text = "For 24 hours, the same key and body get the same answer, and nothing is done twice."
        replayed = {"type": "string", "enum": ["true"]}
        parameters += [
            _header("Idempotency-Key", key, description=text),
            _header("Idempotent-Replayed", replayed, response=sorted({*answers, 422})),
        ]
    if has_etag:
        text = "The `ETag` of an earlier answer."
        parameters += [_header("If-None-Match", description=text), _header("ETag", response=[200, 304])]
    if has_precondition:
        text = "The `ETag` that you read, with its quotes. The change is refused if the order has changed since."
        parameters += [_header("If-Match", description=text), _header("ETag", response=[200])]
    if is_open:
        text = "`*`: a page of any site may read the answer."
        anyone = {"type": "string", "enum": ["*"]}
        readable = sorted(responses.keys() & {200, 304, 422})
        parameters.append(_header("Access-Control-Allow-Origin", anyone, response=readable, description=text))
    if has_location:
        path = {"type": "string", "format": "uri-reference"}
        placed = sorted(answers.keys() & {201, 202})
        parameters.append(_header("Location", path, response=placed, description="The path where it can be read."))
    examples = [OpenApiExample("Example", example, request_only=True)] if example else []
    for code, body in (shown or {}).items():
        examples.append(OpenApiExample("Example", as_json(body), response_only=True, status_codes=[str(code)]))
    return extend_schema(
        summary=summary,
        request=request,
        responses=responses,
        parameters=parameters,
        examples=examples or None,
    )


_TEXT = {"type": "string"}


def _header(name: str, schema: dict[str, Any] = _TEXT, **more: Any) -> OpenApiParameter:
    """A header of the request or, with `response`, of the answers with these status codes."""
    return OpenApiParameter(name, schema, OpenApiParameter.HEADER, **more)


def _gate_headers(codes: list[int], uncounted: set[int]) -> list[OpenApiParameter]:
    """The headers of the gate. `uncounted` are the answers that count against no key's rate limit."""
    limited = [code for code in codes if code not in uncounted]
    count, seconds = {"type": "integer", "minimum": 0}, {"type": "integer", "minimum": 1}
    test = {"type": "string", "enum": ["test"]}
    return [
        _header("X-Request-Id", response=codes, description="The id of this request."),
        _header("X-RateLimit-Limit", count, response=limited, description="Requests allowed per minute."),
        _header("X-RateLimit-Remaining", count, response=limited, description="Requests left in this window."),
        _header("X-RateLimit-Reset", seconds, response=limited, description="Seconds until this window ends."),
        _header("Retry-After", seconds, response=[429, 503], description="Seconds to wait."),
        _header("X-Service-Mode", test, response=codes, description="`test` in answers to a test key."),
        _header("WWW-Authenticate", response=[401]),
    ]


GUIDES = "http://localhost:8000/docs/"  # replaced by the server's own address when it answers


_TAGS = {
    "deliveries": "The requests that we send to webhooks.",
    "events": "Everything that has happened, in order, so that you can read what a webhook missed.",
    "inventory": "The products and their stock.",
    "me": "The key that you are using.",
    "orders": "Import, follow, change and cancel orders.",
    "products": "What is sold: create, change and read products.",
    "regions": "The wilayas and communes of Algeria that an import accepts. No key is needed.",
    "shipping-fees": "What a delivery costs, by wilaya and delivery type.",
    "test": "Play the agent and the courier, with a test key.",
    "webhooks": "Where your systems are notified of events, and the log of what was sent there.",
}
_IDS = {
    "orders": "The order's id.",
    "products": "The product's id.",
    "webhooks": "The webhook's id.",
    "deliveries": "The delivery's id.",
    "test": "The order's id.",
}


_DECIDED = "`order_already_decided`: The order's status does not allow this step."
_GONE = "`order_not_cancellable`: The order has been shipped."
# What else an operation's 422 can be: the refusal of a rule of its own.
_REFUSALS = {
    "orders_partial_update": "`order_not_editable`: The order is no longer pending, or has changed too often.",
    "orders_cancel": _GONE,
    "deliveries_resend": "`too_many_attempts`: The delivery has had 100 attempts.",
    "test_orders_cancel": _GONE,
    **{f"test_orders_{step}": _DECIDED for step in ("confirm", "call", "ship", "deliver", "return")},
}


_ONE_AT_A_TIME = threading.Lock()  # drf-spectacular's first use is not safe in two threads


def description() -> dict[str, Any]:
    """The OpenAPI description of the whole API, as a new dict. Making it takes about 0.1 s."""
    with _ONE_AT_A_TIME, translation.override(settings.LANGUAGE_CODE):
        return SchemaGenerator().get_schema(request=None, public=True)


def finish(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    """Finish the whole description (drf-spectacular's hook)."""
    result.setdefault("servers", [{"url": "/"}])
    result["externalDocs"] = {"url": GUIDES, "description": "Guides, with examples to copy."}
    result["info"] |= {
        "contact": {"name": "The operator of this service", "url": GUIDES},
        "license": {"name": "All rights reserved", "identifier": "LicenseRef-All-rights-reserved"},
    }
    result["tags"] = [{"name": name, "description": text} for name, text in _TAGS.items()]
    for operations in result["paths"].values():
        for operation in operations.values():
            if refusal := _REFUSALS.get(operation["operationId"]):
                operation["responses"]["422"]["description"] += f" {refusal}"
            for parameter in operation.get("parameters", ()):
                if parameter["in"] == "path":
                    parameter["description"] = _IDS[operation["tags"][0]]
    return result


class StructSchema(OpenApiSerializerExtension):
    """Describes a response body by the class that it is encoded from."""

    target_class = "msgspec.Struct"
    match_subclasses = True

    def get_name(self, auto_schema: AutoSchema, direction: str) -> str:
        return self.target.__name__

    def get_identity(self, auto_schema: AutoSchema, direction: str) -> ComponentIdentity:
        return ComponentIdentity(struct_schema(self.target))

    def map_serializer(self, auto_schema: AutoSchema, direction: str) -> dict[str, Any]:
        schemas = _schemas(self.target)
        for name, schema in schemas.items():
            auto_schema.registry.register_on_missing(
                ResolvedComponent(name, ResolvedComponent.SCHEMA, schema, ComponentIdentity(schema))
            )
        return schemas[self.target.__name__]


def as_json(body: Any) -> Any:
    """An example as it is sent, in the plain types of JSON."""
    return msgspec.json.decode(dump_json(body))


def struct_schema(struct: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON Schema of `struct` as it is sent. Objects within it are named, not included."""
    return _schemas(struct)[struct.__name__]


def _schemas(struct: type[msgspec.Struct]) -> dict[str, dict[str, Any]]:
    """The schemas of `struct` and of all structs within it, by name."""
    _, schemas = msgspec.json.schema_components([struct], ref_template=_REF)
    named = {part["$ref"].rpartition("/")[2] for part in _objects(schemas) if "$ref" in part} - schemas.keys()
    if others := [other for other in NAMED if other.__name__ in named]:
        schemas |= msgspec.json.schema_components(others, ref_template=_REF)[1]
    for schema in schemas.values():
        schema.pop("title", None)  # repeats the name
    for part in _objects(schemas):
        if part.get("format") == "decimal":  # msgspec describes Decimals as strings; `dump_json` writes numbers
            part["type"] = "number"
            del part["format"]
    return schemas


_REF = "#/components/schemas/{name}"


def _objects(schema: Any) -> Iterator[dict[str, Any]]:
    """The JSON objects in a schema: itself, and those within it."""
    if isinstance(schema, dict):
        yield schema
        schema = list(schema.values())
    if isinstance(schema, list):
        for part in schema:
            yield from _objects(part)


class ListSchema(OpenApiSerializerFieldExtension):
    """Adds the bounds of lists, which drf-spectacular leaves out."""

    target_class = "rest_framework.serializers.ListSerializer"
    match_subclasses = True

    def map_serializer_field(self, auto_schema: AutoSchema, direction: str) -> dict[str, Any]:
        schema = {"type": "array", "items": auto_schema._map_serializer_field(self.target.child, direction)}
        if not self.target.allow_empty:
            schema["minItems"] = 1
        if self.target.max_length is not None:
            schema["maxItems"] = self.target.max_length
        return schema


class BearerKey(OpenApiAuthenticationExtension):
    target_class = "codservice.accounts.authentication.ApiKeyAuthentication"
    name = "apiKey"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, Any]:
        return {"type": "http", "scheme": "bearer", "description": "An API key: `Authorization: Bearer cod_live_…`"}
