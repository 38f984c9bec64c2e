"""The list's `q` finds the same with its index as without, whatever is written, changed and deleted meanwhile."""

import re
import threading
from collections.abc import Iterator
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models import F, Q
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from codservice.accounts.models import Account
from orders import daily, trigrams
from orders.filters import OrderFilter
from orders.models import Order, OrderTrigrams, Searchable, SearchChange
from orders.tasks import index_texts
from tests.factories import make_order, make_orders
from tests.harness.background import PATIENCE, Background
from tests.harness.client import ApiClient
from tests.harness.plans import explain

PIECES = [
    "Amine", "benali", "AÏCHA", "Bensai\u0308d", "مراد", "فاطمة الزهراء", "100%", "a_b", "\\", "\\%", "'", '"', "''",
    "😀", "👨‍👩‍👧", "ß", "İ", "ı", "ŉ", "Σας", "{}", "(1,2)", "0550", "12 34", " ", "-", "\u200f", "NULL", "rue", "n°",
    "aaaa", "\t", ";--",
]  # fmt: skip
STEP = 20


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trigrams, "FEW", 1)
    monkeypatch.setattr(trigrams, "STEP", STEP)
    monkeypatch.setattr(trigrams, "_FOUND", trigrams._FOUND.replace(f"/ {trigrams.SHARE}", "/ 1"))


def text(chance: Random) -> str:
    return (chance.choice(["", " ", "x"]).join(chance.choices(PIECES, k=chance.randint(1, 4))).strip() or "x")[:100]


def orders_of(account: Account, chance: Random, count: int, prefix: str = "") -> list[Order]:
    """Make orders as if a few hours ago, one second apart."""
    phones = [f"05{chance.randrange(50_000_000, 60_000_000)}" for _ in range(count)]
    second = [f"06{chance.randrange(50_000_000, 60_000_000)}" if chance.random() < 0.5 else None for _ in range(count)]
    made = make_orders(
        account, ({"phone": phone, "customer_phone_2": other} for phone, other in zip(phones, second, strict=True))
    )
    for number, order in enumerate(made):
        order.customer_name, order.customer_address = text(chance), text(chance)
        order.external_id = f"{prefix}{number}"
        order.created_at = timezone.now() - timedelta(hours=5) + timedelta(seconds=number)
    Order.objects.bulk_update(made, ["customer_name", "customer_address", "external_id", "created_at"])
    return made


def found(account: Account, q: str, **more: str) -> list[Any]:
    orders = OrderFilter({"q": q, **more}, Order.objects.filter(account=account), account_id=account.id).qs
    ids = list(orders.order_by("-created_at", "-id").values_list("id", flat=True))
    assert orders.count() == len(ids)
    return ids


def read_all(account: Account, q: str, **more: str) -> list[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trigrams, "candidates", lambda *_: Q())
        return found(account, q, **more)


def asked(account: Account, chance: Random) -> Iterator[str]:
    """Yield parts of what is there, also in other cases, and what is not there."""
    for order in chance.sample([*Order.objects.filter(account=account)], 8):
        yield order.phone_2_e164 or "-"
        whole = chance.choice([order.customer_name, order.customer_phone, order.phone_e164, order.customer_address])
        start = chance.randrange(len(whole)) if whole else 0
        yield (part := whole[start : start + chance.randint(1, 12)])
        yield chance.choice([part.upper(), part.lower(), part.swapcase()])
        yield f"{order.phone_e164[4:6]} {order.phone_e164[6:9]}"
        yield order.external_id or "-"
    yield from [*PIECES, "nobody at all", "%%%", "___", "+21", "+213", "5 5", "55 0", "0550", "055 0", "x" * 100]


def same(account: Account, chance: Random) -> None:
    for q in asked(account, chance):
        if q.strip():
            there = read_all(account, q)
            assert found(account, q) == there, q
            assert found(account, q, status="pending_confirmation") == there, q


@pytest.mark.django_db
@pytest.mark.parametrize("seed", range(2))
def test_by_the_index_as_without_it(alice: Account, charlie: Account, seed: int) -> None:
    chance = Random(seed)
    orders_of(alice, chance, 70, "A")
    orders_of(charlie, chance, 30, "C")
    index_texts()
    assert Searchable.objects.get(account=alice).through
    assert (OrderTrigrams.objects.count(), SearchChange.objects.count()) == (80, 0)  # in whole steps: 60 and 20
    same(alice, chance)

    changed = [*Order.objects.filter(account=alice).order_by("id")[:25]]
    for order in changed[:20]:
        order.customer_name, order.customer_phone = text(chance), "0770 99 88 77"
    Order.objects.bulk_update(changed, ["customer_name", "customer_phone"])
    Order.objects.filter(pk__in=[order.pk for order in changed[20:]]).update(created_at=F("created_at") - timedelta(9))
    gone = [*Order.objects.filter(account=alice).order_by("created_at")[40:43].values_list("pk", flat=True)]
    with connection.cursor() as cursor:
        for table in ("orderitem", "statuschange"):
            cursor.execute(f"DELETE FROM orders_{table} WHERE order_id = ANY(%s)", [gone])
        cursor.execute("DELETE FROM orders_order WHERE id = ANY(%s)", [gone])
    make_order(alice, customer_name="Aaaa the newest")
    assert SearchChange.objects.filter(account=alice).count() >= 25
    same(alice, chance)
    same(charlie, chance)

    index_texts()
    assert not SearchChange.objects.exists()
    assert not OrderTrigrams.objects.filter(order_id__in=gone).exists()
    same(alice, chance)


