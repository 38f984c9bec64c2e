"""The places: the tables that we ship, read once, and the codes that stand for a place."""

import csv
import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import cache
from importlib import resources

MOST_SUGGESTIONS = 5


class NotFound(LookupError):
    """The text names no place for certain. `suggestions` has up to five places, nearest first.

    If it is exactly the name or code of communes of other wilayas, `elsewhere` has these, up to five, and there are no
    suggestions: of the two, the wilaya is wrong as often as the commune.
    """

    def __init__(
        self,
        message: str,
        suggestions: "tuple[Wilaya | Commune, ...]" = (),
        elsewhere: "tuple[Wilaya, ...]" = (),
    ):
        if suggestions:
            message += f" Did you mean {_either(suggestions)}?"
        elif elsewhere:
            message += f" It lies in {_either(elsewhere)}."
        super().__init__(message)
        self.suggestions = suggestions
        self.elsewhere = elsewhere


def _either(places: "tuple[Wilaya | Commune, ...]") -> str:
    *most, last = map(str, places)
    return f"{', '.join(most) + ' or ' if most else ''}{last}"


@dataclass(frozen=True, slots=True)
class Wilaya:
    code: str
    """Two digits, `01` to `69`."""
    name: str
    """In French, as the decree spells it."""
    name_ar: str
    other_names: tuple[str, ...] = field(default=(), repr=False, compare=False)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Commune:
    code: str
    """Four digits, from the ONS."""
    name: str
    name_ar: str
    wilaya: str
    """Code of its wilaya today (69 wilayas)."""
    wilaya_58: str
    """Code of its wilaya from 2019 to 2026 (58 wilayas)."""
    wilaya_48: str
    """Code of its wilaya before 2019 (48 wilayas)."""
    postal_code: str = field(default="", repr=False, compare=False)
    other_names: tuple[str, ...] = field(default=(), repr=False, compare=False)

    def __str__(self) -> str:
        return self.name

    @property
    def wilayas(self) -> frozenset[str]:
        """The codes of the wilayas it lies in, on any of the three maps."""
        return frozenset((self.wilaya, self.wilaya_58, self.wilaya_48))


def _rows(name: str) -> list[dict[str, str]]:
    table = resources.files(__package__).joinpath("data", name).read_text(encoding="utf-8")
    return list(csv.DictReader(table.splitlines()))


@cache
def _aliases() -> dict[str, list[str]]:
    aliases: dict[str, list[str]] = defaultdict(list)
    for row in _rows("aliases.csv"):
        aliases[row["code"]].extend(filter(None, row["names"].split("|")))
    return aliases


@cache
def wilayas() -> dict[str, Wilaya]:
    """All 69 by code."""
    return {
        row["code"]: Wilaya(row["code"], row["name_fr"], row["name_ar"], tuple(_aliases().get(row["code"], ())))
        for row in _rows("wilayas.csv")
    }


@cache
def communes() -> dict[str, Commune]:
    """All 1 541 by ONS code."""
    return {
        row["ons_code"]: Commune(
            row["ons_code"],
            row["name_fr"],
            row["name_ar"],
            row["wilaya"],
            row["wilaya_58"],
            row["wilaya_48"],
            row["postal_code"],
            tuple(
                filter(
                    None, [*row["alt_fr"].split("|"), *row["alt_ar"].split("|"), *_aliases().get(row["ons_code"], ())]
                )
            ),
        )
        for row in _rows("communes.csv")
    }


def place(code: str) -> Wilaya | Commune:
    """The wilaya (two digits) or commune (four) with this code."""
    return wilayas()[code] if len(code) == 2 else communes()[code]


def names(place: Wilaya | Commune) -> list[str]:
    """All that it is called, in both scripts."""
    return [place.name, place.name_ar, *place.other_names]


@cache
def communes_by_wilaya() -> dict[str, tuple[Commune, ...]]:
    """The communes of each wilaya on any of the three maps, by ONS code."""
    found: dict[str, list[Commune]] = defaultdict(list)
    for commune in communes().values():
        for code in commune.wilayas:
            found[code].append(commune)
    return {code: tuple(sorted(some, key=lambda commune: commune.code)) for code, some in found.items()}


