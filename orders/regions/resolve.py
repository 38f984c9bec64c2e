"""Reads what a form, a courier or a customer wrote around a name, and asks the index for the name."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Set
from functools import cache, cached_property
from itertools import chain
from typing import Generic, TypeVar

from orders.regions import gazetteer
from orders.regions.gazetteer import Commune, NotFound, Wilaya
from orders.regions.matching import Ambiguous, Index
from orders.regions.spelling import CHAT_DIGITS, clean, is_arabic, is_foreign, spell, tokens

Place = TypeVar("Place", bound=Wilaya | Commune)

LONGEST_TEXT = 255
MOST_WORDS = 16
"""The longest name has five; with "Wilaya de ... - Commune de ... (...)" around it, it still has fewer than this."""

# --- What is written around a name -----------------------------------------------------------------------------------


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_BEFORE = _set("""
    wilaya wilayat willaya wilayah welaya wilayas province prov wil state region commune communes cne baladia
    baladiya baladiyat baladiyah baladyia baladya baladiat apc daira dairat ville city municipality
    municipalite town centre center chef lieu mairie
    ولايه ولايت بلديه دايره مدينه مقاطعه وسط مركز مقر
""")
_AFTER = _set("""
    wilaya wilayat willaya wilayah province state commune baladia baladiya daira ville vile city municipality
    town centre center cent ctr centreville chef lieu cheflieu apc deleguee
    منتدبه ولايه بلديه دايره مدينه المدينه وسط الوسط مركز المركز سنتر فيل
