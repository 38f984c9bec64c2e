"""Every page behind a login, with every parameter that it reads and values that nobody means: no answer is a 500.

The pages are those of the URL configuration. Their parameters are those that they are seen to read and to offer, so
that no new page or parameter can be forgotten.
"""

import re
from collections.abc import Callable, Iterator
from html import unescape
from itertools import cycle
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

import pytest
from django.contrib import admin
from django.contrib.admin.views import main
from django.core.handlers.wsgi import WSGIRequest
from django.http import HttpResponse, QueryDict
from django.test import Client

from tests.harness.addresses import Address, addresses
from tests.harness.world import World
from tests.pages.doors import undone

PAGES = [address for address in addresses() if address.route.startswith(("/console/", "/account/"))]
PEOPLE = {"/account/": ("holder",), "/console/": ("operator", "supervisor", "agent", "holder")}
# As written in an address: NUL, days at the ends of the calendar, a number that no column holds, and characters that
# mean something to patterns and statements, with bytes that are not text.
VALUES = ["%00", "0001-01-01", "9999-12-31", "9" * 400, "(%25%27%5C%ED%A0%80"]
POSTED = ["", "%00", "0001-01-01T00:00", "9999-12-31T23:59", "9" * 400]
# Parameters that Django's lists take without offering them. Each list gets them with another value; each kind of field
# of their tables gets these lookups once.
OF_LISTS = {main.ALL_VAR, main.ORDER_VAR, main.PAGE_VAR, main.ERROR_FLAG, main.IS_POPUP_VAR, main.TO_FIELD_VAR}
LOOKUPS = {"exact": "x", "isnull": "x", "regex": "(", "year": "9" * 400, "range": "x"}
FORM = "application/x-www-form-urlencoded"
# Pages that show nothing without a question, and one that they answer.
ASKED_FOR = {"/console/bulk/": {"every": "1", "status": "all", "action": "cancel"}}


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> dict[str, set[str]]:
    """By method, the names that views and forms look up in a request's parameters."""
    names: dict[str, set[str]] = {"GET": set(), "POST": set()}

    def noting(look: Callable[..., Any]) -> Callable[..., Any]:
        def noted(self: Any, name: Any, *args: Any, **kwargs: Any) -> Any:
            if isinstance(name, str) and hasattr(self, "asked_by"):
                names[self.asked_by].add(name)
            return look(self, name, *args, **kwargs)

        return noted

    begin, load = WSGIRequest.__init__, WSGIRequest._load_post_and_files

    def begin_noted(request: WSGIRequest, environ: dict[str, Any]) -> None:
        begin(request, environ)
        request.GET.asked_by = "GET"

    def load_noted(request: WSGIRequest) -> None:
        load(request)
        request._post.asked_by = "POST"

    for method in ("__getitem__", "__contains__", "get", "getlist"):
        monkeypatch.setattr(QueryDict, method, noting(getattr(QueryDict, method)))
    monkeypatch.setattr(WSGIRequest, "__init__", begin_noted)
    monkeypatch.setattr(WSGIRequest, "_load_post_and_files", load_noted)
    return names


def get(client: Client, path: str) -> HttpResponse:
    with undone(client):
        return client.get(path)


def post(client: Client, path: str, body: str = "") -> HttpResponse:
    with undone(client):
        return client.post(path, body, content_type=FORM)


def reached(client: Client, path: str) -> bool:
    """Return whether the page is this person's and knows the ids in its address. It may lead to the page above.

    An address that takes only POST says so, or leads to the page that has its form."""
    answer = get(client, asked_for(path))
    if answer.status_code == 405 or getattr(answer, "url", "") == f"{path.rstrip('/').rpartition('/')[0]}/":
        return post(client, path).status_code not in (403, 404)
    return answer.status_code == 200 or (answer.status_code == 302 and answer.url.startswith(path.rpartition("/")[0]))


def asked_for(path: str, name: str = "", value: str = "") -> str:
    """Return the address with the page's usual question, and with one parameter exactly as written."""
    others = urlencode({each: given for each, given in ASKED_FOR.get(path, {}).items() if each != name})
    query = "&".join(filter(None, (others, name and f"{quote(name)}={value}")))
    return f"{path}?{query}" if query else path


