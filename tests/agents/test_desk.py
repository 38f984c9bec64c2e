"""One customer, one agent: who is served whom, what each outcome plans, and what is refused."""

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection, connections, transaction
from django.db.models import F
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agents import tasks
from agents.desk import claims, customer, decisions, overview
from agents.models import CallingRules, Claim
from agents.supervision import bulk_changes
from codservice.accounts.actor import Actor, Role
from codservice.accounts.models import Account, User
from codservice.days import ALGIERS
from codservice.errors import Refused
from orders import editing, lifecycle
from orders.cancel_reasons import CancelReason
from orders.models import CallNote, CallState, Order, Status, StatusChange
from tests.agents.states import waits
from tests.factories import AgentFactory, ProductFactory, make_order, order_line
from tests.harness.background import PATIENCE, Background, at_once, open_transaction
from tests.harness.client import ApiClient
from tests.harness.database import stopped_before_its_locks, wait_for_lock
from tests.harness.plans import copy, rows_read
from webhooks.models import Event

Outcome = CallNote.Outcome


def next_order(agent: User) -> Order | None:
    """Return the first pending order of the customer whom the agent is served."""
    claim_id = claims.next_customer(agent)
    return claim_id and Order.objects.filter(phone_e164=Claim.objects.get(id=claim_id).phone_e164).earliest("id")


def expire(claim_id: Any) -> None:
    Claim.objects.filter(id=claim_id).update(expires_at=Now() - timedelta(seconds=1))


def screen(claim_id: Any, agent: User, *orders: Order) -> decisions.Screen:
    return decisions.Screen(claim_id, agent, {order.id: 1 for order in orders})


def note(
    claim_id: Any, outcome: CallNote.Outcome, *orders: Order, agent: User, to: User | None = None, **call: Any
) -> None:
    decisions.note_call(screen(claim_id, agent, *orders), lifecycle.Call(agent, outcome, **call), to=to)


# --- Who is served which customer --------------------------------------------------------------------------------


def test_the_order_of_service(alice: Account, agent: User, colleague: User) -> None:
    new, newer = make_order(alice, phone="0550000001"), make_order(alice, phone="0550000002")
    retry = waits(make_order(alice, phone="0550000003"), CallState.RETRY, minutes=-600)
    overdue = waits(make_order(alice, phone="0550000004"), CallState.CALLBACK, minutes=-16, agent=colleague)
    mine = waits(make_order(alice, phone="0550000005"), CallState.CALLBACK, minutes=-1, agent=agent)
    for state in CallState:
        waits(make_order(alice, phone="0550000006"), state, minutes=5, agent=agent)
    waits(make_order(alice, phone="0550000007"), CallState.CALLBACK, minutes=-14, agent=colleague)
    waits(make_order(alice, phone="0550000008"), CallState.REVIEW, minutes=-600)

    served = []
    for _ in range(6):
        served.append(next_order(agent))
        if served[-1]:
            lifecycle.confirm(served[-1].id, actor=Actor.of_staff(agent))

    assert served == [mine, overdue, new, newer, retry, None]


def test_the_customer_in_hand_comes_before_the_next(alice: Account, agent: User) -> None:
    make_order(alice, phone="0550000001")
    make_order(alice, phone="0550000002")
    assert claims.next_customer(agent) == claims.next_customer(agent)
    assert Claim.objects.count() == 1


def test_a_claim_takes_every_order_of_the_customer(
    alice: Account, charlie: Account, agent: User, colleague: User
) -> None:
    first, second = make_order(alice), make_order(charlie, phone="+213 550 12 34 56")
    claim_id = claims.next_customer(agent)

    assert claims.next_customer(colleague) is None
    held = customer.read(claim_id, agent=agent)
    assert held
    assert [entry.order for entry in held.pending] == [first, second]
    for order in (first, second):
        with pytest.raises(claims.HeldByAnother, match="Samira is calling this customer"):
            claims.take(order.id, agent=colleague)


