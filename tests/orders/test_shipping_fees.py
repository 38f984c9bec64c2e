"""GET and PUT /api/v1/shipping-fees: what a delivery costs, by wilaya and delivery type."""

from decimal import Decimal

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from orders.models import ShippingFee
from tests.harness.background import at_once
from tests.harness.client import ApiClient, new_key

FEES = "/api/v1/shipping-fees"
pytestmark = pytest.mark.django_db


def put(api, *fees):
    return api.put(FEES, {"fees": list(fees)})


def data(answer):
    assert answer.status_code == 200, answer.content
    return answer.json()["data"]


def test_fees_are_set_by_any_spelling_and_read_by_code(api, charlies_api):
    assert data(api.get(FEES)) == []

    answer = put(
        api,
        {"wilaya": "Oran", "home": "600.50", "desk": 400},
        {"wilaya": 16, "home": 400},
        {"wilaya": "تيزي وزو", "desk": 0},
    )

    assert (
        data(answer)
        == data(api.get(FEES))
        == [
            {"wilaya": "15", "home": None, "desk": 0},
            {"wilaya": "16", "home": 400, "desk": None},
            {"wilaya": "31", "home": 600.5, "desk": 400},
        ]
    )
    assert b'"home":600.50' in answer.content, "a number, with two places"
    assert data(charlies_api.get(FEES)) == []


def test_spaces_around_a_wilaya_do_not_matter(api):
    assert data(put(api, {"wilaya": f"{' ' * 300}Oran", "home": 600})) == [{"wilaya": "31", "home": 600, "desk": None}]


def test_null_removes_one_what_is_not_sent_stays_and_others_are_left_alone(api):
    put(api, {"wilaya": "16", "home": 400, "desk": 250}, {"wilaya": "31", "home": 600}, {"wilaya": "25", "desk": 300})

    changed = put(api, {"wilaya": "16", "home": None}, {"wilaya": "31", "home": None, "desk": None})

    assert data(changed) == [
        {"wilaya": "16", "home": None, "desk": 250},
        {"wilaya": "25", "home": None, "desk": 300},
    ]
    assert data(put(api, {"wilaya": "16", "desk": None}, {"wilaya": "44", "home": None})) == data(changed)[1:]
    assert ShippingFee.objects.count() == 1


@pytest.mark.parametrize(
    ("fees", "wrong"),
    [
        ([{"wilaya": "16", "home": 1}, {"wilaya": "Atlantis", "home": 1}], {"fees.1.wilaya"}),
        ([{"wilaya": "16", "home": 1}, {"wilaya": "Alger", "desk": 1}], {"fees.1.wilaya"}),
        ([{"wilaya": "16", "home": -1, "desk": "x"}], {"fees.0.home", "fees.0.desk"}),
        ([{"wilaya": "16", "home": 100_000_000}], {"fees.0.home"}),
        ([{"wilaya": "16", "home": "1.001"}, {"home": 1}], {"fees.0.home", "fees.1.wilaya"}),
        ([{"wilaya": "16"}], {"fees.0.home"}),
        ([{"wilaya": None, "home": True}], {"fees.0.wilaya", "fees.0.home"}),
        ([{"wilaya": "16\0", "home": 1}], {"fees.0.wilaya"}),
        ([5, {"wilaya": "16", "home": 1}, None, "x", []], {"fees.0", "fees.2", "fees.3", "fees.4"}),
        ([], {"fees"}),
        ([{"wilaya": "16", "home": 1}] * 70, {"fees"}),
        ({"16": 1}, {"fees"}),
        ("x", {"fees"}),
        (None, {"fees"}),
    ],
    ids=lambda value: None if isinstance(value, set) else str(value)[:40],
)
def test_what_cannot_be_used_is_said_at_once_and_changes_nothing(api, fees, wrong):
    put(api, {"wilaya": "16", "home": 400})

    answer = api.put(FEES, {"fees": fees})

    assert (answer.status_code, answer.json()["error"]) == (422, "validation_failed")
    assert answer.json()["errors"].keys() == wrong
    assert data(api.get(FEES)) == [{"wilaya": "16", "home": 400, "desk": None}]


def test_all_wilayas_cost_as_many_statements_as_one(alice, api):
    for count in (1, 69):
        fees = [{"wilaya": f"{code:02}", "home": code * 10, "desk": None} for code in range(1, count + 1)]
        with CaptureQueriesContext(connection) as statements:
            assert len(data(put(api, *fees))) == count
        assert len(statements) <= 9, [each["sql"] for each in statements]
    assert ShippingFee.objects.get(account=alice, wilaya_code="69").home == Decimal(690)


def test_the_list_has_an_etag(api):
    put(api, {"wilaya": "16", "home": 400})
    tag = api.get(FEES).headers["ETag"]
    assert api.get(FEES, headers={"If-None-Match": tag}).status_code == 304
    put(api, {"wilaya": "16", "home": 401})
    assert api.get(FEES, headers={"If-None-Match": tag}).status_code == 200


def test_scopes(alice, api_for):
    reader, writer = api_for(alice, scopes=["orders:read"]), api_for(alice, scopes=["orders:write"])
    assert put(reader, {"wilaya": "16", "home": 1}).status_code == 403
    assert put(writer, {"wilaya": "16", "home": 1}).status_code == 200
    assert (reader.get(FEES).status_code, writer.get(FEES).status_code) == (200, 403)


@pytest.mark.django_db(transaction=True)
def test_two_at_a_time_are_one_after_the_other(alice):
    key = new_key(alice)

    def set_fee(number):
        wilayas = ["16", "31", "25"] if number % 2 else ["25", "31", "16"]
        fees = [{"wilaya": code, ("home" if number < 4 else "desk"): number} for code in wilayas]
        return put(ApiClient(key), *fees).status_code

    assert at_once(8, set_fee) == [200] * 8
    fees = data(ApiClient(key).get(FEES))
    assert len({(fee["home"], fee["desk"]) for fee in fees}) == 1
    assert fees[0]["home"] is not None
    assert fees[0]["desk"] is not None
