"""GET /api/v1/orders: pages, order and filters, compared with a loop over all orders."""

import re
from datetime import UTC, datetime, timedelta
from urllib.parse import quote, urlencode
from uuid import UUID

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from codservice.api import paging
from orders.models import Order, Status, StatusChange
from orders.tasks import sum_up_days
from tests.factories import make_order, make_orders
from tests.harness.plans import explain, fill

ORDERS = "/api/v1/orders"
pytestmark = pytest.mark.django_db
NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)


def ids(answer):
    assert answer.status_code == 200, answer.content
    return [row["id"] for row in answer.json()["data"]]


def created(order, at, **fields):
    Order.objects.filter(id=order.id).update(created_at=at, **fields)
    return str(order.id)


@pytest.fixture
def many(alice, charlie):
    """47 orders of Alice's in all statuses, some made at the same time; and some of Charlie's."""
    orders = make_orders(alice, ({"external_id": str(number)} for number in range(47)))
    statuses = list(Status)
    for number, order in enumerate(orders):
        order.created_at = NOON + timedelta(hours=number // 3)
        order.updated_at = NOON + timedelta(hours=(number * 7) % 20)
        order.status = statuses[number % 5]
    Order.objects.bulk_update(orders, ["created_at", "updated_at", "status"])
    make_orders(charlie, [{}] * 3)
    return list(Order.objects.filter(account=alice))


def test_a_row_shows_what_a_list_needs(alice, api):
    order = make_order(alice)
    (row,) = api.get(ORDERS).json()["data"]
    assert row == {
        "id": str(order.id),
        "status": "pending_confirmation",
        "customer": {"name": "Amine Benali", "phone": "0550123456", "wilaya": "16"},
        "total_amount": 4500.50,
        "created_at": row["created_at"],
    }
    assert datetime.fromisoformat(row["created_at"]) == order.created_at


def test_without_orders_there_is_one_empty_page(api):
    meta = {"total": 0, "per_page": 15, "current_page": 1, "last_page": 1}
    assert api.get(ORDERS).json() == {"data": [], "meta": meta}


SORT_KEYS = {
    "": (lambda order: (order.created_at, order.id), True),
    "-created_at": (lambda order: (order.created_at, order.id), True),
    "created_at": (lambda order: (order.created_at, order.id), False),
    "-updated_at": (lambda order: (order.updated_at, order.id), True),
    "updated_at": (lambda order: (order.updated_at, order.id), False),
}


@pytest.mark.parametrize("sort", SORT_KEYS)
def test_the_pages_together_are_all_orders_in_their_order(api, many, sort):
    key, reverse = SORT_KEYS[sort]
    expected = [str(order.id) for order in sorted(many, key=key, reverse=reverse)]
    for per_page in (1, 7, 15, 46, 47, 48, 100):
        last_page = -(-47 // per_page)
        pages = range(1, last_page + 1) if per_page > 1 else (1, 2, 23, 24, 25, 46, 47)
        for page in pages:
            answer = api.get(f"{ORDERS}?per_page={per_page}&page={page}" + (f"&sort={sort}" if sort else ""))
            assert ids(answer) == expected[(page - 1) * per_page : page * per_page], (per_page, page)
            meta = {"total": 47, "per_page": per_page, "current_page": page, "last_page": last_page}
            assert answer.json()["meta"] == meta


@pytest.mark.parametrize("query", ["", "sort=updated_at", "status=confirmed,shipped", "wilaya=16", "phone=0550123456"])
def test_a_far_page_is_the_same_page(api, many, query, monkeypatch):
    def pages():
        return [ids(api.get(f"{ORDERS}?per_page=3&page={page}&{query}")) for page in range(1, 18)]

    near = pages()
    monkeypatch.setattr(paging, "FAR", 0)
    assert near[1]
    assert pages() == near


@pytest.mark.parametrize(("sort", "beyond", "before"), [("", "<", 14), ("&sort=created_at", ">=", 33)])
def test_days_before_a_far_page_are_passed_by(api, many, sort, beyond, before, monkeypatch):
    """Where these are summed up. In Algeria's time, 33 of the orders are of the first day and 14 of the second."""

    def pages():
        return [ids(api.get(f"{ORDERS}?per_page=3&page={page}{sort}")) for page in range(1, 18)]

    near = pages()
    for order in many:
        StatusChange.objects.filter(order=order).update(at=order.created_at)
    sum_up_days()
    monkeypatch.setattr(paging, "FAR", 6)
    assert pages() == near
    with CaptureQueriesContext(connection) as queries:
        api.get(f"{ORDERS}?per_page=3&page=13{sort}")
    page = queries.captured_queries[-1]["sql"]
    assert f"\"created_at\" {beyond} '2026-03-11 00:00:00+01:00'" in page
    assert f"LIMIT 3 OFFSET {36 - before}" in page


def test_rows_before_a_far_page_are_not_read(alice, charlie, api, monkeypatch):
    monkeypatch.setattr(paging, "FAR", 1)
    fill(alice, charlie)
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_sort = off")
    for query, index in (("", "order_list"), ("&status=confirmed", "order_list_by_status"),
                         ("&wilaya=16", "order_list_by_wilaya")):  # fmt: skip
        plan = plan_of(api, f"{ORDERS}?per_page=2&page=3{query}", "IN (SELECT U0")
        assert re.search(rf"Limit.*\n.*Index Only Scan using {index} ", plan), plan
    plan = plan_of(api, f"{ORDERS}?wilaya=16&status=confirmed,canceled", "COUNT(*)")
    assert "Index Only Scan using order_list_by_wilaya " in plan, plan


@pytest.mark.parametrize("query", ["", "&status=pending_confirmation", "&sort=updated_at", "&created_from=2026-03-10"])
def test_each_phone_is_looked_up_in_its_own_index(alice, api, query):
    numbers = [f"05{number:08}" for number in range(300)]
    make_orders(alice, ({"phone": phone, "customer_phone_2": phone} for phone in numbers))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE orders_order")
    for part in ("COUNT(*)", "ORDER BY"):
        plan = plan_of(api, f"{ORDERS}?phone={numbers[7]}{query}", part)
        assert "Bitmap Index Scan on order_by_phone " in plan, plan
        assert "Bitmap Index Scan on order_by_second_phone " in plan, plan


def plan_of(api, path, part):
    """Return the plan of the one statement of a call that contains `part`."""
    with CaptureQueriesContext(connection) as queries:
        assert api.get(path).status_code == 200
    (sql,) = (each["sql"] for each in queries if part in each["sql"])
    return explain(sql)


@pytest.mark.parametrize("page", [5, 1000, 1_000_000_000])
def test_a_page_past_the_end_is_empty(api, many, page):
    answer = api.get(f"{ORDERS}?page={page}")
    assert ids(answer) == []
    assert answer.json()["meta"] == {"total": 47, "per_page": 15, "current_page": page, "last_page": 4}


BAD_INTEGERS = [
    "0",
    "-1",
    "abc",
    "1e3",
    "1.0",
    "1" + "0" * 30,
    "9" * 5000,
    "%00",
    "",
    "%20",
    "last",
    "٢",
    "+1",
    "1_0",
    "0x1",
    "null",
    "%ff",
    "1,2",
    "[1]",
    "1%0a",
]


@pytest.mark.parametrize("value", BAD_INTEGERS)
@pytest.mark.parametrize("name", ["page", "per_page"])
def test_a_page_that_cannot_be_is_refused(api, name, value):
    answer = api.get(f"{ORDERS}?{name}={value}")
    assert (answer.status_code, list(answer.json()["errors"])) == (422, [name])


def test_100_is_the_most_for_a_page(api):
    assert api.get(f"{ORDERS}?per_page=100").status_code == 200
    assert list(api.get(f"{ORDERS}?per_page=101").json()["errors"]) == ["per_page"]


def test_all_that_is_wrong_with_a_query_is_said_at_once(api):
    names = [
        "page",
        "per_page",
        "status",
        "created_from",
        "created_to",
        "updated_from",
        "updated_to",
        "phone",
        "wilaya",
        "external_id",
        "q",
        "sort",
    ]
    answer = api.get(f"{ORDERS}?" + "&".join(f"{name}=%00" for name in names))
    assert answer.json()["errors"].keys() == set(names)


def test_unknown_parameters_are_ignored_and_of_repeated_ones_the_last_counts(api, many):
    assert api.get(f"{ORDERS}?colour=red&account={many[0].account_id}&id=1&status__in=x").json()["meta"]["total"] == 47
    assert api.get(f"{ORDERS}?per_page=0&per_page=5").json()["meta"]["per_page"] == 5
    assert api.get(f"{ORDERS}?page=1&page=0").status_code == 422


def test_charlie_sees_only_charlies_orders(many, charlies_api, charlie):
    expected = {str(id_) for id_ in Order.objects.filter(account=charlie).values_list("id", flat=True)}
    assert set(ids(charlies_api.get(ORDERS))) == expected
    for query in ("phone=0550123456", "wilaya=16", "q=Amine", "status=pending_confirmation"):
        assert set(ids(charlies_api.get(f"{ORDERS}?{query}"))) == expected
    assert ids(charlies_api.get(f"{ORDERS}?external_id=1")) == []


# --- Filters --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statuses",
    [("confirmed",), ("confirmed", "canceled"), ("canceled", "canceled"), ("returned",), tuple(Status.values)],
)
def test_by_one_or_several_statuses(api, many, statuses):
    answer = api.get(f"{ORDERS}?per_page=100&status={','.join(statuses)}")
    expected = {str(order.id) for order in many if order.status in statuses}
    assert set(ids(answer)) == expected
    assert answer.json()["meta"]["total"] == len(expected)


BAD_STATUSES = [
    "open",
    "Confirmed",
    "confirmed,open",
    "confirmed,",
    ",",
    "",
    "%20",
    "%00",
    "%ff",
    "cancelled",
    "x" * 10_000,
    "*",
]


@pytest.mark.parametrize("status", BAD_STATUSES, ids=lambda status: status[:10])
def test_an_unknown_status_is_refused(api, status):
    answer = api.get(f"{ORDERS}?status={status}")
    assert (answer.status_code, list(answer.json()["errors"])) == (422, ["status"])


def moments():
    """Orders around midnight of 10 March in Algeria, which is 23:00 UTC of the day before."""
    start = datetime(2026, 3, 9, 23, tzinfo=UTC)
    instant = timedelta(microseconds=1)
    return {
        "before": start - instant,
        "first": start,
        "last": start + timedelta(days=1) - instant,
        "after": start + timedelta(days=1),
    }


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("from=2026-03-10", {"first", "last", "after"}),
        ("to=2026-03-10", {"before", "first", "last"}),
        ("from=2026-03-10&to=2026-03-10", {"first", "last"}),
        ("from=2026-03-09T23:00:00Z", {"first", "last", "after"}),
        ("from=2026-03-10T00:00:00%2B01:00", {"first", "last", "after"}),
        ("from=2026-03-10T00:00:00+01:00", {"first", "last", "after"}),
        ("from=2026-03-10 00:00:00%2B01:00", {"first", "last", "after"}),
        ("to=2026-03-10T23:00:00Z", {"before", "first", "last"}),
        ("to=2026-03-10T22:59:59.999999Z", {"before", "first"}),
        ("from=2026-03-11&to=2026-03-09", set()),
        ("from=0001-01-01&to=9999-12-31", {"before", "first", "last", "after"}),
        ("from=0001-01-01T00:00:00%2B23:59", {"before", "first", "last", "after"}),
        ("to=9999-12-31T23:59:59-23:59", {"before", "first", "last", "after"}),
        ("from=9999-12-31", set()),
        ("to=0001-01-01", set()),
    ],
)
@pytest.mark.parametrize("name", ["created", "updated"])
def test_by_days_of_algeria_and_by_times(alice, api, name, query, expected):
    names = {}
    for moment, at in moments().items():
        order = make_order(alice)
        # No order is changed before it is created.
        Order.objects.filter(id=order.id).update(**{"created_at": at - timedelta(days=400), f"{name}_at": at})
        names[str(order.id)] = moment
    query = "&".join(f"{name}_{part}" for part in query.split("&"))
    answer = api.get(f"{ORDERS}?{query}")
    assert {names[id_] for id_ in ids(answer)} == expected
    assert answer.json()["meta"]["total"] == len(expected)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "%20",
        "today",
        "10/03/2026",
        "2026-13-01",
        "2026-02-30",
        "2026-03-10T00:00:00",
        "2026-03-10T25:00:00Z",
        "1773100800",
        "2026-03-10T00:00:00%2B99:00",
        "٢٠٢٦-٠٣-١٠",
        "%00",
        "2026-03-10%00",
        "2026-W10-2",
        "20260310",
        "10000-01-01",
        "0000-01-01",
        "-2026-03-10",
        "x" * 5000,
    ],
    ids=lambda value: value[:20],
)
@pytest.mark.parametrize("name", ["created_from", "created_to", "updated_from", "updated_to"])
def test_what_is_no_date_or_time_with_an_offset_is_refused(api, name, value):
    answer = api.get(f"{ORDERS}?{name}={value}")
    assert (answer.status_code, list(answer.json()["errors"])) == (422, [name])


