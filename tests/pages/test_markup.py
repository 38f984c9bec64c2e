"""What browsers, and programs that read pages aloud, make of them: nothing is said in vain."""

import re
from html.parser import HTMLParser
from pathlib import Path

import django
import pytest

from tests.harness.processes import CHECKOUT
from tests.harness.source import ROOMS
from tests.harness.world import World
from tests.pages.doors import pages_of

REFERENCES = ("for", "aria-describedby", "aria-labelledby", "aria-controls", "aria-owns", "list", "form")
# A paragraph ends where one of these begins, and would lack what it should hold.
BLOCKS = {"div", "dl", "fieldset", "form", "h1", "h2", "h3", "ol", "p", "pre", "section", "table", "ul"}
# HTML's format: a day, or a moment with at most three digits of a second. Readers ignore any other.
TIME = re.compile(r"\d{4}-\d\d-\d\d(T\d\d:\d\d:\d\d(\.\d{1,3})?(Z|[+-]\d\d:?\d\d))?")

SHOWN = ("id_seen", "id_expected_quantity")  # hidden inputs of forms that change what exists: what was shown of it

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Markup(HTMLParser):
    """The ids of a page, those that it refers to, and everything else that is wrong in it."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.named: set[str] = set()
        self.wrong: set[str] = set()
        self.is_paragraph = False
        self.feed(page)
        self.wrong |= {each for each in self.ids if self.ids.count(each) > 1}
        self.wrong |= self.named - set(self.ids)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self.is_paragraph and tag in BLOCKS:
            self.wrong.add(f"<p> <{tag}>")
        self.is_paragraph |= tag == "p"
        if len(attrs) > len(dict(attrs)):
            self.wrong.add(self.get_starttag_text() or "")
        given = dict(attrs)
        is_row = given.get("type") in ("checkbox", "radio") and UUID.match(given.get("value") or "")
        if is_row and given.get("autocomplete") != "off":  # going back would choose what is in its place by now
            self.wrong.add(self.get_starttag_text() or "")
        if tag == "form":
            self.form = given
        if given.get("id") in SHOWN and self.form.get("autocomplete") != "off":  # or change what others have since
            self.wrong.add(self.get_starttag_text() or "")
        for name, value in attrs:
            if name == "id" and value:
                self.ids.append(value)
            elif name in REFERENCES and value:
                self.named.update(value.split())
            elif name == "datetime" and not TIME.fullmatch(value or ""):
                self.wrong.add(f"datetime {value}")

    def handle_data(self, data: str) -> None:
        if data.strip() in ("None", "True", "False"):  # what a template makes of Python's values
            self.wrong.add(data)

    def handle_endtag(self, tag: str) -> None:
        self.is_paragraph &= tag != "p"


@pytest.mark.parametrize("person", ["stranger", "holder", "operator", "agent"])
def test_nothing_is_lost_of_a_page(person: str, world: World) -> None:
    """Every id that is referred to (by labels, hints, errors, titles that are read out) exists once. No attribute is
    repeated, since the second would be ignored. Paragraphs hold what they should; times can be read. No value of
    Python's stands in a page's text. On the way back, no browser chooses other rows than the person did, or restores
    values that others have changed since.
    """
    pages = {path: Markup(answer.content.decode()) for _, path, answer in pages_of(world.client(person), person)}
    assert {path: page.wrong for path, page in pages.items() if page.wrong} == {}
    assert sum(bool(page.named) for page in pages.values()) > 3


@pytest.mark.parametrize(
    "planted",
    [
        "<a id=x></a><a id=x></a>",
        "<label for=x></label>",
        '<input type="text" dir="ltr" type="tel">',
        "<p><ul></ul></p>",
        '<time datetime="2026-11-27T13:42:11.697856+01:00"></time>',
        '<input type="checkbox" value="01a222da-ee45-70f8-80f7-72aed289f2f5">',
        '<form><input type="hidden" name="seen" value="x" id="id_seen"></form>',
        "<form>None<input></form>",
    ],
)
def test_what_is_lost_is_seen(planted: str) -> None:
    assert Markup(planted).wrong


def test_nothing_is_styled_in_vain() -> None:
    """A stylesheet's classes and ids are, or begin ones, in a page, script or module; its custom properties are
    used.
    """
    ours = [path for room in (*ROOMS, "templates") for path in (CHECKOUT / room).rglob("*.*")]
    pages = "\n".join(path.read_text() for path in ours if path.suffix in (".html", ".js", ".py"))
    words = set(re.findall(r"[\w-]+", pages))
    sheets = {path: re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S) for path in ours if path.suffix == ".css"}
    theme = Path(django.__path__[0], "contrib/admin/static/admin/css").glob("*.css")
    read = {"agents": "\n".join(path.read_text() for path in theme)}  # what a room's sheets read
    for path, sheet in sheets.items():
        read[path.parent.name] = read.get(path.parent.name, "") + sheet
    read["accounts"] += read["docs"]  # its pages have both
    vain = set()
    for path, sheet in sheets.items():
        vain |= {name for name in re.findall(r"(--[\w-]+):", sheet) if f"var({name})" not in read[path.parent.name]}
        names = {
            name
            for selector in re.findall(r"[^{}]+(?=\{)", sheet)
            for name in re.findall(r"[.#]([a-z][\w-]*)", selector)
        }
        vain |= {name for name in names - words if f"{name.rpartition('-')[0]}-" not in words}
    assert vain == set()
