"""The spellings that shops, couriers and customers use lead to the right place."""

import weakref
from collections import Counter
from pathlib import Path

import pytest

from orders import regions
from orders.regions import resolve
from tests.harness.sheets import read_records

HERE = Path(__file__).parent
WILAYAS = Path(regions.__file__).parent / "data/wilayas.csv"


def rows(name):
    return read_records((HERE / name).read_bytes())


@pytest.mark.parametrize("row", rows("wilaya_spellings.csv"), ids=lambda row: row["code"])
def test_a_wilaya_is_found_by_every_usual_spelling(row):
    found = {text: regions.find_wilaya(text).code for text in row["texts"].split("|")}
    assert found == dict.fromkeys(found, row["code"])


@pytest.mark.parametrize("row", rows("commune_spellings.csv"), ids=lambda row: f"{row['wilaya']}-{row['code']}")
def test_a_commune_is_found_by_every_usual_spelling(row):
    found = {text: regions.find_commune(text, row["wilaya"]).code for text in row["texts"].split("|")}
    assert found == dict.fromkeys(found, row["code"])


def test_every_wilaya_has_spellings_to_answer_to():
    assert [row["code"] for row in rows("wilaya_spellings.csv")] == [one.code for one in regions.WILAYAS]


@pytest.mark.parametrize(
    "text",
    [
        "6",
        "06",
        "006",
        "DZ-06",
        "dz06",
        "DZ 6",
        " 06 ",
        "٦",
        "٠٦",
        "۰۶",
        "０６",
        "06 - Bejaïa",
        "6. Bejaia",
        "06: بجاية",
        "Bejaia (06)",
        "Béjaïa 6",
        "06Bejaia",
        "Wilaya 6",
        "wilaya n° 06",
        "Wilaya N°6",
        "N° 06",
        "Nº6",
        "Wilaya - 6",
        "الولاية رقم 6",
        "Bejaïa 6000",
        "WILAYA: 06",
        "Wilaya DZ-06",
        "W06",
        "W. 6",
        "ولاية 06",
        "الولاية ٦",
        "06000 Bejaïa",
        "Béjaïa (06000)",
        "06012 بجاية",
    ],
)
def test_the_code_of_a_wilaya_in_its_forms(text):
    assert regions.find_wilaya(text).code == "06"


@pytest.mark.parametrize(
    "text",
    [
        *("0", "00", "70", "99", "100", "1600", "16000", "-6", "+6", "6.0", "6,0", "0x6", "²", "1" * 31),
        *("wilaya -6", "Wilaya 70", "Wilaya 16000", "Commune 16", "Ville 6", "16 6", "x06", "W. 16 6"),
    ],
)
def test_a_number_that_is_no_code_of_a_wilaya(text):
    with pytest.raises(regions.NotFound):
        regions.find_wilaya(text)


@pytest.mark.parametrize(
    ("text", "wilaya", "code"),
    [
        ("1621", "16", "1621"),
        ("16021", "16", "1621"),
        ("16001", "16", "1601"),  # also a postal code of the Casbah; docs/regions.md has it as a code
        ("16002", "16", "1602"),  # the postal code of the same commune
        ("١٦٢١", "16", "1621"),
        ("101", "01", "0101"),
        ("0101", "01", "0101"),
        ("01001", "01", "0101"),
        ("4901", "49", "0109"),
        ("49001", "49", "0109"),
        ("4901", "01", "0109"),
        ("0109", "49", "0109"),
        ("1621 - Bab Ezzouar", "16", "1621"),
        ("16 Bab Ezzouar", "16", "1621"),
    ],
)
def test_the_code_of_a_commune_in_its_forms(text, wilaya, code):
    assert regions.find_commune(text, wilaya).code == code


