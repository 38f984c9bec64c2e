"""CSV as people's programs save it: what is certain is read as it was written, and nothing is guessed."""

from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codservice.files.encodings import encoding_of

HEADER = "Nom;Téléphone;Wilaya;Prix\r\n"
FRENCH = HEADER + "Amélie Benaïssa;0550123456;Béjaïa;2 500 €\r\nCité des 5 « Frères » – Bt n° 12, l’entrée à gauche\r\n"
CAPITALS = "NOM;TÉLÉPHONE;PRÊT À\r\nAMÉLIE;0550;BÉJAÏA\r\nÉlodie;0551;ÇA\r\n"
ARABIC = "الاسم;الهاتف;الولاية\r\nأمين بن علي، شارع 5؛;0550123456;الجزائر\r\nمُحَمَّد;0551;أين؟\r\n"
SIGNS = "après 18h…;“grand” — 2 × 3 · ‘x’\r\n"
MIXED = "Nom;Téléphone;Wilaya\r\nأمين;0550123456;Béjaïa - بجاية\r\n"


@pytest.mark.parametrize(
    ("text", "encoding", "name"),
    [
        ("", "ascii", "utf-8-sig"),
        ("Nom;Prix\n", "ascii", "utf-8-sig"),
        (FRENCH + ARABIC, "utf-8", "utf-8-sig"),
        (FRENCH + ARABIC, "utf-8-sig", "utf-8-sig"),
        (FRENCH + ARABIC, "utf-16", "utf-16"),
        (FRENCH, "cp1252", "cp1252"),
        (FRENCH + SIGNS, "cp1252", "cp1252"),
        (SIGNS + FRENCH, "cp1252", "cp1252"),
        (ARABIC + SIGNS, "cp1256", "cp1256"),
        (CAPITALS, "cp1252", "cp1252"),
        ("Nom;À payer;Livraison\nAmine;2 500,00;À domicile\n", "cp1252", "cp1252"),
        (ARABIC, "cp1256", "cp1256"),
        (MIXED, "cp1256", "cp1256"),
    ],
)
def test_what_is_certain_is_read_as_it_was_written(text: str, encoding: str, name: str) -> None:
    data = text.encode(encoding)
    assert encoding_of(BytesIO(data)) == name
    assert data.decode(name) == text


def test_a_sign_between_two_pieces_of_a_large_file_is_whole() -> None:
    for shift in range(4):
        assert encoding_of(BytesIO(b"x" * ((1 << 20) - shift) + "ة€".encode())) == "utf-8-sig"
    assert encoding_of(BytesIO("é\n".encode() * (1 << 20) + "é".encode()[:1])) is None


@pytest.mark.parametrize(
    "data",
    [
        FRENCH.replace("€", "").replace("–", "").replace("’", "").encode("cp850"),
        *(
            text.encode("cp850")
            for text in ("Livraison à domicile", "voilà;18h à 20h", "déjà", "où", "À côté", "Ôtez où")
        ),
        SIGNS.replace("è", "e").encode("cp1252"),  # which may be letters of DOS
        FRENCH.encode("mac-roman"),
        CAPITALS.replace(" À", " É").encode("cp1252"),  # É alone may be a letter of either
        "Nom\r\nأمين\r\n".encode("cp1256") + "Élodie\r\n".encode("cp1252"),
        "Ελένη".encode("cp1253"),
        "Иван".encode("cp1251"),
        "Amélie Ünal, Muñoz".encode("cp1252"),
        HEADER.encode() + "Amélie\r\n".encode("cp1252"),
        ARABIC.encode("iso8859-6", "replace"),
        *(text.encode(f"utf-16-{end}") for text in ("sku;name\n", ARABIC) for end in ("le", "be")),  # without a BOM
        FRENCH.encode("utf-32"),
        b"\x81\x8d\xff",
    ],
)
def test_what_is_not_certain_is_not_guessed(data: bytes) -> None:
    assert encoding_of(BytesIO(data)) is None


def files(*words: str) -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from((*words, "Nom", "été", "n° 5", "18h…", "2 × 3", " ", ";", "\n", "l’eau"))).map(
        " ".join
    )


@given(
    files("É", "À", "ÉTÉ", "BÉJAÏA", "Élodie", "Çà", "Amélie"),
    files("أمين", "و", "ة", "الجزائر", "شارع،", "مُحَمَّد"),
)
def test_a_file_is_read_as_it_was_written_or_not_at_all(french: str, arabic: str) -> None:
    for text, encoding in ((french, "cp1252"), (arabic, "cp1256")):
        name = encoding_of(BytesIO(text.encode(encoding)))
        assert name is None or text.encode(encoding).decode(name) == text
