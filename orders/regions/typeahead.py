"""Places by what somebody has typed so far, in either script. A person chooses from them; nothing is guessed."""

from collections.abc import Iterable
from functools import cache
from typing import TypeVar

from orders.regions import gazetteer, spelling
from orders.regions.gazetteer import Commune, Wilaya

Place = TypeVar("Place", Wilaya, Commune)


def wilayas(typed: str, most: int) -> list[Wilaya]:
    """The wilayas whose code or name begins with `typed`, then those whose name contains it, however it is spelled."""
    return _search(gazetteer.wilayas().values(), typed, most)


def communes(typed: str, wilaya_code: str, most: int) -> list[Commune]:
    """The same for the communes that the wilaya has today; empty if there is no such wilaya."""
    around = gazetteer.communes_by_wilaya().get(wilaya_code, ())
    return _search([place for place in around if place.wilaya == wilaya_code], typed, most)


def _search(places: Iterable[Place], typed: str, most: int) -> list[Place]:
    keys = [key for key in _keys(typed) if key]
    found = []
    for place in places:
        ranks = [_rank(place, key, name) for key in keys for name in _names(place.code)]
        if not keys or min(ranks) < 2:
            found.append((min(ranks, default=0), place.code, place))
    return [place for _rank, _code, place in sorted(found, key=lambda row: row[:2])[:most]]


def _rank(place: Place, key: str, name: str) -> int:
    """0 if the code or name begins with the key, 1 if the name contains it, otherwise 2."""
    if name.startswith(key) or place.code.lstrip("0").startswith(key) or place.code.startswith(key):
        return 0
    return 1 if key in name else 2


@cache
def _names(code: str) -> frozenset[str]:
    return frozenset(key for name in gazetteer.answers_to(gazetteer.place(code)) for key in _keys(name))


def _keys(text: str) -> tuple[str, str]:
    """The letters alone, and what they sound like; nothing for a single sound, because every name contains it."""
    words = spelling.tokens(spelling.clean(text))
    if not words:
        return "", ""
    spelled = spelling.spell([word for word in words if spelling.is_arabic(word) == spelling.is_arabic(words[0])])
    return spelled.plain, spelled.sounded if len(spelled.sounded) > 1 else ""
