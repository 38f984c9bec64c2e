"""The naughty strings against the pages: as texts that others wrote, and as each parameter of each page."""

import json
import re
from collections.abc import Iterator
from html import unescape
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from tests.attack import lists
from tests.attack.lists import LINE, ORDER
from tests.attack.target import Target, many

# The pages of each room on which an order shows what was sent.
SHOWN_AT = [("holder", "/account/orders/{}"), ("supervisor", "/console/orders/order/{}/")]
ORDERS = "/api/v1/orders"
SHARE = 5


def shown_texts(target: Target, seconds: float = 600) -> tuple[str, list[str]]:
    """Import orders with each string wherever it is accepted. Their pages must show it as it was sent."""
    return many(lambda text: _shown(target, text), lists.naughty_strings(), seconds)


def _shown(target: Target, text: str) -> str:
    body: dict[str, Any] = {**ORDER, "customer_name": text[:255], "customer_address": text[:500], "notes": text[:2000]}
    body["items"] = [LINE | {"product_name": text[:255], "attributes": {text[:64]: text[:255]}}]
    for _ in range(2):
        status, content = target.call("POST", ORDERS, json.dumps(body).encode(), {"Content-Type": "application/json"})
        if status != 422:
            break
        # Restore what was refused; the rest may still be accepted.
        for name in json.loads(content)["errors"]:
            if name.startswith("items"):
                body["items"] = [LINE]
            else:
                body[name] = ORDER[name]
    if status != 201:
        return f"{text[:60]!a} cannot be imported: {status}"
    order = json.loads(content)
    told = {order["customer"]["name"], order["customer"]["address"], order["items"][0]["product_name"]}
    told |= set(lists.texts(order["items"][0]["attributes"]))
    for who, path in SHOWN_AT:
        status, content = target.open(who, path.format(order["id"]))
        page = unescape(content.decode("utf-8", "replace"))
        if status != 200:
            return f"{path} with {text[:60]!a}: {status}"
        if missing := [each for each in told if each not in page]:
            return f"{path} does not show {missing[0][:60]!a}"
    return ""


def parameters(target: Target, seconds: float = 1200) -> tuple[str, list[str]]:
    """A share of the strings, different for each page, as single parameters of it; some as all parameters at once."""
    found, requests = [], []
    seen = set()
    for who, path in target.pages:
        status, content = target.open(who, path)
        if status >= 500:
            found.append(f"{path} as {who or 'a stranger'}: {status}")
        if status == 200 and path not in seen:
            names = sorted(_names(content.decode("utf-8", "replace")))
            requests += _questions(who, path, names, lists.naughty_strings()[len(seen) % SHARE :: SHARE])
            seen.add(path)
    count, wrong = many(lambda request: _answered(target, *request), requests, seconds)
    return f"{count} requests to {len(seen)} pages", found + wrong


def _names(page: str) -> set[str]:
    """The parameters of the page's forms and links, and those that lists usually have."""
    inputs = set(re.findall(r'<(?:input|select|textarea)[^>]* name="([^"]+)"', page))
    asked = {name for query in re.findall(r'href="[^"#]*\?([^"#]*)', page) for name, _ in parse_qsl(unescape(query))}
    return inputs | asked | {"q", "page", "p", "o", "status", "before", "from", "last", "next"}


def _questions(who: str, path: str, names: list[str], texts: list[str]) -> Iterator[tuple[str, str]]:
    for number, text in enumerate(texts):
        yield who, f"{path}?{urlencode({names[number % len(names)]: text})}"
        if number % 5 == 0:
            yield who, f"{path}?{urlencode(dict.fromkeys(names, text))}"


def _answered(target: Target, who: str, address: str) -> str:
    status, content = target.open(who, address)
    if status >= 500 or status == 429:
        return f"{address[:200]} as {who or 'a stranger'}: {status}"
    is_page = content[:15].lower() == b"<!doctype html>"  # downloads are declared as text, and may hold anything
    if status == 200 and is_page and "<script>alert" in content.decode("utf-8", "replace"):
        return f"{urlsplit(address).path} repeats {address[:200]} as it is"
    return ""
