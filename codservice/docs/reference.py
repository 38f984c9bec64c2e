"""The API reference: pages of /docs/ that are made from the OpenAPI description, one for each of its tags.

The pages say nothing that the description does not. Its own examples are shown as they are. Where it has none, one is
made: of values of the same names in the guides' examples, so that all read alike, or else of any value of the type.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pprint import pformat
from typing import Any

from django.template.loader import render_to_string
from django.utils.safestring import SafeString
from django.utils.text import slugify

from codservice.docs.rendering import Rendered, Section, inline

OVERVIEW = "api"
SENT = "what-we-send"  # to webhooks
TAGS = ("orders", "products", "inventory", "shipping-fees", "webhooks", "deliveries", "events", "regions", "me", "test")
NAMES = (OVERVIEW, *(f"{OVERVIEW}/{tag}" for tag in (*TAGS, SENT)))

_LANGUAGES = {"curl": "curl", "python": "Python", "php": "PHP", "javascript": "JavaScript"}
_ID = "01954f6e-5b6c-4d7e-8f90-a1b2c3d4e5f6"
_FORMATS = {
    "uuid": ("UUID", _ID),
    "date-time": ("time", "2026-11-22T09:15:30Z"),
    "date": ("date", "2026-11-22"),
    "uri": ("URL", "https://shop.example.dz/hook"),
}
_TYPES = {"string": str, "boolean": bool, "integer": int, "number": int | float}
_BOUNDS = {
    "string": ("minLength", "maxLength", " characters"),
    "array": ("minItems", "maxItems", " entries"),
    "object": ("minProperties", "maxProperties", " entries"),
    "integer": ("minimum", "maximum", ""),
    "number": ("minimum", "maximum", ""),
}
# Nobody would read longer lists of values or longer patterns.
_MOST_VALUES, _LONGEST_PATTERN = 12, 60


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    """Dotted, as in errors: `items.0.quantity` is the quantity of each line."""
    kind: SafeString
    is_required: bool
    note: SafeString
    place: str = ""
    """Where a parameter goes: `query`, `path` or `header`. Empty for a field of a body."""


@dataclass(frozen=True, slots=True)
class Body:
    fields: list[Field]
    note: SafeString
    example: str
    """Empty if the operation's `lines` show it."""


@dataclass(frozen=True, slots=True)
class Answer:
    status: str
    note: SafeString
    headers: str
    body: Body | None


@dataclass(frozen=True, slots=True)
class Operation:
    method: str
    path: str
    """Empty for what we send to a webhook: its URL is the merchant's."""
    summary: str
    note: SafeString
    parameters: list[Field]
    body: Body | None
    answers: list[Answer]
    errors: list[Answer]
    lines: list[tuple[str, str]]
    """Pairs of a language's name and a call in that language."""

    @property
    def anchor(self) -> str:
        return slugify(self.summary)


def chapters(description: dict[str, Any], examples: Iterable[Any]) -> dict[str, Rendered]:
    """The pages by name, in the order of NAMES. `examples` are JSON values."""
    reader = _Reader(description, examples)
    about = {tag["name"]: tag["description"] for tag in description["tags"]}
    tagged = defaultdict(list)
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            (tag,) = operation["tags"]
            tagged[tag].append(reader.operation(method, path, operation))
    for kind, methods in description["webhooks"].items():
        tagged[SENT].append(
            reader.operation("post", "", methods["post"] | {"summary": f"{methods['post']['summary']}: {kind}"})
        )
    about[SENT] = "What your webhooks receive, event by event."
    pages = {f"{OVERVIEW}/{tag}": _chapter(tag, about[tag], tagged[tag]) for tag in (*TAGS, SENT)}
    return {OVERVIEW: _overview(description, about, tagged)} | pages


def _chapter(tag: str, about: str, operations: list[Operation]) -> Rendered:
    title = f"API: {tag.replace('-', ' ')}"
    sections = [Section(1, slugify(title), title, about)]
    for each in operations:
        of_bodies = chain.from_iterable(body.fields for body in _bodies(each))
        words = dict.fromkeys(field.name for field in chain(each.parameters, of_bodies))
        sections.append(Section(2, each.anchor, each.summary, " ".join([each.method, each.path, *words])))
    context = {"title": title, "anchor": slugify(title), "about": inline(about), "operations": operations}
    return Rendered(render_to_string("docs/reference.html", context), sections)


def _bodies(operation: Operation) -> Iterator[Body]:
    return filter(None, (operation.body, *(answer.body for answer in operation.answers)))


