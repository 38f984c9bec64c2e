"""JSON in and out: strict where it comes in, exact where it goes out."""

import hashlib
import json
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import IO, Any

import msgspec
from django.utils.http import parse_header_parameters
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer

from codservice.errors import Refused

MAX_BODY = 1024 * 1024  # bytes (contract, section 1)
MAX_DEPTH = 20
_TOO_DEEP = f"It is nested deeper than {MAX_DEPTH} levels."
# Python refuses to convert more digits than this at once; such a number is no amount and no quantity anyway.
MAX_INT_DIGITS = 4000


class MalformedJSON(Refused):
    """The body is no JSON object, is too deep, or repeats a key."""

    code, status = "malformed_json", 400

    def __init__(self, reason: str = "") -> None:
        super().__init__(f"The body must be one JSON object in UTF-8. {reason}".strip())


class PayloadTooLarge(Refused):
    code, status = "payload_too_large", 413

    def __init__(self) -> None:
        super().__init__("The body is larger than 1 MiB.")


_encoder = msgspec.json.Encoder(decimal_format="number")


def dump_json(data: Any) -> bytes:
    """UTF-8 JSON; a Decimal becomes a number with exactly its digits, a datetime ISO 8601 with its offset."""
    return _encoder.encode(data)


def weak_etag(data: Any) -> str:
    """A weak `ETag` that changes with any change of what `data` says."""
    return f'W/"{hashlib.sha256(dump_json(data)).hexdigest()[:32]}"'


def load_json(body: bytes) -> dict[str, Any]:
    """The JSON object in `body`: numbers with a point or exponent as Decimal, never as a binary float.

    Raises MalformedJSON for anything else than one JSON object in UTF-8, for NaN and Infinity, for a key that is
    repeated in one object (which of the two was meant?) and for nesting deeper than MAX_DEPTH.
    """
    try:
        data = _decoder.decode(body.decode("utf-8"))
    except RecursionError:
        raise MalformedJSON(_TOO_DEEP) from None
    except ValueError as error:
        raise MalformedJSON(f"{error}.") from None
    if not isinstance(data, dict):
        raise MalformedJSON
    if _depth_exceeds(data, MAX_DEPTH):
        raise MalformedJSON(_TOO_DEEP)
    return data


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("It repeats a key inside one object")
    return result


def _number(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:  # an exponent beyond what Decimal can hold: no amount; the fields refuse it
        return Decimal("Infinity")


def _integer(text: str) -> int | Decimal:
    return int(text) if len(text) <= MAX_INT_DIGITS else _number(text)


def _constant(text: str) -> None:
    raise ValueError(f"{text} is not JSON")


_decoder = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=_number, parse_int=_integer, parse_constant=_constant
)


def _depth_exceeds(data: Any, limit: int) -> bool:
    level = [data]
    while level:
        if limit == 0:
            return True
        limit -= 1
        level = [
            child
            for node in level
            for child in (node.values() if type(node) is dict else node)
            if type(child) is dict or type(child) is list
        ]
    return False


class StrictJSONParser(BaseParser):
    """DRF's way to `load_json`. Refuses a charset other than UTF-8 and a body over MAX_BODY."""

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
    charset = None  # JSON is UTF-8 by its own rule

    def render(
        self, data: Any, accepted_media_type: str | None = None, renderer_context: Mapping[str, Any] | None = None
    ) -> bytes:
        if data is None:
            return b""
        return dump_json(data)


class AlwaysJSON(BaseContentNegotiation):
    """The API speaks JSON whatever `Accept` says; a refusal over a header would help nobody."""

    def select_parser(self, request, parsers):
        media_type, parameters = parse_header_parameters(request.content_type or "")
        if media_type != StrictJSONParser.media_type:
            return None
        return parsers[0] if parameters.get("charset", "utf-8").lower() in ("utf-8", "utf8") else None

    def select_renderer(self, request, renderers, format_suffix=None):
        return renderers[0], renderers[0].media_type
