"""Values: any text or number sent comes back exactly as it was sent, or is refused; nothing in between."""

import json
import unicodedata
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rest_framework.serializers import ValidationError

from codservice import values
from codservice.api.fields import MAX_AMOUNT, Amount
from codservice.wire import dump_json, load_json
from orders.models import Order
from tests.factories import order_body
from webhooks.models import Event

ORDERS = "/api/v1/orders"
pytestmark = pytest.mark.django_db
ITEM = order_body()["items"][0]

NAUGHTY = [
    "undefined",
    "null",
    "NULL",
    "(null)",
    "nil",
    "true",
    "None",
    "hasOwnProperty",
    "__proto__",
    "constructor",
    "0",
    "1.00",
    "-1",
    "1E+02",
    "NaN",
    "Infinity",
    "0x0",
    "1,000.00",
    "٠١٢٣٤٥",
    "０１２",
    ",./;'[]-=",
    '<>?:"{}|_+',
    "!@#$%^&*()`~",
    "\\",
    "\\\\",
    "\\n",
    "%00",
    "%s%s%s%n",
    "{0}",
    "{{7*7}}",
    "${7*7}",
    "#{1}",
    "<%= 1 %>",
    "' OR 1=1 --",
    "1'; DROP TABLE orders_order; --",
    '" OR ""="',
    "$$; SELECT 1; $$",
    "%' --",
    "_%\\_",
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "&lt;b&gt;&amp;",
    "javascript:alert(1)",
    "]]>",
    "<!--",
    "../../etc/passwd",
    "C:\\con\\nul",
    "$(touch /tmp/x)",
    "`id`",
    "=1+1",
    "@SUM(A1)",
    "+213",
    "-2+3",
    "Ω≈ç√∫˜µ≤≥÷",
    "ÅÍÎÏ˝ÓÔÒÚÆ☃",
    "¡™£¢∞§¶•ªº–≠",
    "田中さんにあげて下さい",
    "ヽ༼ຈل͜ຈ༽ﾉ",
    "사회과학원",
    "Ⱥ",
    "ẞ ß İ ı ǅ ﬁ",
    "👩‍👩‍👧‍👦 🇩🇿 1️⃣ 👍🏽",
    "😀" * 50,
    "محمد بن علي",
    "الصفحات التّحول",
    "ﷺ",
    "بِسْمِ اللَّهِ",
    "مُنَاقَشَةُ سُبُلِ",
    "\u202eabc\u202c",
    "\u2066abc\u2069",
    "a\u200bb",
    "a\u200db",
    "a\u00a0b",
    "a\u3000b",
    "a\ufeffb",
    "a\u2028b",
    "a\u2029b",
    "\ufffd",
    "\uffff",
    "\U0010ffff",
    "\ue000",
    "Z̴͎̲͗a̵l̸g̷o̶",
    "e" + "\u0301" * 60,
    "Ṱ̺̺̕o͞ ̷i̲̬͇̪͙n̝̗͕v̟̜̘̦͟o̶̙̰̠kè͚̮̺̪̹̱̤",
    "\u1100\u1161\u11a8",
    "A\u030a",
    "\u212b",
    "a  b",
    "x" * 255,
    "ب" * 255,
    "🏠" * 255,
]
UNUSABLE = [
    "\x00",
    "a\x00b",
    "\x07",
    "a\x1b[31mb",
    "a\x7fb",
    "\x85",
    "\x9f",
    "a\x08",
    "\r",
    "a\x0bb",
    "\ud800",
    "\udfff\ud800",
]
EMPTY = [
    "",
    " ",
    "\t",
    "\u00a0",
    "\u3000",
    "\u200b",
    "\u200b\u200d\ufeff",
    "\u202e\u202c",
    "\u2028",
    "\u00ad",
    "\u3164",
    "\u2800\u2800",
    "\u034f",
    "\u115f\u1160\uffa0",
    "\u17b4\u17b5",
    "\u180b\u180c\u180d\u180e\u180f",
    "\ufe00\ufe0f",
    "\ufff0\ufff8",
    "\U0001bca0\U0001bca3",
    "\U0001d173\U0001d17a",
    "\U000e0000\U000e0020\U000e01ef\U000e0fff",
]
TOO_LONG = ["x" * 256, "ب" * 256, "x" * 100_000]

