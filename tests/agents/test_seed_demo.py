"""seed_demo: believable data, the same for the same seed."""

import json
import subprocess
import sys
from datetime import timedelta
from itertools import pairwise
from random import Random
from statistics import median
from typing import Any

import pytest
from django.core.management import CommandError
from django.db.models import Count
from django.db.models.functions import Now
from django.test import Client
from django.utils import timezone

from agents.desk import claims, customer, hours, scripts
from agents.management.commands.seed_demo import Command
from agents.models import CallingPeriod, CallingRules, Claim
from codservice import days
from codservice.accounts.models import Account, User
from orders import demo
from orders.models import CallNote, CallState, Order, OrderEdit, ShippingFee, Status
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


def test_orders_are_in_every_status_and_their_histories_agree() -> None:
    output("seed_demo", orders=120)

    counts = dict(Order.objects.values_list("status").annotate(Count("id")))
    assert set(counts) == set(Status.values)
    assert sum(counts.values()) == 120
    for order in Order.objects.prefetch_related("status_changes"):
        history = sorted(order.status_changes.all(), key=lambda change: (change.at, change.id))
        assert history[-1].to_status == order.status
        assert history[0].at == order.created_at


@pytest.mark.parametrize("name", ["samira1", "demo1@example.dz"])
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


def test_the_desk_has_all_that_can_wait() -> None:
    output("seed_demo", orders=200)

    waiting = Order.objects.filter(status=Status.PENDING)
    for state in set(CallState) - {CallState.TEST}:
        assert waiting.filter(call_state=state).exists(), state
    for state in (CallState.RETRY, CallState.CALLBACK):
        assert waiting.filter(call_state=state, call_due_at__lt=Now()).exists(), state
        assert waiting.filter(call_state=state, call_due_at__gt=Now()).exists(), state
    assert not waiting.filter(call_state=CallState.NEW, call_due_at__gt=Now()).exists()
    assert OrderEdit.objects.filter(order__status=Status.PENDING, at__lt=Now() - timedelta(minutes=4)).exists()
    assert CallNote.objects.filter(callback_at__isnull=False).exists()
    assert not Claim.objects.exists()


def test_it_looks_alive() -> None:
    """Calls come minutes after the order, decisions later; promises are kept and broken; nothing lies in the future."""
    output("seed_demo", orders=300)

    now, firsts, lateness = timezone.now(), [], []
    for order in Order.objects.prefetch_related("status_changes", "call_notes"):
        notes = sorted(order.call_notes.all(), key=lambda note: note.created_at)
        times = [order.created_at, *(note.created_at for note in notes)]
        moves = sorted(change.at for change in order.status_changes.all())
        assert moves[0] == order.created_at
        assert moves[-1] <= order.updated_at <= now
        assert times == sorted(times)
        assert times[-1] <= now
        firsts += [note.created_at - order.created_at for note in notes[:1]]
        lateness += [
            following.created_at - note.callback_at
            for note, following in pairwise(notes)
            if note.callback_at is not None
        ]
    assert timedelta(minutes=2) <= median(firsts) <= timedelta(hours=14)
    kept = [late for late in lateness if late < timedelta(minutes=30)]
    assert kept
    assert len(kept) < len(lateness)
    assert set(Order.objects.values_list("delivery_type", flat=True)) == {"home", "desk"}
    assert Order.objects.values("source").distinct().count() >= 4
    assert ShippingFee.objects.count() == 69


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
