"""What merchants, customers, agents and receivers write is text on every page: none of it runs, none breaks a page."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.conf import settings
from django.db.models import JSONField
from django.template import engines
from django.template.base import Variable
from django.utils.html import escape

from codservice.accounts.actor import Actor
from orders import lifecycle
from tests.factories import make_order
from tests.harness.background import eventually
from tests.harness.browser import Visit
from tests.harness.world import ATTRIBUTES, MARKUP, World, inscribe, make_world
from tests.pages.doors import HISTORIES, PAGES, WITNESSES, pages_of


@pytest.fixture
def world(db: None, settings: Any) -> World:
    """A world of its own for each test, because some tests here commit."""
    settings.PAGE_RATE_LIMIT = 1_000_000
    return make_world()


# --- Names that others chose -----------------------------------------------------------------------------------------

METHODS_OF_DICTS = {name for name in dir(dict) if not name.startswith("_")}
JSON_FIELDS = {
    field.name for model in apps.get_models() for field in model._meta.fields if isinstance(field, JSONField)
}


def look_ups(source: str) -> list[tuple[str, ...]]:
    """Return the words between the dots of every variable in a template."""
    found: list[tuple[str, ...]] = []
    compiled = Variable.__init__

    def recorded(self: Variable, var: Any) -> None:
        compiled(self, var)
        found.append(self.lookups or ())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Variable, "__init__", recorded)
        engines["django"].from_string(source)
    return found


def risky(source: str) -> list[str]:
    """Return lookups that somebody else's key could answer: of a dict's method, and of anything in a JSON field."""
    return [
        ".".join(words)
        for words in look_ups(source)
        if METHODS_OF_DICTS & set(words[1:]) or JSON_FIELDS & set(words[:-1])
    ]


def test_no_template_looks_up_what_others_name() -> None:
    """Django takes a key before a method: `names.items` is what key `items` holds. The filter `pairs` takes no key."""
    folder = Path(settings.BASE_DIR, "templates")
    found = {str(path.relative_to(folder)): risky(path.read_text("utf-8")) for path in folder.rglob("*.*")}
    assert len(found) > 60
    assert {name: names for name, names in found.items() if names} == {}
    for planted in (
        "{% for a, b in item.attributes.items %}{% endfor %}",
        "{{ item.attributes.0|upper }}",
        "{% include 'x.html' with size=line.attributes.size %}",
        "{% if holders.keys %}{% endif %}",
    ):
        assert risky(planted), planted


@pytest.mark.parametrize(
    ("person", "name"),
    [
        ("agent", "admin:call"),
        ("agent", "admin:call_edit"),
        ("agent", "admin:orders_order_change"),
        ("holder", "account-order"),
    ],
)
def test_attributes_are_shown_whatever_they_are_called(person: str, name: str, world: World) -> None:
    client = world.client(person)
    (address,) = (address for address in PAGES if address.name == name)
    shown = [text for path in address.paths() if "x-y-z" in (text := client.get(path).content.decode())]
    assert shown
    assert all(f"<bdi>{key}</bdi>: <bdi>x-y-z</bdi>" in text for key in ATTRIBUTES for text in shown)


# --- Texts that would run --------------------------------------------------------------------------------------------

LINKS_THAT_RUN = "[...document.querySelectorAll('a, form')].map(e => e.href ?? e.action).filter(to => /^j/.test(to))"
ESCAPED_TWICE = "document.body.innerText.match(/.{0,20}&(?:lt|gt|quot|#x27);/g)"
# What no page shows.
NEVER_SHOWN = {
    "admin.LogEntry.object_repr",
    "uploads.RefusedRow.name",
    "webhooks.Event.request_id",
    "otp_totp.TOTPDevice.name",
    "uploads.Upload.actor",
}


# Ids, tokens of forms, times, amounts: all in which two pages differ that are alike.
NUMBERS = re.compile(r'[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?<=value=")\w{64}(?=")|\d+')
# Parts that pages refresh again and again, and that nobody looks at alone.
PARTS = {"account-upload-progress", "quick-start-progress", "admin:desk_now"}


def test_the_browser_tells_of_what_runs(visit: Callable[..., Visit], db: None) -> None:
    """Otherwise the test below could not fail."""
    person = visit()
    person.page.goto("/account/login")
    short = f"§123§{MARKUP}"[:62]  # as in the shortest fields
    in_quotes = short.replace("<", "&lt;").replace(">", "&gt;")
    for planted in (MARKUP, short, f'<input value="{in_quotes}">', f"<input value={escape(short)}>"):
        person.page.evaluate("text => document.body.insertAdjacentHTML('beforeend', text)", planted)
        eventually(lambda: person.page.wait_for_timeout(10) or person.wrongs)
        person.page.goto("/account/login")
        person.wrongs.clear()
    person.page.evaluate("document.body.insertAdjacentHTML('beforeend', '<a href=javascript:alert(1)//>')")
    assert person.page.evaluate(LINKS_THAT_RUN)


@pytest.mark.django_db(transaction=True)
def test_no_text_of_a_stranger_ever_runs(visit: Callable[..., Visit], db: None, settings: Any) -> None:
    """Puts a text into every field that somebody else fills, and visits every page, as everybody who sees it.

    Of pages that differ in numbers alone it visits the first. `visit` finds dialogs, requests to elsewhere and
    violations of the policy.
    """
    settings.PAGE_RATE_LIMIT = 1_000_000
    world = make_world()
    for number in range(3):  # the customer whom the agent calls has ordered before, and twice since
        order = make_order(world.charlie, phone="0550000000")
        if not number:
            lifecycle.cancel(order.id, actor=Actor.of_staff(world.supervisor), reason="Duplicate")
    signs = inscribe(MARKUP)
    shown, visited = set(), set()
    for person in WITNESSES[1:]:
        client = world.client(person)
        visitor = visit()
        visitor.signed_in_as(client)
        for _name, path, answer in pages_of(client, person):
            text_of_page = answer.content.decode()
            signs_of_page = frozenset(sign for sign in signs if sign in text_of_page)
            known = {(path, signs_of_page), (NUMBERS.sub("", text_of_page), signs_of_page)}
            if not known & visited:  # whoever holds a customer sees another page than others
                links, twice = visitor.look_at(path).evaluate(f"[{LINKS_THAT_RUN}, {ESCAPED_TWICE}]")
                assert links == [], path
                assert twice is None or path.endswith("/password/"), path  # Django's own heading
                shown |= signs_of_page
            visited |= known
    assert {signs[sign] for sign in signs.keys() - shown} == NEVER_SHOWN


@pytest.mark.django_db(transaction=True)
def test_no_word_makes_a_page_wider_or_turns_a_heading_around(
    visit: Callable[..., Visit], db: None, settings: Any
) -> None:
    """However long the word, everything else stays in sight, on a phone and on a desk. Others' marks of direction stay
    within what they wrote; a title has no room for `bdi`.

    Nor does a page that asks before it is left ask who has not touched it.
    """
    settings.PAGE_RATE_LIMIT = 1_000_000
    world = make_world()
    signs = inscribe("\u202e" + "x" * 400)
    widths = (360, 1366)
    visited, too_wide, turned, kept, watching, asking = set(), [], [], set(), set(), []
    for person in WITNESSES:
        client = world.client(person)
        visitor = visit()
        visitor.signed_in_as(client)
        # Histories only name people who work here.
        for name, path, answer in pages_of(client, person, PARTS | HISTORIES):
            text = answer.content.decode()
            headings = re.findall(r"<title>.*?</title>|<h1.*?</h1>", text, re.DOTALL)
            if "\u202e" in "".join(re.sub(r"<bdi.*?</bdi>", "", heading) for heading in headings):
                turned.append(path)
            kept |= {name} if "\u202e" in "".join(headings) else set()
            shown = (name, "unsent" in text, frozenset(sign for sign in signs if sign in text))
            if shown in visited:
                continue
            visited.add(shown)
            page = visitor.look_at(path)
            for width in widths:
                if page.viewport_size != (size := {"width": width, "height": 740}):
                    page.set_viewport_size(size)
                if (found := page.evaluate("document.documentElement.scrollWidth")) > width:
                    too_wide.append((path, width, found))
            widths = widths[::-1]  # the next page is opened at the width that is left, and widened or narrowed once
            if "unsent" in text:
                watching.add(name)
                if not page.evaluate("dispatchEvent(new Event('beforeunload', { cancelable: true }))"):
                    asking.append(path)
    assert len(visited) > 100
    assert too_wide == []
    assert turned == []
    assert len(kept) > 3
    assert len(watching) > 40
    assert asking == []