@cache
def arabic_names() -> dict[str, str]:
    """The Arabic name by the French one, of wilayas and of communes whose namesakes are spelled alike in Arabic too."""
    names = {(commune.name, commune.name_ar) for commune in communes().values()}
    spellings = Counter(name for name, _ in names)
    alike = {name: name_ar for name, name_ar in names if spellings[name] == 1}
    return alike | {wilaya.name: wilaya.name_ar for wilaya in wilayas().values()}


@cache
def _ons_2021() -> dict[str, str]:
    return {row["ons_2021_code"]: row["ons_code"] for row in _rows("ons2021_codes.csv")}


def seat(wilaya: Wilaya) -> Commune | None:
    """The commune that bears the wilaya's name."""
    return communes().get(_seats().get(wilaya.code, ""))


@cache
def _seats() -> dict[str, str]:
    """Wilaya code → ONS code of its seat, which is commune number one in the wilayas of 1984.

    Alger has none: it is a wilaya of 57 communes, most of them city, so its name does not also name its centre.
    """
    seats = {f"{i:02}": f"{i:02}01" for i in range(1, 49) if i != 16}
    return seats | {row["code"]: row["ons_code"] for row in _rows("seats.csv")}


def answers_to(place: Wilaya | Commune) -> list[str]:
    """Its names, and for the seat of a wilaya also those of the wilaya, which may be spelled otherwise."""
    return [*names(place), *_names_of_seats().get(place.code, ())]


@cache
def _names_of_seats() -> dict[str, list[str]]:
    return {seat: names(wilayas()[code]) for code, seat in _seats().items()}


RENUMBERED = frozenset(map(str, range(59, 70)))
"""The codes of the wilayas of 2026. Other lists number these wilayas in another order."""


_WILAYA_CODE = re.compile(
    r"(?:(?:wilayah?|w\.?|(?:ال)?ولايه)(?:\s*:|\s+[-–—]\s)?)?\s*(?:n[°o]|رقم)?\s*(?:dz[\s_-]?)?0?(\d{1,2})"
)


def wilaya_by_code(text: str) -> Wilaya | None:
    """The wilaya of a code in clean text: `16`, `6`, `06`, `016`, `DZ-16`, `Wilaya 16`, `W16`, `N° 16`, `ولاية 16`."""
    match = _WILAYA_CODE.fullmatch(text)
    return wilayas().get(match[1].zfill(2)) if match else None


def commune_by_code(text: str) -> Commune | None:
    """The commune with a code such as `1601`, `101` for `0101`, `16001` for `1601`, or a number of 2021 in these forms.

    The numberings cannot collide: that of the ONS ends with wilaya 48, that of 2021 begins with 49. Postal codes have
    five digits too, and disagree with them. So only `WW0NN` is a code, and from `WW010` on only if it is not another
    commune's postal code: `16024` is that of Bab Ezzouar, and would be Hammamet (docs/regions.md has `16001` as a code,
    though it is also the Casbah's postal code).
    """
    if not text.isdigit() or not 3 <= len(text) <= 5:
        return None
    if len(text) == 5:
        found = commune_by_code(text[:2] + text[3:]) if text[2] == "0" else None
        others = [place for place in communes_by_postal_code(text) if place != found]
        return None if others and text[3] != "0" else found
    text = text.zfill(4)
    return communes().get(_ons_2021().get(text, text))


def communes_by_postal_code(text: str) -> tuple[Commune, ...]:
    """The communes with this postal code: often one, sometimes a few neighbours."""
    return _by_postal_code().get(text, ())


@cache
def _by_postal_code() -> dict[str, tuple[Commune, ...]]:
    found: dict[str, list[Commune]] = defaultdict(list)
    for place in communes().values():
        if place.postal_code:
            found[place.postal_code].append(place)
    return {code: tuple(some) for code, some in found.items()}
