"""Any mix of entries: a second, plainer version of the rules must agree on every one of them."""

from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codservice.accounts.actor import Actor
from codservice.accounts.models import Account
from codservice.api.fields import read_body
from codservice.errors import Invalid
from codservice.wire import dump_json, load_json
from inventory import serializers, stock
from inventory.models import Product, StockMovement
from tests.api.json_texts import BAD_JSON, GOOD_JSON
from tests.factories import ProductFactory
from tests.harness.client import ApiClient
from tests.inventory.stock import INVENTORY
from webhooks.models import Event

IDS = [UUID(int=number) for number in range(1, 7)]
MINE = {f"P{number}": str(IDS[number]) for number in range(4)}
CHARLIES = {"P9": str(IDS[4])}
START = 10
MANY = settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])

scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.decimals(allow_nan=False)
junk = scalars | st.lists(scalars, max_size=2) | st.dictionaries(st.text(max_size=3), scalars, max_size=2)
known_skus = st.sampled_from([*MINE, *CHARLIES, " P1 "])
known_ids = st.sampled_from([*MINE.values(), *CHARLIES.values(), MINE["P2"].upper(), str(uuid4())])
quantities = st.integers(0, 20) | st.sampled_from([-1, 10**9, 10**9 + 1, 2**31, 2**63, 10**400]) | junk
entries = st.fixed_dictionaries(
    {},
    optional={
        "sku": known_skus | junk,
        "id": known_ids | junk,
        "quantity": st.integers(0, 20) | quantities,
        "expected_quantity": st.sampled_from([START, START + 1, None]) | junk,
        "price": junk,
    },
)
good_entries = st.fixed_dictionaries({"sku": st.sampled_from([*MINE]), "quantity": st.integers(0, 20)})


@pytest.fixture
def shop(alice: Account, charlie: Account) -> Account:
    for account, products in ((alice, MINE), (charlie, CHARLIES)):
        for sku, id_ in products.items():
            ProductFactory(account=account, id=id_, sku=sku, stock_quantity=START)
    return alice


def is_quantity(value: Any) -> bool:
    return type(value) is int and 0 <= value <= 10**9


def product_of(entry: Any) -> str | None:
    """Return the sku of Alice's only product that the entry names."""
    if not isinstance(entry, dict):
        return None
    names = set()
    if (sku := entry.get("sku")) is not None:
        names.add(sku.strip() if isinstance(sku, str) and sku.strip() in MINE else None)
    if (id_ := entry.get("id")) is not None:
        names.add(next((sku for sku, known in MINE.items() if isinstance(id_, str) and known == id_.lower()), None))
    return names.pop() if len(names) == 1 else None


def expect(sent: list[Any]) -> dict[int, tuple[str, int]]:
    """Return what is applied: index → (sku, quantity)."""
    applied, taken = {}, set()
    for index, entry in enumerate(sent):
        sku = product_of(entry)
        if sku is None:
            continue
        expected = entry.get("expected_quantity")
        is_right = expected is None or (is_quantity(expected) and expected == START)
        if sku not in taken and is_quantity(entry.get("quantity")) and is_right:
            applied[index] = (sku, entry["quantity"])
        taken.add(sku)
    return applied


@pytest.mark.django_db
@MANY
@given(sent=st.lists(entries | good_entries | junk, min_size=1, max_size=12))
def test_every_entry_is_applied_or_refused_as_the_contract_says(shop: Account, sent: list[Any]) -> None:
    expected = expect(sent)
    with transaction.atomic():
        result = stock.set_quantities(
            shop.id, read_body(serializers.StockUpdates, {"updates": sent})["updates"], actor=Actor.of_command("test")
        )
        numbers = dict(Product.objects.values_list("sku", "stock_quantity"))
        written = StockMovement.objects.count(), Event.objects.count()
        transaction.set_rollback(True)

    assert {index: (done.sku, done.stock_quantity) for index, done in result.updated.items()} == expected
    assert sorted([*result.updated, *result.errors]) == list(range(len(sent)))
    assert numbers == dict.fromkeys([*MINE, *CHARLIES], START) | dict(expected.values())
    assert written == (len(expected), len(expected))
    assert_can_be_answered(result, sent)


def assert_can_be_answered(result: stock.Result, sent: list[Any]) -> None:
    if not result.updated:
        with pytest.raises(Invalid) as refused:
            serializers.result_body(result, sent)
        assert {path.split(".")[1] for path in refused.value.errors} == {str(index) for index in result.errors}
        return
    said = load_json(dump_json(serializers.result_body(result, sent)))
    assert [error["index"] for error in said["errors"]] == list(result.errors)
    assert [done["sku"] for done in said["updated"]] == [done.sku for done in result.updated.values()]


@pytest.mark.django_db
@MANY
@given(sent=st.lists(st.sampled_from([*MINE]), min_size=1, max_size=6), start=st.integers(0, 10**9))
def test_numbers_follow_each_other(shop: Account, sent: list[str], start: int) -> None:
    with transaction.atomic():
        for number, sku in enumerate(sent):
            stock.set_quantities(
                shop.id, [stock.Update(sku=sku, quantity=(start + number) % 10**9)], actor=Actor.of_command("test")
            )
        for product in Product.objects.filter(account=shop):
            chain = list(product.movements.order_by("id").values_list("old_quantity", "new_quantity"))
            assert [old for old, _ in chain] == [START, *(new for _, new in chain)][: len(chain)]
            assert product.stock_quantity == (chain[-1][1] if chain else START)
        transaction.set_rollback(True)


PLACES = ["updates", "entry", "sku", "id", "quantity", "expected_quantity", "unknown"]


@pytest.mark.django_db
@pytest.mark.parametrize("value", GOOD_JSON.values(), ids=GOOD_JSON)
def test_any_json_value_in_any_place_is_answered(shop: Account, api: ApiClient, value: str) -> None:
    for place in PLACES:
        fields = {"sku": '"P0"', "quantity": "1"} | {place: value}
        entry = "{" + ", ".join(f'"{name}": {said}' for name, said in fields.items()) + "}"
        updates = f'[{value if place == "entry" else entry}, {{"sku": "P1", "quantity": 2}}]'
        body = f'{{"updates": {value if place == "updates" else updates}}}'

        answer = api.put(INVENTORY, body.encode("utf-8", "surrogatepass"))

        said = load_json(answer.content)
        if answer.status_code == 400:  # it is nested deeper here than where the collection tries it
            assert "20 levels" in said["message"]
        elif place == "updates":
            assert answer.status_code == 422
        else:
            assert answer.status_code in (200, 207)
            assert said["updated"][-1]["sku"] == "P1"


@pytest.mark.django_db
@pytest.mark.parametrize("value", BAD_JSON.values(), ids=BAD_JSON)
def test_what_is_no_json_changes_nothing(shop: Account, api: ApiClient, value: str) -> None:
    body = f'{{"updates": [{{"sku": "P1", "quantity": 2, "unknown": {value}}}]}}'

    answer = api.put(INVENTORY, body.encode("utf-8", "surrogatepass"))

    assert (answer.status_code, answer.json()["error"]) == (400, "malformed_json")
    assert not StockMovement.objects.exists()