""")
_JOINS = _set("de du des d of la l the")
_COUNTRY = frozenset(("algerie", "algeria", "dz", "dza", "الجزاير"))
_STRONG = re.compile(r"[,;:/|()\[\]{}<>\n\t\"«»=+*&]+|\s[-–—_]+\s|\.\s|\.$")
_WEAK = re.compile(r"[-–—_\s]*[-–—_]+[-–—_\s]*")
_OF = re.compile(r"\b(d|l)'(?=[^\W\d])")
# A number on its own ("W. 16", but not the chat spelling "w7ran"), before a name ("16Alger") or at its end ("Alger16").
_NUMBER = re.compile(r"(?:^|(?<=[\W_]))(?:dz[\s_-]?|w[\s.]*(?=\d+(?!\w)))?(\d{1,5})(?!\d)|(?<=[^\W\d])(\d{2,5})$")

# A wilaya's postal code without the zero that spreadsheets cut: no commune's code ends like that.
_CUT = re.compile(r"[1-9]000")


def _unwrapped(words: list[str]) -> list[str]:
    """`words` without "wilaya de", "commune d'", "centre ville"...; empty if nothing else is there."""
    words = list(words)
    bare = [word.rstrip(".") for word in words]
    while bare and bare[0] in _BEFORE:
        del bare[0], words[0]
        while len(bare) > 1 and bare[0] in _JOINS:
            del bare[0], words[0]
    while bare and (bare[-1] in _AFTER or (len(bare) > 1 and bare[-1] in _COUNTRY - {"الجزاير"})):
        del bare[-1], words[-1]
    return words


class _Text:
    """A cleaned text split into the numbers and the names in it."""

    def __init__(self, cleaned: str):
        self.is_foreign = is_foreign(cleaned)
        self.numbers: list[str] = []
        self.whole = tokens(cleaned)

        def number(match: re.Match) -> str:
            digits = match[1] or match[2]
            self.numbers.append(f"0{digits}" if _CUT.fullmatch(digits) else digits)
            return " , "

        unnumbered = _NUMBER.sub(number, cleaned) if any(c.isdigit() for c in cleaned) else cleaned
        self._named = _OF.sub(r"\1 ", unnumbered)
        # Elisions are words of their own in names, but not in the whole.
        self.is_long = max(len(self.whole), len(tokens(self._named))) > MOST_WORDS

    def names(self, *separators: re.Pattern) -> list[list[str]]:
        """The names between the separators, each as tokens of one script, without what is written around a name."""
        parts = [self._named]
        for separator in separators:
            parts = [piece for part in parts for piece in separator.split(part)]
        found = []
        for part in parts:
            words = tokens(part)
            for arabic in (False, True):
                some = _unwrapped([word for word in words if is_arabic(word) == arabic])
                if some and some not in found:
                    found.append(some)
        return found

    def readings(self) -> list[list[list[str]]]:
        """The names in it, split more and more. A further split that finds no others is left out."""
        # _STRONG twice: after the first split, a full stop that was before another separator ends a part.
        splits = [self.names(), self.names(_STRONG, _STRONG), self.names(_STRONG, _WEAK)]
        return [names for number, names in enumerate(splits) if names not in splits[:number]]


# --- Names ------------------------------------------------------------------------------------------------------------


def _spellings(names: Iterable[str]) -> list[list[str]]:
    """The tokens of each name, also with c for ç, which is often typed so."""
    found = []
    for name in names:
        found += [words for form in {name, name.replace("ç", "c")} if (words := tokens(clean(form)))]
    return found


@cache
def _wilaya_names() -> frozenset[str]:
    """The strictest key of every name of a wilaya."""
    names = [words for place in gazetteer.wilayas().values() for words in _spellings(gazetteer.names(place))]
    return frozenset(spell(words).plain for words in names)


@cache
def _everywhere() -> dict[str, set[str]]:
    """The strict and the bare key of every name → the codes of the places with this name."""
    keys: dict[str, set[str]] = {}
    places: list[Wilaya | Commune] = [*gazetteer.wilayas().values(), *gazetteer.communes().values()]
    for place in places:
        for words in _spellings(gazetteer.names(place)):
            spelling = spell(words)
            keys.setdefault(spelling.plain, set()).add(place.code)
            keys.setdefault(spelling.bare, set()).add(place.code)
    return keys


def _is_elsewhere(words: list[str], place: Wilaya | Commune) -> bool:
    """Whether this is the name of another place that is no namesake of `place`.

    Namesakes share a name in French and one in Arabic: "Sidi Abderrahmane" of one wilaya may be spelled
    like that of another, but "El Milia" is no misspelled "Mila".
    """
    spelling, known = spell(words), _everywhere()
    named = known.get(spelling.plain) or known.get(spelling.bare)
    if not named or place.code in named:
        return False
    return not any(_are_namesakes(code, place) for code in named)


def _are_namesakes(code: str, place: Wilaya | Commune) -> bool:
    one, other = _bare_names(gazetteer.place(code)), _bare_names(place)
    return all(mine & theirs for mine, theirs in zip(one, other, strict=True))


def _bare_names(place: Wilaya | Commune) -> tuple[set[str], set[str]]:
    names: tuple[set[str], set[str]] = (set(), set())
    for words in _spellings(gazetteer.names(place)):
        names[is_arabic(words[0])].add(spell(words).bare)
    return names


# --- Finding ---------------------------------------------------------------------------------------------------------


class Candidates(ABC, Generic[Place]):
    """The places that a text may mean. `around` is the wilaya in which they lie, unless they are wilayas themselves."""

    def __init__(self, kind: str, places: Iterable[Place], around: Wilaya | None = None):
        self.kind = kind
        self.places: tuple[Place, ...] = tuple(places)
        self.around = around
        self.seat = gazetteer.seat(around) if around else None

    @abstractmethod
    def by_code(self, text: str) -> Place | None:
        """The place with this code."""

    @abstractmethod
    def belongs(self, place: Place, number: str) -> bool:
        """Whether a number beside the place's name agrees with it."""

    @abstractmethod
    def alternatives(self, cleaned: str) -> list[Place]:
        """The places that may be meant by a text that is none's code or name, the likeliest first."""

    @cached_property
    def exact(self) -> dict[str, Place]:
        """The places by code and by exact name."""
        table: dict[str, Place | None] = {}
        for place in self.places:
            for text in (place.code, *gazetteer.names(place)):
                table[text] = place if table.get(text, place) == place else None
        return {text: place for text, place in table.items() if place}

    @cached_property
    def index(self) -> Index[Place]:
        return Index(((place, _spellings(gazetteer.answers_to(place))) for place in self.places), _is_elsewhere)

    def find(self, text: str) -> Place:
        """The place that `text` stands for. Raises `NotFound`."""
        if found := self.exact.get(text):
            return found
        # Cleaned, it may be longer: one ligature can stand for 18 letters.
        if not text.strip() or len(text) > LONGEST_TEXT or len(cleaned := clean(text)) > LONGEST_TEXT:
            raise NotFound(f"{_shown(text)} is not the code or name of {self.kind}.")
        try:
            place = self.by_code(_code(cleaned)) or self._by_name(text, cleaned)
        except Ambiguous as several:
            near = _suggested(several.places)
            raise NotFound(f"{_shown(text)} may be more than one name of {self.kind}.", near) from None
        if place is None:
            elsewhere = _wilayas_with(cleaned) if self.around else ()
            near = () if elsewhere else _suggested(self.alternatives(cleaned))
            raise NotFound(f"{_shown(text)} is not the code or name of {self.kind}.", near, elsewhere)
        return place

    def _by_name(self, text: str, cleaned: str) -> Place | None:
        parsed = _Text(cleaned)
        if parsed.is_foreign or parsed.is_long or all(word.isdigit() for word in parsed.whole):
            return None
        return self._as_one_name(parsed, text) or self._as_parts(parsed)

    def _as_one_name(self, parsed: _Text, text: str) -> Place | None:
        """The place whose name is the whole text.

        Digits in it may be chat letters. Two together are a code all the same ("Oran22").
        """
        if parsed.numbers and not any(char in CHAT_DIGITS for char in text):
            return None
        if len({is_arabic(word) for word in parsed.whole}) != 1:
            return None
        codes = [number for number in parsed.numbers if len(number) > 1]
        place = self.index.by_key(parsed.whole)
        if place is None and codes:  # beside it: "3in Defla 44", "3in Mlila 4000"
            words = [word for word in parsed.whole if word not in codes and f"0{word}" not in codes]
            place = self.index.by_key(words) if words else None
        return place if place and all(self.belongs(place, code) for code in codes) else None

    def _as_parts(self, parsed: _Text) -> Place | None:
        """The one place that the text names, once or several times."""
        readings = parsed.readings()
        found = (self._united(names, one) for one in (self.index.by_key, self._by_key_or_nearest) for names in readings)
        place = next((place for place in found if place), None)
        if place is None and self.around:  # as a commune with its wilaya directly before or after it
            place = self._united([self._without_wilaya(words) for words in readings[0]], self.index.by_key)
        return place if place and all(self.belongs(place, number) for number in parsed.numbers) else None

    def _by_key_or_nearest(self, words: list[str]) -> Place | None:
        return self.index.by_key(words) or self.index.nearest(words)

    def _united(self, names: list[list[str]], find_one: Callable[[list[str]], Place | None]) -> Place | None:
        """The one place that all the names stand for, except those that only name its wilaya or the country.

        If all of them name wilayas around ("Barika, Batna" under Batna), it is the one that is not the seat.
        """
        found, are_around = [], False
        for words in names:
            if len(names) > 1 and ((words[-1] in _COUNTRY and len(words) == 1) or self._are_around(words)):
                are_around = True
                continue
            place = find_one(words)
            if place is None:
                return None
            if place not in found:
                found.append(place)
        if not found and are_around and self.around:
            places = dict.fromkeys(place for words in names if (place := find_one(words)))
            found = [place for place in places if place != self.seat] or list(places)
        if len(found) > 1:
            raise Ambiguous(found)
        return found[0] if found else None

    def _are_around(self, words: list[str]) -> bool:
        """Whether `words` name the wilaya around, or one that shares a commune with it on some map."""
        if self.around is None:
            return False
        if words[0].rstrip(".") == "w":  # short for wilaya here; elsewhere perhaps for Oued
            words = words[1:] or words
        try:
            found = wilayas().index.by_key(words)
        except Ambiguous:
            return False
        communes = gazetteer.communes_by_wilaya()[self.around.code]
        return found is not None and any(found.code in place.wilayas for place in communes)

    def _without_wilaya(self, words: list[str]) -> list[str]:
        """`words` without the name of the wilaya at the beginning or end: "Alger Bab Ezzouar".

        Of "Barika Batna" under Batna that leaves Barika: the seat is left only if no other commune is.
        Nothing is removed if all the words together name a place elsewhere: "Oued El Djemaa" is not Djamaâ in El Oued.
        "El Oued Djamaa" is: with the wilaya's exact name, a place elsewhere that differs only in articles raises no
        doubt.
        """
        of_seat = words
        for i in range(1, len(words)):
            for inside, beside in ((words[i:], words[:i]), (words[:i], words[i:])):
                inside = _unwrapped(inside)
                beside = _unwrapped(beside)
                if inside and beside and self._are_around(beside) and (place := self.index.by_key(inside)):
                    is_own = spell(beside).plain in _wilaya_names()
                    if not is_own and _is_elsewhere(words, place):
                        return words
                    if place != self.seat:
                        return inside
                    of_seat = inside
        return of_seat


