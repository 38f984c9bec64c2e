"""What a page says of a part of itself by its id is there: labels, hints, errors and titles that are read out."""

from html.parser import HTMLParser

import pytest

from tests.harness.world import World
from tests.pages.doors import pages_of

REFERENCES = ("for", "aria-describedby", "aria-labelledby", "aria-controls", "aria-owns", "list", "form")


class Ids(HTMLParser):
    """The ids of a page, and those that it refers to."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.named: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.ids.append(value)
            elif name in REFERENCES and value:
                self.named.update(value.split())


@pytest.mark.parametrize("person", ["stranger", "holder", "operator", "agent"])
def test_every_id_that_is_referred_to_is_there_once(person: str, world: World) -> None:
    wrong = {}
    for _name, path, answer in pages_of(world.client(person), person):
        found = Ids(answer.content.decode())
        twice = {each for each in found.ids if found.ids.count(each) > 1}
        if missing := twice | (found.named - set(found.ids)):
            wrong[path] = missing
    assert wrong == {}