# Field → (the change that sends it, the part of the detail that shows it).
PLACES = {
    "customer_name": (lambda text: {"customer_name": text}, lambda body: body["customer"]["name"]),
    "customer_address": (lambda text: {"customer_address": text}, lambda body: body["customer"]["address"]),
    "product_name": (
        lambda text: {"items": [{**ITEM, "product_name": text}]},
        lambda body: body["items"][0]["product_name"],
    ),
    "attribute": (
        lambda text: {"items": [{**ITEM, "attributes": {"key": text}}]},
        lambda body: body["items"][0]["attributes"]["key"],
    ),
    "attribute key": (
        lambda text: {"items": [{**ITEM, "attributes": {text[:64]: "value"}}]},
        lambda body: next(iter(body["items"][0]["attributes"])),
    ),
    "notes": (lambda text: {"notes": text}, lambda body: body["notes"]),
    "external_id": (lambda text: {"external_id": text[:64]}, lambda body: body["external_id"]),
}
SHORT = {"attribute key", "external_id"}
FREE = {"customer_address", "notes"}
MAY_BE_EMPTY = {"attribute", "notes"}


def canonical(text):
    return unicodedata.normalize("NFC", text).strip()


def test_what_is_stored_is_what_was_sent(api):
    """An order has the text in every place at once; each place of a line has a line of its own."""
    for text in NAUGHTY:
        changes = {place: change(text) for place, (change, _) in PLACES.items()}
        lines = [change["items"][0] for change in changes.values() if "items" in change]
        body = order_body(**{name: value for change in changes.values() for name, value in change.items()})
        answer = api.post(ORDERS, body | {"items": lines})
        assert answer.status_code == 201, (text, answer.content)
        for told in (answer.json(), api.get(f"{ORDERS}/{answer.json()['id']}").json()):
            left = iter(told["items"])
            for place, (_, shown) in PLACES.items():
                part = told | {"items": [next(left)]} if "items" in changes[place] else told
                assert shown(part) == canonical(text[:64] if place in SHORT else text), (place, text)
        Order.objects.all().delete()


def test_a_name_is_the_same_in_answer_detail_list_and_event(api):
    for text in NAUGHTY:
        name = canonical(text)
        order_id = api.post(ORDERS, order_body(customer_name=text)).json()["id"]
        (listed,) = api.get(ORDERS).json()["data"]
        assert listed["customer"]["name"] == name
        assert api.post(f"{ORDERS}/{order_id}/cancel").json()["customer"]["name"] == name
        assert json.loads(Event.objects.latest("created_at").body)["data"]["customer_name"] == name
        Order.objects.all().delete()


@pytest.mark.parametrize("place", PLACES)
def test_control_characters_and_broken_unicode_are_refused(api, place):
    for text in UNUSABLE:
        body = json.dumps(order_body(**PLACES[place][0](text))).encode()
        assert api.post(ORDERS, body).status_code == 422, repr(text)
    assert not Order.objects.exists()


@pytest.mark.parametrize("place", [place for place in PLACES if place not in SHORT])
def test_more_marks_on_a_letter_than_anybody_writes_are_refused(api, place):
    change, shown = PLACES[place]
    assert shown(api.post(ORDERS, order_body(**change("e" + "\u0301\u0316" * 40))).json())[0] == "é"
    assert api.post(ORDERS, order_body(**change("e" + "\u0301\u0316" * 60))).status_code == 422


@pytest.mark.parametrize("place", [place for place in PLACES if place not in MAY_BE_EMPTY])
def test_text_that_nobody_can_see_is_empty(api, place):
    for text in EMPTY:
        assert api.post(ORDERS, order_body(**PLACES[place][0](text))).status_code == 422, repr(text)