class _Wilayas(Candidates[Wilaya]):
    def by_code(self, text: str) -> Wilaya | None:
        return gazetteer.wilaya_by_code(text)

    def belongs(self, place: Wilaya, number: str) -> bool:
        if len(number) == 5:
            seat = gazetteer.seat(place)
            return number[:2] in (seat.wilayas if seat else {place.code})
        named = gazetteer.wilaya_by_code(number)
        return named is not None and _agrees(named, {place.code})

    def alternatives(self, cleaned: str) -> list[Wilaya]:
        text = _Text(cleaned)
        numbered = filter(None, map(self.by_code, text.numbers))
        # "Kouba" means Alger, where it is a commune. Of wilayas, only names that are nearly the same may be meant then.
        with_it = [wilaya for words in text.names() for wilaya in _wilayas_with(" ".join(words))]
        near = (
            self.index.suggestions(words, gazetteer.MOST_SUGGESTIONS, limit=1.0 if with_it else None)
            for words in text.names()
        )
        return list(dict.fromkeys([*numbered, *chain.from_iterable(near), *with_it]))


class _Communes(Candidates[Commune]):
    def by_code(self, text: str) -> Commune | None:
        found = gazetteer.commune_by_code(text)
        return found if found and self.around and self.around.code in found.wilayas else None

    def belongs(self, place: Commune, number: str) -> bool:
        if len(number) == 5:
            return number[:2] in place.wilayas
        named = gazetteer.wilaya_by_code(number)
        return _agrees(named, place.wilayas) if named else gazetteer.commune_by_code(number) == place

    def alternatives(self, cleaned: str) -> list[Commune]:
        posted = gazetteer.communes_by_postal_code(_code(cleaned))
        found = [place for place in posted if self.around and self.around.code in place.wilayas]
        near = (self.index.suggestions(words, gazetteer.MOST_SUGGESTIONS) for words in _Text(cleaned).names())
        return list(dict.fromkeys([*found, *chain.from_iterable(near)]))


