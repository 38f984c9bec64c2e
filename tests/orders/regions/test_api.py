"""`/api/v1/regions`: the tables and the lookup, for anybody, made once and kept for a day."""

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from django.test import Client

from codservice import ratelimit
from codservice.accounts.models import Account
from orders import regions
from orders.regions import views
from tests.factories import order_body
from tests.harness.client import ApiClient

pytestmark = pytest.mark.django_db
REGIONS = "/api/v1/regions"
ALL = [f"{REGIONS}/wilayas", f"{REGIONS}/communes", f"{REGIONS}/communes?wilaya=16", f"{REGIONS}/lookup?wilaya=16"]


def test_all_wilayas_with_their_names_in_both_scripts(stranger: ApiClient) -> None:
    data = stranger.get(f"{REGIONS}/wilayas").json()["data"]

    assert len(data) == 69
    assert [each["code"] for each in data] == sorted(each["code"] for each in data)
    assert data[15] == {"code": "16", "name": "Alger", "name_ar": "الجزائر"}
    # As people in Algeria write them, whatever the official lists have.
    arabic = {wilaya["name"]: wilaya["name_ar"] for wilaya in data}
    assert (arabic["Tizi Ouzou"], arabic["Oum El Bouaghi"], arabic["Laghouat"]) == ("تيزي وزو", "أم البواقي", "الأغواط")
    assert (arabic["Sidi Bel Abbès"], arabic["El Oued"]) == ("سيدي بلعباس", "الوادي")


def test_communes_with_their_wilayas_under_the_three_maps(stranger: ApiClient) -> None:
    everywhere = stranger.get(f"{REGIONS}/communes").json()["data"]

    assert len(everywhere) == len({each["code"] for each in everywhere}) == 1541
    (saada,) = [each for each in everywhere if each["name"] == "Bou Saada"]
    assert saada | {"code": "", "postal_code": "", "name_ar": ""} == {
        "code": "", "name": "Bou Saada", "name_ar": "", "wilaya": "68", "wilaya_58": "28", "wilaya_48": "28",
        "postal_code": "",
    }  # fmt: skip
    for wilaya in ("28", "68", quote("M'Sila"), quote("المسيلة")):
        assert saada in stranger.get(f"{REGIONS}/communes?wilaya={wilaya}").json()["data"]
    assert stranger.get(f"{REGIONS}/communes?wilaya=DZ-16").content == stranger.get(ALL[2]).content


def test_what_is_offered_is_what_an_import_accepts(stranger: ApiClient, api: ApiClient) -> None:
    for wilaya in stranger.get(f"{REGIONS}/wilayas").json()["data"][::17]:
        communes = stranger.get(f"{REGIONS}/communes?wilaya={wilaya['code']}").json()["data"]
        for commune in (communes[0], communes[-1]):
            for place in ("code", "name", "name_ar"):
                body = order_body(customer_wilaya=wilaya[place], customer_commune=commune[place])
                customer = api.post("/api/v1/orders", body).json()["customer"]
                assert (customer["wilaya"], customer["commune"]) == (wilaya["code"], commune["code"])


@pytest.mark.parametrize(
    ("wilaya", "commune"),
    [
        ("16", None),
        ("Wilaya d'Alger", "bab ezouar"),
        ("ولاية الجزائر", "باب الزوار"),
        ("28", "Bou Saâda"),
        (" 06 ", "0601"),
        ("Alger", ""),
        ("Mila", "1601"),
        ("Milia", None),
        ("Atlantis", "x"),
        ("16", "Bordj"),
        ("16024", "1601"),
        ("x" * 256, "x"),
        ("16", "x" * 256),
        ("a\0b", None),
        ("16", "\u202e\x07"),
        ("", "Hydra"),
        (" ", None),
        ("\u200b", None),
    ],
)
def test_a_place_is_looked_up_as_an_import_takes_it(
    wilaya: str, commune: str | None, stranger: ApiClient, api: ApiClient
) -> None:
    asked = {"wilaya": wilaya} | ({} if commune is None else {"commune": commune})
    found = stranger.get(f"{REGIONS}/lookup", asked)
    body = order_body(customer_wilaya=wilaya)
    body["customer_commune"] = commune
    imported = api.post("/api/v1/orders", body)

    if imported.status_code == 201:
        customer, place = imported.json()["customer"], found.json()
        assert (place["wilaya"]["code"], place["commune"] and place["commune"]["code"]) == (
            customer["wilaya"], customer["commune"],
        )  # fmt: skip
        return
    assert found.status_code == imported.status_code == 422
    said = {f"customer_{name}": sentences for name, sentences in found.json()["errors"].items()}
    assert said.items() <= imported.json()["errors"].items()
    assert found.headers["Cache-Control"] == "no-store"


def test_suggestions_are_those_of_the_import(stranger: ApiClient) -> None:
    answer = stranger.get(f"{REGIONS}/lookup?wilaya=Milia").json()
    assert "Did you mean" in answer["errors"]["wilaya"][0]
    assert "Mila" in answer["errors"]["wilaya"][0]


@pytest.mark.parametrize(
    "value", ["%00", "%ff%fe", "%ED%A0%80", "9" * 5000, "%F0%9F%8E%81", "'%20OR%201=1", "%0a", "%"]
)
@pytest.mark.parametrize("path", ["communes?wilaya=", "lookup?wilaya=", "lookup?wilaya=16&commune="])
def test_hostile_values_are_refused_and_nothing_crashes(path: str, value: str, stranger: ApiClient) -> None:
    answer = stranger.get(f"{REGIONS}/{path}{value}")
    assert answer.status_code == 422 or (path.endswith("commune=") and value == "%0a" and answer.status_code == 200)
    assert answer.json()