@pytest.mark.parametrize("place", ["customer_name", "product_name", "attribute"])
def test_255_characters_are_the_most(api, place):
    for text in TOO_LONG:
        assert api.post(ORDERS, order_body(**PLACES[place][0](text))).status_code == 422


@pytest.mark.parametrize(("field", "most"), [("customer_address", 500), ("notes", 2000), ("external_id", 64)])
def test_longer_texts_have_their_own_most(api, field, most):
    assert api.post(ORDERS, order_body(**{field: "ب" * most})).status_code == 201
    assert api.post(ORDERS, order_body(**{field: "ب" * (most + 1)})).status_code == 422
    assert api.post(ORDERS, order_body(**{field: f" {'ب' * (most - 1)} "})).status_code == 201, "counted when trimmed"


def test_20_attributes_with_keys_of_64_and_values_of_255_are_the_most(api):
    def status(attributes):
        return api.post(ORDERS, order_body(items=[{**ITEM, "attributes": attributes}])).status_code

    assert status({f"{n:064}": "x" * 255 for n in range(20)}) == 201
    assert status({str(n): "" for n in range(21)}) == 422
    assert status({"x" * 65: ""}) == 422
    assert status({"x": "x" * 256}) == 422
    assert status({"\u00e9": "", "e\u0301": ""}) == 422, "two spellings of one key"
    for value in (1, 1.5, True, None, [], {}, ["a"]):
        assert status({"x": value}) == 422
        assert status(value) == (201 if value is None or value == {} else 422)


def test_newlines_and_tabs_pass_in_free_text_only(api):
    for place, (change, shown) in PLACES.items():
        answer = api.post(ORDERS, order_body(**change("a\n\tb")))
        if place in FREE:
            assert shown(answer.json()) == "a\n\tb"
        else:
            assert answer.status_code == 422


def test_windows_line_ends_become_newlines(api):
    assert api.post(ORDERS, order_body(notes="a\r\nb")).json()["notes"] == "a\nb"


def test_text_is_kept_in_nfc(api):
    answer = api.post(ORDERS, order_body(customer_name="Ai\u0308cha \u0627\u0653", notes="e\u0301"))
    assert answer.json()["customer"]["name"] == "A\u00efcha \u0622"
    assert answer.json()["notes"] == "\u00e9"


@pytest.mark.parametrize("value", [5, 1.5, True, [], {}, ["a"], {"a": "b"}, None], ids=repr)
@pytest.mark.parametrize("field", ["customer_name", "customer_phone", "customer_address"])
def test_text_is_a_json_string(api, field, value):
    answer = api.post(ORDERS, order_body(**{field: value}))
    assert list(answer.json()["errors"]) == [field]


# --- Numbers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("quantity", [1, 2, 10_000])
def test_a_quantity_is_1_to_10000(api, quantity):
    assert (
        api.post(ORDERS, order_body(items=[{**ITEM, "quantity": quantity}])).json()["items"][0]["quantity"] == quantity
    )


@pytest.mark.parametrize(
    "quantity",
    ["0", "-1", "10001", "2147483648", "9223372036854775808", "1" + "0" * 400, "1" * 5000, "2.0", "1.5", "1e2", "-0",
     "true", "null", '"2"', '"1_000"', '"１２"', "[2]", "{}"],
)  # fmt: skip
def test_a_quantity_is_a_json_integer_and_nothing_else(api, quantity):
    body = json.dumps(order_body(items=[{**ITEM, "quantity": "Q"}])).replace('"Q"', quantity)
    assert list(api.post(ORDERS, body.encode()).json()["errors"]) == ["items.0.quantity"]


