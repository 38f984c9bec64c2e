"""Nothing of an account's twin reaches the console: no page, list, search, figure or move, for anybody there.

Addresses come from the URL configuration and ids from the tables, so a new page is tried without being named here. The
rooms' code is read too, so that no new statement can forget it.
"""

import ast
import re
from copy import deepcopy
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError
from django.db import connection
from django.utils import timezone

import agents
from agents.desk import claims, decisions, overview
from agents.models import CallingRules, Claim
from agents.supervision import bulk_update, performance
from agents.test_mode import simulation
from codservice import days
from codservice.accounts.actor import Actor, Role
from codservice.accounts.models import Account, ApiKey
from orders import editing, lifecycle, metrics, shipments
from orders.cancel_reasons import CancelReason
from orders.models import CallNote, CallState, Order, Status
from tests.factories import AccountFactory, ProductFactory, make_order, open_always, order_line
from tests.harness.addresses import addresses
from tests.harness.deliveries import write_delivery
from tests.harness.manage import output
from tests.harness.world import World, rows_of
from tests.orders.moves import PATHS
from webhooks import registry

MARK = "Zwillingsmarke"  # occurs in everything that the twin has
PHONE, NUMBER = "0559 87 65 43", "zw-77"
CONSOLE = [address for address in addresses() if address.route.startswith("/console/")]
STAFF = ("agent", "supervisor", "operator")
# What people type and choose.
ASKED: list[dict[str, str]] = [
    {}, {"q": "Zwillings", "status": "all"}, {"q": PHONE}, {"q": "6543"}, {"q": NUMBER}, {"status": "all"},
    {"call": "test"}, {"merchant": "Zwillings"}, {"by": "merchant"}, {"by": "agent"}, {"by": "wilaya"},
]  # fmt: skip
LISTS = ("/orders/order/", "/account/", "/webhook/", "/delivery/", "/figures/", "/figures/csv/", "/rules/", "/claims/")
# Keys and the security log: operators need them to stop a leaked key, and to see who did what.
AUDITED = ("/console/accounts/apikey/", "/console/accounts/securityentry/")


@pytest.fixture(scope="module")
def twin_of_file(world_of_file: World, django_db_blocker: Any) -> Account:
    """Alice's twin, with an order in each state, calls, moves, a product, a webhook and its deliveries.

    Made once, and undone with the world.
    """
    with django_db_blocker.unblock():
        return furnished_twin(deepcopy(world_of_file.alice))


@pytest.fixture
def twin(world: World, twin_of_file: Account) -> Account:
    return deepcopy(twin_of_file)


def furnished_twin(alice: Account) -> Account:
    twin = ApiKey.issue(alice, name="Trial", is_test=True)[0].account
    Account.objects.filter(id=twin.id).update(name=f"{MARK}s Laden")
    product = ProductFactory(account=twin, name=MARK, sku=MARK)
    for number, way in enumerate(PATHS.values()):
        order = make_order(
            twin,
            customer_name=f"{MARK} {number}",
            customer_address=MARK,
            notes=MARK,
            phone=PHONE,
            external_id=NUMBER if number == 0 else f"{NUMBER}-{number}",
            items=[order_line(product_name=MARK, product_id=product.id, quantity=1, unit_price=100)],
        )
        for outcome in simulation.OUTCOMES:
            simulation.call(order.id, outcome, account_id=twin.id)
        for step in way:
            simulation.move(step, order.id, account_id=twin.id)
    webhook = registry.register(twin.id, url=f"https://203.0.114.1/{MARK}", events=["order.confirmed"])[0]
    write_delivery(webhook, "failed", attempts=4, body=f'{{"name": "{MARK}"}}')
    return twin


def ids_of(account: Account) -> set[str]:
    return {str(row.pk) for rows in rows_of(account).values() for row in rows}


@pytest.mark.parametrize("person", STAFF)
def test_no_page_names_anything_of_a_twin(person: str, world: World, twin: Account) -> None:
    client, named, seen, audited = world.client(person), [], 0, set()
    theirs = ids_of(twin)
    for address in CONSOLE:
        paths = [path for path in address.paths() if not address.parameters or theirs & set(path.split("/"))]
        if "logout" in address.name:
            continue
        for path in paths:
            for asked in ASKED if path.endswith(LISTS) else ASKED[:1]:
                answer = client.get(path, asked)
                text = b"".join(answer) if answer.streaming else answer.content
                seen += answer.status_code == 200
                if MARK in text.decode():
                    if path.startswith(AUDITED):
                        audited.add(path)
                    else:
                        named.append((path, asked))
    assert named == []
    assert seen > 20
    assert audited.issuperset(AUDITED if person == "operator" else ())