def test_by_wilaya_in_any_spelling(alice, api):
    make_order(alice)
    oran = make_order(alice, customer_wilaya="Oran")
    for spelling in ("31", "Oran", "ORAN", "وهران", "DZ-31", "wahran"):
        assert ids(api.get(f"{ORDERS}?wilaya={quote(spelling)}")) == [str(oran.id)], spelling
    for unknown in ("70", "Atlantis", "%00", "", "x" * 3000):
        assert api.get(f"{ORDERS}?wilaya={unknown}").status_code == 422


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("wilaya", "Alger%00"),
        ("wilaya", "Al%07ger"),
        ("phone", "0550123456%1F"),
        ("status", "confirmed%1F"),
        ("status", "confirmed,%0Bcanceled"),
    ],
)
def test_a_control_character_is_refused_where_the_rest_can_be_used(api, name, value):
    answer = api.get(f"{ORDERS}?{name}={value}")
    assert (answer.status_code, list(answer.json()["errors"])) == (422, [name])


def test_by_external_id_in_any_normal_form(alice, api):
    order = make_order(alice, external_id="\u00e91")
    make_order(alice, external_id="2")
    for spelling in ("\u00e91", "e\u03011", " \u00e91 "):
        assert ids(api.get(f"{ORDERS}?{urlencode({'external_id': spelling})}")) == [str(order.id)]
    assert ids(api.get(f"{ORDERS}?external_id=nothing")) == []
    assert api.get(f"{ORDERS}?external_id={'x' * 65}").status_code == 422


