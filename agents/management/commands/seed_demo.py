from argparse import ArgumentParser
from decimal import Decimal
from random import Random
from typing import Any, cast

from django.contrib.auth.models import Group
from django.core.management.base import CommandError
from django.db import connection, transaction

from codservice import commands
from codservice.accounts.actor import Actor
from codservice.accounts.models import Account, User
from inventory import stock
from orders import demo, lifecycle, serializers
from orders.models import CallNote, Order

PASSWORD = "demo"  # noqa: S105  (of the demonstration alone, and it is printed)
BATCH = 200
# How often an order ends where it ends, as call centers tell it: most wait or are confirmed, a fifth is canceled.
FATES = {"pending": 34, "called": 10, "confirmed": 20, "canceled": 16, "shipped": 6, "delivered": 10, "returned": 4}
REASONS = ["Client refuse", "Doublon", "Faux numéro", "Injoignable"]


class Command(commands.Command):
    help = "Make an account with products, agents and orders in a believable mix. The same seed makes the same data."
    examples = "seed_demo\nseed_demo --orders 2000 --seed 7"

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--orders", type=int, default=200, help="how many orders (default: 200)")
        parser.add_argument("--seed", type=int, default=1, help="which data (default: 1)")
        parser.add_argument("--json", action="store_true", help="print a JSON object")

    def handle(self, *, orders: int, seed: int, **options: Any) -> None:
        if orders < 0:
            raise CommandError("--orders must not be negative.")
        email = f"demo{seed}@example.dz"
        if Account.objects.filter(holder__email=email).exists():
            self.say(f"The data of seed {seed} is here already (account {email}).")
            return
        chance = Random(seed)  # noqa: S311  (no secret is made of it)
        with transaction.atomic():
            account, agents = self.make_people(email, seed)
            bodies = [demo.order(chance, f"DEMO-{seed}-{number + 1}") for number in range(orders)]
            batches = [bodies[start : start + BATCH] for start in range(0, len(bodies), BATCH)]
            for batch in self.progress(batches, total=len(batches), unit="batches of orders"):
                drafts = [serializers.read_order(body, account.id) for body in batch]
                for order in lifecycle.import_orders(account.id, drafts, actor=Actor.of_command("seed_demo")):
                    self.live(cast(Order, order), chance, agents)
            self.spread_over_time(account)
        users = [user.username for user in agents]
        if options["json"]:
            self.print_json({"account": email, "agents": users, "password": PASSWORD, "orders": orders})
        else:
            self.stdout.write(f"Account {email}, agents {', '.join(users)}; the password of each is “{PASSWORD}”.")

    def make_people(self, email: str, seed: int) -> tuple[Account, list[User]]:
        holder = User.objects.create_user(email, email, PASSWORD, first_name="Yasmine", last_name="Demo")
        account = Account.objects.create(name=f"Boutique Demo {seed}", holder=holder)
        products = [
            stock.Draft(sku=sku, name=name, price=Decimal(price), stock_quantity=20 + 7 * number)
            for number, (sku, name, price) in enumerate(demo.CATALOG)
        ]
        stock.import_products(account.id, products, actor=Actor.of_command("seed_demo"))
        agents = []
        for name, group in (("samira", "Agents"), ("farid", "Agents"), ("nadia", "Supervisors")):
            user = User.objects.create_user(f"{name}{seed}", password=PASSWORD, first_name=name.title(), is_staff=True)
            user.groups.add(Group.objects.get(name=group))
            agents.append(user)
        return account, agents

    def live(self, order: Order, chance: Random, agents: list[User]) -> None:
        """What happens to an order after its import."""
        fate = chance.choices(list(FATES), weights=list(FATES.values()))[0]
        agent, supervisor = chance.choice(agents[:2]), Actor.of_user(agents[2])
        if fate == "pending":
            return
        silent = chance.choice([CallNote.Outcome.NO_ANSWER, CallNote.Outcome.BUSY, CallNote.Outcome.SWITCHED_OFF])
        if fate == "called" or chance.random() < 0.3:
            lifecycle.add_call_note(order.id, agent=agent, outcome=silent)
        if fate == "called":
            return
        lifecycle.add_call_note(order.id, agent=agent, outcome=CallNote.Outcome.ANSWERED)
        if fate == "canceled":
            lifecycle.cancel(order.id, actor=Actor.of_user(agent), reason=chance.choice(REASONS))
            return
        lifecycle.confirm(order.id, actor=Actor.of_user(agent))
        if fate != "confirmed":
            lifecycle.ship(order.id, actor=supervisor)
        if fate == "delivered":
            lifecycle.deliver(order.id, actor=supervisor)
        if fate == "returned":
            lifecycle.return_order(order.id, actor=supervisor)

    def spread_over_time(self, account: Account) -> None:
        """Move each order with all that belongs to it into the last two weeks: those that wait, into the last day."""
        ago = (
            "o.ago * CASE WHEN o.status = 'pending_confirmation' THEN interval '5 minutes' ELSE interval '2 hours' END"
        )
        moved = "SELECT id, status, row_number() OVER (ORDER BY id DESC) AS ago FROM orders_order WHERE account_id = %s"
        with connection.cursor() as cursor:
            for table, times, key in (
                ("orders_statuschange", ["at"], "order_id"),
                ("orders_callnote", ["created_at"], "order_id"),
                ("orders_order", ["created_at", "updated_at", "confirmed_at", "canceled_at"], "id"),
            ):
                changes = ", ".join(f"{time} = t.{time} - {ago}" for time in times)
                cursor.execute(
                    f"UPDATE {table} t SET {changes} FROM ({moved}) o WHERE t.{key} = o.id",  # noqa: S608
                    [account.id],
                )
