"""JSON on the wire: strict for requests, exact in answers."""

import json
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Annotated, Any, TypeVar
from uuid import UUID

import msgspec
from django.utils.http import parse_header_parameters
from msgspec import Meta

from codservice.errors import Refused
from codservice.values import AMOUNT_SCHEMA, UUID_SCHEMA

# Types for fields of answers, besides plain str, int and bool. A body is a `msgspec.Struct`, which gives both its bytes
# and its description (`codservice.api.schema`).
Amount = Annotated[Decimal, Meta(description="DZD", extra_json_schema=AMOUNT_SCHEMA)]
Id = Annotated[UUID, Meta(extra_json_schema=UUID_SCHEMA)]
Moment = Annotated[datetime, Meta(tz=True)]


def one_of(words: Iterable[str]) -> Meta:
    """The words of a field that others may join (docs/changes.md): clients made of an `enum` would fail at these."""
    known = [str(word) for word in words]
    said = ", ".join(f"`{word}`" for word in known)
    return Meta(description=f"One of {said}; others may come.", examples=known)


MAX_BODY = 1024 * 1024  # bytes (docs/limits.md)
MAX_DEPTH = 20
_EMPTY_LIST = "It is an empty list, as PHP writes an empty array. Send {}, or nothing if no body is needed."
_NO_OBJECT: dict[type, str] = {list: "It is a list.", str: "It is a string: was it encoded twice?"}
_TOO_DEEP = f"It is nested deeper than {MAX_DEPTH} levels."
# Python refuses to convert many more digits at once; no amount or quantity has so many anyway.
MAX_INT_DIGITS = 4000
MAX_CONTENT_TYPE = 256  # characters: for `a; b="` and many semicolons, Python's parser takes quadratic time


def media_type(content_type: str) -> tuple[str, dict[str, str]]:
    """Return the media type and the parameters of a `Content-Type`, or nothing if they cannot be read.

    By RFC 2231, parameters may name an encoding, which may be unknown, and come in numbered parts.
    """
    if len(content_type) > MAX_CONTENT_TYPE:
        return "", {}
    try:
        return parse_header_parameters(content_type)
    except (ValueError, TypeError):  # TypeError: of parts of which one has no number
        return "", {}


class MalformedJSON(Refused):
    """The body is not a JSON object, is too deep, or repeats a key."""

    code, status = "malformed_json", 400

    def __init__(self, reason: str = "") -> None:
        super().__init__(f"The body must be one JSON object in UTF-8. {reason}".strip())


class PayloadTooLarge(Refused):
    code, status = "payload_too_large", 413
    message = "The body is larger than 1 MiB."


_encoder = msgspec.json.Encoder(decimal_format="number")
_Struct = TypeVar("_Struct", bound=msgspec.Struct)


def converter(struct: type[_Struct]) -> Callable[..., _Struct]:
    """Return `msgspec.convert` for `struct`. Call it when a module is imported.

    msgspec inspects a class's fields at the first use, and a second thread that converts to the class meanwhile crashes
    the process (SIGSEGV). This inspects them at once, before there are threads.
    """
    msgspec.json.Decoder(struct)
    return partial(msgspec.convert, type=struct)


def dump_json(data: Any) -> bytes:
    """Return UTF-8 JSON. A Decimal becomes a number with exactly its digits, a datetime ISO 8601 with its offset."""
    return _encoder.encode(data)


class CacheSerializer:
    """Serialises the values of Django's cache in Redis as JSON, where Django's own pickle would run what it reads.

    So anyone who can write to Redis can put in wrong values, which readers check, but no code. Anything but JSON reads
    as None. Whole numbers are stored as their digits, which Redis can increment.
    """

    def dumps(self, value: Any) -> bytes:
        return _encoder.encode(value)

    def loads(self, stored: bytes) -> Any:
        try:
            return msgspec.json.decode(stored)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            return None


def load_json(body: bytes) -> dict[str, Any]:
    """Read the JSON object in `body`. Numbers with a point or exponent become Decimal, never a binary float.

    Raises MalformedJSON for anything but one JSON object in UTF-8, for NaN and Infinity, for a key that is repeated in
    an object (which of the two was meant?) and for nesting deeper than MAX_DEPTH.
    """
    if body.startswith(BOM_UTF8):  # editors do not show it
        raise MalformedJSON("It begins with a byte order mark (EF BB BF). Send it without one.")
    try:
        data = _decoder.decode(body.decode("utf-8"))
    except RecursionError:
        raise MalformedJSON(_TOO_DEEP) from None
    except UnicodeDecodeError as error:
        raise MalformedJSON(f"Its byte {body[error.start]:02X} at position {error.start} is not UTF-8.") from None
    except ValueError as error:
        raise MalformedJSON(f"{error}.") from None
    if data == []:
        raise MalformedJSON(_EMPTY_LIST)
    if not isinstance(data, dict):
        raise MalformedJSON(_NO_OBJECT.get(type(data), ""))
    # Most bodies have too few brackets for that, which is seen much faster.
    if body.count(b"{") + body.count(b"[") > MAX_DEPTH and _depth_exceeds(data, MAX_DEPTH):
        raise MalformedJSON(_TOO_DEEP)
    return data


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        ((repeated, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"It repeats the key {json.dumps(repeated[:50])} inside one object")
    return result


def _number(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:  # the exponent is too large for Decimal; the fields refuse such an amount
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
