"""Algerian phone numbers: every usual way of writing one gives the same number; anything else is refused."""

import re
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orders import phones
from tests.factories import make_order, order_body

ORDERS = "/api/v1/orders"

mobile = st.from_regex(r"[567][0-9]{8}", fullmatch=True).filter(str.isascii)
landline = st.from_regex(r"[1-4][0-9]{7}", fullmatch=True).filter(str.isascii)
national = mobile | landline
SCRIPTS = ["0123456789", "٠١٢٣٤٥٦٧٨٩", "۰۱۲۳۴۵۶۷۸۹", "０１２３４５６７８９"]
separator = st.sampled_from(["", " ", "-", ".", "/", "\u00a0", "\u202f", "\u2011", " - "])
prefix = st.sampled_from(["0", "+213", "+213 ", "00213", "00 213 ", "(0)", "+213 (0)", "(+213) ", "213"])
mark = st.sampled_from(["", "\u200e", "\u200f", "\u202a", " "])


@given(national, prefix, separator, st.sampled_from(SCRIPTS), mark, st.integers(1, 3))
def test_every_way_of_writing_a_number_is_that_number(number, prefix, separator, digits, mark, group):
    groups = [number[0], *(number[start : start + group] for start in range(1, len(number), group))]
    written = mark + (prefix + separator.join(groups)).translate(str.maketrans("0123456789", digits)) + mark
    if len(written) <= phones.MAX_LENGTH:
        assert phones.to_e164(written) == f"+213{number}"


@given(national)
def test_a_number_in_e164_stays_what_it_is_and_is_dialled_as_it_was(number):
    e164 = phones.to_e164(f"0{number}")
    assert phones.to_e164(e164) == e164 == f"+213{number}"
    assert phones.national(e164) == f"0{number}"


@given(st.from_regex(phones.PATTERN, fullmatch=True).filter(lambda text: text.isascii() and "\n" not in text))
def test_the_forms_that_are_promised_are_taken(text):
    national = re.sub(r"^((\+|00)213|0)", "", text.replace(" ", ""))
    assert phones.to_e164(text) == f"+213{national}"


@given(national, prefix | st.just(""), separator, st.sampled_from(SCRIPTS), mark, st.integers(1, 9), st.sampled_from([
    "{}", "tel {}", "Tel:{} (Nadia)", "{} / 0550 98 76 54", "0550987654/{}", "{}\n{}", "{}x2", "{};", "هاتف {} نادية",
]))  # fmt: skip
def test_a_number_is_found_however_it_is_written_and_whatever_stands_beside_it(
    number, prefix, separator, digits, mark, group, text
):
    groups = [number[start : start + group] for start in range(0, len(number), group)]
    written = mark + (prefix + separator.join(groups)).translate(str.maketrans("0123456789", digits)) + mark
    assert phones.stands_in(f"+213{number}", text.format(written, written))


@pytest.mark.parametrize(
    "text",
    [
        "021556678",
        "12155667",
        "0 2155667",
        "0550123456",
        "",
        "x" * 99,
    ],
)
def test_a_number_is_not_found_in_another(text):
    assert not phones.stands_in("+21321556677", text)


def in_pairs(number: str, separator: str = " ") -> str:
    return separator.join([number[:3], *(number[start : start + 2] for start in range(3, len(number), 2))])


BETWEEN = [" / ", "/", " - ", "-", ", ", ",", " ", " ou ", " و ", "\n", "\r\n", "\t", " ("]
among = st.sampled_from(BETWEEN)
bare = st.builds(in_pairs, national, st.sampled_from(["", " ", ".", "-"]))
full = st.builds("{}{}".format, st.sampled_from(["0", "+213", "+213 ", "00213 ", "+213 (0) "]), bare)


@pytest.mark.parametrize(
    "before",
    [
        "0550123456",
        "0550 12 34 56",
        "0550.12.34.56",
        "+213 550 12 34 56",
        "00213-550-12-34-56",
        "(+213) 0550 123 456",
        "550 12 34 56",
        "021 35 56 67",
        "21 35 56 67",  # begins like +213
        "213 5 56 67 78 89",  # begins like a landline of 021 3
        "0550 12 34 56 - 021 55 66 77",
        "550 12 34 56 / 770 12 34 56",
        "Tel: 0550 12 34 56",
        "12345678901",
        # Numbers of other countries.
        "+33 6 12 34 56 78",
        "+33.6.12.34.56.78",
        "(+33) 6 12 34 56 78",
        "+33 (0)6 12 34 56 78",
        "0033 6 12 34 56 78",
        "00 33 612 345 678",
        "+1 650 253 0000",
        "+216 55 012 345",
        "+44 20 7946 0958",
        "0550 12 34 56 / +33 6 12 34 56 78",
        "+33 6 12 34 56 78 / +34 612 34 56 78",
        "Appt 4, +33 6 12 34 56 78",
    ],
)
def test_a_number_without_its_zero_is_found_behind_whole_numbers(before: str) -> None:
    for between, number in product(BETWEEN, ["661223344", "661 22 33 44", "66 12 23 344"]):
        for digits in SCRIPTS:
            text = f"{before}{between}{number}".translate(str.maketrans("0123456789", digits))
            assert phones.stands_in("+213661223344", text), text
            assert not phones.stands_in("+213661223345", text), text


