"""The Postman collection, made from the OpenAPI description: `make postman` writes docs/postman.json.

openapi-to-postmanv2 converts it. What that invents at random (ids, values, answers) is removed or replaced by the
description's own examples, so that the same description always gives the same file.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from tests.harness.description import generated
from tests.harness.npm import installed, program
from tests.harness.processes import CHECKOUT

# Times in bodies, in hours before the request is sent: written down, they would soon be too old.
HOURS_AGO = {"since": 4, "until": 1}
TARGET = CHECKOUT / "docs/postman.json"
PACKAGE = Path(__file__).with_name("description")


def collection() -> str:
    """Return the file's text."""
    described = generated()
    cache = installed(PACKAGE)
    done = subprocess.run(
        [program("node"), "postman.mjs"],
        cwd=cache,
        input=json.dumps(described),
        capture_output=True,
        text=True,
        check=True,
    )
    made = json.loads(done.stdout)
    del made["info"]["_postman_id"]
    made["auth"] = {"type": "bearer", "bearer": [{"key": "token", "value": "{{apiKey}}", "type": "string"}]}
    made["variable"] = [
        {"key": "baseUrl", "value": "http://localhost:8000", "type": "string"},
        {"key": "apiKey", "value": "", "type": "string"},
    ]
    for folder in made["item"]:
        for item in folder["item"]:
            _settle(item, described)
    return json.dumps(made, ensure_ascii=False, indent=1, sort_keys=True) + "\n"


def _settle(item: dict[str, Any], described: dict[str, Any]) -> None:
    """Remove everything random from a request."""
    request = item["request"]
    item["response"] = []
    del item["id"]
    for entry in [*request["url"]["query"], *request["url"]["variable"], *request["header"]]:
        if entry["key"] not in ("Accept", "Content-Type", "page", "per_page"):
            entry["value"] = ""
    path = "/" + "/".join(f"{{{part[1:]}}}" if part.startswith(":") else part for part in request["url"]["path"])
    operation = described["paths"][path][request["method"].lower()]
    if "requestBody" in operation:
        (example,) = operation["requestBody"]["content"]["application/json"]["examples"].values()
        body = example["value"]
        if times := HOURS_AGO.keys() & body:
            body = body | {name: f"{{{{{name}}}}}" for name in times}
            item["event"] = [_setting(sorted(times))]
        request["body"]["raw"] = json.dumps(body, ensure_ascii=False, indent=2)


def _setting(times: list[str]) -> dict[str, Any]:
    """The script that Postman runs before the request, to set these times as variables."""
    hour = 60 * 60 * 1000
    lines = [
        f'pm.variables.set("{name}", new Date(Date.now() - {HOURS_AGO[name] * hour}).toISOString());' for name in times
    ]
    return {"listen": "prerequest", "script": {"type": "text/javascript", "exec": lines}}


if __name__ == "__main__":
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "codservice.settings")
    django.setup()
    TARGET.write_text(collection(), encoding="utf-8")
