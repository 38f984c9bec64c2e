"""The OpenAPI description, for tests that look something up in it, and a checker of answers against it."""

import json
from functools import cache
from typing import Any

import jsonschema_rs
import yaml


@cache
def generated() -> dict[str, Any]:
    """The description as the code makes it without a request. It is shared, so do not change it."""
    from codservice.api.schema import description  # needs the settings

    return description()


@cache
def parsed(text: bytes) -> dict[str, Any]:
    """A parsed YAML document. It is cached and shared, so do not change it."""
    return yaml.load(text, Loader=yaml.CSafeLoader)


def described(client: Any) -> dict[str, Any]:
    """The description at `/api/schema`."""
    answer = client.get("/api/schema")
    assert answer.status_code == 200
    return parsed(answer.content)


class Checker:
    """Checks real answers against the description."""

    def __init__(self, description: dict[str, Any]) -> None:
        self.description = description

    def check(self, path: str, answer: Any) -> None:
        method = answer.request["REQUEST_METHOD"]
        responses = self.description["paths"][path][method.lower()]["responses"]
        status = str(answer.status_code)
        assert status in responses, (method, path, status, answer.content)
        response = responses[status]
        for name, header in response["headers"].items():
            if name in ("Idempotent-Replayed", "X-Service-Mode") and name not in answer.headers:
                continue
            assert name in answer.headers, (method, path, status, name)
            value = answer.headers[name]
            self.validate(header["schema"], int(value) if header["schema"]["type"] == "integer" else value)
        if "content" in response:
            assert list(response["content"]) == [answer.headers["Content-Type"]] == ["application/json"]
            self.validate(response["content"]["application/json"]["schema"], json.loads(answer.content))
        else:
            assert answer.content == b""

    def validate(self, schema: dict[str, Any], instance: Any) -> None:
        whole = {"components": self.description["components"], **schema}
        jsonschema_rs.validator_for(closed(whole), validate_formats=True).validate(instance)


def closed(schema: Any) -> Any:
    """The schema without additional properties and other words, so that every field and word must be described."""
    if isinstance(schema, list):
        return [closed(entry) for entry in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {name: closed(value) for name, value in schema.items()}
    if "properties" in schema and schema.get("type") == "object":
        schema.setdefault("additionalProperties", False)
    if isinstance(schema.get("examples"), list):  # the words that others may join
        schema.setdefault("enum", schema["examples"])
    return schema