def test_a_lease_ends_and_activity_renews_it(alice: Account, agent: User, colleague: User) -> None:
    order = make_order(alice)
    claim_id = claims.next_customer(agent)
    before = Claim.objects.get().expires_at
    assert claims.renew(claim_id, agent=agent)
    assert Claim.objects.get().expires_at > before
    assert not claims.renew(claim_id, agent=colleague)

    expire(claim_id)

    assert not claims.renew(claim_id, agent=agent)
    assert customer.read(claim_id, agent=agent) is None
    taken = claims.next_customer(colleague)
    assert taken not in (None, claim_id)
    for act in (
        lambda: decisions.confirm(screen(claim_id, agent, order), order.id),
        lambda: note(claim_id, Outcome.BUSY, order, agent=agent),
        lambda: decisions.edit(screen(claim_id, agent, order), order.id, editing.Edit(customer_name="X")),
        lambda: decisions.confirm(screen(taken, agent, order), order.id),
    ):
        with pytest.raises(decisions.NotHeld):
            act()
    assert not CallNote.objects.exists()


def test_a_clock_that_is_set_back_by_hours_holds_no_customer_up_for_as_long(
    alice: Account, agent: User, colleague: User
) -> None:
    """The agent who is calling them does not lose them at once, either."""
    make_order(alice)
    claim_id = claims.next_customer(agent)
    Claim.objects.update(expires_at=F("expires_at") + timedelta(hours=3))

    assert tasks.shorten_claims() == 1
    assert tasks.shorten_claims() == 0

    assert claims.next_customer(colleague) is None
    assert claims.next_customer(agent) == claim_id
    Claim.objects.update(expires_at=F("expires_at") - claims.LEASE)
    assert claims.next_customer(colleague) not in (None, claim_id)


@pytest.mark.django_db(transaction=True)
def test_a_claim_that_is_being_changed_holds_no_other_up_when_the_clock_is_set_back(alice: Account) -> None:
    agents = [AgentFactory(), AgentFactory()]
    for number in range(2):
        make_order(alice, phone=f"055012345{number}")
    changing, _other = [claims.next_customer(each) for each in agents]
    Claim.objects.update(expires_at=F("expires_at") + timedelta(hours=3))

    with open_transaction(lambda: claims.renew(changing, agent=agents[0])):
        assert tasks.shorten_claims() == 1


def test_an_order_that_came_before_the_clock_was_set_back_is_called_for(
    alice: Account, agent: User, colleague: User
) -> None:
    """A promise is kept at the time that was agreed, a skipped order comes again in a while, a retry by the rules."""
    a_year = 365 * 24 * 60
    waits = [("new", 180), ("callback", 180), ("new", 14), ("retry", 28 * 24 * 60), ("retry", a_year)]
    new, *_by_plan, late = made = [make_order(alice, phone=f"055012345{number}") for number in range(len(waits))]
    for order, (state, minutes) in zip(made, waits, strict=True):
        Order.objects.filter(id=order.id).update(call_state=state, call_due_at=Now() + timedelta(minutes=minutes))
    assert claims.next_customer(agent) is None

    assert tasks.shorten_claims() == 2
    assert tasks.shorten_claims() == 0

    served = [claims.next_customer(each) for each in (agent, colleague)]
    phones = dict(Claim.objects.values_list("id", "phone_e164"))
    assert [phones[claim_id] for claim_id in served] == [new.phone_e164, late.phone_e164]


def test_a_supervisors_release_frees_the_customer(alice: Account, agent: User, colleague: User) -> None:
    make_order(alice)
    claim_id = claims.next_customer(agent)
    assert claims.release(claim_id)
    assert not claims.release(claim_id)
    assert claims.next_customer(colleague)


def test_a_customer_who_calls_is_taken_by_whoever_answers(alice: Account, agent: User) -> None:
    order = waits(make_order(alice), CallState.REVIEW)
    claim_id = claims.take(order.id, agent=agent)
    assert claims.take(order.id, agent=agent) == claim_id
    lifecycle.confirm(order.id, actor=Actor.of_staff(agent))
    with pytest.raises(claims.NothingToCallFor):
        claims.take(order.id, agent=agent)