def test_an_empty_wilaya_is_no_wilaya(stranger: ApiClient) -> None:
    for path in ("communes?wilaya=", "lookup", "lookup?wilaya=%20", "lookup?commune=Hydra"):
        assert list(stranger.get(f"{REGIONS}/{path}").json()["errors"]) == ["wilaya"]


def test_all_that_is_wrong_is_said_at_once(stranger: ApiClient) -> None:
    assert list(stranger.get(f"{REGIONS}/lookup?wilaya=xx&commune=%00").json()["errors"]) == ["wilaya", "commune"]


@pytest.mark.parametrize("url", ALL)
def test_all_may_keep_it_for_a_day_and_any_page_may_read_it(url: str, stranger: ApiClient, api: ApiClient) -> None:
    for client in (stranger, api):
        answer = client.get(url)
        assert answer.status_code == 200
        assert answer.headers["Cache-Control"] == "public, max-age=86400"
        assert answer.headers["Access-Control-Allow-Origin"] == "*"
        again = client.get(url, headers={"If-None-Match": answer.headers["ETag"]})
        assert (again.status_code, again.content) == (304, b"")
        head = client.head(url)
        assert (head.status_code, head.headers["ETag"]) == (200, answer.headers["ETag"])
    assert "Access-Control-Allow-Origin" not in api.get("/api/v1/orders").headers


@pytest.mark.parametrize("url", ALL)
def test_any_page_may_send_headers_of_its_own(url: str, stranger: ApiClient) -> None:
    """As one that sets `Content-Type: application/json` on whatever it asks, for which browsers ask first."""
    answer = stranger.options(url, headers={"Origin": "https://shop.example", "Access-Control-Request-Method": "GET"})
    assert (answer.status_code, answer.content) == (204, b"")
    allowed = {
        name: answer.headers[f"Access-Control-{name}"] for name in ("Allow-Origin", "Allow-Methods", "Allow-Headers")
    }
    assert allowed == {"Allow-Origin": "*", "Allow-Methods": "GET, HEAD", "Allow-Headers": "*"}


def test_it_asks_nothing_of_the_database_and_is_made_once(
    stranger: ApiClient, monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: Any
) -> None:
    before = [stranger.get(url).content for url in ALL[:3]]
    monkeypatch.setattr(views, "dump_json", None)
    with django_assert_num_queries(0):
        assert [stranger.get(url).content for url in ALL[:3]] == before


# --- Without a key, and with one ---------------------------------------------------------------------------------


def test_a_key_that_is_sent_has_to_be_valid_and_counts(alice: Account, api_for: Callable[..., ApiClient]) -> None:
    alice.rate_limit = 60
    alice.save()
    answer = api_for(alice, scopes=[]).get(ALL[0])
    assert (answer.status_code, answer.headers["X-RateLimit-Remaining"]) == (200, "59")
    for header in ("Bearer cod_live_wrong", "Bearer", "Basic QTpC", ""):
        answer = Client(headers={"Authorization": header}).get(ALL[0])
        assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, "Bearer")


def test_strangers_are_limited_by_their_address(stranger: ApiClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ratelimit, "ADDRESS_LIMIT", 3)
    answers = [stranger.get(url) for url in ALL]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    assert int(answers[-1].headers["Retry-After"]) >= 1


def test_a_page_may_read_that_it_asks_too_often(stranger: ApiClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ratelimit, "ADDRESS_LIMIT", 0)
    answer = stranger.get(ALL[0])
    assert (answer.status_code, answer.headers["Access-Control-Allow-Origin"]) == (429, "*")
    assert answer.headers["Access-Control-Expose-Headers"] == "Retry-After"
    for path, headers in (("/api/v1/orders", {}), (ALL[0], {"Authorization": "Bearer cod_live_wrong"})):
        answer = stranger.get(path, headers=headers)
        assert (answer.status_code, "Access-Control-Allow-Origin" in answer.headers) == (429, False)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "/wilayas/",
        "/wilayas/16",
        "/lookups",
        "/%77ilayas/",
        "/../orders",
        "//wilayas",
        "/wilayas%00",
        "/Wilayas",
    ],
)
def test_what_lies_beside_is_shut_to_strangers(path: str, stranger: ApiClient) -> None:
    assert stranger.get(f"{REGIONS}{path}").status_code == 401


@pytest.mark.parametrize("method", ["post", "put", "patch", "delete"])
def test_it_is_only_read(method: str, stranger: ApiClient) -> None:
    answer = getattr(stranger, method)(ALL[0])
    assert (answer.status_code, answer.json()["error"]) == (405, "method_not_allowed")


def test_a_key_is_not_taken_without_tls(stranger: ApiClient, settings: Any) -> None:
    settings.SECURE_SSL_REDIRECT = True
    assert stranger.get(ALL[0]).json()["error"] == "https_required"
    assert stranger.get(ALL[0], secure=True).status_code == 200


def test_every_commune_is_in_its_wilayas_answers(stranger: ApiClient) -> None:
    offered = {
        (wilaya.code, each["code"])
        for wilaya in regions.WILAYAS
        for each in stranger.get(f"{REGIONS}/communes?wilaya={wilaya.code}").json()["data"]
    }
    assert offered == {(wilaya, place.code) for place in regions.COMMUNES for wilaya in place.wilayas}
