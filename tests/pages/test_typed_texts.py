"""What is typed into a form or the address comes back as text, and is searched as text."""

import re
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urljoin

import pytest
from django.http import HttpResponse
from django.utils.html import escape

from tests.factories import make_order
from tests.harness.world import MARKUP, World
from tests.pages.doors import WITNESSES, pages_of, undone

RUNNING = ("<svg onload", "<script>alert", "<img src=//", "<iframe", "49{%")
TWICE = "&amp;lt;svg onload"


class Forms(HTMLParser):
    """The forms of a page: where each goes, by which method, with which fields. Buttons are fields too."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[dict[str, Any]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        named = dict(attributes)
        if tag == "form":
            self.found.append({"to": named.get("action") or "", "method": named.get("method") or "get", "fields": {}})
        elif tag in ("input", "textarea", "select", "button") and self.found and named.get("name"):
            self.found[-1]["fields"][named["name"]] = (named.get("type") or tag, named.get("value") or "")


CHOSEN = ("hidden", "checkbox", "radio", "submit", "button")
PARAMETERS = (
    "q", "p", "next", "before", "order", "status", "phone", "first", "by", "show", "o", "sort", "action", "chosen",
)  # fmt: skip


@pytest.mark.parametrize("person", WITNESSES)
def test_what_is_typed_comes_back_as_text(person: str, world: World) -> None:
    """Types into every field of every form, then into the hidden ones too, and into the address."""
    client = world.client(person)
    tried: set[tuple[str, ...]] = set()
    wrong = []

    def send(method: str, path: str, data: dict[str, str]) -> None:
        with undone(client):
            answer = (client.post if method == "post" else client.get)(path, data, follow=True)
        if answer.status_code >= 500 or runs(answer):
            wrong.append((method, path, list(data), answer.status_code))

    for name, path, page in list(pages_of(client, person)):
        if (name,) not in tried:
            tried.add((name,))
            send("get", path, dict.fromkeys(PARAMETERS, MARKUP))
        for form in Forms(page.content.decode()).found:
            to = urljoin(path, form["to"]).partition("#")[0]
            without_ids = tuple(re.sub(r"[0-9a-f-]{36}", "", each) for each in (to, *form["fields"]))
            if without_ids not in tried:
                tried.add(without_ids)
                typed = {field: value if kind in CHOSEN else MARKUP for field, (kind, value) in form["fields"].items()}
                send(form["method"], to, typed)
                send(form["method"], to, dict.fromkeys(form["fields"], MARKUP))
    assert wrong == []
    assert len(tried) > (5 if person == "stranger" else 20)


def runs(answer: HttpResponse) -> bool:
    if not answer.headers.get("Content-Type", "").startswith("text/html"):
        return False
    text = answer.content.decode()
    return any(each in text for each in (*RUNNING, TWICE))


@pytest.mark.parametrize(("person", "path"), [("holder", "/account/orders"), ("agent", "/console/orders/order/")])
def test_markup_is_searched_as_any_text(person: str, path: str, world: World) -> None:
    make_order(world.charlie, customer_name=MARKUP[:99])
    page = world.client(person).get(path, {"q": MARKUP[:99]}).content.decode()
    assert page.partition("<tbody")[2].count("<tr") == 1
    assert f'value="{escape(MARKUP[:99])}"' in page
