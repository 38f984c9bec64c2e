"""Strict fields of request bodies (contract, section 1). DRF's own take "2", 2.0, "1_000" or "١٢" for a number.

Each field checks with a few comparisons of its own instead of DRF's chain of validators; the declared bounds stay
where drf-spectacular reads them.
"""

import re
import unicodedata
from decimal import Decimal
from typing import Any

from rest_framework import serializers
from rest_framework.fields import empty

MAX_AMOUNT = Decimal("99999999.99")  # DZD
CENTIME = Decimal("0.01")

# Control characters (newline and tab pass in free text) and halves of surrogate pairs.
_UNUSABLE = r"\x00-\x1f\x7f-\x9f\ud800-\udfff"
_UNUSABLE_IN_FREE_TEXT = r"\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff"
# Spaces, joiners, marks of direction: a name of these alone is no name.
_INVISIBLE = (
    r"\x00-\x20\x7f-\xa0\xad\u061c\u115f\u1160\u1680\u180e\u2000-\u200f\u2028-\u202f\u205f-\u206f"
    r"\u3000\u3164\ufeff\uffa0"
)
_has_unusable = re.compile(f"[{_UNUSABLE}]").search
_free_text_has_unusable = re.compile(f"[{_UNUSABLE_IN_FREE_TEXT}]").search
_has_visible = re.compile(f"[^{_INVISIBLE}]").search
_AMOUNT = re.compile(r"[0-9]{1,12}(\.[0-9]*)?|\.[0-9]+", re.ASCII)


class Text(serializers.CharField):
    """Unicode text, normalised to NFC and trimmed; no control characters. Newline and tab pass in `free` text."""

    def __init__(self, *, free: bool = False, **kwargs: Any) -> None:
        self.free = free
        super().__init__(**kwargs)

    def run_validation(self, data: Any = empty) -> Any:
        is_empty, data = self.validate_empty_values(data)
        return data if is_empty else self.clean(data)

    def clean(self, data: Any) -> str:
        if type(data) is not str:
            raise serializers.ValidationError(["Must be a string."])
        if self.free and "\r" in data:
            data = data.replace("\r\n", "\n")
        if (_free_text_has_unusable if self.free else _has_unusable)(data):
            raise serializers.ValidationError(["Must not hold control characters or broken Unicode."])
        if not data.isascii():
            data = unicodedata.normalize("NFC", data)
        data = data.strip()
        if not self.allow_blank and not _has_visible(data):
            raise serializers.ValidationError(["Must not be empty."])
        if self.max_length is not None and len(data) > self.max_length:
            raise serializers.ValidationError([f"Must have at most {self.max_length} characters."])
        return data

    def openapi(self, direction: str) -> dict[str, Any]:
        # JSON Schema's regular expressions know no `\x`, and its strings no halves of surrogate pairs.
        unusable = (_UNUSABLE_IN_FREE_TEXT if self.free else _UNUSABLE).removesuffix(r"\ud800-\udfff")
        usable = f"[^{unusable}]*".replace(r"\x", r"\u00")
        visible = f"[^{_INVISIBLE}]".replace(r"\x", r"\u00")
        return {
            "type": "string",
            "maxLength": self.max_length,
            **({} if self.allow_blank else {"minLength": 1}),
            "pattern": f"^{usable}$" if self.allow_blank else f"^{usable}{visible}{usable}$",
        }


class Integer(serializers.IntegerField):
    """A JSON integer and nothing else, within `min_value` and `max_value`."""

    def run_validation(self, data: Any = empty) -> Any:
        is_empty, data = self.validate_empty_values(data)
        if is_empty:
            return data
        if type(data) is not int:
            raise serializers.ValidationError(["Must be an integer, as a JSON number without a point."])
        if not self.min_value <= data <= self.max_value:
            raise serializers.ValidationError([f"Must be from {self.min_value} to {self.max_value}."])
        return data


class Amount(serializers.DecimalField):
    """An amount in DZD with at most two decimal places: a JSON number, or a string of ASCII digits and a point.

    Gives a Decimal with exactly two places; no binary float is met on the way.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(max_digits=10, decimal_places=2, min_value=Decimal(0), max_value=MAX_AMOUNT, **kwargs)

    # DRF's decimals take an empty string for null.
    validate_empty_values = serializers.Field.validate_empty_values

    def run_validation(self, data: Any = empty) -> Any:
        is_empty, data = self.validate_empty_values(data)
        if is_empty:
            return data
        if type(data) is str and len(data) <= 20 and _AMOUNT.fullmatch(data):
            data = Decimal(data)
        elif type(data) is int:
            # Compared before it is converted: an integer of thousands of digits is no work then.
            data = Decimal(data) if 0 <= data <= MAX_AMOUNT else Decimal("Infinity")
        elif type(data) is not Decimal:
            raise serializers.ValidationError(["Must be a number, or a string of digits with at most one point."])
        if not (data.is_finite() and 0 <= data <= MAX_AMOUNT):
            raise serializers.ValidationError([f"Must be from 0 to {MAX_AMOUNT}."])
        if data.as_tuple().exponent < -2:  # type: ignore[operator]  # it is finite: the exponent is an int
            raise serializers.ValidationError(["Must have at most two decimal places."])
        return abs(data).quantize(CENTIME)

    def to_representation(self, value: Decimal) -> Decimal:
        return value

    def openapi(self, direction: str) -> dict[str, Any]:
        number = {"type": "number", "minimum": 0, "maximum": float(MAX_AMOUNT)}
        if direction == "response":
            return number
        return {"anyOf": [number | {"multipleOf": 0.01}, {"type": "string", "pattern": r"^[0-9]{1,8}(\.[0-9]{1,2})?$"}]}


class StringMap(serializers.DictField):
    """A JSON object of strings: at most `max_entries` keys of 1 to `max_key` characters, values up to `max_value`."""

    def __init__(self, *, max_entries: int, max_key: int, max_value: int, **kwargs: Any) -> None:
        self.max_entries = max_entries
        self._key, self._value = Text(max_length=max_key), Text(max_length=max_value, allow_blank=True)
        super().__init__(child=serializers.CharField(max_length=max_value, allow_blank=True), **kwargs)

    def run_validation(self, data: Any = empty) -> Any:
        is_empty, data = self.validate_empty_values(data)
        if is_empty:
            return data
        if type(data) is not dict:
            raise serializers.ValidationError(["Must be an object with string values."])
        if len(data) > self.max_entries:
            raise serializers.ValidationError([f"Must have at most {self.max_entries} keys."])
        result: dict[str, str] = {}
        errors: dict[str, list[str]] = {}
        for raw_key, raw_value in data.items():
            try:
                key = self._key.clean(raw_key)
            except serializers.ValidationError as error:
                errors.setdefault("non_field_errors", []).append(f"A key cannot be used. {error.detail[0]}")  # type: ignore[index]
                continue
            if key in result:
                errors.setdefault("non_field_errors", []).append(f"Two keys are the same text: {key}")
            try:
                result[key] = self._value.clean(raw_value)
            except serializers.ValidationError as error:
                errors[key] = error.detail  # type: ignore[assignment]
        if errors:
            raise serializers.ValidationError(errors)
        return result

    def openapi(self, direction: str) -> dict[str, Any]:
        return {
            "type": "object",
            "maxProperties": self.max_entries,
            "propertyNames": self._key.openapi(direction),
            "additionalProperties": self._value.openapi(direction),
        }
