"""What browsers, and programs that read pages aloud, make of a page: nothing is said in vain."""

import re
from html.parser import HTMLParser

REFERENCES = ("for", "aria-describedby", "aria-labelledby", "aria-controls", "aria-owns", "list", "form")
# A paragraph ends where one of these begins, and would lack what it should hold.
BLOCKS = {"div", "dl", "fieldset", "form", "h1", "h2", "h3", "ol", "p", "pre", "section", "table", "ul"}
# HTML's format: a day, or a moment with at most three digits of a second. Readers ignore any other.
TIME = re.compile(r"\d{4}-\d\d-\d\d(T\d\d:\d\d:\d\d(\.\d{1,3})?(Z|[+-]\d\d:?\d\d))?")

SHOWN = ("id_seen", "id_expected_quantity")  # hidden inputs of forms that change what exists: what was shown of it

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Markup(HTMLParser):
    """The ids of a page, those that it refers to, and everything else that is `wrong` in it.

    Every id that is referred to (by labels, hints, errors, titles that are read out) exists once. No attribute is
    repeated, since the second would be ignored. Paragraphs hold what they should; times can be read. No value of
    Python's stands in a page's text. On the way back, no browser chooses other rows than the person did, or restores
    values that others have changed since.
    """

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
