"""Finds our columns in a file by its headings, in French, Arabic or English and however they are written."""

import re
import unicodedata
from collections.abc import Callable, Container, Sequence
from functools import cache
from itertools import zip_longest
from typing import Any, NamedTuple

from django.conf import settings
from django.utils.translation import override

_ARABIC = str.maketrans("أإآٱىة", "اااايه", "ـ")
_WORD = re.compile(r"[^\W_]+")
MOST_READ = 200  # characters of a heading, as many as are shown
# Between two names in one heading, as in `Commune / Ville` and `الولاية (Wilaya)`, or before its currency.
_PARTS = re.compile(r"[()\[\]/|\n]|\s[-–—]\s|\s(?:en\s)?(?=(?:DA|DZD|dinars?|دج|د\.ج|بالدينار)\.?\s*$)", re.IGNORECASE)
_CURRENCY = {"da", "dzd", "dinar", "dinars", "en da", "en dzd", "en dinars", "دج", "د ج", "دينار", "بالدينار"}
_ARTICLES = {"de", "du", "des", "d", "la", "le", "les", "l", "a", "of", "the"}


class Column(NamedTuple):
    """One of our columns: its translated `label`, and the `headings` that also mean it.

    `beside` are pairs: the first heading means this column if the file has the second one too. A `vague` heading means
    it only if no other heading of the file does; earlier ones win over later ones. `fits` recognises cells that only
    this column has, and `instead_of` names another, whose vague heading over such cells means this one. `constant`
    allows one text for all rows of a file without the column: it is the proposed one, which may be empty. `help`
    explains it, or else the column, to people. `rest_of` names the column whose rest this one holds: its `beside`
    headings do not count in a file that has that column under its own name.
    """

    name: str
    label: Any
    headings: tuple[str, ...] = ()
    beside: tuple[tuple[str, str], ...] = ()
    rest_of: str | None = None
    vague: tuple[str, ...] = ()
    fits: Callable[[str], Any] | None = None
    instead_of: str = ""
    constant: str | None = None
    help: Any = ""


def words(text: str) -> list[str]:
    """The words of a short text without case, accents, punctuation and Arabic's variant letters."""
    text = unicodedata.normalize("NFKD", text[:MOST_READ].casefold())
    text = "".join(sign for sign in text if not unicodedata.combining(sign) or sign in "\u0653\u0654\u0655")
    found = _WORD.findall(unicodedata.normalize("NFC", text).translate(_ARABIC))
    return [word.removeprefix("ال") for word in found]


def key(heading: str) -> str:
    """A key that is the same for all ways of writing a heading: its words without articles."""
    return " ".join(word for word in words(heading) if word not in _ARTICLES)


# What a form adds to a heading, usually in brackets: that a cell must be filled, or need not be.
_HINTS = {
    key(hint)
    for hint in (
        "obligatoire", "champ obligatoire", "requis", "requise", "facultatif", "facultative", "optionnel",
        "optionnelle", "si applicable", "required", "mandatory", "optional", "إجباري", "إجبارية", "إلزامي", "إلزامية",
        "مطلوب", "مطلوبة", "ضروري", "اختياري", "اختيارية",
    )
}  # fmt: skip


@cache
def _known(columns: tuple[Column, ...]) -> tuple[dict[str, str], dict[str, str], list[dict[str, str]]]:
    """Three kinds of lookup from a heading's key to a column's name: of listed headings; of labels; and a list of both
    together, then with the first vague heading of each column, then with the second too, and so on."""
    listed = [(heading, column.name) for column in columns for heading in (column.name, *column.headings)]
    labels = [(label, column.name) for column in columns for label in _in_all_languages(column.label)]
    listed_names, label_names = ({key(heading): name for heading, name in reversed(each)} for each in (listed, labels))
    vague = [label_names | listed_names]
    for headings in zip_longest(*(column.vague for column in columns)):
        more = {key(heading): column.name for heading, column in zip(headings, columns, strict=True) if heading}
        vague.append(more | vague[-1])
    return listed_names, label_names, vague


def _parts(heading: str) -> list[str]:
    """The keys of a heading's parts, without hints and the `en` before a currency."""
    keys = map(key, _PARTS.split(heading[:MOST_READ]))
    return [part for part in keys if part and part not in _HINTS]