@pytest.mark.parametrize(
    ("text", "wilaya"),
    [
        ("1621", "09"),  # lies elsewhere
        ("16151", "16"),  # a postal code of Alger, and no form of a commune code
        ("16024", "16"),  # the postal code of Bab Ezzouar, and Hammamet's code with a zero inside
        ("16060", "16"),  # likewise, and 1660 is no commune
        ("16000", "16"),
        ("1600", "16"),
        ("1699", "16"),
        ("5901", "59"),
        ("01", "16"),
        ("16", "16"),
        ("160001", "16"),
        ("-1601", "16"),
        ("1601.0", "16"),
        ("1622 Bab Ezzouar", "16"),  # the number names another commune
        ("31 - Bab Ezzouar", "16"),
        ("31000 Bab Ezzouar", "16"),
    ],
)
def test_a_number_that_is_no_code_of_a_commune_there(text, wilaya):
    with pytest.raises(regions.NotFound):
        regions.find_commune(text, wilaya)


def test_a_commune_is_found_under_the_three_maps():
    """Bou Saâda was in M'Sila until it became a wilaya; Timimoun left Adrar in 2019."""
    for text, wilayas in (("Bou Saâda", ("28", "68")), ("Timimoun", ("01", "49")), ("Aflou", ("03", "59"))):
        assert len({regions.find_commune(text, code).code for code in wilayas}) == 1
    assert regions.commune("2820").wilayas == {"28", "68"}
    with pytest.raises(regions.NotFound):
        regions.find_commune("Bou Saâda", "16")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("59 - Barika", "60"),
        ("60 - Aflou", "59"),
        ("62. Messaad", "66"),
        ("Bou Saâda (64)", "68"),
        ("بوسعادة ٥٩", "68"),
    ],
)
def test_beside_a_wilaya_of_2026_a_number_of_another_list_of_them_decides_nothing(text, code):
    assert regions.find_wilaya(text).code == code


@pytest.mark.parametrize(
    ("text", "wilaya", "code"),
    [
        ("59 Bou Saâda", "68", "2820"),
        ("Bou Saâda (64)", "28", "2820"),  # where it lay before
        ("69 - Sidi Ameur", "68", "2822"),
    ],
)
def test_nor_does_it_beside_a_commune_of_theirs(text, wilaya, code):
    assert regions.find_commune(text, wilaya).code == code


@pytest.mark.parametrize(
    "text", ["El Oued Djamaâ", "Djamaâ El Oued", "EL-OUED DJAMAA", "El Oued Djemaa", "الوادي جامعة"]
)
@pytest.mark.parametrize("wilaya", ["39", "57"])
def test_the_wilayas_own_name_beside_a_commune_makes_no_other_commune(text, wilaya):
    """Without articles El Oued and Djamaâ would be Oued El Djemaa, of Relizane."""
    assert regions.find_commune(text, wilaya).code == "3928"


def test_codes_and_exact_names_are_found_without_an_index():
    resolve.wilayas.cache_clear()
    resolve.communes_of.cache_clear()

    for wilaya in regions.WILAYAS:
        assert {regions.find_wilaya(text) for text in (wilaya.code, wilaya.name, wilaya.name_ar)} == {wilaya}
        for commune in regions.communes_of(wilaya.code):
            assert regions.find_commune(commune.code, wilaya.code) == commune

    assert regions.find_commune("Bab Ezzouar", "16").code == "1621"
    searched = [resolve.wilayas(), *(resolve.communes_of(wilaya.code) for wilaya in regions.WILAYAS)]
    assert not any("index" in vars(candidates) for candidates in searched)


def test_exact_getters_take_the_canonical_code_only():
    assert regions.wilaya("06").name_ar == "بجاية"
    assert regions.commune("1621").wilaya == "16"
    for wrong in ("6", "006", 6, None, "Alger"):
        with pytest.raises(regions.NotFound):
            regions.wilaya(wrong)
        with pytest.raises(regions.NotFound):
            regions.commune(wrong)
        with pytest.raises(regions.NotFound):
            regions.communes_of(wrong)
        with pytest.raises(regions.NotFound):
            regions.find_commune("Alger", wrong)


