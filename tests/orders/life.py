"""Random histories of orders, and orders that change while their days are summed up: for tests of figures."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from decimal import Decimal
from random import Random
from threading import Event as Flag
from typing import Any
from uuid import uuid4

from django.db import connections, transaction
from django.db.models import F, QuerySet
from django.utils import timezone

from codservice.accounts.actor import Actor, Role
from codservice.accounts.models import Account
from orders import day_sums, editing, lifecycle, retention
from orders.models import CallNote, Order, StatusChange
from orders.tasks import sum_up_days
from tests import factories
from tests.harness.background import at_once

SUPERVISOR = Actor(Role.SUPERVISOR, "Samira")


class Life:
    """Random steps in the lives of orders. Some are dated back, as if earlier days had been like that."""

    def __init__(self, seed: int, *accounts: Account) -> None:
        self.chance, self.accounts = Random(seed), accounts
        self.agent = factories.AgentFactory()
        self.products = {
            account.id: [factories.ProductFactory(account=account) for _ in range(3)] for account in accounts
        }

    def step(self) -> None:
        account = self.chance.choice(self.accounts)
        orders = Order.objects.filter(account=account)
        order = orders.order_by("id")[self.chance.randrange(orders.count())] if orders else None
        if order is None or self.chance.random() < 0.35:
            self.import_one(account)
            return
        deeds: list[Callable[[Order], Any]] = [
            self.call, self.call, self.edit, self.confirm, self.cancel, self.ship, self.deliver, self.give_back,
            self.date_back, self.date_back, self.sum_up, self.erase, self.drop_product, self.delete,
        ]  # fmt: skip
        try:
            with transaction.atomic():
                self.chance.choice(deeds)(order)
        except (
            lifecycle.AlreadyDecided, lifecycle.Anonymised, lifecycle.NotAllowed, editing.NotEditable,
            lifecycle.NotCancellable,
        ):  # fmt: skip
            pass

    def lines(self, account: Account) -> list[dict[str, Any]]:
        return [
            factories.order_line(
                quantity=self.chance.randrange(1, 4),
                unit_price=self.chance.randrange(100, 900),
                **(
                    {"product_id": self.chance.choice(self.products[account.id]).id}
                    if self.products[account.id] and self.chance.random() < 0.6
                    else {"product_name": self.chance.choice(["Robe", "=1+1", "Bague de Nadia"])}
                ),
            )
            for _ in range(self.chance.randrange(1, 4))
        ]

    def import_one(self, account: Account) -> None:
        factories.make_order(
            account,
            customer_wilaya=self.chance.choice(["16", "31", "25"]),
            source=self.chance.choice([None, "facebook", "<b>tiktok</b>"]),
            total_amount=Decimal(self.chance.randrange(100, 9000)),
            items=self.lines(account),
        )

    def call(self, order: Order) -> None:
        outcome = self.chance.choice(["no_answer", "busy", "answered", "note", "wrong_number"])
        lifecycle.add_call_note(order.id, lifecycle.Call(agent=self.agent, outcome=CallNote.Outcome(outcome)))

    def edit(self, order: Order) -> None:
        line = {"product_id": None, "product_name": "Sac", "quantity": 2, "unit_price": Decimal(250), "attributes": {}}
        changes = self.chance.choice(
            [
                editing.Edit(customer_wilaya="Oran", wilaya_code="31"),
                editing.Edit(total_amount=Decimal(self.chance.randrange(100, 9000))),
                editing.Edit(shipping_fee=Decimal(self.chance.randrange(0, 900))),
                editing.Edit(lines=[line | {"sku": None}] * self.chance.randrange(1, 4)),
            ]
        )
        editing.edit(order.id, changes, actor=SUPERVISOR)

    def confirm(self, order: Order) -> None:
        lifecycle.confirm(order.id, actor=SUPERVISOR)

    def cancel(self, order: Order) -> None:
        reason = self.chance.choice(["Duplicate", "Duplicate: of Nadia's", "", "Too: dear"])
        lifecycle.cancel(order.id, actor=SUPERVISOR, reason=reason)

    def ship(self, order: Order) -> None:
        lifecycle.move("ship", order.id, actor=SUPERVISOR)

    def deliver(self, order: Order) -> None:
        lifecycle.move("deliver", order.id, actor=SUPERVISOR)

    def give_back(self, order: Order) -> None:
        lifecycle.move("return", order.id, actor=SUPERVISOR)

    def date_back(self, order: Order) -> None:
        by = timedelta(days=self.chance.choice([0.001, 0.3, 1, 1, 2, 5, 40]))
        orders = Order.objects.filter(account_id=order.account_id, id__lte=order.id)
        date_back(by, orders)

    def sum_up(self, order: Order) -> None:
        self.chance.choice([lambda: day_sums.sum_up(order.account_id), sum_up_days])()

    def erase(self, order: Order) -> None:
        Order.objects.filter(id=order.id).update(updated_at=F("updated_at") - timedelta(days=1000))
        CallNote.objects.filter(order=order).update(created_at=F("created_at") - timedelta(days=1000))
        for _ in retention.anonymise_customers(timezone.now(), dry_run=False):
            pass

    def drop_product(self, order: Order) -> None:
        if self.products[order.account_id] and self.chance.random() < 0.3:
            self.products[order.account_id].pop().delete()

    def delete(self, order: Order) -> None:
        if order.call_state == "test":
            Order.objects.filter(id=order.id).update(created_at=F("created_at") - timedelta(days=40))
            for _ in retention.delete_test_orders(timezone.now(), dry_run=False):
                pass
        elif self.chance.random() < 0.3:
            order.delete()


def date_back(by: timedelta, orders: QuerySet[Order] | None = None) -> None:
    """Move these orders (or all), and what happened to them so far, back in time."""
    ids = list((Order.objects.all() if orders is None else orders).values_list("id", flat=True))
    Order.objects.filter(id__in=ids).update(created_at=F("created_at") - by, updated_at=F("updated_at") - by)
    StatusChange.objects.filter(order__in=ids).update(at=F("at") - by)
    CallNote.objects.filter(order__in=ids).update(created_at=F("created_at") - by)


def change_while_summed_up(
    *accounts: Account, past: timedelta, sum_up: Callable[[], Any], step_back: timedelta
) -> None:
    """Edit and call orders that are `past` old and confirm new ones, in six threads, while two others sum up.

    Some calls are dated one or two steps back.
    """
    agent = factories.AgentFactory()
    for account in accounts:
        for _ in range(6):
            factories.make_order(account)
    date_back(past)
    waiting = [list(Order.objects.filter(account=account).order_by("id")) for account in accounts]
    done = Flag()

    def sum_up_again_and_again() -> None:
        while not done.is_set():
            sum_up()
        connections.close_all()

    def work(number: int) -> None:
        account, actor = accounts[number % len(accounts)], Actor.of_staff(agent)
        for order in waiting[number % len(accounts)]:
            editing.edit(order.id, editing.Edit(total_amount=Decimal(number + 1)), actor=actor)
            call = lifecycle.Call(agent=agent, outcome=CallNote.Outcome.BUSY, note_id=uuid4())
            lifecycle.add_call_note(order.id, call)
            lifecycle.confirm(factories.make_order(account).id, actor=actor)
            CallNote.objects.filter(id=call.note_id).update(created_at=F("created_at") - step_back * (number % 3))

    with ThreadPoolExecutor(2) as pool:
        others = [pool.submit(sum_up_again_and_again) for _ in range(2)]
        try:
            at_once(6, work)
        finally:
            done.set()
        for other in others:
            other.result()
