"""A customer's data, erased at their request: no table knows them any more, and everybody else is as before.

The tables come from the database. A new one must be among those that the customer was in before, or among those that
say why no customer can be in them.
"""

import json
from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agents.desk import claims
from agents.test_mode import simulation
from codservice.accounts.actor import Actor, Role
from codservice.accounts.models import Account, ApiKey, SecurityEntry
from codservice.api.models import IdempotencyRecord
from codservice.uploads.models import RefusedRow, Upload
from orders import customer_data, editing, lifecycle
from orders.models import CallNote, Erasure, Order, OrderEdit, Status
from tests import factories
from tests.harness.background import Background, eventually, open_transaction
from tests.harness.client import ApiClient, new_key
from tests.harness.database import WAITING, contents, one, wait_for_lock
from tests.harness.deliveries import claim_due
from tests.harness.plans import looks_at_events
from webhooks import delivery, redaction, registry
from webhooks.models import Attempt, Claim, Delivery, Event
from webhooks.posts import Outcome, Post

NAME, PHONE, OTHER_PHONE = "Nadia Cherif", "0661 22 33 44", "0661 22 33 55"
E164 = "+213661223344"
# Whatever would identify her.
SIGNS = (NAME, PHONE, OTHER_PHONE, "661223344", "661223355", "7 rue Larbi", "sonnette")
# Tables that hold no customers, and why.
NOBODYS = {
    "accounts_account": "a merchant",
    "accounts_apikey": "a merchant's",
    "accounts_invitation": "people of a merchant's",
    "accounts_membership": "numbers",
    "accounts_securityentry": "who came in and what opens doors",
    "accounts_signin": "where people are signed in",
    "accounts_user": "people who sign in",
    "accounts_user_groups": "numbers",
    "accounts_user_user_permissions": "numbers",
    "agents_assignment": "of people who work here",
    "agents_callday": "days",
    "agents_callfigure": "sums of days, summed up anew when an order of theirs has changed",
    "agents_callingperiod": "a merchant's",
    "agents_callingrules": "a merchant's",
    "agents_callpart": "a day",
    "agents_preferences": "of people who work here",
    "agents_publicholiday": "days",
    "auth_group": "our own",
    "auth_group_permissions": "numbers",
    "auth_permission": "our own",
    "django_admin_log": "of what operators change, orders not among it",
    "django_content_type": "our own",
    "django_migrations": "our own",
    "django_session": "who is signed in",
    "inventory_product": "what a merchant sells",
    "inventory_stockmovement": "numbers",
    "operations_duty": "our own",
    "orders_changedday": "days",
    "orders_dayfigure": "sums of days, summed up anew when an order of theirs has changed",
    "orders_summedup": "days",
    "orders_erasure": "that somebody was erased, and not who",
    "orders_ordercount": "numbers",
    "orders_ordertrigrams": "hashes, made anew within a minute or two of a change of their order",
    "orders_searchable": "how far an account is indexed",
    "orders_searchchange": "numbers of orders",
    "orders_shippingfee": "amounts",
    "otp_totp_totpdevice": "of people who work here",
    "uploads_block": "rows of a file that is being taken in: nobody is erased for as long as that takes",
    "uploads_piece": "a file that arrives, for two days at most: nobody is erased meanwhile",
    "uploads_upload": "a file's name and columns",
    "webhooks_claim": "numbers",
    "webhooks_delivery": "numbers; the event and the attempts are elsewhere",
    "webhooks_feedera": "our own",
    "webhooks_feedgap": "our own",
    "webhooks_recovery": "numbers",
    "webhooks_webhook": "a merchant's",
}


def knowing(*signs: str) -> set[str]:
    """Return the tables in which a column contains one of these: as text, escaped as in JSON, or as bytes."""
    forms = {form for sign in signs for form in (sign, json.dumps(sign)[1:-1], sign.encode().hex())}
    found = set()
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f'SELECT EXISTS (SELECT FROM "{table}" t WHERE t::text LIKE ANY(%s))',
                           [[f"%{form}%" for form in forms]])  # fmt: skip
            if cursor.fetchone()[0]:
                found.add(table)
    return found


def tables() -> set[str]:
    with connection.cursor() as cursor:
        return set(connection.introspection.table_names(cursor))


@pytest.fixture
def agent(db: None) -> Any:
    return factories.AgentFactory()