@pytest.mark.django_db(transaction=True)
def test_fifty_agents_at_once_get_fifty_customers(alice: Account) -> None:
    """A third of the customers have a second order, which another agent may be looking at meanwhile."""
    agents = [AgentFactory() for _ in range(50)]
    for number in range(60):
        make_order(alice, phone=f"05500{number:05}")
        if number % 3 == 0:
            make_order(alice, phone=f"05500{number:05}")

    served = at_once(50, lambda number: claims.next_customer(agents[number]))

    assert len(set(served)) == 50
    assert None not in served
    assert Claim.objects.count() == 50
    phones = Claim.objects.order_by("phone_e164").values_list("phone_e164", flat=True)
    assert list(phones) == [f"+2135500{number:05}" for number in range(50)]


@pytest.mark.django_db(transaction=True)
def test_an_order_that_is_being_changed_is_passed_over(alice: Account, agent: User) -> None:
    """Somebody's transaction on the first order keeps no agent waiting."""
    busy, free = make_order(alice, phone="0550000001"), make_order(alice, phone="0550000002")
    with ThreadPoolExecutor(1) as pool, transaction.atomic():
        Order.objects.select_for_update().get(id=busy.id)
        assert pool.submit(next_order, agent).result(PATIENCE) == free
        pool.submit(connections.close_all).result()


@pytest.mark.django_db(transaction=True)
def test_a_number_that_is_corrected_meanwhile_is_the_one_that_is_called(alice: Account, agent: User) -> None:
    order = make_order(alice)
    with stopped_before_its_locks("orders_order", lambda: claims.next_customer(agent)) as served:
        correction = editing.Edit(customer_phone="0661223344", phone_e164="+213661223344")
        editing.edit(order.id, correction, actor=Actor.of_staff(agent))
    assert Claim.objects.get(id=served.result()).phone_e164 == "+213661223344"


@pytest.mark.django_db(transaction=True)
def test_so_is_the_number_of_who_is_taken(alice: Account, agent: User) -> None:
    order = make_order(alice)
    correction = editing.Edit(customer_phone="0661223344", phone_e164="+213661223344")
    with open_transaction(lambda: editing.edit(order.id, correction, actor=Actor.of_staff(agent))):
        taken = Background(lambda: claims.take(order.id, agent=agent))
        wait_for_lock()
    assert Claim.objects.get(id=taken.result()).phone_e164 == "+213661223344"


def test_counters(alice: Account, agent: User, colleague: User) -> None:
    for number, (state, minutes) in enumerate(
        [("new", 0), ("retry", -5), ("callback", -1), ("callback", 1), ("review", -5), ("retry", 60 * 24)]
    ):
        waits(make_order(alice, phone=f"05500{number:05}"), CallState(state), minutes, agent)
    waits(make_order(alice, phone="0660000000"), CallState.CALLBACK, -16, colleague)  # overdue
    counted = overview.counters(agent)
    late = timezone.localtime(timezone=ALGIERS).time() >= datetime(2000, 1, 1, 23, 59).time()
    assert counted == {"due": 4, "later": 0 if late else 1, "mine": 2, "review": 1, "overdue": 1}


def test_a_colleagues_promise_is_due_when_it_is_late(alice: Account, agent: User, colleague: User) -> None:
    order = waits(make_order(alice), CallState.CALLBACK, -1, colleague)
    assert overview.counters(colleague) == {"due": 1, "later": 0, "mine": 1, "review": 0, "overdue": 1}
    assert overview.counters(agent) == {"due": 0, "later": 1, "mine": 0, "review": 0, "overdue": 0}
    assert claims.next_customer(agent) is None
    waits(order, CallState.CALLBACK, -16, colleague)
    assert overview.counters(agent) == {"due": 1, "later": 0, "mine": 0, "review": 0, "overdue": 0}
    assert claims.next_customer(agent)


def test_who_is_due_may_be_in_colleagues_hands(alice: Account, agent: User, colleague: User) -> None:
    make_order(alice)
    assert claims.next_customer(colleague)
    assert claims.next_customer(agent) is None
    assert str(overview.next_call(agent)) == "Your colleagues are already calling every customer who is due."