def _overview(description: dict[str, Any], about: dict[str, str], tagged: dict[str, list[Operation]]) -> Rendered:
    errors = {error.note: error for operations in tagged.values() for each in operations for error in each.errors}
    responses = [
        response
        for methods in description["paths"].values()
        for operation in methods.values()
        for response in operation["responses"].items()
    ]
    headers = {name: header for _, answer in responses for name, header in answer["headers"].items()}
    context = {
        "about": inline(description["info"]["description"]),
        "parts": [(tag, f"/docs/{OVERVIEW}/{tag}", inline(about[tag]), tagged[tag]) for tag in (*TAGS, SENT)],
        "errors": sorted((error.status, error.note) for error in errors.values()),
        "headers": [(name, inline(header.get("description", ""))) for name, header in sorted(headers.items())],
    }
    sections = [
        Section(1, "api-reference", "API reference", description["info"]["description"]),
        *(Section(2, tag, tag.replace("-", " ").capitalize(), about[tag]) for tag in (*TAGS, SENT)),
        Section(2, "errors", "Errors", ""),
        Section(2, "headers-of-answers", "Headers of answers", ""),
    ]
    return Rendered(render_to_string("docs/reference_overview.html", context), sections)


class _Reader:
    """Reads operations of a description."""

    def __init__(self, description: dict[str, Any], examples: Iterable[Any]) -> None:
        self.schemas = description["components"]["schemas"]
        self.objects: list[dict[str, Any]] = []  # flat ones only
        self.samples: dict[str, list[Any]] = defaultdict(list)  # values that are not objects, by name
        for each in examples:
            self._collect("", each)

    def _collect(self, name: str, value: Any) -> None:
        if isinstance(value, dict):
            if not any(isinstance(part, dict | list) for part in value.values()):
                self.objects.append(value)
            for key, part in value.items():
                self._collect(key, part)
        for part in value if isinstance(value, list) else ():
            self._collect(name, part)
        if not isinstance(value, dict | list | None):
            self.samples[name].append(value)

    def operation(self, method: str, path: str, described: dict[str, Any]) -> Operation:
        body = described.get("requestBody", {}).get("content", {}).get("application/json", {})
        gate = described["responses"].get("500", {}).get("headers", {})
        answers = [self._answer(status, answer, gate) for status, answer in described["responses"].items()]
        return Operation(
            method.upper(),
            path,
            described["summary"],
            inline(described.get("description", "")),
            [self._parameter(each) for each in described.get("parameters", ())],
            self._body(body, has_example=not path) if body else None,
            [answer for answer in answers if not answer.note or answer.body or answer.status < "400"],
            [answer for answer in answers if answer.note and not answer.body and answer.status >= "400"],
            _lines(method.upper(), path, _given(body), has_key={} not in described["security"]) if path else [],
        )

    def _parameter(self, described: dict[str, Any]) -> Field:
        kind, note = inline(self._kind(described["schema"])), inline(described.get("description", ""))
        return Field(described["name"], kind, described.get("required", False), note, described["in"])

    def _answer(self, status: str, described: dict[str, Any], gate: dict[str, Any]) -> Answer:
        sent = described.get("content", {}).get("application/json", {})
        schema = sent.get("schema")
        is_error = schema in ({"$ref": f"#/components/schemas/{name}"} for name in ("Error", "ValidationFailed"))
        headers = ", ".join(f"`{name}`" for name in described.get("headers", ()) if name not in gate)
        body = self._body(sent, has_example=True) if schema and not is_error else None
        return Answer(status, inline(described["description"]), inline(headers), body)

    def _body(self, described: dict[str, Any], *, has_example: bool) -> Body:
        schema = described["schema"]
        fields = {field.name: field for field in self._fields(schema)}
        example = _indented(_given(described) or self._example(schema)) if has_example else ""
        return Body(list(fields.values()), inline(self._note(schema)), example)

    def _resolved(self, schema: dict[str, Any]) -> dict[str, Any]:
        if "$ref" in schema:
            return self.schemas[schema["$ref"].rpartition("/")[2]] | {k: v for k, v in schema.items() if k != "$ref"}
        return schema

    def _fields(self, schema: dict[str, Any], before: str = "") -> Iterator[Field]:
        schema = self._resolved(schema)
        for each in schema.get("anyOf", ()):
            yield from self._fields(each, before)
        if "items" in schema:
            yield from self._fields(schema["items"], f"{before}0.")
        for name, part in schema.get("properties", {}).items():
            is_required = name in schema.get("required", ())
            yield Field(f"{before}{name}", inline(self._kind(part)), is_required, inline(self._note(part)))
            yield from self._fields(part, f"{before}{name}.")

    def _note(self, schema: dict[str, Any]) -> str:
        schema = self._resolved(schema)
        return schema.get("description") or (self._note(schema["items"]) if "items" in schema else "")

    def _kind(self, schema: dict[str, Any]) -> str:
        """The type of a value in words, with its bounds."""
        schema = self._resolved(schema)
        if "const" in schema:
            return f"`{json.dumps(schema['const'])}`"
        if "anyOf" in schema:
            return " or ".join(dict.fromkeys(self._kind(each) for each in schema["anyOf"]))
        kinds = [each for each in _types(schema) if each != "null"]
        words = [self._values(schema["enum"])] if "enum" in schema else [self._bounded(each, schema) for each in kinds]
        return " or ".join([*words, *(["null"] if "null" in _types(schema) else [])])

    def _values(self, values: list[Any]) -> str:
        if len(values) <= _MOST_VALUES:
            return ", ".join(f"`{each}`" for each in values)
        return ", ".join(f"`{each}`" for each in values[:3]) + f" … ({len(values)} values)"

    def _bounded(self, kind: str, schema: dict[str, Any]) -> str:
        if schema.get("format") in _FORMATS:
            return _FORMATS[schema["format"]][0]
        word = f"list of {self._kind(schema['items'])}" if kind == "array" else kind
        if isinstance(values := schema.get("additionalProperties"), dict):
            word = f"object whose values are {self._kind(values)}"
        least, most, unit = _BOUNDS.get(kind, ("", "", ""))
        low, high = schema.get(least), schema.get(most)
        if low is not None and high is not None:
            word += f", {low} to {high}{unit}"
        elif high is not None:
            word += f", at most {high}{unit}"
        elif low is not None:
            word += ", not empty" if unit else f", at least {low}"
        pattern = schema.get("pattern", "")
        is_shown = pattern and "\\u" not in pattern and len(pattern) <= _LONGEST_PATTERN
        return f"{word}, `{pattern}`" if is_shown else word

    def _example(self, schema: dict[str, Any], name: str = "") -> Any:
        schema = self._resolved(schema)
        if "anyOf" in schema and "properties" not in schema:
            return self._example(schema["anyOf"][0], name)
        if allowed := [schema["const"]] if "const" in schema else _known(schema):
            return next((sample for sample in self.samples[name] if sample in allowed), allowed[0])
        kind = next((each for each in _types(schema) if each != "null"), "null")
        if kind == "object":
            fields = schema.get("properties", {})
            values = {key: _known(self._resolved(part)) for key, part in fields.items()}
            alike = (each for each in self.objects if each.keys() == fields.keys())
            same = (each for each in alike if all(each[key] in values[key] for key in fields if values[key]))
            return next(same, None) or {key: self._example(part, key) for key, part in fields.items()}
        if kind == "array":
            return [self._example(schema["items"], name)]
        if schema.get("format") in _FORMATS:
            return _FORMATS[schema["format"]][1]
        for sample in self.samples[name]:
            if _is_a(kind, sample) and re.search(schema.get("pattern", ""), str(sample)):
                return sample
        return {"string": "…", "boolean": True, "null": None}.get(kind, max(1, schema.get("minimum", 1)))


def _given(body: dict[str, Any]) -> Any:
    """The description's own example of a body, or None."""
    return next((each["value"] for each in body.get("examples", {}).values()), None)


def _known(schema: dict[str, Any]) -> list[Any] | None:
    """The values that there are, also where others may come."""
    return schema.get("enum") or schema.get("examples")


def _is_a(kind: str, value: Any) -> bool:
    return isinstance(value, _TYPES.get(kind, ())) and (kind == "boolean" or not isinstance(value, bool))


def _types(schema: dict[str, Any]) -> list[str]:
    kinds = schema.get("type", "string" if "const" in schema else "object")
    return kinds if isinstance(kinds, list) else [kinds]


def _lines(method: str, path: str, body: Any, *, has_key: bool) -> list[tuple[str, str]]:
    context = {
        "method": method,
        "path": re.sub(r"{\w+}", _ID, path),
        "has_key": has_key,
        "has_body": body is not None,
        "json": _indented(body),
        "in_quotes": _indented(body).replace("'", r"'\''"),
        "python": pformat(body, sort_dicts=False),
    }
    return [
        (name, render_to_string(f"docs/calls/{language}.txt", context).strip()) for language, name in _LANGUAGES.items()
    ]


def _indented(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