@pytest.mark.parametrize(
    ("q", "found"),
    [
        ("Aïcha", {"a"}),
        ("AÏCHA", {"a"}),
        ("Ai\u0308cha", {"a"}),
        ("bensaïd", {"a"}),
        ("rue des", {"a", "b"}),
        ("مراد", {"b"}),
        ("0661", {"a"}),
        ("+213661", {"a"}),
        ("661 11", {"a"}),
        ("٠٦٦١ ١١", {"a"}),
        ("0661-11.2", {"a"}),
        ("(021) 55", {"b"}),
        ("00213 661", {"a"}),
        ("1-1", set()),
        ("100%", {"b"}),
        ("%", {"b"}),
        ("_", set()),
        ("'", {"b"}),
        ("\\", set()),
        ("nobody", set()),
        ("bensaïd  Aïcha", {"a"}),  # as names stand in many files
        ("Frères des", set()),
        ("😀", set()),
        ("\u202a\u00a0Bensaïd\u202c\u200b\ufeff", {"a"}),  # as copied from another program
    ],
)
def test_by_a_part_of_name_phone_or_address(alice, api, q, found):
    orders = {
        "a": make_order(
            alice, customer_name="Aïcha Bensaïd", customer_address="5 rue des Oliviers", phone="0661 11 22 33"
        ),
        "b": make_order(alice, customer_name="مراد", customer_address="100% rue des Frères d'Oran", phone="021556677"),
    }
    assert set(ids(api.get(f"{ORDERS}?{urlencode({'q': q})}"))) == {str(orders[name].id) for name in found}


