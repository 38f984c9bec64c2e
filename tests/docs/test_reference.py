"""The API reference says everything that the description says, in lines that run."""

import json
import re
import subprocess
from collections.abc import Iterator
from html import unescape
from typing import Any

import jsonschema_rs
import pytest
from django.test import Client
from django.utils.html import escape

from codservice.docs import library, reference
from orders.models import Order, Status
from tests.harness.description import closed, generated
from tests.harness.npm import program

pytestmark = pytest.mark.django_db

DESCRIPTION = generated()
OPERATIONS = [
    (method.upper(), path, operation)
    for path, methods in DESCRIPTION["paths"].items()
    for method, operation in methods.items()
]


def section(client: Client, tag: str, summary: str) -> str:
    html = client.get(f"/docs/api/{tag}").content.decode()
    (found,) = re.findall(
        rf'<section class="operation"[^>]*>\s*<h2 id="[\w-]+">{re.escape(escape(summary))}</h2>.*?</section>',
        html,
        re.S,
    )
    return found


def lines(html: str, language: str) -> str:
    (found,) = re.findall(rf"<summary>{language}</summary>\s*<pre[^>]*><code>(.*?)</code>", html, re.S)
    return unescape(found)


def test_every_tag_has_its_page_and_every_page_its_way_from_the_first(client: Client) -> None:
    assert {tag["name"] for tag in DESCRIPTION["tags"]} == set(reference.TAGS)
    first = client.get("/api/docs").content.decode()
    for name in reference.NAMES[1:]:
        assert f'<h2 id="{name.removeprefix("api/")}"><a href="/docs/{name}">' in first
    for method, path, operation in OPERATIONS:
        (tag,) = operation["tags"]
        name = re.escape(escape(operation["summary"]))
        assert re.search(rf'<a href="/docs/api/{tag}#[\w-]+">{name}</a> <code>{method} {re.escape(path)}<', first)


def test_every_operation_is_there_with_what_it_takes_and_answers_and_examples_of_it(client: Client) -> None:
    for method, path, operation in OPERATIONS:
        html = section(client, operation["tags"][0], operation["summary"])

        assert f"<strong>{method}</strong> <code>{path}</code>" in html
        for parameter in operation.get("parameters", ()):
            assert f"<code>{parameter['name']}</code> <span>{parameter['in']}</span>" in html
        answers = operation["responses"]
        for status in answers:
            assert re.search(rf"<strong>{status}</strong>|<dt>{status}</dt>", html), status
        if body := operation.get("requestBody"):
            for name in resolved(body["content"]["application/json"]["schema"])["properties"]:
                assert f"<dt><code>{name}</code>" in html
        shown = examples(html)
        for status, example in shown.items():
            hold(example, answers[status]["content"]["application/json"]["schema"])
        has_body = {status for status, answer in answers.items() if status < "400" and answer.get("content")}
        assert has_body <= shown.keys()


def examples(html: str) -> dict[str, Any]:
    """The examples of an operation's answers, by status."""
    shown = re.findall(r"<summary>Answer <strong>(\d+)</strong>.*?<pre[^>]*><code>(.*?)</code>", html, re.S)
    return {status: json.loads(unescape(example)) for status, example in shown}


# Where each call leaves an order that waited for it.
LEFT = {
    "Read an order": "pending_confirmation",
    "Change an order": "pending_confirmation",
    "Cancel an order": "canceled",
    "Confirm a test order": "confirmed",
    "Cancel a test order as an agent": "canceled",
    "Call the customer of a test order": "pending_confirmation",
    "Ship a test order": "shipped",
    "Deliver a test order": "delivered",
    "Return a test order": "returned",
}


@pytest.mark.parametrize("summary", LEFT)
def test_the_example_of_an_order_is_what_the_call_makes_of_it(summary: str, client: Client) -> None:
    order = examples(section(client, "test" if "test order" in summary else "orders", summary))["200"]

    history = [(change["from"], change["to"]) for change in order["status_history"]]
    reached = [to for _, to in history]
    assert order["status"] == reached[-1] == LEFT[summary]
    assert [before for before, _ in history] == [None, *reached[:-1]]
    for name in ("confirmed", "canceled"):
        assert (order[f"{name}_at"] is not None) is (name in reached)
    assert (order["cancel_reason"] != "") is (order["status"] == "canceled")
    assert (order["edits"] != []) is (summary == "Change an order")
    assert order["anonymised_at"] is None