def fields_of(html: str, method: str) -> dict[str, str]:
    """Return the fields of a page's forms, with their values."""
    forms = re.findall(rf'<form\b[^>]*method="{method}".*?</form>', html, re.S)
    tags = [tag for form in forms for tag in re.findall(r"<(?:input|select|textarea|button)\b[^>]*>", form)]
    said = [dict(re.findall(r'(\w+)="([^"]*)"', tag)) for tag in tags]
    return {unescape(tag["name"]): unescape(tag.get("value", "")) for tag in said if "name" in tag}


def kinds(names: set[str]) -> list[str]:
    """Keep the first and the last of names that differ only in their numbers, like those of a table's rows."""
    alike: dict[str, list[str]] = {}
    for name in sorted(names):
        alike.setdefault(re.sub(r"\d+", "0", name), []).append(name)
    return [name for same in alike.values() for name in dict.fromkeys((same[0], same[-1]))]


def names_in_links(html: str) -> set[str]:
    return {name for link in re.findall(r'href="\?([^"]*)"', html) for name, _ in parse_qsl(unescape(link))}


def questions_of_lists() -> dict[str, list[tuple[str, str]]]:
    """Return what each of Django's lists is asked without offering it. What all lists do alike is not tried on each."""
    asked, seen, values = {}, set(), cycle(VALUES)
    for model in admin.site._registry:
        ways = {(type(field), lookup): field.name for field in model._meta.fields for lookup in LOOKUPS}
        new = {(f"{name}__{way[1]}", LOOKUPS[way[1]]) for way, name in ways.items() if way not in seen}
        seen |= ways.keys()
        path = f"/console/{model._meta.app_label}/{model._meta.model_name}/"
        asked[path] = sorted(new) + [(name, next(values)) for name in sorted(OF_LISTS)]
    return asked


def requests_to(client: Client, path: str, read: dict[str, set[str]]) -> Iterator[tuple[str, HttpResponse]]:
    """Request the page with each of its parameters at each value, in the address and in its form."""
    for names in read.values():
        names.clear()
    answer = get(client, asked_for(path))
    html = (b"".join(answer) if answer.streaming else answer.content).decode(errors="replace")
    form = fields_of(html, "post")
    post(client, path, urlencode(form))
    questions = questions_of_lists().get(path, [])
    asked = (read["GET"] | names_in_links(html) | fields_of(html, "get").keys()) - {name for name, _ in questions}
    posted = (read["POST"] | form.keys()) - {"csrfmiddlewaretoken"}
    for name, value in (*((name, value) for name in kinds(asked) for value in VALUES), *questions):
        address = asked_for(path, name, value)
        yield address, get(client, address)
    for wrong in kinds(posted):
        others = urlencode({name: given for name, given in form.items() if name != wrong})
        for value in POSTED:
            body = f"{others}&{quote(wrong)}={value}"
            yield f"{path} {body}", post(client, path, body)


def said_of(answer: Any) -> str:
    return repr(answer.exc_info[1]) if answer.exc_info else str(answer.status_code)


def somebody_at(address: Address, clients: dict[str, Client]) -> tuple[Client, str] | None:
    """Return who reaches the page, and at which path."""
    tries = ((client, path) for client in clients.values() for path in address.some_paths())
    return next((each for each in tries if reached(*each)), None)


@pytest.mark.parametrize("room", ["/account/", "/console/"])
def test_no_parameter_breaks_a_page(room: str, world: World, read: dict[str, set[str]]) -> None:
    clients = {person: world.client(person) for person in PEOPLE[room]}
    unreached, tried, wrong = set(), 0, {}
    for address in PAGES:
        if address.route.startswith(room):
            if (found := somebody_at(address, clients)) is None:
                if get(next(iter(clients.values())), address.paths()[0]).status_code != 403:
                    unreached.add(address.name)
                continue
            for asked, answer in requests_to(*found, read):
                tried += 1
                if answer.status_code >= 500:
                    wrong[asked] = said_of(answer)
    assert list(wrong.items())[:20] == []
    assert unreached <= UNREACHED
    assert tried > 300


# Where these people are redirected at once, or where none of them may be.
UNREACHED = {"login", "logout", "invitation", "account", "admin:autocomplete", "admin:view_on_site"}


def test_no_text_in_its_path_breaks_a_page(world: World) -> None:
    client, wrong = world.client("operator"), {}
    paths = [page.with_values(*[value] * len(page.parameters)) for page in PAGES if page.parameters for value in VALUES]
    for path in dict.fromkeys(paths):
        for answer in (get(client, path), post(client, path)):
            if answer.status_code >= 500:
                wrong[path] = said_of(answer)
    assert len(paths) > 100
    assert wrong == {}