def test_what_was_done_today_is_counted_without_its_orders(alice: Account, agent: User) -> None:
    copy(make_order(alice), 1999, days=2)
    orders, now = Order.objects.all(), timezone.now()
    StatusChange.objects.bulk_create(
        StatusChange(
            account=alice, order=order, user=agent, at=now, from_status=Status.PENDING, to_status=Status.CONFIRMED
        )
        for order in orders
    )
    CallNote.objects.bulk_create(
        CallNote(account=alice, order=order, agent=agent, created_at=now, outcome=Outcome.ANSWERED) for order in orders
    )
    with CaptureQueriesContext(connection) as queries:
        assert overview.today(agent) == overview.Today(2000, 2000, 2000, 2000, 2000)
    (counting,) = (query["sql"] for query in queries)
    assert rows_read(counting, "orders_order") < 50


# --- Outcomes ----------------------------------------------------------------------------------------------------


def test_confirm_notes_the_call_and_lets_the_customer_go(alice: Account, agent: User) -> None:
    order = make_order(alice)
    claim_id = claims.next_customer(agent)
    decisions.confirm(screen(claim_id, agent, order), order.id, note="Livrer samedi")

    order.refresh_from_db()
    written = order.call_notes.get()
    assert (order.status, written.outcome, written.note) == (Status.CONFIRMED, Outcome.ANSWERED, "Livrer samedi")
    assert Event.objects.exclude(kind="order.created").get().kind == Event.Kind.ORDER_CONFIRMED
    assert not Claim.objects.exists()


def test_the_customer_stays_until_all_orders_are_decided(alice: Account, agent: User) -> None:
    first, second = make_order(alice), make_order(alice)
    claim_id = claims.next_customer(agent)
    decisions.confirm(screen(claim_id, agent, first), first.id)
    decisions.cancel(screen(claim_id, agent, second), second.id, CancelReason.DUPLICATE, details="W-1")

    second.refresh_from_db()
    assert (second.status, second.cancel_reason) == (Status.CANCELED, "Duplicate: W-1")
    assert not Claim.objects.exists()


@pytest.mark.parametrize(
    ("why", "outcome"),
    [
        (CancelReason.REFUSED, Outcome.ANSWERED),
        (CancelReason.UNREACHABLE, Outcome.NO_ANSWER),
        (CancelReason.WRONG_NUMBER, Outcome.WRONG_NUMBER),
        (CancelReason.OUT_OF_STOCK, Outcome.NOTE),
    ],
)
def test_a_cancellation_says_what_the_call_came_to(why: Any, outcome: str, alice: Account, agent: User) -> None:
    order = make_order(alice)
    decisions.cancel(screen(claims.next_customer(agent), agent, order), order.id, why)
    assert order.call_notes.get().outcome == outcome


@pytest.mark.parametrize("outcome", CallNote.SILENT)
def test_silence_brings_the_order_back_later(outcome: Any, alice: Account, charlie: Account, agent: User) -> None:
    CallingRules.objects.create(account=alice, most_attempts=1)
    last, first = make_order(alice), make_order(charlie)
    note(claims.next_customer(agent), outcome, last, first, agent=agent)

    last.refresh_from_db()
    first.refresh_from_db()
    assert (first.status, first.call_state, first.call_attempts) == (Status.PENDING, CallState.RETRY, 1)
    assert first.call_due_at >= first.call_notes.get().created_at + timedelta(minutes=119)
    assert (last.status, last.call_state, last.call_attempts) == (Status.PENDING, CallState.REVIEW, 1)
    assert not Claim.objects.exists()
    assert claims.next_customer(agent) is None


def test_a_promise_is_kept_by_who_made_it(alice: Account, agent: User, colleague: User) -> None:
    order = make_order(alice)
    at = timezone.now() + timedelta(hours=3)
    note(claims.next_customer(agent), Outcome.CALLBACK, order, callback_at=at, agent=agent)

    order.refresh_from_db()
    assert (order.call_state, order.call_due_at, order.callback_agent) == (CallState.CALLBACK, at, agent)
    assert order.call_notes.get().callback_at == at
    waits(order, CallState.CALLBACK, -1, agent)
    assert claims.next_customer(colleague) is None
    assert next_order(agent) == order


