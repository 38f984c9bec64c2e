import secrets
from argparse import ArgumentParser
from datetime import time, timedelta
from decimal import Decimal
from random import Random
from typing import Any

from django.contrib.auth.models import Group
from django.core.management.base import CommandError
from django.db import IntegrityError
from django.db.models import Exists, OuterRef
from django.utils import timezone

from agents.backdating import spread_over_time
from agents.desk import claims, decisions
from agents.models import CallingRules
from codservice import commands
from codservice.accounts.actor import Actor
from codservice.accounts.models import Account, User
from inventory import catalog
from orders import demo, editing, fees, importing, lifecycle
from orders.cancel_reasons import CancelReason
from orders.models import CallNote, Order

Outcome = CallNote.Outcome
BATCH = 200
# How many orders of a hundred end where, as call centers tell it: most wait or are confirmed, a sixth are canceled.
FATES = {
    "new": 22,
    "silent": 12,
    "promised": 7,
    "review": 3,
    "confirmed": 20,
    "canceled": 16,
    "shipped": 6,
    "delivered": 10,
    "returned": 4,
}
SILENT = [Outcome.NO_ANSWER, Outcome.NO_ANSWER, Outcome.BUSY, Outcome.SWITCHED_OFF]
REVIEWED = [Outcome.WRONG_NUMBER, Outcome.HANDED_OVER]
REASONS = [reason for reason in CancelReason if reason != CancelReason.OTHER]
PEOPLE = {"samira": "Agents", "farid": "Agents", "nadia": "Supervisors"}
# Open from midnight to the last minute of every day, so that who tries it at night or on a Friday sees a call too.
RULES = {
    "opens_at": time(0),
    "closes_at": time(23, 59),
    "days_off": [],
    "script_fr": "Bonjour {nom}, ici {boutique}. Vous avez commandé {produit}, à payer {somme} à la livraison. "
    "Est-ce que vous confirmez\u202f?",
    "script_ar": "السلام عليكم {الاسم}، معكم {المتجر}. طلبتم {المنتج}، والمبلغ {المبلغ} عند الاستلام. "
    "هل تؤكدون الطلبية؟",
}
REMARKS = ["", "", "Sonne longtemps", "Rappeler le soir", "Très aimable", "يتكلم بالعربية فقط"]


