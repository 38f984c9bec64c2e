"""What is wrong with a page is seen, and nothing is styled in vain. `test_doors.py` looks at every page."""

import re
from pathlib import Path

import django
import pytest

from tests.harness.processes import CHECKOUT
from tests.harness.source import ROOMS
from tests.pages.markup import Markup


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