def test_a_wrong_number_is_a_supervisors_to_decide(alice: Account, agent: User) -> None:
    order = make_order(alice)
    note(claims.next_customer(agent), Outcome.WRONG_NUMBER, order, agent=agent)
    order.refresh_from_db()
    assert (order.status, order.call_state) == (Status.PENDING, CallState.REVIEW)


def test_hand_over_to_a_colleague_or_a_supervisor(alice: Account, agent: User, colleague: User) -> None:
    order = make_order(alice)
    handed = Outcome.HANDED_OVER
    note(claims.next_customer(agent), handed, order, note="Parle kabyle", to=colleague, agent=agent)
    assert claims.next_customer(agent) is None

    note(claims.next_customer(colleague), handed, order, note="Menace", agent=colleague)
    order.refresh_from_db()
    assert order.call_state == CallState.REVIEW


@pytest.mark.parametrize("outcome", CallNote.SILENT)
def test_what_waits_for_a_supervisor_stays_theirs_when_a_call_about_another_order_is_not_answered(
    outcome: Any, alice: Account, agent: User
) -> None:
    first = make_order(alice)
    note(claims.next_customer(agent), Outcome.HANDED_OVER, first, note="Menace", agent=agent)
    second = make_order(alice)
    note(claims.next_customer(agent), outcome, first, second, agent=agent)
    states = Order.objects.order_by("id").values_list("call_state", "call_attempts")
    assert list(states) == [(CallState.REVIEW, 1), (CallState.RETRY, 1)]


def test_a_skipped_customer_comes_back_after_the_others(alice: Account, agent: User) -> None:
    first, second = make_order(alice, phone="0550000001"), make_order(alice, phone="0550000002")
    note(claims.next_customer(agent), Outcome.SKIPPED, first, note="Bruit", agent=agent)
    assert next_order(agent) == second
    first.refresh_from_db()
    assert (first.call_state, first.call_attempts) == (CallState.NEW, 0)
    assert first.call_due_at > timezone.now() + timedelta(minutes=10)


def test_the_review_list_gives_orders_back(alice: Account, agent: User, supervisor: User) -> None:
    order = waits(make_order(alice), CallState.REVIEW)
    Order.objects.update(call_attempts=6)
    unknown = uuid4()
    seen = {order.id: order.version}
    assert bulk_changes.requeue({**seen, unknown: 1}, supervisor=supervisor).keys() == {unknown}
    assert bulk_changes.requeue(seen, supervisor=supervisor).keys() == {order.id}
    order.refresh_from_db()
    assert (order.call_state, order.call_attempts) == (CallState.RETRY, 0)
    assert next_order(agent) == order


# --- What the agent saw ------------------------------------------------------------------------------------------


def test_what_the_merchant_canceled_is_refused_in_words(alice: Account, agent: User, api: ApiClient) -> None:
    order, other = make_order(alice), make_order(alice)
    claim_id = claims.next_customer(agent)
    assert customer.glance(claim_id, agent=agent).versions == {order.id: 1, other.id: 1}
    api.post(f"/api/v1/orders/{order.id}/cancel")

    assert customer.glance(claim_id, agent=agent).versions == {other.id: 1}
    with pytest.raises(lifecycle.AlreadyDecided, match="Already canceled by API key Test"):
        decisions.confirm(screen(claim_id, agent, order), order.id, note_id=uuid4())
    with pytest.raises(lifecycle.Changed):
        note(claim_id, Outcome.BUSY, order, other, agent=agent)
    assert not CallNote.objects.exists()
    note(claim_id, Outcome.BUSY, other, agent=agent)


def test_a_changed_order_is_read_again_before_it_is_decided(alice: Account, agent: User) -> None:
    order = make_order(alice)
    claim_id = claims.next_customer(agent)
    decisions.edit(screen(claim_id, agent, order), order.id, editing.Edit(customer_name="Amine B."))
    with pytest.raises(lifecycle.Changed):
        decisions.confirm(screen(claim_id, agent, order), order.id)
    decisions.confirm(decisions.Screen(claim_id, agent, {order.id: 2}), order.id)