def _in_parts(parts: Sequence[str], known: dict[str, str]) -> str:
    """The column that all parts of a heading mean, but for currencies. Empty if they do not all mean the same."""
    names = {known.get(part, "") for part in {*parts} - _CURRENCY}
    return names.pop() if len(names) == 1 else ""


def by_cells(
    found: dict[str, int], titles: Sequence[str], rows: Sequence[Sequence[str]], columns: tuple[Column, ...]
) -> dict[str, int]:
    """Correct the places of columns that `meant` found: cells can tell more than a vague or unknown heading.

    A column without a clear heading is placed where most cells of `rows` fit it, if there is only one such place that
    no other column has, or else where the column is that it may stand `instead_of`. That one is then where its next
    heading is. If the cells under a column's vague heading do not fit, it is not there. A column that is empty in
    `rows` gives way to its next heading over cells that are not, unless these may be another's that is `instead_of` it.
    """
    cells = [[row[place] for row in rows if place < len(row) and row[place]] for place in range(len(titles))]
    by_name = {column.name: column for column in columns}
    found = found | _filled_instead(found, titles, cells, columns)
    vague = {place for name, place in found.items() if _is_vague(titles[place], by_name[name])}
    for column in columns:
        place, fits = found.get(column.name), column.fits
        if not fits or (place is not None and place not in vague):
            continue
        fitting = {place for place, said in enumerate(cells) if len([*filter(fits, said)]) * 2 > len(said)}
        if place is None or (cells[place] and place not in fitting):
            found.pop(column.name, None)
            free, other = fitting - {*found.values()}, column.instead_of
            if len(free) == 1:  # of two phones one may be the deliverer's
                found[column.name] = free.pop()
            elif not free and found.get(other) in fitting & vague:
                place = found[column.name] = found.pop(other)
                rest = _meant_without({place}, titles, columns)
                if other in rest and (next_place := rest.index(other)) not in found.values():
                    found[other] = next_place
    return found


def _filled_instead(
    found: dict[str, int], titles: Sequence[str], cells: Sequence[Sequence[str]], columns: tuple[Column, ...]
) -> dict[str, int]:
    """The places of the next headings of columns that were found without any of their `cells`."""
    empty = {name: place for name, place in found.items() if not cells[place]}
    for column in columns:
        empty.pop(column.instead_of, None)
    rest = _meant_without({*empty.values()}, titles, columns) if empty else []
    taken = {*found.values()}
    return {name: place for place, name in enumerate(rest) if name in empty and cells[place] and place not in taken}


def _meant_without(places: Container[int], titles: Sequence[str], columns: tuple[Column, ...]) -> list[str]:
    return meant(["" if place in places else title for place, title in enumerate(titles)], columns)


def _is_vague(heading: str, column: Column) -> bool:
    vague = {*map(key, column.vague)}
    parts = _parts(heading)
    return " ".join(parts) in vague or {*parts} - _CURRENCY <= vague


def _in_all_languages(text: Any) -> list[str]:
    found = []
    for code, _ in settings.LANGUAGES:
        with override(code):
            found.append(str(text))
    return found


def meant(headings: Sequence[str], columns: tuple[Column, ...]) -> list[str]:
    """The name of the column that each heading means, or an empty string. No column is named twice.

    A column's own name wins over other headings, a listed heading over a label (`Stock` over `In stock?`), and then the
    left one over the right one. A heading with `#` is a number, so it never means a name: `Item #`. Next come headings
    whose parts all mean the same, such as `Prix (DA)` or `الولاية (Wilaya)`. Vague ones come last, such as `Montant`,
    which gives way to `Total` or `À encaisser`. Hints such as `(obligatoire)` do not count.
    """
    names = {column.name for column in columns}
    own = [name if (name := heading.strip().lower().replace(" ", "_")) in names else "" for heading in headings]
    parts = [_parts(heading) for heading in headings]
    keys = [" ".join(each) for each in parts]
    told = [column for column in columns if column.rest_of not in own]
    beside = {heading: column.name for column in told for heading, other in column.beside if other in keys}
    listed, labels, vague = _known(columns)
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