@pytest.mark.parametrize("q", ["", " ", "%00", "a%00b", "%0a", "%E2%80%8B", "x" * 101])
def test_a_search_for_nothing_visible_is_refused(api, q):
    assert list(api.get(f"{ORDERS}?q={q}").json()["errors"]) == ["q"]


@pytest.mark.parametrize(
    "sort", ["", "name", "-", "created_at,id", "--created_at", "id", "account__name", "null", "%00", "?"]
)
def test_an_unknown_sort_is_refused(api, sort):
    assert list(api.get(f"{ORDERS}?sort={sort}").json()["errors"]) == ["sort"]


def test_what_is_none_of_a_few_words_is_told_which_they_are(api):
    def sentences(url):
        return next(iter(api.get(url).json()["errors"].values()))

    assert sentences(f"{ORDERS}?sort=total") == ["Must be one of created_at, -created_at, updated_at, -updated_at."]
    assert sentences("/api/v1/inventory?is_active=yes") == ["Must be one of true, false."]
    assert sentences("/api/v1/events?types=") == ["Must not be empty."]


def test_filters_work_together(alice, api, many):
    start, stop = NOON + timedelta(hours=3), NOON + timedelta(hours=9)
    expected = [
        str(order.id)
        for order in sorted(many, key=lambda order: (order.updated_at, order.id))
        if order.status in ("confirmed", "shipped") and start <= order.created_at < stop
    ]
    query = {
        "status": "confirmed,shipped",
        "created_from": start.isoformat(),
        "created_to": stop.isoformat(),
        "phone": "0550123456",
        "wilaya": "Alger",
        "q": "benali",
        "sort": "updated_at",
    }
    answer = api.get(f"{ORDERS}?{urlencode(query)}")
    assert expected
    assert ids(answer) == expected
    assert answer.json()["meta"]["total"] == len(expected)


def test_many_parameters_are_no_crash(api):
    assert api.get(f"{ORDERS}?" + "&".join(f"a{n}=1" for n in range(999))).status_code == 200
    answer = api.get(f"{ORDERS}?" + "&".join(f"a{n}=1" for n in range(1001)))
    assert (answer.status_code, answer.json()["error"]) == (400, "bad_request")


def test_ids_are_handed_out_in_the_order_of_time(alice):
    first, second = make_order(alice), make_order(alice)
    assert first.id.version == 7
    assert UUID(str(first.id)) < UUID(str(second.id))


def test_the_last_page_is_read_from_the_end(alice, api, django_assert_max_num_queries):
    """Its cost must not grow with the number of pages before it, so it is read in reverse."""
    for _ in range(10):
        make_order(alice)
    with django_assert_max_num_queries(4) as captured:
        api.get(f"{ORDERS}?per_page=2&page=5")
    page = captured.captured_queries[-1]["sql"]
    assert "OFFSET" not in page
    assert re.search(r"ORDER BY \S+ ASC, \S+ ASC LIMIT 2$", page)
