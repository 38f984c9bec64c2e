"""seed_demo: the same data for the same seed, once, and beside what is there. What it is like: test_demo_orders."""

import json
import subprocess
import sys
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from django.core.management import CommandError
from django.test import Client

from agents.desk import claims, customer, hours, scripts
from agents.management.commands.seed_demo import Command
from agents.models import CallingPeriod, CallingRules
from codservice import days
from codservice.accounts.models import Account, User
from orders import demo
from orders.models import CallNote, CallState, Order
from tests import factories
from tests.harness.background import at_once
from tests.harness.database import environment
from tests.harness.manage import output
from tests.harness.processes import CHECKOUT
from tests.harness.python import run_python

pytestmark = pytest.mark.django_db


def look() -> list[tuple[Any, ...]]:
    fields = ("external_id", "customer_name", "customer_phone", "wilaya_code", "commune_code", "total_amount", "status")
    return list(Order.objects.order_by("external_id").values_list(*fields))


@pytest.mark.parametrize("name", ["samira1", "Samira1", "demo1@example.dz"])
def test_beside_a_person_of_a_name_nothing_is_made(name: str) -> None:
    factories.UserFactory(username=name)
    with pytest.raises(CommandError, match=f"Somebody already signs in as {name}"):
        output("seed_demo", orders=1)
    assert not Account.objects.exists()


def test_true_orders_of_the_same_customers_are_left_alone(alice: Account) -> None:
    chance = Random(1)
    phones = {demo.order(chance, str(number))["customer_phone"] for number in range(60)}
    theirs = [factories.make_order(alice, phone=phone) for phone in sorted(phones)[::2]]

    output("seed_demo", orders=60)

    for order in theirs:
        order.refresh_from_db()
        assert (order.version, order.call_state, order.call_notes.count()) == (1, CallState.NEW, 0)
    assert CallNote.objects.exists(), "others were called"


def test_its_customers_are_called_at_any_hour_in_the_words_of_a_script() -> None:
    """Someone who tries the service at night, or on a Friday, should see a call."""
    CallingPeriod.objects.all().delete()
    output("seed_demo", orders=20)

    account = Account.objects.get()
    today, minutes = days.start_of(days.today()), timedelta(hours=23, minutes=59)
    starts = [today + timedelta(days=number) for number in range(7)]
    assert hours.of_account(account.id, days=6) == [(start, start + minutes) for start in starts]
    rules, order = CallingRules.of(account.id), Order.objects.latest("id")
    texts = scripts.of_order(order, [], french=rules.script_fr, arabic=rules.script_ar)
    assert [script.language for script in texts] == ["fr", "ar"]
    for script in texts:
        assert "{" not in script.text
        assert order.customer_name in script.text
        assert account.name in script.text


def test_some_customers_have_ordered_twice(django_user_model: Any) -> None:
    output("seed_demo", orders=40)

    agent = django_user_model.objects.get(username="samira1")
    theirs = [
        customer.read(claims.take(order.id, agent=agent), agent=agent)
        for order in Order.objects.filter(external_id__in=["DEMO-1-7", "DEMO-1-17"]).order_by("id")
    ]
    assert [len(found.pending) for found in theirs] == [2, 2]
    assert all(entry.duplicates for entry in theirs[1].pending)


def test_the_same_seed_makes_the_same_data() -> None:
    output("seed_demo", orders=30)
    first = look()
    Order.objects.all().delete()
    account = Account.objects.get()
    account.holder.email = account.holder.username = "other@example.dz"
    account.holder.save()
    for agent in ("samira1", "farid1", "nadia1"):
        type(account.holder).objects.get(username=agent).delete()

    output("seed_demo", orders=30)

    assert look() == first


def test_to_seed_twice_adds_nothing() -> None:
    output("seed_demo", orders=5)
    output("seed_demo", orders=5)

    assert Order.objects.count() == 5


@pytest.mark.django_db(transaction=True)
def test_of_two_at_once_one_makes_the_data_and_the_other_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    usual, printed = Command.make_people, list[str]()

    def overtaken(self: Command, *args: Any) -> Any:
        monkeypatch.setattr(Command, "make_people", usual)
        printed.extend(at_once(1, lambda _: output("seed_demo", orders=3, json=True)))
        return usual(self, *args)

    monkeypatch.setattr(Command, "make_people", overtaken)
    printed.append(output("seed_demo", orders=3, json=True))

    assert [json.loads(each)["made"] for each in printed] == [True, False]
    assert Order.objects.count() == 3


def test_what_was_made_is_printed_for_scripts() -> None:
    made = json.loads(output("seed_demo", orders=0, json=True))

    assert made["account"] == "demo1@example.dz"
    assert (made["agents"], made["orders"]) == (["samira1", "farid1", "nadia1"], 0)
    assert Client().login(username="nadia1", password=made["password"])


def test_what_was_made_is_printed_for_people() -> None:
    assert "agents samira1, farid1, supervisor nadia1; the password" in output("seed_demo", orders=0)


def test_nobody_guesses_the_demos_password() -> None:
    one, other = (json.loads(output("seed_demo", orders=0, seed=number, json=True))["password"] for number in (1, 2))

    assert one != other
    assert len(one) >= 16
    assert f"the password of each is {one}" not in output("seed_demo", orders=0), "it is told once"


def test_as_json_it_says_whether_the_data_was_there() -> None:
    made, there = (json.loads(output("seed_demo", orders=3, json=True)) for _ in range(2))

    assert (made.pop("made"), there.pop("made")) == (True, False)
    assert made.pop("password")
    assert made == there


@pytest.mark.django_db(transaction=True)
def test_a_start_whose_demo_data_cannot_be_made_says_why() -> None:
    User.objects.create_user("samira1")

    done = subprocess.run(
        [sys.executable, "-m", "codservice.run.prepare"],
        cwd=CHECKOUT,
        env=environment(DEMO="1"),
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0
    said = "\ncodservice: no demo data was added: Somebody already signs in as samira1. Use another --seed.\n"
    assert done.stderr.endswith(said)
    assert "Traceback" not in done.stderr


@pytest.mark.django_db(transaction=True)
def test_the_service_starts_again_once_the_demo_account_has_another_holder() -> None:
    output("seed_demo", orders=1)
    Account.objects.update(holder=factories.UserFactory())

    done = run_python("-m", "codservice.run.prepare", env=environment(DEMO="1"))

    assert done.returncode == 0, done.stderr
    assert "codservice: no demo data was added: Somebody already signs in as demo1@example.dz." in done.stderr