@given(st.lists(st.tuples(full | bare, among), max_size=4), bare, among, full)
def test_a_number_is_found_among_others_however_all_of_them_are_written(before, number, between, after):
    text = "".join(map("".join, before)) + number + between + after
    assert phones.stands_in(f"+213{re.sub('[^0-9]', '', number)}", text), text


@pytest.mark.parametrize("number", ["21556677", "21 55 66 77", "661223344", "661 22 33 44", "66 12 23 344"])
@pytest.mark.parametrize(
    "before",
    ["4", "12 /", "Bloc 4,", "Cité 20 Août Bt 12 -", "Appt 7, tel", "30100 /", "16000", "16000 Alger, n° 3:", "5 x2 /",
     "le 12/05/2024", "0550 12 34 56, poste 12,"],
)  # fmt: skip
def test_a_number_without_its_zero_is_found_behind_short_figures(before: str, number: str) -> None:
    """The figures are those of a house, a postal code, a date."""
    digits = number.replace(" ", "")
    assert phones.stands_in(f"+213{digits}", f"{before} {number}")


@given(st.text(max_size=60))
def test_any_text_is_a_number_or_refused_and_never_a_crash(text):
    try:
        number = phones.to_e164(text)
    except phones.NotAPhone:
        return
    assert number.startswith("+213")
    assert len(number) in (12, 13)
    assert not any(character.isalpha() for character in text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0",
        "055012345",
        "05501234567",
        "0150123456",
        "0450123456",
        "+33612345678",
        "+1 650 253 0000",
        "+21655012345",
        "+212550123456",
        "1548",
        "0550 DOG 456",
        "0550 12 34 5O",
        "0550 12 34 56 ext 5",
        "0550123456;ext=5",
        "0550123456x1",
        "call 0550123456",
        "tel:0550123456",
        "0550123456#",
        "*0550123456",
        "0550*123456",
        "0550,12,34,56",
        "0550 12 34 56 / 0661 11 22 33",
        "0550_12_34_56",
        "+213+550123456",
        "00000550123456",
        "²550123456",
        "0550123456" * 5,
    ],
)
def test_what_is_no_algerian_number_is_refused(text):
    with pytest.raises(phones.NotAPhone):
        phones.to_e164(text)


@pytest.mark.django_db
def test_a_number_is_shown_as_it_was_sent_and_found_in_any_form(api):
    for written in ("0550 12 34 56", "+213 550-12-34-56", "٠٥٥٠١٢٣٤٥٦", "021 55 66 77"):
        answer = api.post(ORDERS, order_body(customer_phone=f"  {written} "))
        assert answer.json()["customer"]["phone"] == written
    for form in ("0550123456", "%2B213550123456", "00213 550 12 34 56", "٠٥٥٠-١٢-٣٤-٥٦", "+213 550 123 456"):
        answer = api.get(f"{ORDERS}?phone={form}")
        assert answer.json()["meta"]["total"] == 3, form
    assert api.get(f"{ORDERS}?phone=021556677").json()["meta"]["total"] == 1


@pytest.mark.django_db
def test_an_order_is_found_by_its_second_number_too(alice, charlie, api):
    made = [
        make_order(alice, phone="0550123456", customer_phone_2="021 55 66 77"),
        make_order(alice, phone="021556677", customer_phone_2="021 55 66 77"),
        make_order(alice, phone="021556677"),
    ]
    make_order(alice, phone="0550123456", customer_phone_2="021 55 66 78")
    make_order(charlie, customer_phone_2="021 55 66 77")
    for form in ("021556677", "%2B21321556677", "00213 21 55 66 77", "٠٢١-٥٥-٦٦-٧٧"):
        for name in ("phone", "q"):
            answer = api.get(f"{ORDERS}?{name}={form}&sort=created_at").json()
            assert [row["id"] for row in answer["data"]] == [str(order.id) for order in made], (name, form)
            assert answer["meta"]["total"] == 3


@pytest.mark.django_db
@pytest.mark.parametrize("phone", ["12", "0550 DOG 456", "+33612345678", "0550123456" * 5, 550123456, None, ""])
def test_an_impossible_number_is_422(api, phone):
    answer = api.post(ORDERS, order_body(customer_phone=phone))
    assert list(answer.json()["errors"]) == ["customer_phone"]


@given(st.sampled_from(["0", "+213", "00213"]), mobile, st.integers(1, 8))
def test_a_plain_mobile_number_is_read_as_the_parser_reads_it(prefix: str, digits: str, cut: int) -> None:
    """The hyphen keeps the second text off the fast path."""
    plain = phones.to_e164(f"{prefix}{digits[:cut]} {digits[cut:]}")

    assert plain == phones.to_e164(f"{prefix}{digits[:cut]}-{digits[cut:]}") == f"+213{digits}"
