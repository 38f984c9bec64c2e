"""The OpenAPI description as the service serves it, for tests that look something up in it."""

from functools import cache
from typing import Any

import yaml


@cache
def parsed(text: bytes) -> dict[str, Any]:
    """What a YAML document says; whoever asks again for the same gets the same, and changes nothing in it."""
    return yaml.load(text, Loader=yaml.CSafeLoader)


def described(client: Any) -> dict[str, Any]:
    """The description at `/api/schema`."""
    answer = client.get("/api/schema")
    assert answer.status_code == 200
    return parsed(answer.content)
