"""Fields of request bodies over `codservice.values`. DRF's own fields accept "2", 2.0, "1_000" or "١٢" as a number.

Each field defines what it accepts in one place, for requests and for the OpenAPI description (`openapi`).
"""

from collections.abc import Callable
from decimal import Decimal
from functools import cache, cached_property
from typing import Any
from uuid import UUID

from rest_framework import serializers
from rest_framework.fields import empty

from codservice import values
from codservice.errors import Errors, Invalid
from codservice.values import MAX_AMOUNT


class Strict:
    """A DRF field that reads its value with `clean`, which raises ValueError, instead of a chain of validators."""

    def clean(self, data: Any) -> Any:
        raise NotImplementedError

    def run_validation(self, data: Any = empty) -> Any:
        if data is None or data is empty:
            is_empty, data = self.validate_empty_values(data)  # type: ignore[attr-defined]
            if is_empty:
                return data
        try:
            return self.clean(data)
        except ValueError as error:
            raise serializers.ValidationError([str(error)]) from None


class Text(Strict, serializers.CharField):
    def __init__(self, *, free: bool = False, **kwargs: Any) -> None:
        self.free = free
        super().__init__(**kwargs)

    def clean(self, data: Any) -> str:
        return values.text(data, max_length=self.max_length, free=self.free, may_be_blank=self.allow_blank)

    @property
    def openapi(self) -> dict[str, Any]:
        return values.text_schema(max_length=self.max_length, free=self.free, may_be_blank=self.allow_blank)


class Integer(Strict, serializers.IntegerField):
    def clean(self, data: Any) -> int:
        return values.integer(data, self.min_value, self.max_value)

    @property
    def openapi(self) -> dict[str, Any]:
        return {"type": "integer", "minimum": self.min_value, "maximum": self.max_value}


class Boolean(Strict, serializers.BooleanField):
    openapi = {"type": "boolean"}

    def clean(self, data: Any) -> bool:
        if type(data) is not bool:
            raise ValueError("Must be true or false.")
        return data


class Link(Strict, serializers.CharField):
    """An https address. It may be empty with `allow_blank`."""

    def clean(self, data: Any) -> str:
        return "" if data == "" and self.allow_blank else values.link(data, max_length=self.max_length)

    @property
    def openapi(self) -> dict[str, Any]:
        pattern = f"^({values.LINK_PATTERN})?$" if self.allow_blank else f"^{values.LINK_PATTERN}$"
        return {"type": "string", "maxLength": self.max_length, "pattern": pattern}


class Amount(Strict, serializers.DecimalField):
    openapi = values.SENT_AMOUNT_SCHEMA

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(max_digits=10, decimal_places=2, min_value=Decimal(0), max_value=MAX_AMOUNT, **kwargs)

    def clean(self, data: Any) -> Decimal:
        return values.amount(data)


class Word(Strict, serializers.ChoiceField):
    """One of its `choices`, as a string."""

    def clean(self, data: Any) -> str:
        if type(data) is not str or data not in self.choices:
            *others, last = self.choices
            raise ValueError(f"Must be {', '.join(others)} or {last}.")
        return data

    @property
    def openapi(self) -> dict[str, Any]:
        return {"type": "string", "enum": [str(word) for word in self.choices]}


class CanonicalUUID(Strict, serializers.UUIDField):
    openapi = values.UUID_SCHEMA

    def clean(self, data: Any) -> UUID:
        return values.uuid(data)


class Body(serializers.Serializer):
    # Without a docstring, which would describe each body that has none.

    only_sent = False  # whether the body says what to change: then a field that is not sent has no default

    def read(self, data: Any) -> tuple[dict[str, Any], Any]:
        """Read a JSON object field by field, without what DRF adds for forms, sources and partial updates.

        Gives what could be read, and the errors of the rest, nested as in DRF. Null stands for a field's default. How
        fast files of orders are imported depends on these checks.
        """
        if type(data) is not dict:
            return {}, ["Must be an object."]
        given: dict[str, Any] = {}
        errors: dict[str, Any] = {}
        for name, check, default, may_lack in self._checks:
            if may_lack and name not in data:
                continue
            sent = data.get(name)
            if sent is None and default is not empty:
                given[name] = default() if callable(default) else default
                continue
            try:
                given[name] = check(data.get(name, empty) if sent is None else sent)
            except serializers.ValidationError as error:
                errors[name] = error.detail
        return given, errors

    @cached_property
    def _checks(self) -> list[tuple[str, Callable[[Any], Any], Any, bool]]:
        """(name, check, default, may_lack) of each field; one that may lack is skipped if the body lacks it."""
        return [
            (
                name,
                field.run_validation,
                field.default,
                not field.required and (self.only_sent or field.default is empty),
            )
            for name, field in self.fields.items()
        ]