def test_a_claim_decides_no_other_customers_order(alice: Account, agent: User) -> None:
    make_order(alice, phone="0550000001")
    other = make_order(alice, phone="0550000002")
    claim_id = claims.next_customer(agent)
    for act in (
        lambda: decisions.confirm(screen(claim_id, agent, other), other.id),
        lambda: decisions.edit(screen(claim_id, agent, other), other.id, editing.Edit(customer_name="X")),
    ):
        with pytest.raises(decisions.NotHeld):
            act()


@pytest.mark.parametrize("outcome", ["confirm", "cancel", "busy"])
def test_a_form_sent_twice_writes_once(outcome: str, alice: Account, agent: User) -> None:
    order, second = make_order(alice), make_order(alice)
    claim_id, note_id = claims.next_customer(agent), uuid4()
    for _ in range(2):
        act(outcome, claim_id, order, second, note_id, agent)
    assert CallNote.objects.count() == (2 if outcome == "busy" else 1)


def test_a_form_sent_again_after_others_changed_the_order_changes_nothing(alice: Account, agent: User) -> None:
    order, second = make_order(alice), make_order(alice)
    claim_id, note_id = claims.next_customer(agent), uuid4()
    act("confirm", claim_id, order, second, note_id, agent)
    lifecycle.cancel(order.id, actor=Actor(Role.SUPERVISOR, "Lina"))

    act("confirm", claim_id, order, second, note_id, agent)

    order.refresh_from_db()
    assert (order.status, order.version, order.call_notes.count()) == (Status.CANCELED, 3, 1)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("outcome", ["confirm", "cancel", "busy"])
def test_a_form_sent_many_times_at_once_writes_once(outcome: str, alice: Account, agent: User) -> None:
    order = make_order(alice)
    claim_id, note_id = claims.next_customer(agent), uuid4()

    at_once(8, lambda _: act(outcome, claim_id, order, None, note_id, agent))

    assert CallNote.objects.count() == 1
    assert order.status_changes.count() == (1 if outcome == "busy" else 2)


def act(outcome: str, claim_id: Any, order: Order, second: Order | None, note_id: Any, agent: User) -> None:
    if outcome == "busy":
        note(claim_id, Outcome.BUSY, *filter(None, (order, second)), note_id=note_id, agent=agent)
    elif outcome == "confirm":
        decisions.confirm(screen(claim_id, agent, order), order.id, note_id=note_id)
    else:
        decisions.cancel(screen(claim_id, agent, order), order.id, CancelReason.FAKE, note_id=note_id)


