"""Which column of a file is which of ours: its heading in French, Arabic or English, however it is written."""

import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import cache
from itertools import zip_longest
from typing import Any, NamedTuple

from django.conf import settings
from django.utils.translation import override

_ARABIC = str.maketrans("أإآٱىة", "اااايه", "ـ")
_WORD = re.compile(r"[^\W_]+")
_MOST_READ = 200  # characters of a heading, as many as are shown
# Between what one heading says twice, as in `Commune / Ville` and `الولاية (Wilaya)`, or before what it counts in.
_PARTS = re.compile(r"[()\[\]/|\n]|\s[-–—]\s|\s(?=(?:DA|DZD|دج|د\.ج)\.?\s*$)", re.IGNORECASE)
_CURRENCY = {"da", "dzd", "dinar", "dinars", "دج", "د ج", "دينار"}
_ARTICLES = {"de", "du", "des", "d", "la", "le", "les", "l", "a", "of", "the"}


class Column(NamedTuple):
    """A column of ours: what people call it (`label`, translated), and which headings mean it besides.

    A heading of `beside` means it where the file has the other one too, and one of `vague` where no other of the file's
    does: an earlier one before a later one. Where its cells are like no others, `fits` knows them. A file without it
    may have one text for all its rows, where `constant` is the one that is proposed, which may be empty, and `help`
    what people are told of it. What is the `rest_of` another has no headings where that has its own name.
    """

    name: str
    label: Any
    headings: tuple[str, ...] = ()
    beside: tuple[tuple[str, str], ...] = ()
    rest_of: str | None = None
    vague: tuple[str, ...] = ()
    fits: Callable[[str], Any] | None = None
    constant: str | None = None
    help: Any = ""


def words(text: str) -> list[str]:
    """The words of a short text, the same for all ways of writing them: without case, accents and punctuation."""
    text = unicodedata.normalize("NFKD", text[:_MOST_READ].casefold())
    text = "".join(sign for sign in text if not unicodedata.combining(sign) or sign in "\u0653\u0654\u0655")
    found = _WORD.findall(unicodedata.normalize("NFC", text).translate(_ARABIC))
    return [word.removeprefix("ال") for word in found]


def key(heading: str) -> str:
    """A key that is the same for all ways of writing a heading: of its words without articles."""
    return " ".join(word for word in words(heading) if word not in _ARTICLES)


@cache
def _known(columns: tuple[Column, ...]) -> tuple[dict[str, str], dict[str, str], list[dict[str, str]]]:
    """The name of the column that a heading means, by the heading's key: of what is listed, of labels, and of both with
    the first vague heading of each column, then with the second too, and so on."""
    listed = [(heading, column.name) for column in columns for heading in (column.name, *column.headings)]
    labels = [(label, column.name) for column in columns for label in _in_all_languages(column.label)]
    listed_names, label_names = ({key(heading): name for heading, name in reversed(each)} for each in (listed, labels))
    vague = [label_names | listed_names]
    for headings in zip_longest(*(column.vague for column in columns)):
        more = {key(heading): column.name for heading, column in zip(headings, columns, strict=True) if heading}
        vague.append(more | vague[-1])
    return listed_names, label_names, vague


def _parts(heading: str) -> set[str]:
    """The keys of the parts of a heading, currencies aside."""
    return {key(part) for part in _PARTS.split(heading[:_MOST_READ])} - {""} - _CURRENCY


def _in_parts(parts: set[str], known: dict[str, str]) -> str:
    """The column that each part of a heading means; empty where they do not all mean the same."""
    names = {known.get(part, "") for part in parts}
    return names.pop() if len(names) == 1 else ""


def by_cells(
    found: dict[str, int], titles: Sequence[str], rows: Sequence[Sequence[str]], columns: tuple[Column, ...]
) -> dict[str, int]:
    """The places of columns, as `meant` has found them, where cells may say more than a vague heading, or one unknown.

    Such a column is where most cells of `rows` fit, if there is but one, and nowhere where those of its heading do not.
    """
    found = dict(found)
    cells = [[row[place] for row in rows if place < len(row) and row[place]] for place in range(len(titles))]
    for column in columns:
        place, fits = found.get(column.name), column.fits
        if not fits or (place is not None and not _is_vague(titles[place], column)):
            continue
        fitting = {place for place, said in enumerate(cells) if len([*filter(fits, said)]) * 2 > len(said)}
        if place is None or (cells[place] and place not in fitting):
            found.pop(column.name, None)
            free = fitting - {*found.values()}
            if len(free) == 1:  # of two phones one may be the deliverer's
                found[column.name] = free.pop()
    return found


def _is_vague(heading: str, column: Column) -> bool:
    vague = {*map(key, column.vague)}
    return key(heading) in vague or _parts(heading) <= vague


def _in_all_languages(text: Any) -> list[str]:
    found = []
    for code, _ in settings.LANGUAGES:
        with override(code):
            found.append(str(text))
    return found


def meant(headings: Sequence[str], columns: tuple[Column, ...]) -> list[str]:
    """For each heading the name of the column that it means, empty when it means none; no column twice.

    A column's own name comes before what usually means it, what is listed before a label (`Stock` before `In stock?`),
    and then a heading on the left before one on the right. What has a `#` is a number, and so no name: `Item #`.
    Then come headings of several parts, such as `Prix (DA)` or `الولاية (Wilaya)`, each of which means the same, and
    last what is vague, such as `Montant`, beside which `Total` or `À encaisser` is meant.
    """
    names = {column.name for column in columns}
    own = [name if (name := heading.strip().lower().replace(" ", "_")) in names else "" for heading in headings]
    keys = [key(heading) for heading in headings]
    told = [column for column in columns if column.rest_of not in own]
    beside = {heading: column.name for column in told for heading, other in column.beside if other in keys}
    listed, labels, vague = _known(columns)
    parts = [_parts(heading) for heading in headings]
    ways = [own, *([each.get(key, "") for key in keys] for each in (beside, listed, labels))]
    for each in vague:
        ways += [[each.get(key, "") for key in keys], [_in_parts(part, each) for part in parts]]
    found = [""] * len(headings)
    for known in ways:
        for place, heading in enumerate(headings):
            name = known[place]
            is_no_name = "#" in heading and name.endswith("name")
            if not found[place] and name not in found and not is_no_name:
                found[place] = name
    return found