def read_body(kind: type[Body], body: dict[str, Any]) -> dict[str, Any]:
    """What is read of a request's body of this `kind`. Raises Invalid with all its problems."""
    given, errors = _one(kind).read(body)
    if errors:
        raise Invalid(flatten(errors))
    return given


@cache
def _one(kind: type[Body]) -> Body:
    """The one instance that serves all requests: its fields keep no state.

    DRF copies the fields for each new instance, which costs more than the checks themselves.
    """
    return kind()


def flatten(detail: object, path: str = "") -> Errors:
    """DRF's nested error detail as dotted paths: `{"items": [{}, {"quantity": […]}]}` → `items.1.quantity`."""
    if isinstance(detail, dict):
        pairs = [(path if key == "non_field_errors" else f"{path}.{key}" if path else str(key), value)
                 for key, value in detail.items()]  # fmt: skip
    elif isinstance(detail, list) and any(isinstance(entry, dict | list) for entry in detail):
        pairs = [(f"{path}.{index}", entry) for index, entry in enumerate(detail) if entry]
    else:
        return {path: [str(entry) for entry in detail]} if isinstance(detail, list) else {path: [str(detail)]}
    errors: Errors = {}
    for where, value in pairs:
        for key, sentences in flatten(value, where).items():
            errors.setdefault(key, []).extend(sentences)
    return errors


class Bodies(Strict, serializers.ListField):
    """A list of 1 to `max_length` bodies. They are only counted here; the caller reads each one."""

    default_error_messages = dict.fromkeys(("required", "null"), "Must be a list.")

    def __init__(self, *, called: str = "entries", **kwargs: Any) -> None:
        self.called = called
        super().__init__(min_length=1, **kwargs)

    def clean(self, data: Any) -> list[Any]:
        if type(data) is not list:
            raise ValueError("Must be a list.")
        if not 1 <= len(data) <= self.max_length:
            raise ValueError(f"Must have 1 to {self.max_length} {self.called}.")
        return data


class Entries(Bodies):
    """Bodies that are read here; gives what the child's `read` gives for each."""

    def clean(self, data: Any) -> list[Any]:
        return [self.child.read(entry) for entry in super().clean(data)]


class StringMap(Strict, serializers.DictField):
    """A JSON object of strings: at most `max_entries` keys, of 1 to `max_key` characters, with values up to `max_value`
    characters."""

    def __init__(self, *, max_entries: int, max_key: int, max_value: int, **kwargs: Any) -> None:
        self.max_entries = max_entries
        self._key, self._value = {"max_length": max_key}, {"max_length": max_value, "may_be_blank": True}
        super().__init__(child=serializers.CharField(max_length=max_value, allow_blank=True), **kwargs)

    def clean(self, data: Any) -> dict[str, str]:
        if type(data) is not dict:
            raise ValueError("Must be an object with string values.")
        if len(data) > self.max_entries:
            raise ValueError(f"Must have at most {self.max_entries} keys.")
        result: dict[str, str] = {}
        errors: Errors = {}
        for raw_key, raw_value in data.items():
            try:
                key = values.text(raw_key, **self._key)
            except ValueError as error:
                errors.setdefault("non_field_errors", []).append(f"A key cannot be used. {error}")
                continue
            if key in result:
                errors.setdefault("non_field_errors", []).append(f"Two keys are the same text: {key}")
            try:
                result[key] = values.text(raw_value, **self._value)
            except ValueError as error:
                errors.setdefault(key, []).append(str(error))
        if errors:
            raise serializers.ValidationError(errors)
        return result

    @property
    def openapi(self) -> dict[str, Any]:
        return {
            "type": "object",
            "maxProperties": self.max_entries,
            "propertyNames": values.text_schema(**self._key),
            "additionalProperties": values.text_schema(**self._value),
        }