AMOUNTS = {
    "0": "0.00",
    "-0": "0.00",
    "0.0": "0.00",
    "-0.00": "0.00",
    "1": "1.00",
    "0.01": "0.01",
    "0.1": "0.10",
    "0.30": "0.30",
    "12.5": "12.50",
    "99999999.99": "99999999.99",
    "99999999": "99999999.00",
    "4.35": "4.35",
    "1.15": "1.15",
    "1e2": "100.00",
    "1E+2": "100.00",
    "125e-2": "1.25",
    "0e99999": "0.00",
    '"0"': "0.00",
    '"12.5"': "12.50",
    '"12."': "12.00",
    '".5"': "0.50",
    '"007.10"': "7.10",
    '"00000000000004900.00"': "4900.00",
    '"99999999.99"': "99999999.99",
}
NO_AMOUNTS = [
    "-1",
    "-0.01",
    "100000000",
    "99999999.991",
    "99999999.999",
    "0.001",
    "0.125",
    "1e-3",
    "1e-30",
    "1e400",
    "1e999999999",
    "-1e400",
    "1e-999999999",
    "1" * 13,
    "1" * 5000,
    "0." + "0" * 5000 + "1",
    "0.30000000000000004",
    "4500.500",
    "true",
    "false",
    "[]",
    "{}",
    "[1]",
    '"NaN"',
    '"Infinity"',
    '"-Infinity"',
    '"nan"',
    '"sNaN"',
    '"1e2"',
    '"1E+2"',
    '"-1"',
    '"-0"',
    '"+1"',
    '"1_0"',
    '"1,5"',
    '"1 000"',
    '"١٢"',
    '"１２"',
    '" 1"',
    '"1 "',
    '"1\\n"',
    '""',
    '"."',
    '"1.2.3"',
    '"0.001"',
    '"0x10"',
    '"100000000"',
    '"1 DZD"',
    '"' + "0" * 21 + '"',
    '"\\u0000"',
]


def sent_as(field, amount):
    if field == "unit_price":
        return json.dumps(order_body(items=[{**ITEM, "unit_price": "AMOUNT"}])).replace('"AMOUNT"', amount).encode()
    return json.dumps(order_body(**{field: "AMOUNT"})).replace('"AMOUNT"', amount).encode()


@pytest.mark.parametrize("field", ["total_amount", "shipping_fee", "unit_price"])
def test_amounts_come_back_exactly(api, field):
    for amount, expected in AMOUNTS.items():
        answer = api.post(ORDERS, sent_as(field, amount))
        assert answer.status_code == 201, amount
        detail = api.get(f"{ORDERS}/{answer.json()['id']}")
        for body in (answer, detail):
            exact = json.loads(body.content, parse_float=str)
            assert (exact["items"][0] if field == "unit_price" else exact)[field] == expected


@pytest.mark.parametrize("field", ["total_amount", "shipping_fee", "unit_price"])
def test_what_is_no_amount_is_refused(api, field):
    path = f"items.0.{field}" if field == "unit_price" else field
    for amount in NO_AMOUNTS:
        assert list(api.post(ORDERS, sent_as(field, amount)).json()["errors"]) == [path], amount
    assert not Order.objects.exists()


@pytest.mark.parametrize("amount", ["1795718542105", '"1795718542105"', '"99999999999999999999"'])
def test_digits_that_are_too_many_are_too_much(api, amount):
    answer = api.post(ORDERS, sent_as("total_amount", amount))
    assert answer.json()["errors"] == {"total_amount": ["Must be from 0 to 99999999.99."]}


centimes = st.integers(0, 9_999_999_999).map(lambda number: Decimal(number).scaleb(-2))


def read_amount(text):
    """Read an amount through the body's JSON and the field."""
    return Amount().run_validation(load_json(f'{{"amount": {text}}}'.encode())["amount"])


@given(centimes, st.booleans())
def test_every_amount_of_centimes_survives_exactly(amount, is_text):
    written = f'"{amount:f}"' if is_text else f"{amount:f}"
    read = read_amount(written)
    assert read == amount
    assert json.loads(dump_json({"amount": read}), parse_float=Decimal)["amount"] == amount
    assert dump_json(read).decode() == f"{amount:.2f}"


@given(st.decimals(allow_nan=False, allow_infinity=False, places=None))
def test_every_other_number_is_refused(number):
    assert_read_or_refused(number, f"{number}" if number.is_finite() else "0")


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_is_read_digit_by_digit(number):
    assert_read_or_refused(Decimal(repr(number)), repr(number))


