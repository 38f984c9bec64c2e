"""What django-filter makes for each request and we make once."""

from typing import Any

import pytest

from codservice.api.filters import Filters, TextFilter
from codservice.errors import Invalid
from orders.models import Order


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