def order_of(account: Account, key: ApiClient, agent: Any, *, status: str = Status.CANCELED) -> Order:
    """Make an order of Nadia's, with her name in by every door, and told to a webhook that repeats what it hears."""
    body = factories.order_body(
        customer_name=NAME, customer_phone=PHONE, customer_phone_2=OTHER_PHONE, customer_address="7 rue Larbi",
        notes=f"sonnette {NAME}", external_id=f"{NAME} {uuid4()}",
        items=[{"product_name": f"Bague de {NAME}", "quantity": 1, "unit_price": 900, "attributes": {"nom": NAME}}],
    )  # fmt: skip
    id_ = key.post("/api/v1/orders", body, headers={"Idempotency-Key": str(uuid4())}).json()["id"]
    editing.edit(id_, editing.Edit(customer_address=f"8 rue Larbi, {NAME}"), actor=Actor.of_staff(agent))
    lifecycle.add_call_note(
        id_, lifecycle.Call(agent=agent, outcome=CallNote.Outcome.NO_ANSWER, note=f"{NAME} {PHONE}")
    )
    if status == Status.CANCELED:
        lifecycle.cancel(id_, actor=Actor(Role.MERCHANT, "Shop"), reason=f"{NAME} ne veut plus", account_id=account.id)
    for told in Delivery.objects.filter(account=account):
        said = f"Merci {NAME} {PHONE}".encode()
        Attempt.objects.create(
            account=account, delivery=told, number=1, ended_at=timezone.now(), milliseconds=1, response=said
        )
    return Order.objects.get(id=id_)


@pytest.fixture
def nadia(alice: Account, agent: Any) -> Order:
    registry.register(alice.id, url="https://203.0.114.1/hooks", events=Event.Kind.values)
    key = ApiClient(new_key(alice))
    order = order_of(alice, key, agent)
    batch = {"orders": [factories.order_body(customer_name=NAME, customer_phone=E164, external_id=f"{NAME} 2")]}
    made = key.post("/api/v1/orders/batch", batch, headers={"Idempotency-Key": "batch"}).json()["created"][0]["id"]
    claims.take(made, agent=agent)
    upload = Upload.objects.create(
        account=alice, kind="orders", name="x.csv", size=1, actor="x", user_id=uuid4(), status="done"
    )
    cells = [NAME, "٠٦٦١ ٢٢ ٣٣ ٤٤", "7 rue Larbi"]
    RefusedRow.objects.create(account=alice, upload=upload, line=2, cells=cells, faults=[])
    kept = ["Amine", "0550 99 88 77", "x"]
    RefusedRow.objects.create(account=alice, upload=upload, line=3, cells=kept, faults=[])
    lifecycle.cancel(made, actor=Actor(Role.MERCHANT, "Shop"), account_id=alice.id)
    return order


def test_every_table_forgets_the_customer(alice: Account, nadia: Order, agent: Any) -> None:
    twin = ApiKey.issue(alice, name="Trial", is_test=True)[0].account
    tried = order_of(twin, ApiClient(new_key(twin)), agent, status=Status.PENDING)
    assert tried.status == Status.PENDING
    known = knowing(*SIGNS)
    assert known | NOBODYS.keys() == tables(), "is a customer in the new table? Then `customer_data.erase` forgets them"
    assert not known & NOBODYS.keys()

    erased = customer_data.erase(alice, E164, actor=Actor.of_merchant(alice.holder))

    assert knowing(*SIGNS) == set()
    assert erased == (2, 1)
    assert RefusedRow.objects.get().line == 3
    assert Order.objects.filter(anonymised_at=None).count() == 0
    records = Erasure.objects.order_by("order_count").values_list("account", "order_count", "actor", "user")
    said = alice.holder.display_name
    assert [*records] == [(twin.id, 1, said, alice.holder.id), (alice.id, 2, said, alice.holder.id)]


def test_nobody_else_loses_anything(alice: Account, charlie: Account, agent: Any) -> None:
    """Neither another merchant's order with the same number, nor another customer of the same merchant."""
    for account in (alice, charlie):
        registry.register(account.id, url="https://203.0.114.1/hooks", events=Event.Kind.values)
    order_of(charlie, ApiClient(new_key(charlie)), agent)
    other = factories.make_order(alice, customer_name="Amine", phone="0550 99 88 77")
    lifecycle.cancel(other.id, actor=Actor(Role.MERCHANT, "Shop"), reason="Amine ne veut plus", account_id=alice.id)
    before = contents()

    assert customer_data.erase(alice, E164, actor=Actor.of_command("erase_customer")) == (0, 0)

    assert contents() == before