@cache
def wilayas() -> Candidates[Wilaya]:
    return _Wilayas("a wilaya", gazetteer.wilayas().values())


@cache
def communes_of(wilaya_code: str) -> Candidates[Commune]:
    """The communes of a wilaya on the three maps."""
    around = gazetteer.wilayas()[wilaya_code]
    return _Communes(f"a commune of {around.name}", gazetteer.communes_by_wilaya()[wilaya_code], around)


def _agrees(named: Wilaya, codes: Set[str]) -> bool:
    """Whether the number of the wilaya `named` agrees with the name of a place in the wilayas with these codes."""
    if named.code in gazetteer.RENUMBERED:
        return not gazetteer.RENUMBERED.isdisjoint(codes)
    return named.code in codes


def _code(cleaned: str) -> str:
    return cleaned.strip(" \t\r\n.,;#°")


def _wilayas_with(cleaned: str) -> tuple[Wilaya, ...]:
    """The wilayas of the communes that have exactly this code or name; none if they are many."""
    words = tokens(cleaned)
    if commune := gazetteer.commune_by_code(_code(cleaned)):
        codes = {commune.code}
    elif words and len(words) <= MOST_WORDS and len({is_arabic(word) for word in words}) == 1:
        codes = _everywhere().get(spell(words).plain, set())
    else:
        codes = set()
    places = map(gazetteer.place, codes)
    found = sorted({place.wilaya for place in places if isinstance(place, Commune)})
    if len(found) > gazetteer.MOST_SUGGESTIONS:
        return ()
    return tuple(gazetteer.wilayas()[code] for code in found)


def _suggested(places: Iterable) -> tuple[Wilaya | Commune, ...]:
    """The first few places, only one of each name."""
    return tuple({place.name: place for place in places}.values())[: gazetteer.MOST_SUGGESTIONS]


def _shown(text: str) -> str:
    """`text` for a message: short, and only with characters that can be sent on."""
    shown = "".join(char if char.isprintable() else " " for char in text[:61])
    return f'"{shown if len(shown) <= 60 else shown[:59] + "…"}"'