@pytest.mark.django_db
@pytest.mark.parametrize("through", [timedelta(days=2), timedelta(minutes=-1)], ids=str)
def test_what_comes_after_the_clock_was_set_back_is_found(through: timedelta, alice: Account) -> None:
    orders_of(alice, Random(1), STEP)
    index_texts()
    Searchable.objects.update(through=timezone.now() + through)
    newest = make_order(alice, customer_name="Aaaa the newest")
    Order.objects.filter(pk=newest.pk).update(created_at=timezone.now() - timedelta(minutes=2))
    SearchChange.objects.all().delete()  # it was dated so at once
    for _ in range(2):
        assert found(alice, "the newest") == [newest.id]
        index_texts()
    indexed = Searchable.objects.get().through
    assert indexed is not None
    assert indexed <= timezone.now()
    assert OrderTrigrams.objects.count() == STEP


@pytest.mark.django_db
@pytest.mark.parametrize("is_indexed", [False, True])
def test_a_phone_is_found_in_whatever_form_it_was_sent_and_is_asked_for(alice: Account, is_indexed: bool) -> None:
    orders_of(alice, Random(1), STEP)
    forms = ("0661123456", "06 61 12 34 56", "+213661123456", "00213 661 12 34 56", "٠٦٦١١٢٣٤٥٦", "0661-12-34-56")
    sent = {order.pk for order in make_orders(alice, ({"phone": form} for form in forms))}
    Order.objects.filter(pk__in=sent).update(created_at=F("created_at") - timedelta(hours=6))
    if is_indexed:
        index_texts()
    for form in (*forms, "661 12 34 56", "0661 12", "066112", "06 61 12 34", "3456"):
        assert set(found(alice, form)) == sent, form


@pytest.mark.django_db
@pytest.mark.parametrize("is_indexed", [False, True])
def test_a_second_phone_is_found_when_it_is_whole(alice: Account, is_indexed: bool) -> None:
    first, *_ = orders_of(alice, Random(1), STEP)
    if is_indexed:
        index_texts()
    Order.objects.filter(pk=first.pk).update(customer_phone_2="0771 12 34 56", phone_2_e164="+213771123456")
    for form in ("0771 12 34 56", "+213771123456", "00213 771 12 34 56", "771123456"):
        assert found(alice, form) == [first.pk], form
    assert found(alice, "077112345") == []


@pytest.mark.django_db
@pytest.mark.parametrize("is_indexed", [False, True])
def test_a_number_is_found_as_people_type_it(alice: Account, is_indexed: bool) -> None:
    shopify, named, demo, small, mixed, camel, *_ = orders_of(alice, Random(1), STEP, "A")
    if is_indexed:
        index_texts()
    numbers = ("#1004", "#EN1005", "DEMO-1-12", "wc-7", "Cmd-8", "ShopOrder7")
    for order, number in zip((shopify, named, demo, small, mixed, camel), numbers, strict=True):
        Order.objects.filter(pk=order.pk).update(external_id=number)
    for typed, order in (
        ("1004", shopify),
        ("#1004", shopify),
        ("en1005", named),
        ("#en1005", named),
        ("#DEMO-1-12", demo),
        ("demo-1-12", demo),
        ("Demo-1-12", demo),
        ("DEMO-1-12", demo),
        ("wc-7", small),
        ("Wc-7", small),
        ("cmd-8", mixed),
        ("CMD-8", mixed),
        ("ShopOrder7", camel),
    ):
        assert found(alice, typed) == [order.pk], typed
    for typed in ("#100", "###1004", "N1005", "DEMO", "EMO-1-12", "shoporder7"):
        assert found(alice, typed) == [], typed


@pytest.mark.django_db
def test_an_overwritten_text_leaves_no_trace(alice: Account) -> None:
    orders = orders_of(alice, Random(1), STEP)
    index_texts()
    Order.objects.filter(pk=orders[0].pk).update(
        customer_name="—", customer_phone="", phone_e164="", customer_address=""
    )
    index_texts()
    assert OrderTrigrams.objects.get(order_id=orders[0].pk).trigrams == []


@pytest.mark.django_db
def test_each_account_and_its_twin_find_their_own(
    alice: Account, twin: Account, charlie: Account, api: ApiClient
) -> None:
    accounts = [alice, charlie, twin]
    for account in accounts:
        orders_of(account, Random(1), STEP)
        Order.objects.filter(account=account).update(customer_name="Amine Benali")
    index_texts()
    assert OrderTrigrams.objects.count() == 3 * STEP
    for account in accounts:
        own = set(Order.objects.filter(account=account).values_list("pk", flat=True))
        assert set(found(account, "benali")) == own
    assert api.get("/api/v1/orders?q=benali").json()["meta"]["total"] == STEP
    # Hashes differ between accounts, so that one account's words reveal nothing of another's.
    of = [OrderTrigrams.objects.filter(account=account).first() for account in accounts]
    assert not set(of[0].trigrams) & set(of[1].trigrams)