def test_the_examples_of_imports_are_what_their_status_says(client: Client) -> None:
    assert examples(section(client, "orders", "Import an order"))["201"]["status"] == "pending_confirmation"
    batch = examples(section(client, "orders", "Import a batch of orders"))
    counts = {status: (len(body["created"]), len(body["errors"])) for status, body in batch.items()}
    assert counts == {"201": (2, 0), "207": (1, 1), "422": (0, 2)}


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    return DESCRIPTION["components"]["schemas"][schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema


def hold(value: Any, schema: dict[str, Any]) -> None:
    whole = {"components": DESCRIPTION["components"], **schema}
    jsonschema_rs.validator_for(closed(whole), validate_formats=True).validate(value)


def test_every_event_is_there_with_an_example_of_it(client: Client) -> None:
    for kind, methods in DESCRIPTION["webhooks"].items():
        described = methods["post"]
        html = section(client, reference.SENT, f"{described['summary']}: {kind}")

        for parameter in described["parameters"]:
            assert f"<code>{parameter['name']}</code>" in html
        (example,) = re.findall(r"<pre[^>]*><code>(.*?)</code>", html, re.S)
        body = json.loads(unescape(example))
        hold(body, described["requestBody"]["content"]["application/json"]["schema"])
        assert (body["event"], "example" in body) == (kind, False)
        if leads_to := {move.to for move in Order.MOVES.values() if move.event == kind}:
            assert {body["data"]["status"]} == leads_to
        elif kind.startswith("order."):
            assert body["data"]["status"] == Status.PENDING


def test_only_an_event_can_be_an_example() -> None:
    for kind, methods in DESCRIPTION["webhooks"].items():
        body = methods["post"]["requestBody"]["content"]["application/json"]["schema"]
        assert ("example" in body["properties"]) is (kind != "ping")


@pytest.mark.parametrize(
    "summary", [operation["summary"] for _, _, operation in OPERATIONS if operation["tags"] == ["orders"]]
)
def test_lines_are_their_languages(summary: str, client: Client) -> None:
    html = section(client, "orders", summary)

    compile(lines(html, "Python"), "lines", "exec")
    for command, text in (
        (["bash", "-n"], lines(html, "curl")),
        (["node", "--input-type=module", "--check"], lines(html, "JavaScript")),
        (["php", "-l"], f"<?php\n{lines(html, 'PHP')}"),
    ):
        done = subprocess.run(
            [program(command[0]), *command[1:]], input=text, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


def imports(client: Client, url: str, key: str) -> Iterator[subprocess.CompletedProcess[str]]:
    """Run the lines that import an order, in each language."""
    html = section(client, "orders", "Import an order")
    php = f"<?php\n$url = {url!r}; $key = {key!r};\n{lines(html, 'PHP')}"
    javascript = f"const url = {url!r}, key = {key!r};\n{lines(html, 'JavaScript')}"
    python = f"URL, KEY = {url!r}, {key!r}\n{lines(html, 'Python')}"
    curl = f"URL={url} KEY={key}\n{lines(html, 'curl')}"
    for command, text in (
        ([program("bash")], curl), ([program("node"), "--input-type=module", "-"], javascript),
        ([program("php")], php), ([program("python3")], python),
    ):  # fmt: skip
        fresh = text.replace("1042", command[0].rpartition("/")[2])
        yield subprocess.run(command, input=fresh, capture_output=True, text=True, check=False)


@pytest.mark.django_db(transaction=True)
def test_lines_import_an_order(live_server: Any, client: Client, key: str) -> None:
    for done in imports(client, live_server.url, key):
        assert '"status":"pending_confirmation"' in done.stdout, done.stdout + done.stderr


@pytest.mark.django_db(transaction=True)
def test_lines_show_a_refusal(live_server: Any, client: Client) -> None:
    *others, python = imports(client, live_server.url, "unknown")

    assert all('"error":"unauthenticated"' in done.stdout for done in others), others
    assert "HTTP Error 401" in python.stderr


def test_a_page_is_small_and_its_anchors_are_its_own(client: Client) -> None:
    for name in reference.NAMES:
        page = library.site().pages["en", name]
        html = client.get(page.url).content.decode()
        anchors = re.findall(r'\sid="([^"]+)"', html)

        assert len(html.encode()) < 100_000, name
        assert len(anchors) == len(set(anchors)), name
        assert {section.anchor for section in page.sections} <= set(anchors), name


def test_search_leads_to_operations(client: Client) -> None:
    found = client.get("/docs/search", {"q": "rotate-secret"}).content.decode()

    assert 'href="/docs/api/webhooks#rotate-the-signing-secret"' in found


def test_what_the_description_says_is_escaped() -> None:
    text = "<script>alert(1)</script>"
    body = {"type": "object", "properties": {text: {"type": "string", "description": text, "const": text}}}
    answers = {"200": {"description": text, "headers": {}, "content": {"application/json": {"schema": body}}}}
    told = {
        "summary": text,
        "description": text,
        "tags": ["me"],
        "security": [],
        "parameters": [],
        "responses": answers,
    }
    hostile = DESCRIPTION | {"paths": {"/api/v1/me": {"get": told}}, "webhooks": {}}

    html = reference.chapters(hostile, [])["api/me"].html

    assert text not in html
    assert html.count(escape(text)) >= 4