class Command(commands.Command):
    help = """Create an account with products, agents and orders in a realistic mix. The same seed gives the same data.

Customers who also have orders of another merchant are not called: their demo orders wait."""
    examples = "seed_demo\nseed_demo --orders 2000 --seed 7"

    def add_arguments(self, parser: ArgumentParser) -> None:
        upto_million = commands.number(int, 0, 1_000_000)
        parser.add_argument("--orders", type=upto_million, default=200, help="how many orders (default: 200)")
        parser.add_argument("--seed", type=upto_million, default=1, help="which data to create (default: 1)")
        parser.add_argument("--json", action="store_true", help="print a JSON object")

    def handle(self, *, seed: int, **options: Any) -> None:
        try:
            self.make(seed=seed, **options)
        except IntegrityError:
            if not Account.objects.filter(holder__email=f"demo{seed}@example.dz").exists():
                raise
            self.make(seed=seed, **options)  # another run was faster; this says that the data exists

    def make(self, *, orders: int, seed: int, **options: Any) -> None:
        email = f"demo{seed}@example.dz"
        users = [f"{name}{seed}" for name in PEOPLE]
        told = {"account": email, "agents": users}
        if account := Account.objects.filter(holder__email=email).first():
            self.say(f"The data of seed {seed} already exists (account {email}).")
            if options["json"]:
                self.print_json({"made": False, **told, "orders": account.orders.count()})
            return
        for name in (email, *users):
            if somebody := User.with_name(name).first():
                raise CommandError(f"Somebody already signs in as {somebody.username}. Use another --seed.")
        chance = Random(seed)  # noqa: S311  (no secret is made of it)
        with self.shown_or_undone():
            password = secrets.token_urlsafe(12)
            account, agents = self.make_people(email, seed, password)
            bodies = [demo.order(chance, f"DEMO-{seed}-{number + 1}") for number in range(orders)]
            paired = self.pair(bodies)
            products = dict(account.products.values_list("name", "id"))
            for item in (item for body in bodies for item in body["items"]):
                item["product_id"] = str(products[item["product_name"]])
            batches = [bodies[start : start + BATCH] for start in range(0, len(bodies), BATCH)]
            for batch in self.progress(batches, total=len(batches), unit="batches of orders"):
                importing.import_orders(account.id, batch, actor=Actor.of_command("seed_demo"))
                numbers = {body["external_id"] for body in batch}
                theirs = Order.objects.filter(phone_e164=OuterRef("phone_e164")).exclude(account=account)
                made = account.orders.filter(~Exists(theirs), external_id__in=numbers - paired)
                for order in made.order_by("id"):
                    self.play(order, chance, agents)
            for agent in agents:
                claims.release_all(agent)
            spread_over_time(account, chance)
            if options["json"]:
                self.print_json({"made": True, **told, "orders": orders, "password": password})
            else:
                people = f"Account {email}, agents {', '.join(users[:-1])}, supervisor {users[-1]}"
                self.stdout.write(f"{people}; the password of each is {password} (shown only now)")

    def make_people(self, email: str, seed: int, password: str) -> tuple[Account, list[User]]:
        """Create the account, its catalog and its people. The password is random: they can sign in from anywhere."""
        holder = User.objects.create_user(email, email, password, first_name="Yasmine", last_name="Demo")
        account = Account.objects.create(name=f"Boutique Demo {seed}", holder=holder)
        products = [
            catalog.Draft(sku=sku, name=name, price=Decimal(price), stock_quantity=20 + 7 * number)
            for number, (sku, name, price) in enumerate(demo.CATALOG)
        ]
        catalog.save(account.id, products, actor=Actor.of_command("seed_demo"), sets_stock=True)
        fees.set_fees(account.id, demo.fees())
        CallingRules.objects.create(account=account, **RULES)
        agents = []
        for name, group in PEOPLE.items():
            user = User.objects.create_user(f"{name}{seed}", password=password, first_name=name.title(), is_staff=True)
            user.groups.add(Group.objects.get(name=group))
            agents.append(user)
        return account, agents

    def pair(self, bodies: list[dict[str, Any]]) -> set[str]:
        """Let some customers order twice, some of them the same. Returns these orders' `external_id`s; all wait."""
        paired = set()
        for number in range(7, len(bodies), 10):
            first, second = bodies[number - 1], bodies[number]
            kept = ["external_id"] if number % 20 == 17 else ["external_id", "items", "total_amount", "shipping_fee"]
            second |= {name: value for name, value in first.items() if name not in kept}
            paired |= {first["external_id"], second["external_id"]}
        return paired

    def play(self, order: Order, chance: Random, agents: list[User]) -> None:
        """Give one order its history after the import."""
        fate = chance.choices(list(FATES), weights=list(FATES.values()))[0]
        agent, supervisor = chance.choice(agents[:2]), Actor.of_staff(agents[2])
        if fate == "new":
            return
        if fate == "silent" or chance.random() < 0.3:
            for _ in range(chance.choice([1, 1, 2, 3])):
                self.call(order, chance.choice(SILENT), agent, chance)
        if fate == "silent":
            return
        if fate != "promised" and chance.random() < 0.15:
            self.call(order, Outcome.CALLBACK, agent, chance)
        if chance.random() < 0.2:
            address = editing.Edit(customer_address=f"{order.customer_address}, 2e étage")
            order = decisions.edit(self.screen(order, agent), order.id, address)
        if fate == "promised":
            self.call(order, Outcome.CALLBACK, agent, chance)
        elif fate == "review":
            self.call(order, chance.choice(REVIEWED), agent, chance)
        else:
            self.decide(order, fate, agent, supervisor, chance)

    def screen(self, order: Order, agent: User) -> decisions.Screen:
        """The order's customer, taken by the agent."""
        return decisions.Screen(claims.take(order.id, agent=agent), agent, {order.id: order.version})

    def call(self, order: Order, outcome: CallNote.Outcome, agent: User, chance: Random) -> None:
        """Note a call that decides nothing."""
        later = timezone.now() + timedelta(minutes=chance.randrange(30, 900))
        callback_at = later if outcome == Outcome.CALLBACK else None
        call = lifecycle.Call(agent, outcome, chance.choice(REMARKS), callback_at=callback_at)
        decisions.note_call(self.screen(order, agent), call)

    def decide(self, order: Order, fate: str, agent: User, supervisor: Actor, chance: Random) -> None:
        screen, note = self.screen(order, agent), chance.choice(REMARKS)
        if fate == "canceled":
            decisions.cancel(screen, order.id, chance.choice(REASONS), note=note)
            return
        decisions.confirm(screen, order.id, note=note)
        moves = {"shipped": ["ship"], "delivered": ["ship", "deliver"], "returned": ["ship", "return"]}
        for move in moves.get(fate, ()):
            lifecycle.move(move, order.id, actor=supervisor)
