"""How names of places are spelled: from any text to keys that two spellings of one name share.

A name is read as words of one script. `Spelling` holds its keys, from strict to loose:

- `plain`: the letters alone. Case, accents, apostrophes, hyphens, spaces, invisible characters, hamza
  seats, vowel signs, tatweel and Persian letter forms are gone.
- `sounded`: what the letters stand for in the usual ways to write Algerian names. Latin: dj = j,
  ch = sh, ou = w = u = o, e = a, i = y, q = k = hard c, th = t, dh = d, one letter for a doubled one,
  Oued = Wad, Ouled = Awlad, article = l. Arabic: the several letters for g are one, and one letter
  stands for each pair that speech does not tell apart.
- `bare`: `sounded` without articles.
- `loose`: `bare` without h, kh as k, gh as g, Aït = Béni, Sidi = Si; in Arabic without alef and final ha.

Nothing here knows which places exist. A key may well stand for two of them, which `matching` handles.
"""

import csv
import re
import unicodedata
from functools import cache
from importlib import resources
from typing import NamedTuple

APOSTROPHES = "'’ʼ‘`´ʻʿʾ′‛ʹꞌ"

# What decomposition leaves alone, or (ç, ى) turns into the wrong letter. The letters for g that Arabic lacks
# become qaf, as the official lists write that sound.
_SIGNS = (
    str.maketrans("٠١٢٣٤٥٦٧٨٩۰۱۲۳۴۵۶۷۸۹", "01234567890123456789")
    | str.maketrans("کڪیىېہھەۀةۃٱپچڨڤگݣڭڥ", "ككيييههههههابشقققققق")
    | str.maketrans({"ç": "s", "œ": "oe", "æ": "ae", "ø": "o", "ı": "i", "ɛ": "a", "ε": "a", "ɣ": "gh", "γ": "gh"})
    | str.maketrans({"ء": "", "ـ": "", "،": ",", "؛": ",", "٬": "", "٫": "."})
    | dict.fromkeys(map(ord, APOSTROPHES), "'")
)

_TOKEN = re.compile(r"[a-z0-9']+\.?|[\u0620-\u064a]+")
_FOREIGN = re.compile(r"[^\W\d_a-z\u0620-\u064a]")
CHAT_DIGITS = {"2": "", "3": "a", "5": "kh", "7": "h", "9": "k"}
"""The digits that stand for Arabic letters in chats: 3in = Aïn."""
_CHAT = str.maketrans(CHAT_DIGITS)


_UNSEEN = frozenset(("Mn", "Me", "Cf"))


def clean(text: str) -> str:
    """`text` in lower case, without accents, vowel signs and invisible characters.

    Digits become 0-9, apostrophes ', and every Arabic letter has one form. Separators stay.
    """
    if not text.isascii():
        # ² and ① are not digits of a code, whatever NFKC makes of them.
        text = "".join(" " if unicodedata.category(char) == "No" else char for char in text)
    text = unicodedata.normalize("NFKC", text).casefold().translate(_SIGNS)
    if text.isascii():
        return text
    letters = (char for char in unicodedata.normalize("NFKD", text) if unicodedata.category(char) not in _UNSEEN)
    return "".join(letters).translate(_SIGNS)


def tokens(cleaned: str) -> list[str]:
    """The words of a cleaned text, each of one script; an abbreviation keeps its full stop."""
    return [word for token in _TOKEN.findall(cleaned) if (word := token.replace("'", "")).strip(".")]


def is_foreign(cleaned: str) -> bool:
    """Whether the text has letters that are neither Latin nor Arabic."""
    return _FOREIGN.search(cleaned) is not None


def is_arabic(word: str) -> bool:
    return word[0] >= "\u0620"


class Spelling(NamedTuple):
    plain: str
    sounded: str
    bare: str
    loose: str
    prefix: int
    """How many letters at the start of `bare` are a word that hundreds of names begin with (Aïn, Sidi, Ouled...)."""

    @property
    def keys(self) -> tuple[str, str, str, str]:
        """All keys, strictest first."""
        return self.plain, self.sounded, self.bare, self.loose


def spell(words: list[str]) -> Spelling:
    """The keys of a name given as tokens of one script."""
    words = [word.rstrip(".") for word in words]
    return _arabic(words) if words and is_arabic(words[0]) else _latin(words)


@cache
def _words() -> dict[str, str]:
    """The words that many names share (`words.csv`), by each way to write them."""
    table = resources.files(__package__).joinpath("data", "words.csv").read_text(encoding="utf-8")
    return {
        variant: row["word"]
        for row in csv.DictReader(table.splitlines())
        for variant in (row["word"], *row["variants"].split())
    }


def _longest_first(words: str) -> tuple[str, ...]:
    return tuple(sorted(words.split(), key=len, reverse=True))


# --- Latin -----------------------------------------------------------------------------------------------------------

