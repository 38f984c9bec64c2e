"""Finds the encoding of a CSV file, where that is certain.

Excel saves “CSV” in the code page of its Windows: 1252 in French, 1256 in Arabic. French in small letters has the same
bytes in both. A capital such as É has the byte of an Arabic letter, but shares its word with Latin letters; no Arabic
letter does. À has the byte of a letter of Urdu, and may stand alone (`À domicile`). Signs such as … have the bytes of
letters of DOS, so they count where others show that the file is not from there. Anything else, such as files from DOS
or a Mac, is not guessed: detectors such as charset_normalizer turn some Arabic names in a file of Latin words into
letters that nobody wrote.
"""

import codecs
import re
from typing import IO

_PIECE = 1 << 20
_SMALL = re.escape("àâçèéêëîïôùûüœ".encode("cp1252"))
_SIGNS = re.escape("\u00a0«»°²’–€".encode("cp1252"))
_DOS = re.escape("…‘“”—×·".encode("cp1252"))  # in DOS à æ ô ö ù Î À
_CAPITALS = re.escape("ÂÇÈÉÊËÎÏÔÙÛÜ".encode("cp1252"))
_ARABIC = re.escape("".join(map(chr, [*range(0x621, 0x63B), *range(0x640, 0x653), *map(ord, "،؛؟")])).encode("cp1256"))
_FRENCH = re.escape("À".encode("cp1252"))
_LATIN = rb"A-Za-z" + _SMALL + _FRENCH
_COMMON = rb"\x00-\x7f" + _SMALL + _SIGNS + _DOS
_has_other_than_french = re.compile(
    rb"[^%b%b%b]|(?<![%b%b])[%b]+(?![%b%b])"
    % (_COMMON, _FRENCH, _CAPITALS, _LATIN, _CAPITALS, _CAPITALS, _LATIN, _CAPITALS)
).search
_has_other_than_arabic = re.compile(
    rb"[^%b%b]|[%b][%b]|[%b][%b]" % (_COMMON, _ARABIC, _LATIN, _ARABIC, _ARABIC, _LATIN)
).search
_has_letter_of_dos = re.compile(rb"[%b]" % _DOS).search
_has_letter_of_windows = re.compile(rb"[%b]" % re.escape("éèàç".encode("cp1252"))).search  # in DOS Ú Þ Ó þ: no French
_has_arabic_word = re.compile(rb"[%b]{2}" % _ARABIC).search  # a single one may be the É of a name


def encoding_of(file: IO[bytes]) -> str | None:
    """Python's name of the file's encoding: UTF-8, UTF-16 with its mark, Windows-1252 or Windows-1256. Otherwise None.

    Reads the whole file, in constant memory.
    """
    file.seek(0)
    first = file.readline(_PIECE)
    if first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) and first[2:4] != b"\0\0":
        return "utf-16"
    if b"\0" in first:  # UTF-16 without its mark, or UTF-32: their ASCII would pass for UTF-8 with NULs
        return None
    if _is_utf_8(file):
        return "utf-8-sig"
    may_be_french = may_be_arabic = True
    may_be_dos = is_windows = is_arabic = False
    file.seek(0)
    while (may_be_french or may_be_arabic) and (line := file.readline(_PIECE)):
        may_be_french = may_be_french and not _has_other_than_french(line)
        may_be_arabic = may_be_arabic and not _has_other_than_arabic(line)
        may_be_dos = may_be_dos or bool(_has_letter_of_dos(line))
        is_windows = is_windows or bool(_has_letter_of_windows(line))
        is_arabic = is_arabic or bool(_has_arabic_word(line))
    may_be_french = may_be_french and (is_windows or not may_be_dos)
    return "cp1252" if may_be_french else "cp1256" if may_be_arabic and is_arabic else None


def _is_utf_8(file: IO[bytes]) -> bool:
    decode = codecs.getincrementaldecoder("utf-8")().decode
    file.seek(0)
    try:
        while piece := file.read(_PIECE):
            decode(piece)
        decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True