def assert_read_or_refused(number, written):
    is_amount = 0 <= number <= MAX_AMOUNT and number.as_tuple().exponent >= -2
    try:
        read = read_amount(written)
    except ValidationError:
        assert not is_amount
    else:
        assert is_amount
        assert read == number
        assert isinstance(read, Decimal)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(total=centimes, fee=centimes, price=centimes)
def test_amounts_survive_the_database(api, total, fee, price):
    items = [{**ITEM, "unit_price": f"{price:f}"}]
    answer = api.post(ORDERS, order_body(total_amount=f"{total:f}", shipping_fee=f"{fee:f}", items=items))
    order = Order.objects.get(id=answer.json()["id"])
    assert (order.total_amount, order.shipping_fee, order.items.get().unit_price) == (total, fee, price)
    (listed,) = json.loads(api.get(ORDERS).content, parse_float=Decimal)["data"]
    assert listed["total_amount"] == total
    order.delete()


@pytest.mark.parametrize(
    ("written", "meant"),
    {
        "2500": "2500", "2 500": "2500", "2\u202f500,50 DA": "2500.50", "1\u00a0234\u00a0567.8": "1234567.8",
        " 400 ": "400", "400DA": "400", "400 dzd.": "400", "\u200f2 500 د.ج": "2500", "2500 د ج": "2500", ",5": "0.5",
        "\u202a2500\u202c": "2500", "\ufeff2 500": "2500", "\u20672500\u2069 DA": "2500",
        "٢٥٠٠": "2500", "۲۵۰۰": "2500", "٢٬٥٠٠٫٥٠ د.ج": "2500.50", "٢٥٠٠،٥": "2500.5", "1٢": "12",
        "٣٠٠٠ ٤٠٠": None, "²": None, "½": None, "٪": None, "१२": None,
        "1500\n2000": None, "1500 2000": None, "4500 400": None, "12 5": None, "2 500 50": None, "2 500, 50": None,
        "2.500,50 DA": "2500.50", "DZD 2,500.5": "2500.50", "1.234.567,00": "1234567", "1.250.000": "1250000",
        "'2500": "2500", "' 2 500 DA": "2500", "''2500": None, "'DA 5": None, "2'500": None,
        "DA. 2 500": "2500", "DA2500": "2500", "2500 Dinars": "2500", "٢٥٠٠ دينار": "2500",
        "2.500": None, "2,500": None, "2.500.00": None, "2,500,5": None, "0.500,00": None, "0,012,500": None,
        "1.23.456": None, "1.2345,00": None, "2.500,000": None, "DA": None,
        "Gratuit": "0", "offerte": "0", " FREE ": "0", "\u200fمجاني": "0", "مجانًا": "0", "مجاناً": "0", "freed": None,
        "2,500.00,00": None, "dadada 5": None, "2\n500": None, "1 2500": None, "2 500 DA 400 DA": None,
    }.items(),
)  # fmt: skip
def test_an_amount_is_understood_as_people_write_it_and_two_are_none(written: str, meant: str | None) -> None:
    try:
        assert values.amount(values.plain_amount(written)) == Decimal(meant or "NaN")
    except ValueError:
        assert meant is None


@pytest.mark.parametrize(
    ("written", "meant"),
    {
        "12": 12, "1 200": 1200, "1\u00a0200": 1200, "1\u202f234\u202f567": 1234567, "٢": 2, "١٬٢٠٠": 1200,
        "\u200f5": 5, "5,00": 5, "5.0": 5, "1 200,00": 1200, "1.000": None, "1,000": None, "5,50": None, "12 5": None,
        "1 2500": None, "": None, "-1": None, "5 kg": None, "'16": 16, "'": None, "\u202b5\u202c": 5,
    }.items(),
)  # fmt: skip
def test_a_whole_number_is_understood_as_spreadsheets_show_it(written: str, meant: int | None) -> None:
    try:
        assert values.digits(values.plain_integer(written), 0, 10**9) == meant
    except ValueError:
        assert meant is None
