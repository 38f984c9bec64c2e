"""An index of names that answers with one place, with several, or with none: never with a guess.

A text is looked up by the keys of `spelling`, strictest first. The first known key decides: if it stands for
one place, that is the answer; if for several, the text is ambiguous and nothing looser is tried. If no key is
known, the nearest name is taken, provided it is near and nothing else is:

- a word that hundreds of names begin with (Aïn, Sidi, Ouled...) must be there but counts for nothing: only the
  rest is measured, and a rest of four sounds or less must be right;
- differences cost what they mean in these names: a vowel more or less costs little, a consonant much (`COSTS`);
- the second nearest place must be clearly farther.

A text that is one slip of the pen from the name of one place is never read as another.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from orders.regions.spelling import Spelling, is_arabic, kin, spell

Place = TypeVar("Place")

LONGEST = 48
"""How many sounds of a text are compared at most; the longest name has about thirty."""
MARGIN = 0.7
"""By how much more the second nearest place must differ than the nearest."""

SHORT = 3
"""A name (Tit, Sig) or abbreviation (SBA) of up to so many letters must be spelled exactly."""

WEAK = frozenset("aiuhاويهع")
COSTS = {
    one + other: cost
    for cost, pairs in {
        0.3: "Gg sz kg Kk",
        0.5: "ai au iu jg Sj Gr Kh td اه اي او وي يه قغ قج غج جش سز تد هح",
    }.items()
    for pair in pairs.split()
    for one, other in (tuple(pair), tuple(reversed(pair)))
}
WEAK_COST = 0.5
SWAP_COST = 0.7


def allowance(length: int) -> float:
    """The cost up to which a name may differ if it has `length` sounds after its prefix."""
    if length <= 4:
        return 0.0
    if length <= 6:
        return 0.5
    return 1.0 if length <= 9 else 1.5


def distance(one: str, other: str, limit: float) -> float:
    """The least cost that turns `one` into `other`, or something above `limit`."""
    if abs(len(one) - len(other)) * WEAK_COST > limit:
        return limit + 1
    before: list[float] = []
    row = [0.0]
    for char in other:
        row.append(row[-1] + (WEAK_COST if char in WEAK else 1.0))
    last = ""
    for char in one:
        gone = WEAK_COST if char in WEAK else 1.0
        current = [row[0] + gone]
        for i, wanted in enumerate(other):
            if char == wanted:
                cost = row[i]
            else:
                cost = row[i] + COSTS.get(char + wanted, 1.0)
                if (other_cost := row[i + 1] + gone) < cost:
                    cost = other_cost
                if (other_cost := current[i] + (WEAK_COST if wanted in WEAK else 1.0)) < cost:
                    cost = other_cost
                if before and i and char == other[i - 1] and wanted == last:
                    cost = min(cost, before[i - 1] + SWAP_COST)
            current.append(cost)
        if min(current) > limit and min(row) > limit:
            return limit + 1
        before, row, last = row, current, char
    return row[-1]


def within_one_edit(one: str, other: str) -> bool:
    """Whether one letter added, removed or changed, or two swapped, turns `one` into `other`."""
    if abs(len(one) - len(other)) > 1:
        return False
    if one == other:
        return True
    shared = zip(one, other, strict=False)
    start = next((i for i, (a, b) in enumerate(shared) if a != b), min(len(one), len(other)))
    a, b = one[start:], other[start:]
    return a[1:] == b[1:] or a[1:] == b or a == b[1:] or (a[1:2] + a[:1] == b[:2] and a[2:] == b[2:])


class Ambiguous(Exception):
    def __init__(self, places: list):
        super().__init__(places)
        self.places = places


class Index(Generic[Place]):
    """Names of places, each given with all its spellings as lists of tokens (one script each).

    `elsewhere(words, place)` says whether `words` is the name of another place that is no namesake of `place`:
    then it is not a spelling of `place`, however near.
    """

    def __init__(
        self, named: Iterable[tuple[Place, Iterable[list[str]]]], elsewhere: Callable[[list[str], Place], bool]
    ):
        self._elsewhere = elsewhere
        self._tiers: list[dict[str, list[Place]]] = [{}, {}, {}, {}]
        self._spellings: dict[bool, list[tuple[Place, Spelling]]] = {False: [], True: []}
        self._words: list[tuple[Place, list[str]]] = []
        self._pairs: dict[bool, dict[str, list[int]]] = {}
        for place, spellings in named:
            seen = set()
            for words in spellings:
                spelling = spell(words)
                if spelling in seen:
                    continue
                seen.add(spelling)
                keys = spelling.keys if len(spelling.plain) > SHORT else spelling.keys[:1]
                for tier, key in zip(self._tiers, keys, strict=False):
                    places = tier.setdefault(key, [])
                    if place not in places:
                        places.append(place)
                self._spellings[is_arabic(words[0])].append((place, spelling))
                self._words.append((place, words))

    def by_key(self, words: list[str]) -> Place | None:
        """The place that a key of `words` stands for, or None. Raises `Ambiguous` if it stands for several."""
        spelling = spell(words)
        for loose, (tier, key) in enumerate(zip(self._tiers[:3], spelling.keys, strict=False)):
            if places := tier.get(key):
                if len(places) > 1:
                    raise Ambiguous(places)
                if loose:
                    if self._elsewhere(words, places[0]):
                        return None
                    self._refuse_slip(spelling, places[0], is_arabic(words[0]))
                return places[0]
        return self._abbreviated(words)

    def nearest(self, words: list[str]) -> Place | None:
        """The one place whose name is near enough to `words`, or None. Raises `Ambiguous` if another is near too."""
        spelling, arabic = spell(words), is_arabic(words[0])
        best = self._by_loose_key(spelling, arabic) or self._at_least_cost(spelling.bare, arabic)
        if best is None or self._elsewhere(words, best):
            return None
        self._refuse_slip(spelling, best, arabic)
        return best

    def _by_loose_key(self, spelling: Spelling, arabic: bool) -> Place | None:
        places = self._tiers[3].get(spelling.loose) or []
        if len(places) > 1:
            raise Ambiguous(places)
        limit = WEAK_COST if len(spelling.loose) < 5 else 2 * WEAK_COST
        for place, known in self._spellings[arabic] if places else ():
            if place == places[0] and distance(kin(spelling.bare), kin(known.bare), limit) <= limit:
                return place
        return None

    def _at_least_cost(self, bare: str, arabic: bool) -> Place | None:
        if not 5 <= len(bare) <= LONGEST:
            return None
        costs: dict[Place, float] = {}
        fitting: dict[Place, float] = {}
        for place, known in self._alike(bare, arabic):
            cost = distance(bare, known.bare, 2.5)
            if cost < costs.get(place, 2.6):
                costs[place] = cost
            allowed = allowance(len(known.bare) - known.prefix)
            if cost <= allowed and bare.startswith(known.bare[: known.prefix]):
                fitting[place] = min(cost, fitting.get(place, cost))
        if not fitting:
            return None
        best = min(fitting, key=fitting.__getitem__)
        rivals = [place for place, cost in costs.items() if place != best and cost - fitting[best] < MARGIN]
        if rivals:
            raise Ambiguous([best, *sorted(rivals, key=costs.__getitem__)])
        return best

    def suggestions(self, words: list[str], count: int, *, limit: float | None = None) -> list[Place]:
        """The places whose names begin with `words`, then those with the nearest names, without far-fetched ones.

        `limit` is the cost up to which a name may differ, unless that is left to its length.
        """
        spelling, arabic = spell(words), is_arabic(words[0])
        bare = spelling.bare[:LONGEST]
        limit = limit or max(1.5, len(bare) * 0.4)
        costs: dict[Place, float] = {}
        for place, known in self._alike(bare, arabic)[: 8 * count]:
            cost = distance(bare, known.bare, limit)
            if len(known.plain) > SHORT and cost <= limit and cost < costs.get(place, limit + 1):
                costs[place] = cost
        if len(spelling.plain) >= SHORT:
            begun = (place for place, known in self._spellings[arabic] if known.plain.startswith(spelling.plain))
            costs |= dict.fromkeys(begun, -1.0)
        return sorted(costs, key=costs.__getitem__)[:count]

    def _alike(self, bare: str, arabic: bool) -> list[tuple[Place, Spelling]]:
        """The spellings that share at least two pairs of neighbouring sounds with `bare`, those with most first.

        This spares nine of ten calls of `distance`; a name within its limits always shares two.
        """
        if arabic not in self._pairs:
            pairs = self._pairs[arabic] = {}
            for i, (_, known) in enumerate(self._spellings[arabic]):
                for pair in _pairs(known.bare):
                    pairs.setdefault(pair, []).append(i)
        shared: Counter[int] = Counter()
        for pair in _pairs(bare):
            shared.update(self._pairs[arabic].get(pair, ()))
        return [self._spellings[arabic][i] for i, count in shared.most_common() if count > 1]

    def _refuse_slip(self, spelling: Spelling, place: Place, arabic: bool) -> None:
        """Raise `Ambiguous` if a loose key would turn a mistyped name of one place into another's."""
        others = [
            other
            for other, known in self._spellings[arabic]
            if other != place and within_one_edit(spelling.plain, known.plain)
        ]
        if others and not any(
            known.plain == spelling.plain for other, known in self._spellings[arabic] if other == place
        ):
            raise Ambiguous([place, *dict.fromkeys(others)])

    def _abbreviated(self, words: list[str]) -> Place | None:
        """The one place whose name `words` abbreviates: "Bab Ez.", "O. Fayet".

        If the last word is shortened the name may go on, but a single letter is too little there: "Bab E." is nothing.
        """
        if {_is_short(word) for word in words} != {True, False} or len(words[-1].rstrip(".")) < 2:
            return None
        found: list[Place] = []
        for place, known in self._words:
            fits = len(known) == len(words) or (len(known) > len(words) and _is_short(words[-1]))
            if fits and place not in found and all(map(_shortens, words, known)):
                found.append(place)
        if len(found) > 1:
            raise Ambiguous(found)
        return found[0] if found else None


def _pairs(bare: str) -> list[str]:
    """Each pair of neighbours once, in order, so that ties are sorted alike in every process."""
    ends = f"^{bare}$"
    return list(dict.fromkeys(ends[i : i + 2] for i in range(len(ends) - 1)))


def _is_short(word: str) -> bool:
    return word[-1] == "." or (len(word) == 1 and not is_arabic(word))


def _shortens(word: str, known: str) -> bool:
    if _is_short(word):
        return known.startswith(word.rstrip("."))
    return spell([word]).bare == spell([known]).bare
