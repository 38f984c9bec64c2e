"""Every page behind a login, with every parameter that it reads and values that nobody means: no answer is a 500.

The pages are those of the URL configuration. Their parameters are those that they are seen to read and to offer, so
that no new page or parameter can be forgotten.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator
from html import unescape
from itertools import chain, cycle, product
from typing import Any
from urllib.parse import parse_qsl, quote, urldefrag, urlencode, urljoin, urlsplit

import pytest
from django.contrib import admin
from django.contrib.admin.views import main
from django.core.handlers.wsgi import WSGIRequest
from django.http import HttpResponse, QueryDict
from django.test import Client
from django.urls import resolve

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
# So many pages read a name only if the code that reads it is shared by them, such as the mode of an account's forms.
SHARED = 20
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


def looked_at(client: Client, path: str) -> HttpResponse | None:
    """Return the page if it is this person's and knows the ids in its address. It may lead to the page above.

    An address that takes only POST says so, or leads to the page that has its form. The look is not undone: each later
    request would note again that the person is there.
    """
    answer = client.get(asked_for(path))
    if answer.status_code == 405 or getattr(answer, "url", "") == f"{path.rstrip('/').rpartition('/')[0]}/":
        return answer if post(client, path).status_code not in (403, 404) else None
    leads_up = answer.status_code == 302 and answer.url.startswith(path.rpartition("/")[0])
    return answer if answer.status_code == 200 or leads_up else None


def asked_for(path: str, name: str = "", value: str = "") -> str:
    """Return the address with the page's usual question, and with one parameter exactly as written."""
    others = urlencode({each: given for each, given in ASKED_FOR.get(path, {}).items() if each != name})
    query = "&".join(filter(None, (others, name and f"{quote(name)}={value}")))
    return f"{path}?{query}" if query else path


def forms_of(html: str, path: str, method: str) -> list[tuple[str, dict[str, str]]]:
    """Return the forms of the page at `path`: where each goes to, and its fields with their values."""
    found = []
    for form in re.findall(rf'<form\b[^>]*method="{method}".*?</form>', html, re.S):
        head, *tags = [
            {name: unescape(value) for name, value in re.findall(r'(\w+)="([^"]*)"', tag)}
            for tag in re.findall(r"<(?:form|input|select|textarea|button)\b[^>]*>", form)
        ]
        fields = {tag["name"]: tag.get("value", "") for tag in tags if "name" in tag}
        found.append((urldefrag(urljoin(path, head.get("action", ""))).url, fields))
    return found


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


def text_of(answer: HttpResponse) -> str:
    return (b"".join(answer) if answer.streaming else answer.content).decode(errors="replace")


def somebody_at(address: Address, clients: dict[str, Client]) -> tuple[Client, str, str] | None:
    """Return who reaches the page, at which path, and what is written there."""
    for client, path in product(clients.values(), address.some_paths()):
        if (answer := looked_at(client, path)) is not None:
            return client, path, text_of(answer)
    return None


def names_asked(client: Client, path: str, html: str, read: dict[str, set[str]]) -> list[str]:
    """Return the parameters that the page reads or offers."""
    read["GET"].clear()
    get(client, asked_for(path))
    offered = names_in_links(html).union(*(form for _to, form in forms_of(html, path, "get")))
    return kinds((read["GET"] | offered) - {name for name, _ in questions_of_lists().get(path, [])})


def names_sent(client: Client, path: str, form: dict[str, str], read: dict[str, set[str]]) -> list[str]:
    """Return the form's fields, and those that the view reads besides."""
    read["POST"].clear()
    if post(client, path, urlencode(form)).status_code == 405:
        return []
    return kinds((read["POST"] | form.keys()) - {"csrfmiddlewaretoken"})


def with_values(named: list[list[str]], values: list[str]) -> Iterator[list[tuple[str, str]]]:
    """Yield the names of each page or form with each value. What code that they share reads, each gets with another."""
    readers = Counter(chain.from_iterable(named))
    turns: dict[str, Iterator[str]] = defaultdict(lambda: cycle(values))
    for names in named:
        yield [(name, each) for name in names for each in ([next(turns[name])] if readers[name] > SHARED else values)]


def answers_to_questions(pages: list[Any], read: dict[str, set[str]]) -> Iterator[tuple[str, HttpResponse]]:
    """Request each page with each of its parameters."""
    named = [names_asked(*page, read) for page in pages]
    for (client, path, _html), questions in zip(pages, with_values(named, VALUES), strict=True):
        for name, value in questions + questions_of_lists().get(path, []):
            address = asked_for(path, name, value)
            yield address, get(client, address)


def answers_to_forms(forms: Collection[Any], read: dict[str, set[str]]) -> Iterator[tuple[str, HttpResponse]]:
    """Send each form with each of its fields wrong."""
    named = [names_sent(*form, read) for form in forms]
    for (client, path, form), wrongs in zip(forms, with_values(named, POSTED), strict=True):
        for wrong, value in wrongs:
            others = urlencode({name: given for name, given in form.items() if name != wrong})
            body = f"{others}&{quote(wrong)}={value}"
            yield f"{path} {body}", post(client, path, body)


def said_of(answer: Any) -> str:
    return repr(answer.exc_info[1]) if answer.exc_info else str(answer.status_code)


@pytest.mark.parametrize("room", ["/account/", "/console/"])
def test_no_parameter_breaks_a_page(room: str, world: World, read: dict[str, set[str]]) -> None:
    clients = {person: world.client(person) for person in PEOPLE[room]}
    unreached, tried, wrong = set(), 0, {}
    pages: list[tuple[Client, str, str]] = []
    # By the view that it goes to: who is offered the form, the address, and the fields.
    forms: dict[str, tuple[Client, str, dict[str, str]]] = {}
    for address in PAGES:
        if address.route.startswith(room):
            if (found := somebody_at(address, clients)) is None:
                if get(next(iter(clients.values())), address.paths()[0]).status_code != 403:
                    unreached.add(address.name)
                continue
            client, path, html = found
            pages.append(found)
            for to, fields in [*forms_of(html, path, "post"), (path, {})]:
                _, _, known = forms.setdefault(resolve(urlsplit(to).path).route, (client, to, {}))
                known |= {name: value for name, value in fields.items() if name not in known}
    for address, answer in chain(answers_to_questions(pages, read), answers_to_forms(forms.values(), read)):
        tried += 1
        if answer.status_code >= 500:
            wrong[address] = said_of(answer)
    assert list(wrong.items())[:20] == []
    assert unreached <= UNREACHED
    assert tried > 300


# Where these people are redirected at once, or where none of them may be.
UNREACHED = {"login", "logout", "invitation", "account", "admin:autocomplete", "admin:view_on_site"}


def test_no_text_in_its_path_breaks_a_page(world: World) -> None:
    """Where only ids can stand, no view is reached, and one text is enough."""
    client, turns, wrong, tried = world.client("operator"), cycle(VALUES), {}, 0
    for page in (page for page in PAGES if page.parameters):
        takes_text = page.route.count("<") > page.route.count("<uuid:")
        for value in VALUES if takes_text else [next(turns)]:
            path = page.with_values(*[value] * len(page.parameters))
            for answer in (get(client, path), post(client, path)):
                tried += 1
                if answer.status_code >= 500:
                    wrong[path] = said_of(answer)
    assert tried > 200
    assert wrong == {}
