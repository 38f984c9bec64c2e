"""Finds the one wilaya or commune of Algeria that a form, a shop plugin, a courier or a customer meant.

    find_wilaya("Wilaya d'Alger")         -> Wilaya(code="16", name="Alger", name_ar="الجزائر")
    find_commune("Bordj el kifan", "16")  -> Commune(code="1630", name="Bordj El Kiffan", ...)
    find_wilaya("Milia")                  -> NotFound: "Milia" is not the code or name of a wilaya. ...

**Never a wrong guess.** A parcel sent to the wrong wilaya costs more than a question to the shop. Either a
text can mean only one place, or `NotFound` tells which ones it may mean. The rules that follow from this:

- An exact name or code is believed. Every looser reading (accents, articles, dj for j, ou for w, hamza seats,
  joined and split words: `spelling`) is believed only if it leaves one place of the wilaya.
- A misspelling is believed only if one name is near and no other is (`matching`). Words that hundreds of names
  begin with (Aïn, Sidi, Ouled) do not count, and short names must be right: Mila is never M'Sila, and no
  mistyped letter turns one commune into another.
- The name of a place elsewhere is never taken for a misspelling of a place here.
- What is written around a name ("Commune de", "centre ville", the wilaya, the country) is set aside, but must
  agree: "31 - Alger" is nothing. A number of five digits beside a name is a postal code, which only tells the
  wilaya; so is `9000` for `09000`, whose zero a spreadsheet has cut. Other lists number the wilayas of 2026
  differently, so beside the name of one of them any code from 59 to 69 agrees ("59 - Barika").
- Five digits alone are a commune code (`16001` for `1601`) or nothing: postal codes look alike and disagree.
  If they are the postal code of another commune, that one is suggested (`16024`: Bab Ezzouar).
- A commune is found under the wilaya it lies in on any of the maps of 69, 58 and 48 wilayas: shops and
  couriers use all three.

Uses no Django (except in `views` and `urls`) and no query. The tables are read at the first use, in 20 ms. Indexes are
built for texts that are neither a code nor an exact name, in 10 ms for each wilaya and 100 ms once. After that an exact
name or code costs a dictionary lookup, another spelling 20 to 200 µs, a misspelling or a refusal 1 to 4 ms.
`data/README.md` says where the tables come from.
"""

import re
from contextlib import suppress
from functools import lru_cache

from orders.regions import gazetteer, resolve, typeahead
from orders.regions.gazetteer import Commune, NotFound, Wilaya

__all__ = [
    "COMMUNES",
    "WILAYAS",
    "Commune",
    "NotFound",
    "Wilaya",
    "commune",
    "communes_of",
    "find_both",
    "find_commune",
    "find_wilaya",
    "typeahead",
    "wilaya",
]

WILAYAS: tuple[Wilaya, ...]
"""All 69, sorted by code. Read at the first use."""
COMMUNES: tuple[Commune, ...]
"""All 1 541, sorted by code. Read at the first use."""

_BETWEEN_PLACES = (re.compile(r"[/,،;|()\n]"), re.compile(r"\s[-–—]\s"))  # the first that splits a text in two is used


def __getattr__(name: str):
    if name == "WILAYAS":
        return tuple(gazetteer.wilayas().values())
    if name == "COMMUNES":
        return tuple(gazetteer.communes().values())
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def wilaya(code: str) -> Wilaya:
    """The wilaya with exactly this two-digit code (`"06"`). Raises `NotFound`."""
    if (found := gazetteer.wilayas().get(code)) is None:
        raise NotFound(f"There is no wilaya with the code {code!r}.")
    return found


def commune(code: str) -> Commune:
    """The commune with exactly this four-digit ONS code (`"0601"`). Raises `NotFound`."""
    if (found := gazetteer.communes().get(code)) is None:
        raise NotFound(f"There is no commune with the code {code!r}.")
    return found


def communes_of(wilaya_code: str) -> tuple[Commune, ...]:
    """The communes of a wilaya on any of the three maps, by ONS code. Raises `NotFound`.

    The communes it has today are those with `commune.wilaya == wilaya_code`.
    """
    return gazetteer.communes_by_wilaya()[wilaya(wilaya_code).code]


def find_wilaya(text: str) -> Wilaya:
    """The wilaya that `text` means.

    It may be a code (`"16"`, `"6"`, `"016"`, `"DZ-16"`, `"Wilaya 16"`, `"١٦"`, `"16 - Alger"`) or a name in French,
    Arabic or any usual spelling, with one of its postal codes or without (`"16000 Alger"`). Raises `NotFound` for
    anything else.
    """
    return resolve.wilayas().find(text)


def find_commune(text: str, wilaya_code: str) -> Commune:
    """The commune of a wilaya that `text` means.

    It may be a code (`"1601"`, `"101"` for `"0101"`, `"16001"`, the codes of 2021) or a name in French, Arabic or any
    usual spelling. `wilaya_code` is the canonical code (`find_wilaya(...).code`); the commune must lie in that wilaya
    on one of the three maps. Raises `NotFound` for anything else.
    """
    return resolve.communes_of(wilaya(wilaya_code).code).find(text)


def find_both(text: str) -> tuple[Wilaya, Commune] | None:
    """The wilaya and its commune in one text, in either order: `Alger / Bab Ezzouar`, `Barika (Batna)`.

    None for a wilaya alone, and unless one sign separates the two and there is only one way to read them."""
    return _find_both(text) if len(text) <= resolve.LONGEST_TEXT else None


@lru_cache(4096)  # only of short texts: a cell of a file may have a megabyte
def _find_both(text: str) -> tuple[Wilaya, Commune] | None:
    ways = ([part for each in sign.split(text) if (part := each.strip())] for sign in _BETWEEN_PLACES)
    parts = next((parts for parts in ways if len(parts) == 2), None)
    if parts is None:
        return None
    with suppress(NotFound):
        find_wilaya(text)
        return None
    found = set()
    for around, inside in (parts, parts[::-1]):
        with suppress(NotFound):
            named = find_wilaya(around)
            found.add((named, find_commune(inside, named.code)))
    return found.pop() if len(found) == 1 else None