@pytest.mark.django_db(transaction=True)
def test_an_answer_that_comes_after_it_brings_nothing_back(alice: Account, nadia: Order) -> None:
    """The attempt was under way meanwhile. It does not count, and its delivery is sent as it is now."""
    token = uuid4()
    posts = claim_due(token, 100)
    assert any(NAME.encode() in post.body for post in posts)

    customer_data.erase(alice, E164, actor=Actor.of_command("erase_customer"))
    delivery.settle(token, [Outcome(post, "status", 500, 1, post.body) for post in posts])

    assert knowing(*SIGNS) == set()
    assert claim_due(uuid4(), 100) == []
    Claim.objects.update(until=timezone.now())
    again = claim_due(uuid4(), 100)
    assert {post.delivery_id for post in again} == {post.delivery_id for post in posts}
    assert not any(NAME.encode() in post.body for post in again)


@pytest.mark.django_db(transaction=True)
def test_a_claim_that_has_looked_before_it_and_goes_on_after_it_brings_nothing_back(
    alice: Account, nadia: Order, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The claim stops between its snapshot, which shows the customer, and its locks."""
    stops = "SELECT id FROM chosen CROSS JOIN pg_advisory_xact_lock(42)"
    monkeypatch.setattr(delivery, "_CLAIM", delivery._CLAIM.replace("SELECT id FROM chosen", stops))
    token = uuid4()

    def patiently(call: Callable[[], Any]) -> Any:
        one("SELECT set_config('lock_timeout', '0', false)")
        return call()

    with open_transaction(lambda: one("SELECT pg_advisory_xact_lock(42)")):
        claiming = Background(partial(patiently, lambda: claim_due(token, 100)))
        wait_for_lock()
        actor = Actor.of_command("erase_customer")
        erasing = Background(partial(patiently, lambda: customer_data.erase(alice, E164, actor=actor)))
        eventually(lambda: erasing.is_over or one(WAITING) == 2)
    posts = claiming.result()
    erasing.result()
    delivery.settle(token, [Outcome(post, "status", 500, 1, post.body) for post in posts])

    assert posts
    assert knowing(*SIGNS) == set()


@pytest.mark.django_db(transaction=True)
def test_what_is_sent_anew_amid_it_brings_nothing_back(
    alice: Account, nadia: Order, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The delivery is written and claimed after the erasure has locked those that there were."""
    token, posts = uuid4(), list[Post]()
    hold_off_claims = delivery.hold_off_claims
    recovered, *_ = Delivery.objects.order_by("id")
    Delivery.objects.filter(event=recovered.event_id).exclude(id=recovered.id).delete()
    Attempt.objects.filter(delivery=recovered).delete()
    recovered.delete()

    def claim() -> list[Post]:
        recovered.save(force_insert=True)
        return claim_due(token, 100)

    def claimed_before() -> None:
        if not posts:
            posts.extend(Background(claim).result())
        hold_off_claims()

    monkeypatch.setattr(delivery, "hold_off_claims", claimed_before)
    customer_data.erase(alice, E164, actor=Actor.of_command("erase_customer"))

    assert NAME.encode() in posts[0].body
    delivery.settle(token, [Outcome(post, "status", 500, 1, post.body) for post in posts])
    assert knowing(*SIGNS) == set()


@pytest.mark.django_db(transaction=True)
def test_others_are_claimed_while_what_was_told_is_overwritten(alice: Account, nadia: Order) -> None:
    """It may be megabytes, which have to be sent to the database."""
    may_claim = list[bool]()

    def look(execute: Callable[..., Any], sql: str, parameters: Any, *more: Any) -> Any:
        result = execute(sql, parameters, *more)
        if sql == redaction._OVERWRITE:
            may_claim.append(
                Background(partial(one, f"SELECT pg_try_advisory_xact_lock({delivery.CLAIMING})")).result()
            )
        return result

    with connection.execute_wrapper(look):
        customer_data.erase(alice, E164, actor=Actor.of_command("erase_customer"))

    assert may_claim
    assert all(may_claim)
    assert knowing(*SIGNS) == set()


@pytest.mark.django_db(transaction=True)
def test_it_and_results_that_are_written_meanwhile_do_not_wait_for_each_other(
    alice: Account, nadia: Order, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of the deliveries is written and claimed while it begins, and results are written in the order of ids."""
    token, hold_off_claims, settling = uuid4(), delivery.hold_off_claims, list[Background]()
    anew, *_ = Delivery.objects.order_by("id")
    Attempt.objects.filter(delivery=anew).delete()
    Claim.objects.filter(delivery=anew).delete()
    anew.delete()
    posts = claim_due(token, 100)
    assert posts

    def settle() -> None:
        anew.save(force_insert=True)
        posts.extend(claim_due(token, 100))
        delivery.settle(token, [Outcome(post, "status", 500, 1, post.body) for post in posts])

    def settled_before() -> None:
        if not settling:
            settling.append(Background(settle))
            eventually(lambda: settling[0].is_over or one(WAITING) >= 1)
        hold_off_claims()

    monkeypatch.setattr(delivery, "hold_off_claims", settled_before)
    customer_data.erase(alice, E164, actor=Actor.of_command("erase_customer"))

    settling[0].result()
    assert anew.id in {post.delivery_id for post in posts}
    assert knowing(*SIGNS) == set()


@pytest.mark.django_db(transaction=True)
def test_the_shop_reads_and_repeats_what_is_left(api: ApiClient, alice: Account, agent: Any) -> None:
    body = factories.order_body(customer_name=NAME, customer_phone=PHONE)
    once = {"Idempotency-Key": "once"}
    id_ = api.post("/api/v1/orders", body, headers=once).json()["id"]
    api.post(f"/api/v1/orders/{id_}/cancel")

    customer_data.erase(alice, E164, actor=Actor.of_command("erase_customer"))

    again = api.post("/api/v1/orders", body, headers=once)
    assert again.status_code == 201
    assert again.json()["id"] == id_
    assert again.json()["customer"]["name"] == "—"
    # Transactions of the server's other databases may hold them back for a moment.
    feed = eventually(lambda: len(found := api.get("/api/v1/events").json()["data"]) == 2 and found)
    assert {event["data"]["customer_name"] for event in feed} == {"—"}
    assert Order.objects.count() == 1


@pytest.mark.django_db
def test_what_the_shop_sends_again_after_it_is_a_new_order(api: ApiClient, alice: Account) -> None:
    body = factories.order_body(customer_name=NAME, customer_phone=PHONE, external_id="2077")
    id_ = api.post("/api/v1/orders", body).json()["id"]
    api.post(f"/api/v1/orders/{id_}/cancel")
    assert api.post("/api/v1/orders/batch", {"orders": [body]}).json()["errors"][0]["id"] == id_

    customer_data.erase(alice, E164, actor=Actor.of_command("erase_customer"))

    (created,) = api.post("/api/v1/orders/batch", {"orders": [body]}).json()["created"]
    assert (created["external_id"], created["status"]) == ("2077", "pending_confirmation")
    assert created["id"] != id_


@pytest.mark.parametrize("status", [Status.PENDING, Status.CONFIRMED, Status.SHIPPED])
def test_an_order_that_is_to_be_delivered_keeps_its_customer(alice: Account, nadia: Order, status: Status) -> None:
    going_on = factories.make_order(alice, customer_name=NAME, phone="+213 661 22 33 44")
    Order.objects.filter(id=going_on.id).update(status=status)
    before = contents()

    with pytest.raises(customer_data.StillOpen, match="1 order of this customer has not ended"):
        customer_data.erase(alice, E164, actor=Actor.of_command("erase_customer"))

    assert contents() == before


@pytest.mark.parametrize("status", Upload.OPEN)
@pytest.mark.parametrize("is_twins", [False, True])
def test_nobody_is_erased_whom_a_file_may_bring_back(
    alice: Account, charlie: Account, nadia: Order, status: str, is_twins: bool
) -> None:
    twin = ApiKey.issue(alice, name="Trial", is_test=True)[0].account
    made = {"kind": "orders", "name": "fichier.csv", "size": 1, "actor": "x", "user_id": uuid4(), "status": status}
    for other in ({"account": charlie}, {"account": alice, "kind": "products"}):
        Upload.objects.create(**made | other)
    file = Upload.objects.create(**made, account=twin if is_twins else alice)
    before = contents()

    with pytest.raises(customer_data.FileUnderWay, match="is under way"):
        customer_data.erase(alice, E164, actor=Actor.of_command("erase_customer"))

    assert contents() == before
    Upload.objects.filter(id=file.id).update(status=Upload.Status.STOPPED)
    customer_data.erase(alice, E164, actor=Actor.of_command("erase_customer"))
    assert knowing(*SIGNS) == set()


def test_the_second_phone_finds_an_order_too(alice: Account, nadia: Order) -> None:
    customer_data.erase(alice, "+213661223355", actor=Actor.of_command("erase_customer"))
    nadia.refresh_from_db()
    assert nadia.customer_name == "—"


def test_a_number_that_was_corrected_is_forgotten_and_the_order_is_not(alice: Account, agent: Any) -> None:
    order = factories.make_order(alice, customer_name="Amine", phone=PHONE)
    claims.take(order.id, agent=agent)
    edit = editing.Edit(customer_phone="0550 99 88 77", phone_e164="+213550998877")
    editing.edit(order.id, edit, actor=Actor.of_staff(agent))

    assert customer_data.erase(alice, E164, actor=Actor.of_command("erase_customer")) == (0, 0)

    assert knowing(PHONE, "661223344") == set()
    order.refresh_from_db()
    assert (order.customer_name, order.customer_phone) == ("Amine", "0550 99 88 77")
    assert OrderEdit.objects.get().field == "customer_phone"
    assert Erasure.objects.get().order_count == 0, "there is a record all the same"


@pytest.mark.django_db(transaction=True)
def test_a_number_that_was_corrected_is_forgotten_beside_who_anonymises_the_order(alice: Account, agent: Any) -> None:
    """There is no deadlock, because both lock the orders first."""
    orders = [factories.make_order(alice, phone=PHONE) for _ in range(2)]
    for order in orders:
        edit = editing.Edit(customer_phone="0550 99 88 77", phone_e164="+213550998877")
        editing.edit(order.id, edit, actor=Actor.of_staff(agent))
    with transaction.atomic():
        list(Order.objects.order_by("id").select_for_update(no_key=True))
        OrderEdit.objects.filter(order=orders[1]).update(old="")
        erasing = Background(lambda: customer_data.erase(alice, E164, actor=Actor.of_command("erase_customer")))
        wait_for_lock()
        OrderEdit.objects.filter(order=orders[0]).update(old="")
    assert erasing.result() == (0, 0)
    assert knowing(PHONE, "661223344") == set()


def test_a_number_that_was_corrected_in_many_orders_is_forgotten_in_several_transactions(
    alice: Account, agent: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One alone would keep claims off, and lock all of the orders, until the last of them is done."""
    monkeypatch.setattr(customer_data, "BATCH", 2)
    for _ in range(5):
        order = factories.make_order(alice, phone=PHONE)
        edit = editing.Edit(customer_phone="0550 99 88 77", phone_e164="+213550998877")
        editing.edit(order.id, edit, actor=Actor.of_staff(agent))

    customer_data.erase(alice, E164, actor=Actor.of_command("erase_customer"))

    assert one("SELECT count(DISTINCT xmin::text) FROM orders_orderedit") == 3
    assert set(OrderEdit.objects.values_list("old", "new")) == {("", "")}
    assert knowing(PHONE, "661223344") == set()
    assert (Erasure.objects.count(), SecurityEntry.objects.filter(action="erased").count()) == (1, 1)


def test_an_order_that_is_deleted_amid_the_erasure_of_its_former_number_is_no_error(
    alice: Account, api: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = factories.order_body(customer_name=NAME, customer_phone=PHONE)
    order = api.post("/api/v1/orders", sent, HTTP_IDEMPOTENCY_KEY="k1").json()
    assert api.patch(f"/api/v1/orders/{order['id']}", {"customer_phone": "0550123456"}).status_code == 200
    found = redaction.events_of

    def found_and_deleted(*arguments: Any) -> redaction.Found:
        Order.objects.all().delete()
        return found(*arguments)

    monkeypatch.setattr(redaction, "events_of", found_and_deleted)
    customer_data.erase(alice, E164, actor=Actor.of_command("erase_customer"))
    assert not Order.objects.exists()
    assert not Erasure.objects.exists()


def test_files_without_refused_rows_are_not_asked_for_them(alice: Account) -> None:
    asked = []
    for count in (1, 49):
        for _ in range(count):
            Upload.objects.create(account=alice, kind="orders", name="a.csv", size=1, status="done", user_id=uuid4())
        with CaptureQueriesContext(connection) as queries:
            customer_data._forget_refused(alice.id, E164, lambda: None)
        asked.append(len(queries))
    assert asked == [1, 1]


def test_orders_that_no_kept_answer_tells_of_are_not_read(alice: Account, nadia: Order) -> None:
    """Two hundred of them may have ten megabytes each."""
    IdempotencyRecord.objects.all().delete()
    with CaptureQueriesContext(connection) as asked:
        customer_data.erase(alice, E164, actor=Actor.of_command("erase_customer"))
    assert not [each["sql"] for each in asked if "jsonb_build_object" in each["sql"]]


def test_a_number_that_was_corrected_is_forgotten_in_kept_answers_too(alice: Account, api: ApiClient) -> None:
    sent = factories.order_body(customer_name=NAME, customer_phone=PHONE)
    order = api.post("/api/v1/orders", sent, HTTP_IDEMPOTENCY_KEY="k1").json()
    corrected = {"customer_phone": "0550123456", "customer_name": "Amine"}
    assert api.patch(f"/api/v1/orders/{order['id']}", corrected).status_code == 200

    customer_data.erase(alice, E164, actor=Actor.of_command("erase_customer"))

    customer = json.loads(bytes(IdempotencyRecord.objects.get().body))["customer"]
    assert (customer["name"], customer["phone"]) == ("Amine", "0550123456")


@pytest.mark.django_db(transaction=True)
def test_two_customers_of_one_kept_answer_are_both_forgotten_when_erased_at_once(
    alice: Account, api: ApiClient
) -> None:
    sent = [
        factories.order_body(customer_phone=phone, external_id=f"of-{phone}") for phone in ("0661223344", "0661223355")
    ]
    made = api.post("/api/v1/orders/batch", {"orders": sent}, HTTP_IDEMPOTENCY_KEY="k1").json()["created"]
    for order in made:
        api.post(f"/api/v1/orders/{order['id']}/cancel")

    def erase(phone: str) -> customer_data.Erased:
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = 0")  # it waits until the other one does too, however busy the machine is
        return customer_data.erase(alice, phone, actor=Actor.of_command("erase_customer"))

    with transaction.atomic():
        IdempotencyRecord.objects.select_for_update().get()
        erasing = [Background(partial(erase, phone)) for phone in (E164, "+213661223355")]
        wait_for_lock(2)
    assert [each.result() for each in erasing] == [(1, 0), (1, 0)]

    kept = json.loads(bytes(IdempotencyRecord.objects.get().body))["created"]
    assert [order["external_id"] for order in kept] == [None, None]


def test_what_was_changed_until_the_number_went_is_forgotten_with_it(alice: Account, api: ApiClient) -> None:
    sent = factories.order_body(customer_name="Nadya", customer_phone=PHONE, notes=f"sonnette {NAME}")
    order = api.post("/api/v1/orders", sent).json()
    address = f"/api/v1/orders/{order['id']}"
    for changes in (
        {"customer_name": NAME, "customer_address": "7 rue Larbi"},
        {"customer_phone": "0550123456", "customer_name": "Amine", "notes": "", "total_amount": 1500},
        {"customer_name": "Amine B.", "customer_address": "3 rue Didouche"},
    ):
        assert api.patch(address, changes).status_code == 200

    customer_data.erase(alice, E164, actor=Actor.of_command("erase_customer"))

    left = {(edit["field"], edit["new"]) for edit in api.get(address).json()["edits"] if edit["old"] or edit["new"]}
    assert left == {
        ("total_amount", "1500.00"), ("customer_name", "Amine B."), ("customer_address", "3 rue Didouche"),
    }  # fmt: skip
    assert knowing("Nadya", NAME, PHONE, "661223344") == set()


def test_a_record_is_kept_of_whoever_was_known_from_refused_rows_alone(alice: Account) -> None:
    made = {"account": alice, "kind": "orders", "name": "x.csv", "size": 1, "actor": "x", "user_id": uuid4()}
    for _ in range(2):
        upload = Upload.objects.create(**made, status="done")
        RefusedRow.objects.create(account=alice, upload=upload, line=2, cells=[NAME, PHONE], faults=[])

    customer_data.erase(alice, "+213550998877", actor=Actor.of_command("erase_customer"))
    assert (RefusedRow.objects.count(), Erasure.objects.count()) == (2, 0)
    customer_data.erase(alice, E164, actor=Actor.of_command("erase_customer"))
    assert (RefusedRow.objects.count(), Erasure.objects.get().order_count) == (0, 0)
    assert SecurityEntry.objects.get(action="erased").target_id == alice.id


@pytest.mark.parametrize(
    "cell",
    ["0550123456 / {}", "{}-0550123456", "Tel: {}", "{} (Nadia)", "0550 12 34 56 {}", "{}\n0550123456", "+213 (0) {}"],
)
def test_a_number_is_found_in_the_cell_for_which_its_row_was_refused(alice: Account, cell: str) -> None:
    made = {"account": alice, "kind": "orders", "name": "x.csv", "size": 1, "actor": "x", "user_id": uuid4()}
    upload = Upload.objects.create(**made, status="done", mapping={"customer_phone": 2, "external_id": 1})
    rows = [
        [NAME, "A1", ""],
        [NAME, "A1", ""],
        ["Amine", "A2", "0550123456"],
        ["Amine", "", ""],
    ]
    for number in (PHONE, "0661223344", "661 22 33 44", "٠٦٦١ ٢٢٣٣٤٤"):
        rows[0][2] = cell.format(number)
        RefusedRow.objects.all().delete()
        RefusedRow.objects.bulk_create(
            RefusedRow(account=alice, upload=upload, line=line, cells=cells, faults=[])
            for line, cells in enumerate(rows, start=2)
        )
        customer_data.erase(alice, E164, actor=Actor.of_command("erase_customer"))
        assert list(RefusedRow.objects.order_by("line").values_list("line", flat=True)) == [4, 5]


def test_refused_rows_that_do_not_say_whose_they_are_go_with_the_row_above(
    alice: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with merged cells. They may hold the address, or notes."""
    monkeypatch.setattr(customer_data, "BATCH", 2)
    places = {"customer_name": 0, "notes": 1, "customer_phone": 2, "external_id": 3}
    made = {"account": alice, "kind": "orders", "name": "x.csv", "size": 1, "actor": "x", "user_id": uuid4()}
    upload = Upload.objects.create(**made, status="done", mapping=places)
    rows = [
        ["", "of nobody", "", ""],
        [NAME, "", PHONE, ""],
        ["", "sonnette", "", ""],
        ["", "7 rue Larbi"],  # where the rest of the row is empty
        ["Amine", "", "0550123456", ""],
        ["", "of Amine", "", ""],
        [NAME, "", PHONE, "A1"],
        ["", "", "", "A1"],
        ["", "sonnette", "", ""],
        ["Amine", "", "", ""],
        ["", PHONE, "", ""],
        ["", "sonnette", "", ""],
        ["", "", "", "A2"],
    ]
    RefusedRow.objects.bulk_create(
        RefusedRow(account=alice, upload=upload, line=line, cells=cells, faults=[])
        for line, cells in reversed([*enumerate(rows, start=2)])
    )

    customer_data.erase(alice, E164, actor=Actor.of_command("erase_customer"))

    assert list(RefusedRow.objects.order_by("line").values_list("line", flat=True)) == [2, 6, 7, 11, 14]
    assert knowing(*SIGNS) == set()


def test_refused_rows_of_one_order_go_whether_or_not_its_number_has_marks_around_it(alice: Account) -> None:
    """A refused order's rows below its first get the number without the marks of the spreadsheet."""
    places = {"external_id": 0, "customer_name": 1, "customer_phone": 2, "notes": 3}
    made = {"account": alice, "kind": "orders", "name": "x.csv", "size": 1, "actor": "x", "user_id": uuid4()}
    upload = Upload.objects.create(**made, status="done", mapping=places)
    rows = [["\u200f1001", NAME, PHONE, ""], ["1001", "", "", "sonnette"], ["\u200f1002", "Amine", "0550123456", ""]]
    RefusedRow.objects.bulk_create(
        RefusedRow(account=alice, upload=upload, line=line, cells=cells, faults=[])
        for line, cells in enumerate(rows, start=2)
    )

    customer_data.erase(alice, E164, actor=Actor.of_command("erase_customer"))

    assert [row.line for row in RefusedRow.objects.all()] == [4]
    assert knowing(*SIGNS) == set()


def test_in_batches_with_one_record(alice: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(customer_data, "BATCH", 2)
    for _ in range(5):
        factories.make_order(alice, customer_name=NAME, phone=PHONE)
    Order.objects.update(status=Status.RETURNED)

    assert customer_data.erase(alice, E164, actor=Actor.of_command("erase_customer")) == (5, 0)

    assert Erasure.objects.get().order_count == 5
    assert knowing(*SIGNS) == set()


def test_a_test_order_goes_on_without_its_customer(alice: Account) -> None:
    twin = ApiKey.issue(alice, name="Trial", is_test=True)[0].account
    order = factories.make_order(twin, customer_name=NAME, phone=PHONE)
    customer_data.erase(alice, E164, actor=Actor.of_command("erase_customer"))
    simulation.move("confirm", order.id, account_id=twin.id)
    order.refresh_from_db()
    assert (order.status, order.customer_name) == ("confirmed", "—")


def test_however_much_was_told_it_is_overwritten(nadia: Order) -> None:
    """An order takes ten thousand changes, and each is an event."""
    events = list(Event.objects.filter(kind__startswith="order.").values_list("id", flat=True))
    redaction.overwrite([*events, *(uuid4() for _ in range(70_000))], {"customer_name": "—", "external_id": None})
    assert "webhooks_event" not in knowing(NAME)


@pytest.mark.django_db
def test_what_was_told_of_many_orders_is_looked_for_once(
    alice: Account, api: ApiClient, agent: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A merchant may have a million events, and to look through them takes seconds."""
    monkeypatch.setattr(customer_data, "BATCH", 2)
    for _ in range(5):
        order_of(alice, api, agent)
    with CaptureQueriesContext(connection) as queries:
        assert customer_data.erase(alice, E164, actor=Actor.of_command("erase_customer")).orders == 5
    assert "webhooks_event" not in knowing(NAME)
    assert looks_at_events(queries) == 1


@pytest.mark.django_db(transaction=True)
def test_who_gets_the_number_amid_an_erasure_is_looked_for_too(
    alice: Account, api: ApiClient, agent: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(customer_data, "BATCH", 2)
    for _ in range(3):
        order_of(alice, api, agent)
    late = factories.make_order(alice, customer_name=NAME, phone="0770 00 00 00")
    lifecycle.cancel(late.id, actor=Actor(Role.MERCHANT, "x"), reason="")
    erase_orders = customer_data._erase_orders

    def and_one_more(*args: Any) -> None:
        erase_orders(*args)
        Order.objects.filter(id=late.id, anonymised_at=None).update(phone_e164=E164)

    monkeypatch.setattr(customer_data, "_erase_orders", and_one_more)
    assert customer_data.erase(alice, E164, actor=Actor.of_command("erase_customer")).orders == 4
    assert "webhooks_event" not in knowing(NAME)


@pytest.mark.django_db(transaction=True)
def test_what_was_told_is_found_page_by_page(alice: Account, nadia: Order, monkeypatch: pytest.MonkeyPatch) -> None:
    found = redaction.events_of(alice.id, [nadia.id])
    assert len(found.by_order[nadia.id]) == 4
    monkeypatch.setattr(redaction, "_PAGE", 1)
    assert redaction.events_of(alice.id, [nadia.id]).by_order == found.by_order
    # Older transactions, of any database, may still be under way.

    def later() -> list[UUID]:
        return redaction.events_of(alice.id, [nadia.id], since=redaction.events_of(alice.id, []).since).by_order[
            nadia.id
        ]

    eventually(lambda: not later())


def test_it_is_seen_in_the_order_and_not_among_what_has_changed(api: ApiClient, alice: Account, nadia: Order) -> None:
    """docs/orders.md says so: clients that follow changes need not read all old orders again."""
    before, events = timezone.now().isoformat(), Event.objects.count()

    customer_data.erase(alice, E164, actor=Actor.of_command("erase_customer"))

    assert Event.objects.count() == events
    assert api.get("/api/v1/orders", {"updated_from": before}).json()["data"] == []
    assert api.get(f"/api/v1/orders/{nadia.id}").json()["anonymised_at"]
