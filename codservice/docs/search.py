"""PostgreSQL's full text search over the sections of the pages, ignoring accents and variant spellings of Arabic.

The pages are files, and no table repeats them: each process has PostgreSQL make their vectors once, and sends them with
each query. PostgreSQL sees folded words; results show the words as they are written.
"""

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from codservice import postgresql
from codservice.docs.library import LANGUAGES, Page, Site
from codservice.docs.rendering import Section, grouped

MAX_QUERY = 200  # characters
_MOST_WORDS = 12  # of a query
_LONGEST_WORD = 64  # characters of a word of a query; PostgreSQL takes 2046 bytes
_QUOTES = " \t\r\n\"'`«»“”,:;"  # that a name is copied with
_BEFORE, _AROUND = 60, 220  # characters of an excerpt

_CONFIGURATIONS = {"en": "english", "fr": "french", "ar-dz": "arabic"}  # the first two leave folded Arabic words alone
_VECTORS = """
SELECT array_agg(
    setweight(to_tsvector(%(language)s::regconfig, heading), 'A')
    || setweight(to_tsvector(%(language)s::regconfig, title), 'B')
    || to_tsvector(%(language)s::regconfig, text)
    ORDER BY number
)::text
FROM unnest(%(headings)s::text[], %(titles)s::text[], %(texts)s::text[])
    WITH ORDINALITY AS section (heading, title, text, number)
"""
# The 1 divides the rank by the logarithm of the length: a long section must contain the words more often.
_BEST = """
SELECT number - 1
FROM unnest(%(vectors)s::tsvector[], %(pages)s::text[], %(literal)s::boolean[])
    WITH ORDINALITY AS section (vector, page, literal, number),
    to_tsquery(%(language)s::regconfig, %(query)s) AS query,
    ts_rank(vector, query, 1) AS rank
WHERE vector @@ query
ORDER BY literal DESC,
    row_number() OVER (PARTITION BY page ORDER BY literal DESC, rank DESC, number) > 2,
    rank DESC, number
LIMIT 20
"""
_FOUND = """
SELECT word
FROM unnest(%(words)s::text[]) AS word, to_tsquery(%(language)s::regconfig, %(query)s) AS query
WHERE to_tsvector(%(language)s::regconfig, word) @@ query
"""

# Vowel signs of Arabic are not letters, and would end a word.
_WORD = re.compile(r"[^\W_](?:[^\W_]|[\u064b-\u065f\u0670\u0640])*")
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


def search(site: Site, language: str, query: str) -> list[Result]:
    """At most 20 sections that contain all words of the query, best first, of one page two before those of others.

    If there are none, words may be the beginnings of others; and if there are still none, one of them is enough. A name
    of several words, such as `not_found` or `Retry-After`, is found first where it is written so. Raises
    django.db.Error when the database is away.
    """
    words = [word[:_LONGEST_WORD] for word in _fold(query[:MAX_QUERY]).split()][:_MOST_WORDS]
    begun = [f"{word}:*" if len(word) > 1 else word for word in words]
    if not words:
        return []
    sections, vectors = _index(site, language)
    asked_name = query.strip(_QUOTES).casefold()
    name = asked_name if len(words) > 1 and len(asked_name.split()) == 1 else ""
    literal = [bool(name) and name in f"{section.heading} {section.text}".casefold() for _, section in sections]
    values = {"vectors": vectors, "pages": [page.name for page, _ in sections], "literal": literal}
    for asked, operator in ((words, " & "), (begun, " & "), (begun, " | ")):
        if numbers := _column(_BEST, language, query=operator.join(asked), **values):
            best = [sections[number] for number in numbers]
            shown = {word for _, section in best for word in _fold(f"{section.heading} {section.text}").split()}
            found = set(_column(_FOUND, language, query=" | ".join(asked), words=list(shown)))
            return [_result(page, section, found, name) for page, section in best]
    return []


@lru_cache(maxsize=len(LANGUAGES))
def _index(site: Site, language: str) -> tuple[list[tuple[Page, Section]], str]:
    """The sections of the pages for readers of this language, and PostgreSQL's vectors of them."""
    sections = [(page, section) for page in site.best(language).values() for section in page.sections]
    headings = [_fold(section.heading) for _, section in sections]
    titles = [_fold(page.title) for page, _ in sections]
    texts = [_fold(section.text) for _, section in sections]
    return sections, _column(_VECTORS, language, headings=headings, titles=titles, texts=texts)[0]


def _column(statement: str, language: str, **values: Any) -> list[Any]:
    return [value for (value,) in postgresql.rows(statement, values | {"language": _CONFIGURATIONS[language]})]


def _fold(text: str) -> str:
    """The folded words of any text: only letters and digits, with a space between words."""
    return " ".join(_fold_word(word) for word in _WORD.findall(text))


@lru_cache(maxsize=20_000)
def _fold_word(word: str) -> str:
    """A word without what its spellings differ in: case, accents, vowel signs, hamza and the Arabic article."""
    plain = unicodedata.normalize("NFKD", word.casefold()).translate(_SAME)
    plain = "".join(sign for sign in plain if sign.isalnum())
    return plain[2:] if plain.startswith("ال") and len(plain) > 4 else plain


def _result(page: Page, section: Section, found: set[str], name: str) -> Result:
    text = grouped(" ".join(section.text.split()))
    first = text.casefold().find(name) if name else -1
    if first < 0:
        first = next((word.start() for word in _WORD.finditer(text) if _fold_word(word[0]) in found), 0)
    start = text.rfind(" ", 0, max(first - _BEFORE, 0)) + 1
    stop = text.find(" ", start + _AROUND)
    excerpt = f"{'… ' if start else ''}{text[start:stop] if stop >= 0 else text[start:]}{' …' if stop >= 0 else ''}"
    return Result(page, f"{page.url}#{section.anchor}", _pieces(section.heading, found), _pieces(excerpt, found))


def _pieces(text: str, found: set[str]) -> list[Piece]:
    pieces, done = [], 0
    for word in _WORD.finditer(text):
        if _fold_word(word[0]) in found:
            pieces += [Piece(text[done : word.start()], False), Piece(word[0], True)]
            done = word.end()
    return [*pieces, Piece(text[done:], False)]
