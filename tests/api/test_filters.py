"""What django-filter makes for each request, and we make once."""

from typing import Any

import pytest

from codservice.api.filters import Filters, TextFilter
from codservice.errors import Invalid
from orders.models import Order
from tests.harness.client import ApiClient


class Probe(Filters):
    q = TextFilter(method="search", max_length=3)
    source = TextFilter(max_length=3)

    class Meta:
        model = Order
        fields: list[str] = []

    def __init__(self, data: dict[str, str], whose: str) -> None:
        super().__init__(data, Order.objects.all())
        self.whose, self.searched = whose, list[str]()

    def search(self, queryset: Any, name: str, value: str) -> Any:
        self.searched.append(f"{self.whose} {value}")
        return queryset.filter(customer_name=value)


def test_requests_that_overlap_have_filters_of_their_own() -> None:
    first, second = Probe({"q": "a"}, "first"), Probe({"q": "b", "source": "x"}, "second")
    assert [str(probe.read().query).count(" = ") for probe in (first, second)] == [1, 2]
    assert (first.searched, second.searched) == (["first a"], ["second b"])
    assert (first.form.cleaned_data, second.form.cleaned_data) == ({"q": "a", "source": ""}, {"q": "b", "source": "x"})


def test_a_refusal_is_of_its_request_alone() -> None:
    with pytest.raises(Invalid) as refusal:
        Probe({"q": "long", "source": "x"}, "").read()
    assert list(refusal.value.errors) == ["q"]
    assert Probe({"q": "ok"}, "").form.errors == {}


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("orders", "q"),
        ("orders", "external_id"),
        ("orders", "wilaya"),
        ("inventory", "q"),
        ("products", "sku"),
        ("regions/communes", "wilaya"),
        ("regions/lookup", "wilaya"),
    ],
)
def test_text_in_another_encoding_than_utf_8_is_refused_and_not_replaced(path: str, name: str, api: ApiClient) -> None:
    answer = api.get(f"/api/v1/{path}?{name}=S%E9tif")  # Sétif as a shop in Latin-1 writes it
    assert (answer.status_code, answer.json()["errors"]) == (422, {name: ["Must be UTF-8, percent-encoded."]})


@pytest.mark.django_db
@pytest.mark.parametrize("query", ["q=S%C3%A9tif", "q=%EF%BF%BD", "shop=S%E9tif&q=x", "q=S%E9tif&q=x"])
def test_only_what_is_read_must_be_utf_8(query: str, api: ApiClient) -> None:
    assert api.get(f"/api/v1/orders?{query}").status_code == 200