_PREFIXES = _longest_first(
    "taniat Kamis jabal hamam zauia marsa aGbal ulad sidi bani ksar burj hasi tizi uad ain "
    "ait bir dra suk ban ras kaf dar bab had mSa bu um si"
)
_ARTICLE = frozenset(("el", "al", "l", "le", "la", "les", "il"))
_OF = frozenset(("de", "du", "des", "d", "of"))
_ASSIMILATED = re.compile(r"[ae](ch|sh|th|dh|[tdrzsnl])\1?$")
_DOUBLED_ARTICLE = re.compile(r"e([tdrzsn])\1")
_INNER_ARTICLE = re.compile(r"[ae]([tdrzsn])\1|e[tdrzsn](?=[aeiouy])")
_SOUNDS = [
    (re.compile(old), new)
    for old, new in (
        (r"t?ch|s?ch|sh", "S"),
        (r"kh", "K"),
        (r"gh", "G"),
        (r"ph", "f"),
        (r"th", "t"),
        (r"dh", "d"),
        (r"d[jg](?!$)|dj", "j"),
        (r"gu(?=[eiy])", "g"),
        (r"c?qu(?=[eiy])", "k"),
        (r"c(?=[eiy])", "s"),
        (r"ck|c|q", "k"),
        (r"x", "ks"),
        (r"ou|oo|[wou]", "u"),
        (r"[iy]", "i"),
        (r"[ae]", "a"),
    )
]
_LOOSE = str.maketrans({"h": "", "K": "k", "G": "g", "ا": "", "غ": "ق", "ج": "ق"})
_DOUBLE = re.compile(r"(.)\1+")
_FINAL_H = re.compile(r"(?<=[aeiouy])h$")
_ABD = re.compile(r"abda?(?:l(?=[^aiu])|(?=[^l]))|abdal(?=[aiu])")


def _sound(word: str) -> str:
    word = _FINAL_H.sub("", word)
    if len(word) > 3 and word[-1] == "e" and word[-2] not in "aeiouy":
        word = word[:-1]
    for old, new in _SOUNDS:
        word = old.sub(new, word)
    return word


def _latin(words: list[str]) -> Spelling:
    plain = "".join(words)
    sounded, bare = [], []
    last = len(words) - 1
    for i, word in enumerate(words):
        if any(char.isdigit() for char in word) and not word.isdigit():
            word = word.translate(_CHAT)
        if i < last and (word in _ARTICLE or _leans_on(word, words[i + 1])):
            sounded.append("l")
            continue
        if i and word in _OF and i < last:
            continue
        if i == 0 and last and word == "in":
            word = "ain"
        if word not in _words() and (article := _attached_article(word, i)):
            sounded.append("l")
            word = word[article:]
        heard = _sound(_words().get(word, word))
        sounded.append(heard)
        bare.append(heard)
    return _spelling(plain, _join(sounded), _join(bare), _PREFIXES)


def _attached_article(word: str, position: int) -> int:
    """How many letters of `word` are an attached article: Elmadher, Ezzouar; within a name also Azzouar, Ezouar."""
    if word.startswith("el") and len(word) > 4:
        return 2
    match = (_INNER_ARTICLE if position else _DOUBLED_ARTICLE).match(word) if len(word) > 4 else None
    return match.end() - 1 if match else 0


def _leans_on(word: str, following: str) -> bool:
    """Whether `word` is an article that took the first sound of the word after it (Es Senia, Ech Chaïba)."""
    match = _ASSIMILATED.match(word)
    return match is not None and following.startswith(match[1])


def _join(parts: list[str]) -> str:
    joined = _DOUBLE.sub(r"\1", "".join(parts))
    return _DOUBLE.sub(r"\1", _ABD.sub("abd", joined)) if "abd" in joined else joined


# --- Arabic ----------------------------------------------------------------------------------------------------------

_ARABIC_PREFIXES = _longest_first(
    "زاويه ولاد سيدي دراع حمام حاسي مرسي تيزي واد عين بني ايت بير قسر برج سوق راس جبل دار باب بو بن ام حد سي"
)
_ARABIC_SOUNDS = str.maketrans({"ث": "ت", "ط": "ت", "ذ": "د", "ظ": "د", "ض": "د", "ص": "س", "ك": "ق"})


def _arabic(words: list[str]) -> Spelling:
    plain = "".join(words)
    sounded, bare = [], []
    words = [_words().get(word, word) for word in words]
    for i, word in enumerate(words):
        if word == "ان" and i == 0 and len(words) > 1:
            word = "عين"
        if word == "ال" and i < len(words) - 1:
            continue
        heard = word.translate(_ARABIC_SOUNDS)
        stem = heard[2:] if len(heard) > 4 and heard.startswith("ال") else heard
        sounded.append(heard)
        bare.append(_words().get(stem, stem))
    return _spelling(plain, _join(sounded), _join(bare), _ARABIC_PREFIXES)


def kin(bare: str) -> str:
    """`bare` with Béni for Aït and Si for Sidi, which are used for each other.

    Also without the lam that speech leaves of an article.
    """
    if not bare:
        return bare
    for old, new in (("ait", "bani"), ("ايت", "بني")):
        if bare.startswith(old):
            bare = new + bare[len(old) :]
    if bare[0] == "ل" and len(bare) > 4:
        bare = bare[1:]
    return bare.replace("sidi", "si").replace("سيدي", "سي")


def _spelling(plain: str, sounded: str, bare: str, prefixes: tuple[str, ...]) -> Spelling:
    bare = bare or sounded or plain
    sounded = sounded or plain
    loose = _DOUBLE.sub(r"\1", kin(bare).removesuffix("ه").translate(_LOOSE)) or bare
    prefix = next((len(some) for some in prefixes if bare.startswith(some) and len(bare) > len(some) + 1), 0)
    return Spelling(plain, sounded, bare, loose, prefix)