@pytest.mark.django_db(transaction=True)
def test_one_winner_among_agent_and_merchant(alice: Account, agent: User, api: ApiClient) -> None:
    """Confirm and the merchant's cancel at the same moment: one move, or both in turn, never half of one."""
    orders = [make_order(alice, phone=f"05500{number:05}") for number in range(20)]
    refusals: list[Refused] = []

    def confirm(order: Order) -> None:
        try:
            decisions.confirm(screen(claims.take(order.id, agent=agent), agent, order), order.id)
        except Refused as refused:
            refusals.append(refused)

    def cancel(order: Order) -> None:
        assert api.post(f"/api/v1/orders/{order.id}/cancel").status_code == 200

    at_once(40, lambda number: (confirm, cancel)[number % 2](orders[number // 2]))

    for order in orders:
        moves = list(order.status_changes.order_by("at", "id").values_list("from_status", "to_status"))
        assert moves[-1][1] == Status.CANCELED
        assert all(before[1] == after[0] for before, after in pairwise(moves))
    confirmed = Order.objects.exclude(confirmed_at=None).count()
    assert confirmed + len(refusals) == len(orders)
    assert CallNote.objects.count() == confirmed


# --- The screen --------------------------------------------------------------------------------------------------


def test_the_screen_has_all_that_belongs_to_the_customer(alice: Account, agent: User) -> None:
    product = ProductFactory(account=alice, sku="ROB", stock_quantity=3)
    delivered = make_order(alice)
    boss = Actor.of_staff(AgentFactory(role="Supervisors"))
    for move in ("confirm", "ship", "deliver"):
        lifecycle.move(move, delivered.id, actor=boss)
    order = make_order(alice, items=[order_line(quantity=2, product_id=product.id)])
    lifecycle.add_call_note(order.id, lifecycle.Call(agent=agent, outcome=Outcome.BUSY, note="Occupé"))
    held = customer.read(claims.take(order.id, agent=agent), agent=agent)

    assert held
    (entry,) = held.pending
    assert [(item.quantity, item.unit_price, item.product.stock_quantity) for item in entry.lines] == [
        (2, product.price, 3)
    ]
    assert [(note.outcome, note.note) for note in entry.call_notes] == [("busy", "Occupé")]
    assert held.earlier == [delivered]
    assert held.decided_counts == [("delivered", 1)]


def test_possible_duplicates_are_flagged_with_the_other_order(alice: Account, charlie: Account, agent: User) -> None:
    def named(name: str) -> list[dict[str, Any]]:
        return [order_line(quantity=1, product_name=name, unit_price=1)]

    order = make_order(alice, items=named("Robe kabyle"))
    same_phone = make_order(charlie, items=named("ROBE KABYLE"), customer_address="elsewhere", external_id="C-9")
    same_door = make_order(
        alice, phone="0770000000", items=named("Robe kabyle"), customer_address="12 RUE Didouche Mourad"
    )
    make_order(alice, phone="0770000001", items=named("Montre"))
    make_order(alice, phone="0770000002", items=named("Robe kabyle"), customer_name="Karim Ouali")
    old = make_order(alice, items=named("Robe kabyle"))
    Order.objects.filter(id=old.id).update(created_at=Now() - timedelta(hours=25), status=Status.CANCELED)

    held = customer.read(claims.take(order.id, agent=agent), agent=agent)

    assert held
    found = held.pending[0].duplicates
    assert {(one.id, one.account_name, one.external_id) for one in found} == {
        (same_phone.id, "Charlie's shop", "C-9"),
        (same_door.id, "Alice's shop", ""),
    }


def test_many_duplicates_of_one_order_hide_none_of_another(alice: Account, charlie: Account, agent: User) -> None:
    robe, sac = ([order_line(quantity=1, product_name=name, unit_price=1)] for name in ("Robe", "Sac"))
    others = {make_order(alice, items=sac).id}
    pending = make_order(alice, items=robe), make_order(charlie, items=sac)
    others |= {make_order(alice, items=robe).id for _ in range(2 * customer.MOST_DUPLICATES)}
    Order.objects.filter(id__in=others).update(status=Status.CANCELED)

    held = customer.read(claims.take(pending[0].id, agent=agent), agent=agent)

    assert held
    assert [(entry.order, len(entry.duplicates)) for entry in held.pending] == [
        (pending[0], customer.MOST_DUPLICATES),
        (pending[1], 1),
    ]


def test_the_screen_reads_a_constant_number_of_statements(
    alice: Account, agent: User, django_assert_num_queries: Any
) -> None:
    product = ProductFactory(account=alice)
    order = make_order(alice, items=[order_line(quantity=2, product_id=product.id)])
    claim_id = claims.take(order.id, agent=agent)
    with django_assert_num_queries(3):
        customer.read(claim_id, agent=agent)
    for _ in range(5):
        make_order(alice, items=[order_line(quantity=2, product_id=product.id)] * 3)
    with django_assert_num_queries(3):
        customer.read(claim_id, agent=agent)
    with django_assert_num_queries(1):
        claims.next_customer(agent)


def test_a_call_locks_its_orders_once_and_only_one_that_decides_nothing_looks_its_note_up(
    alice: Account, agent: User
) -> None:
    order, other = make_order(alice), make_order(alice)
    claim_id = claims.next_customer(agent)
    with CaptureQueriesContext(connection) as confirming:
        decisions.confirm(screen(claim_id, agent, order), order.id, note_id=uuid4())
    with CaptureQueriesContext(connection) as noting:
        note(claim_id, Outcome.BUSY, other, note_id=uuid4(), agent=agent)
    for written, looked_up in ((confirming, 0), (noting, 1)):
        statements = [query["sql"] for query in written]
        assert len([sql for sql in statements if "FOR UPDATE" in sql and "orders_order" in sql]) == 1
        assert len([sql for sql in statements if sql.startswith("SELECT 1") and "orders_callnote" in sql]) == looked_up