@pytest.mark.django_db
def test_few_orders_are_not_indexed_and_nothing_is_kept_for_them(
    alice: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trigrams, "FEW", 100)
    orders_of(alice, Random(1), 30)
    assert SearchChange.objects.exists()
    index_texts()
    assert not any(model.objects.exists() for model in (SearchChange, Searchable, OrderTrigrams))
    same(alice, Random(2))


@pytest.mark.django_db
def test_an_import_notes_nothing(alice: Account) -> None:
    make_order(alice)
    assert not SearchChange.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_what_is_changed_while_it_is_indexed_is_found_afterwards(alice: Account) -> None:
    orders = orders_of(alice, Random(1), STEP)
    changed, over = threading.Event(), threading.Event()

    def change() -> None:
        with transaction.atomic():
            Order.objects.filter(pk=orders[3].pk).update(customer_name="Zoubida")
            changed.set()
            over.wait(PATIENCE)

    trigrams.due()
    other = Background(change)
    assert changed.wait(PATIENCE)
    # An open transaction may still write orders dated at its start, so nothing after that counts as complete.
    Order.objects.filter(pk=orders[-1].pk).update(created_at=timezone.now())
    while trigrams.index(alice.id):
        pass
    assert found(alice, "zoubida") == []
    over.set()
    other.result()

    assert found(alice, "zoubida") == [orders[3].pk]
    index_texts()
    assert found(alice, "zoubida") == [orders[3].pk]


@pytest.mark.django_db(transaction=True)
def test_orders_of_a_transaction_that_is_not_over_are_not_passed(
    alice: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, over = threading.Event(), threading.Event()

    def write() -> None:
        with transaction.atomic():
            make_order(alice, customer_name="Zoubida")
            begun.set()
            over.wait(PATIENCE)

    other = Background(write)
    assert begun.wait(PATIENCE)
    monkeypatch.setattr(daily, "SET_BACK", timedelta(0))
    for _ in range(2 * STEP):
        make_order(alice)
    index_texts()
    assert Searchable.objects.get(account=alice).through is None
    over.set()
    other.result()

    index_texts()
    assert Searchable.objects.get(account=alice).through
    assert len(found(alice, "zoubida")) == 1


@pytest.mark.django_db
def test_what_many_orders_have_is_found_by_reading_them(alice: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(trigrams, "FEW", 1)
    monkeypatch.setattr(trigrams, "STEP", STEP)
    orders = orders_of(alice, Random(1), 5 * STEP)
    for part in (orders[:2], orders[:3]):
        Order.objects.filter(pk__in=[order.pk for order in part]).update(customer_name="Zoubida")
        index_texts()
        queryset = OrderFilter({"q": "zoub"}, Order.objects.filter(account=alice), account_id=alice.id).qs
        assert (" = ANY(" in str(queryset.query)) == (part == orders[:2])
        assert len(found(alice, "zoub")) == len(part)


@pytest.mark.django_db
def test_a_second_phone_that_many_orders_have_is_found_by_reading_them(
    alice: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(trigrams, "FEW", 1)
    monkeypatch.setattr(trigrams, "STEP", STEP)
    orders = orders_of(alice, Random(1), 5 * STEP)
    index_texts()
    for part in (orders[:2], orders[:3]):
        Order.objects.filter(pk__in=[order.pk for order in part]).update(phone_2_e164="+213771123456")
        queryset = OrderFilter({"q": "0771123456"}, Order.objects.filter(account=alice), account_id=alice.id).qs
        assert (" = ANY(" in str(queryset.query)) == (part == orders[:2])
        assert set(found(alice, "0771123456")) == {order.pk for order in part}


@pytest.mark.django_db
def test_the_index_does_the_work(alice: Account) -> None:
    order, *_ = orders_of(alice, Random(1), 10 * STEP)
    Order.objects.filter(pk=order.pk).update(customer_name="Zoubida")
    index_texts()
    for q in ("zoubida", order.phone_e164[5:], f"{order.phone_e164[4:9]} {order.phone_e164[9:]}"):
        with connection.cursor() as cursor, CaptureQueriesContext(connection) as queries:
            cursor.execute("ANALYZE orders_order, orders_ordertrigrams; SET LOCAL enable_seqscan = off")
            found(alice, q)
        plans = [explain(sql) for sql in (each["sql"] for each in queries) if "WITH most" in sql or "ANY(" in sql]
        assert "order_by_trigrams" in plans[0], q
        assert re.search(r"one_order_per_external_id.*\n.*external_id\S* = ANY", plans[0]), q
        assert all("orders_order_pkey" in plan for plan in plans[1:]), q
        assert len(plans) > 1
