"""Search over the sections of the pages, in this process: ranked by BM25, blind to accents and spellings of Arabic."""

import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from codservice.docs.library import Page, Site
from codservice.docs.rendering import Section

MOST_RESULTS = 20
MAX_QUERY = 200  # characters
MOST_WORDS = 12  # of a query; each is looked for in all words of the pages

# Robertson and Zaragoza, The Probabilistic Relevance Framework: BM25 and Beyond (2009): the usual values.
_K1, _B = 1.2, 0.75
_HEADING, _TITLE = 6, 3  # a word of a heading counts as so many of the text
_BEGINNING = 0.5  # a word that only begins with what was asked for counts as so much of it
_BEFORE, _AROUND = 60, 220  # characters of an excerpt

_WORD = re.compile(r"[^\W_]+")
_SAME = str.maketrans({"ى": "ي", "ة": "ه", "ـ": "", "œ": "oe", "æ": "ae"})


@dataclass(frozen=True, slots=True)
class Piece:
    text: str
    is_found: bool


@dataclass(frozen=True, slots=True)
class Result:
    page: Page
    url: str
    heading: list[Piece]
    excerpt: list[Piece]


def fold(word: str) -> str:
    """What a word has in common with its other spellings: no case, accents, vowel signs, hamza, article or plural s."""
    plain = "".join(sign for sign in unicodedata.normalize("NFKD", word.casefold()) if not unicodedata.combining(sign))
    plain = plain.translate(_SAME)
    if plain.startswith("ال") and len(plain) > 4:
        return plain[2:]
    return plain[:-1] if len(plain) > 3 and plain[-1] in "sx" else plain


class _Index:
    def __init__(self, site: Site, language: str) -> None:
        self.places: list[tuple[Page, Section]] = []
        self.found_in: dict[str, dict[int, int]] = defaultdict(dict)
        """By word: the numbers of the sections that have it, and how often."""
        self.lengths: list[int] = []
        for page in site.pages.values():
            if page.language == language or (language, page.name) not in site.pages:
                for section in page.sections:
                    self._add(page, section)
        self.usual_length = sum(self.lengths) / max(len(self.lengths), 1)

    def _add(self, page: Page, section: Section) -> None:
        counts = Counter(_words(section.text))
        for text, weight in ((section.heading, _HEADING), (page.title, _TITLE)):
            for word in _words(text):
                counts[word] += weight
        for word, count in counts.items():
            self.found_in[word][len(self.places)] = count
        self.places.append((page, section))
        self.lengths.append(counts.total())

    def matches(self, asked: str) -> dict[str, float]:
        """The words that answer one that was asked for, and how well."""
        return {
            word: 1.0 if word == asked else _BEGINNING
            for word in self.found_in
            if word == asked or (len(asked) > 1 and word.startswith(asked))
        }

    def score(self, words: dict[str, float]) -> dict[int, float]:
        """By section: how well it answers these words, as one."""
        sections = {number for word in words for number in self.found_in[word]}
        rarity = math.log(1 + (len(self.places) - len(sections) + 0.5) / (len(sections) + 0.5))
        scores = {}
        for number in sections:
            count = sum(weight * self.found_in[word].get(number, 0) for word, weight in words.items())
            length = self.lengths[number] / self.usual_length
            scores[number] = rarity * count * (_K1 + 1) / (count + _K1 * (1 - _B + _B * length))
        return scores


@lru_cache(maxsize=2)
def _index(site: Site, language: str) -> _Index:
    return _Index(site, language)


def search(site: Site, language: str, query: str) -> list[Result]:
    """The sections that have all words of the query, best first; when none has, those that have any."""
    index = _index(site, language)
    asked = [index.matches(word) for word in list(dict.fromkeys(_words(query[:MAX_QUERY])))[:MOST_WORDS]]
    scores = [index.score(words) for words in asked]
    numbers = set.intersection(*map(set, scores)) if scores else set()
    numbers = numbers or {number for each in scores for number in each}
    best = sorted(numbers, key=lambda number: (-sum(each.get(number, 0) for each in scores), number))
    found = {word for words in asked for word in words}
    return [_result(*index.places[number], found) for number in best[:MOST_RESULTS]]


def _result(page: Page, section: Section, found: set[str]) -> Result:
    text = re.sub(r"\s+", " ", section.text).strip()
    start = next((at for at, _, word in _spans(text) if word in found), 0)
    start = text.rfind(" ", 0, max(start - _BEFORE, 0)) + 1
    stop = text.find(" ", start + _AROUND)
    excerpt = text[start : len(text) if stop < 0 else stop]
    pieces = [Piece("… ", False)] if start else []
    pieces += _pieces(excerpt, found)
    if stop >= 0:
        pieces.append(Piece(" …", False))
    return Result(page, f"{page.url}#{section.anchor}", _pieces(section.heading, found), pieces)


def _pieces(text: str, found: set[str]) -> list[Piece]:
    pieces, done = [], 0
    for start, stop, word in _spans(text):
        if word in found:
            pieces += [Piece(text[done:start], False), Piece(text[start:stop], True)]
            done = stop
    return [*pieces, Piece(text[done:], False)]


def _words(text: str) -> Iterator[str]:
    return (word for _, _, word in _spans(text))


def _spans(text: str) -> Iterator[tuple[int, int, str]]:
    # Vowel signs of Arabic are no letters and would end a word.
    for match in re.finditer(r"(?:[^\W_]|[\u064b-\u065f\u0670\u0640])+", text):
        yield match.start(), match.end(), fold(match.group())
