"""What browsers, and programs that read pages out, make of them: nothing is said in vain."""

import re
from html.parser import HTMLParser

import pytest

from tests.harness.world import World
from tests.pages.doors import pages_of

REFERENCES = ("for", "aria-describedby", "aria-labelledby", "aria-controls", "aria-owns", "list", "form")
# A paragraph ends where one of these begins, so that it would be left without what it should hold.
BLOCKS = {"div", "dl", "fieldset", "form", "h1", "h2", "h3", "ol", "p", "pre", "section", "table", "ul"}
# Of HTML: a day, or a moment with at most three digits of a second. Another is none to who reads it.
TIME = re.compile(r"\d{4}-\d\d-\d\d(T\d\d:\d\d:\d\d(\.\d{1,3})?(Z|[+-]\d\d:?\d\d))?")


class Markup(HTMLParser):
    """The ids of a page, those that it refers to, and all else that is wrong in it."""

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
        for name, value in attrs:
            if name == "id" and value:
                self.ids.append(value)
            elif name in REFERENCES and value:
                self.named.update(value.split())
            elif name == "datetime" and not TIME.fullmatch(value or ""):
                self.wrong.add(f"datetime {value}")

    def handle_endtag(self, tag: str) -> None:
        self.is_paragraph &= tag != "p"


@pytest.mark.parametrize("person", ["stranger", "holder", "operator", "agent"])
def test_nothing_is_lost_of_a_page(person: str, world: World) -> None:
    """Every id that is referred to is there once: labels, hints, errors and titles that are read out; no attribute is
    there twice, of which the second is passed over; paragraphs hold what they should; times can be read."""
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
    ],
)
def test_what_is_lost_is_seen(planted: str) -> None:
    assert Markup(planted).wrong