@pytest.mark.parametrize("person", STAFF)
def test_a_twins_orders_have_no_page_and_no_button(person: str, world: World, twin: Account) -> None:
    client, before = world.client(person), list(Order.objects.filter(account=twin).order_by("id").values())
    for order in Order.objects.filter(account=twin):
        page = f"/console/orders/order/{order.id}/"
        assert client.get(page).status_code == 404
        for button in ("note", "cancel", "ship", "deliver", "return"):
            assert client.post(f"{page}{button}/", {"version": order.version}).status_code == 404
        assert client.get(f"/console/desk/take/{order.id}/").status_code in (404, 405)
        client.post(f"/console/desk/take/{order.id}/")
        seen = f"{order.id}:{order.version}"
        client.post("/console/review/", {"take": str(order.id)})
        client.post("/console/review/", {"order": [seen], "requeue": "1"})
        for to in ("shipped", "delivered", "returned"):
            client.post("/console/moves/", {"to": to, "make": "1", "seen": seen})
            preview = client.post("/console/moves/", {"to": to, "named": f"{order.id}\n{order.external_id}"})
            assert MARK not in preview.content.decode()
        for action in ("cancel", "assign", "requeue", "shipped", "export"):
            for chosen in ({"chosen": str(order.id)}, {"every": "1", "q": NUMBER}):
                data = {"seen": seen, "why": "Duplicate", "to": str(world.agent.id)}
                assert client.post("/console/bulk/", data, query_params={"action": action, **chosen}).status_code in (
                    302,
                    403,
                )
    assert client.post(f"/console/rules/{twin.id}/", {}).status_code in (403, 404)
    assert list(Order.objects.filter(account=twin).order_by("id").values()) == before
    assert not Claim.objects.filter(phone_e164="+213559876543").exists()
    assert not CallingRules.objects.filter(account=twin).exists()


def test_the_desk_serves_nobody_for_a_twins_order(world: World, twin: Account) -> None:
    Order.objects.exclude(account=twin).update(status=Status.CANCELED)
    Order.objects.filter(account=twin).update(call_due_at=timezone.now() - timedelta(days=1))
    Claim.objects.all().delete()
    open_always()
    assert claims.next_customer(world.agent) is None
    assert overview.counters(world.agent) == {"due": 0, "later": 0, "mine": 0, "review": 0, "overdue": 0}
    assert overview.next_call(world.agent) is None
    for order in Order.objects.filter(account=twin):
        with pytest.raises(claims.NothingToCallFor):
            claims.take(order.id, agent=world.agent)


def test_a_customer_who_is_in_test_orders_too_is_called_for_the_live_one_alone(world: World, twin: Account) -> None:
    live = make_order(world.alice, phone=PHONE, customer_name="Nadia Cherif", customer_address=MARK[::-1])
    claim = claims.take(live.id, agent=world.agent)
    client = world.client("agent")
    for path in (f"/console/desk/{claim}/", f"/console/orders/order/{live.id}/", "/console/desk/", "/console/claims/"):
        page = client.get(path)
        assert (page.status_code, MARK in page.content.decode()) == (200, False), path
    Order.objects.filter(id=live.id).update(status=Status.CANCELED)
    assert claims.next_customer(world.agent) != claim, "nothing of hers is left to call for"


def test_a_pending_test_order_cannot_be_decided_under_a_live_claim(world: World, twin: Account) -> None:
    """Whoever names it, and although the phone number is the claimed customer's."""
    test = Order.objects.get(account=twin, status=Status.PENDING)
    live, agent = make_order(world.alice, phone=PHONE), world.agent
    claim, version = claims.take(live.id, agent=agent), test.version
    screen = decisions.Screen(claim, agent, {test.id: version})
    with pytest.raises(decisions.NotHeld):
        decisions.confirm(screen, test.id)
    with pytest.raises(decisions.NotHeld):
        decisions.cancel(screen, test.id, CancelReason.REFUSED)
    with pytest.raises(decisions.NotHeld):
        decisions.edit(screen, test.id, editing.Edit(customer_name="x"))
    noted = test.call_notes.count()
    decisions.note_call(decisions.Screen(claim, agent, {}), lifecycle.Call(agent, CallNote.Outcome.BUSY))
    assert (test.call_notes.count(), live.call_notes.count()) == (noted, 1)
    test.refresh_from_db()
    assert (test.status, test.version, test.customer_name) == (Status.PENDING, version, f"{MARK} 0")


def test_figures_are_the_same_with_and_without_a_twin(world: World) -> None:
    def figures() -> list[Any]:
        today = days.today()
        read = [performance.read(today, today, by) for by in ("day", "agent", "merchant", "wilaya")]
        return [*read, performance.backlog(by_merchant=True)]

    before = figures()
    make_twin(world)
    assert figures() == before