@pytest.mark.parametrize(
    ("official", "code"),
    [
        ("الاغواط", "03"),
        ("أم البواقى", "04"),
        ("تامنغست", "11"),
        ("تيزى وزو", "15"),
        ("سيدى بلعباس", "22"),
        ("الوادى", "39"),
    ],
)
def test_the_spellings_of_the_official_lists_are_taken_as_before(official, code):
    assert regions.find_wilaya(official).code == code
    assert regions.wilaya(code).name_ar != official


def test_the_final_ya_of_arabic_names_has_its_dots():
    """But for the names that end with an a: Aïssa, Moussa, Yahia, Mostefa, Marsa…"""
    ends = {word for one in regions.COMMUNES for word in one.name_ar.split() if word.endswith("ى")}
    assert ends == {
        *("عيسى", "موسى", "يحيى", "بويحيى", "مصطفى", "سلمى", "يبقى"),
        *("المرسى", "مرسى", "الوسطى", "الروى", "الدفلى", "ونسى", "الوسرى"),
    }


def test_the_tables_are_whole():
    communes = {one.code: one for wilaya in regions.WILAYAS for one in regions.communes_of(wilaya.code)}
    assert [one.code for one in regions.WILAYAS] == [f"{i:02}" for i in range(1, 70)]
    assert len(communes) == 1541
    assert {one.wilaya for one in communes.values()} == {one.code for one in regions.WILAYAS}
    assert {one.wilaya_58 for one in communes.values()} == {f"{i:02}" for i in range(1, 59)}
    assert {one.wilaya_48 for one in communes.values()} == {f"{i:02}" for i in range(1, 49)}
    assert all(one.name and one.name_ar for one in communes.values())
    assert list(regions.communes_of("16")) == sorted(regions.communes_of("16"), key=lambda one: one.code)


def test_the_table_of_wilayas_counts_the_communes_of_today():
    counts = Counter(one.wilaya for one in regions.COMMUNES)
    assert {row["code"]: int(row["communes"]) for row in read_records(WILAYAS.read_bytes())} == counts


def test_the_wilaya_name_finds_its_seat_too():
    """Whoever writes "BBA" for the wilaya writes it for the town."""
    for text, wilaya in (("BBA", "34"), ("Oued Souf", "39"), ("Bougie", "06"), ("وهران", "31"), ("El Goléa", "58")):
        seat = regions.find_commune(text, wilaya)
        assert regions.find_wilaya(seat.name).code == wilaya


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("Alger / Bab Ezzouar", ("16", "1621")),
        ("Bab Ezzouar, Alger", ("16", "1621")),
        ("16 - Alger, bab ezouar", ("16", "1621")),
        ("باب الزوار، الجزائر", ("16", "1621")),
        ("Barika (Batna)", ("05", "0542")),
        ("Oran - Es senia", ("31", "3105")),
        ("16 - Alger", None),  # the wilaya alone, as its number and its name
        ("Alger (16)", None),
        ("Oran/Oran", None),
        ("Sétif / Alger", None),
        ("Alger / Bab Ezzouar / cité 5 juillet", None),
        ("Alger Bab Ezzouar", None),
        ("Alger,", None),
        ("", None),
    ],
)
def test_a_wilaya_and_its_commune_in_one_text(text, codes):
    found = regions.find_both(text)
    assert (found and (found[0].code, found[1].code)) == codes


class Cell(str):
    """A string that can be referred to weakly, which shows whether anything keeps it."""


@pytest.mark.parametrize(("width", "is_kept"), [(1, True), (100_000, False)])
def test_a_text_that_is_too_long_for_places_is_not_kept(width, is_kept):
    cell = Cell("Alger /" + " " * width + "Bab Ezzouar")
    kept = weakref.ref(cell)
    regions.find_both(cell)
    del cell
    assert (kept() is not None) is is_kept