def make_twin(world: World) -> None:
    """Make a twin with today's calls, promises and moves, as if made by agents."""
    other = ApiKey.issue(world.charlie, name="Trial", is_test=True)[0].account
    for way in (("cancel",), ("confirm", "ship", "deliver"), ("confirm", "ship", "return")):
        order = make_order(other)
        simulation.call(order.id, CallNote.Outcome.BUSY, account_id=other.id)
        for step in way:
            simulation.move(step, order.id, account_id=other.id)
        CallNote.objects.filter(order=order).update(
            agent=world.agent, callback_at=timezone.now() - timedelta(hours=2), outcome=CallNote.Outcome.CALLBACK
        )
        order.status_changes.update(user=world.agent)


def test_couriers_files_and_exports_know_no_test_order(world: World, twin: Account, tmp_path: Path) -> None:
    order = Order.objects.get(account=twin, status=Status.CONFIRMED)
    (outcome,) = shipments.record(
        [shipments.Shipment(Status.SHIPPED, order_id=order.id)], actor=Actor.of_command("update_shipments")
    )
    assert isinstance(outcome, shipments.UnknownOrder)
    file = tmp_path / "couriers.csv"
    file.write_text(f"order_id,external_id,status\n{order.id},,shipped\n,{order.external_id},shipped\n")
    for options in ([], ["--account", world.alice.holder.email]):
        with pytest.raises(CommandError, match=r"^Refused: 2\. "):
            output("update_shipments", str(file), *options)
    order.refresh_from_db()
    assert order.status == Status.CONFIRMED
    assert MARK not in output("export_orders", "--account", world.alice.holder.email)
    assert bulk_update.find([str(order.id), NUMBER]) == {str(order.id): [], NUMBER: []}


def test_pending_test_orders_are_no_figure_of_metrics(world: World, twin: Account) -> None:
    metrics.count_pending()
    assert sum(metrics._last_count()) == Order.live.filter(status=Status.PENDING).count()


def test_a_test_order_stays_one_whatever_becomes_of_it(world: World, twin: Account) -> None:
    assert set(Order.objects.filter(account=twin).values_list("call_state", flat=True)) == {CallState.TEST}
    assert not Order.objects.exclude(account=twin).filter(call_state=CallState.TEST).exists()
    assert simulation._ACTOR.role == Role.SUPERVISOR


# --- What the rooms' code reads --------------------------------------------------------------------------------------

FREE = {"management", "test_mode", "migrations"}  # they read one account, by its name or key
# By one of these, a part of a statement says which orders it means: by call state, or a selection made before.
SAYS = ("call_state", "{_DUE}", "{due}", "{which}", "o.id = ANY(%(ids)s)", "WHERE id = ANY(%(ids)s)",
        "WHERE id = ANY(%(orders)s)", "JOIN free", "FROM alike")  # fmt: skip


def _text(node: ast.JoinedStr | ast.Constant) -> Any:
    """Return a statement as it is written, with its parts' names in braces."""
    return ast.unparse(node) if isinstance(node, ast.JoinedStr) else node.value


def test_what_the_console_reads_begins_with_live_orders() -> None:
    """Finds `Order.objects`, and statements about orders that do not say which calls they mean."""
    forgotten = []
    for file in Path(agents.__file__).parent.rglob("*.py"):
        if FREE & set(file.parts):
            continue
        nodes = list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
        parts = {part for node in nodes if isinstance(node, ast.JoinedStr) for part in ast.walk(node) if part != node}
        for node in nodes:
            if node in parts:
                continue
            is_all = isinstance(node, ast.Attribute) and node.attr in ("objects", "_base_manager", "_default_manager")
            if is_all and isinstance(node.value, ast.Name) and node.value.id == "Order":  # type: ignore[attr-defined]
                forgotten.append((file.name, node.lineno))  # type: ignore[attr-defined]
            if isinstance(node, ast.JoinedStr | ast.Constant) and isinstance(text := _text(node), str):
                for part in re.split(r"\bSELECT\b", text):
                    if re.search(r"\b(FROM|JOIN) orders_order\b", part) and not any(say in part for say in SAYS):
                        forgotten.append((file.name, part.strip()[:80]))
    assert forgotten == []


@pytest.mark.django_db
def test_the_consoles_list_is_read_along_an_index_without_test_orders() -> None:
    """It does not walk past them, however many there are."""
    live = make_order(AccountFactory())
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO orders_order SELECT (jsonb_populate_record(o,"
            " jsonb_build_object('id', gen_random_uuid(), 'call_state', 'test'))).*"
            " FROM orders_order o, generate_series(1, 2000) WHERE o.id = %s",
            [live.id],
        )
        # Shrink the indexes, which keep the room that earlier tests took.
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE; REINDEX TABLE orders_order; ANALYZE orders_order")
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute("SET LOCAL enable_sort = off")
    listed = Order.live.filter(status=Status.PENDING).order_by("id")[:50]
    assert "order_console on" in listed.explain()
