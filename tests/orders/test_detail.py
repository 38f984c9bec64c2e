"""GET /api/v1/orders/{id}: the order with its calls and history, and a short answer for those who have it already."""

from datetime import UTC, datetime, timedelta

import pytest

from codservice.accounts.actor import Actor, Role
from orders import lifecycle
from orders.models import CallNote, Order
from tests.factories import UserFactory, make_order, order_body

ORDERS = "/api/v1/orders"
pytestmark = pytest.mark.django_db
SAMIRA = Actor(Role.SUPERVISOR, "Samira")
CALLBACK = datetime(2026, 3, 10, 9, 30, 0, 123456, tzinfo=UTC)


@pytest.fixture
def order(api):
    return Order.objects.get(id=api.post(ORDERS, order_body(external_id="W-1", notes="Sonnez")).json()["id"])


def path(order):
    return f"{ORDERS}/{order.id}"


def test_the_detail_is_the_answer_to_the_import_and_more(api):
    imported = api.post(ORDERS, order_body()).json()
    detail = api.get(f"{ORDERS}/{imported['id']}").json()
    added = {
        "updated_at": imported["created_at"],
        "confirmed_at": None,
        "canceled_at": None,
        "cancel_reason": "",
        "anonymised_at": None,
        "call_notes": [],
        "edits": [],
    }
    history = {
        "from": None,
        "to": "pending_confirmation",
        "at": imported["created_at"],
        "actor": "API key Test",
        "reason": "",
    }
    names = {"wilaya_name": "Alger", "commune_name": "Bab Ezzouar"}
    assert detail == {
        **imported,
        **added,
        "customer": {**imported["customer"], **names},
        "status_history": [history],
    }


def test_without_a_commune_its_name_is_null(api, alice):
    customer = api.get(path(make_order(alice))).json()["customer"]
    assert (customer["commune"], customer["commune_name"]) == (None, None)


def test_calls_and_moves_are_told_in_their_order(api, order):
    agent = UserFactory(first_name="Amel", last_name="B.")
    lifecycle.add_call_note(
        order.id, lifecycle.Call(agent=agent, outcome=CallNote.Outcome.CALLBACK, note="à 9 h", callback_at=CALLBACK)
    )
    lifecycle.add_call_note(order.id, lifecycle.Call(agent=agent, outcome=CallNote.Outcome.ANSWERED))
    lifecycle.confirm(order.id, actor=Actor(Role.AGENT, "Amel B.", agent.id))
    lifecycle.cancel(order.id, actor=SAMIRA, reason="changed her mind")
    detail = api.get(path(order)).json()
    first, second = detail["call_notes"]
    assert (first["outcome"], first["note"], first["agent"]) == ("callback", "à 9 h", "Amel B.")
    assert datetime.fromisoformat(first["callback_at"]) == CALLBACK
    assert (second["outcome"], second["note"], second["callback_at"]) == ("answered", "", None)
    assert first["created_at"] <= second["created_at"]
    assert [(move["from"], move["to"], move["actor"], move["reason"]) for move in detail["status_history"]] == [
        (None, "pending_confirmation", "API key Test", ""),
        ("pending_confirmation", "confirmed", "Amel B.", ""),
        ("confirmed", "canceled", "Samira", "changed her mind"),
    ]
    moments = [datetime.fromisoformat(move["at"]) for move in detail["status_history"]]
    assert moments == sorted(moments)
    assert [detail["created_at"], detail["confirmed_at"], detail["canceled_at"]] == [
        move["at"] for move in detail["status_history"]
    ]
    assert detail["updated_at"] == detail["canceled_at"]
    assert (detail["status"], detail["cancel_reason"]) == ("canceled", "changed her mind")


def test_every_time_carries_its_offset(api, order):
    agent = UserFactory()
    lifecycle.add_call_note(
        order.id, lifecycle.Call(agent=agent, outcome="callback", callback_at=CALLBACK.astimezone())
    )
    lifecycle.confirm(order.id, actor=SAMIRA)
    detail = api.get(path(order)).json()
    (note,) = detail["call_notes"]
    times = [
        detail["created_at"],
        detail["updated_at"],
        detail["confirmed_at"],
        note["created_at"],
        note["callback_at"],
    ]
    for time in [*times, *(move["at"] for move in detail["status_history"])]:
        assert datetime.fromisoformat(time).utcoffset() == timedelta(0)


# --- ETag -----------------------------------------------------------------------------------------------------------


def test_who_has_seen_it_is_told_in_a_few_bytes(api, order):
    first = api.get(path(order))
    tag = first.headers["ETag"]
    assert tag.startswith('W/"')
    assert first.headers["Cache-Control"] == "private, no-cache"
    for sent in (tag, tag.removeprefix("W/"), f'"x", {tag}', f'{tag}, W/"y"', "*"):
        answer = api.get(path(order), headers={"If-None-Match": sent})
        assert (answer.status_code, answer.content) == (304, b"")
        assert (answer.headers["ETag"], answer.headers["Cache-Control"]) == (tag, "private, no-cache")
        assert answer.headers["X-RateLimit-Remaining"]
        assert answer.headers["Vary"] == "Authorization"


@pytest.mark.parametrize("sent", ["", '"x"', "x", 'W/"x"', "W/", '"', '""', "é", "**", '"' + "x" * 5000 + '"'])
def test_any_other_tag_gets_the_order(api, order, sent):
    assert api.get(path(order), headers={"If-None-Match": sent}).status_code == 200


@pytest.mark.parametrize(
    "condition", [{"If-Match": '"x"'}, {"If-Modified-Since": "Fri, 01 Jan 2100 00:00:00 GMT"},
                  {"If-Unmodified-Since": "Mon, 01 Jan 2001 00:00:00 GMT"}, {"Range": "bytes=0-1"}]
)  # fmt: skip
def test_other_conditions_are_no_promise_and_change_nothing(api, order, condition):
    answer = api.get(path(order), headers=condition)
    assert answer.status_code == 200
    assert answer.json()["id"] == str(order.id)


def test_the_tag_changes_with_whatever_the_order_shows(api, order):
    def tag():
        return api.get(path(order)).headers["ETag"]

    tags = [tag()]
    lifecycle.add_call_note(order.id, lifecycle.Call(agent=UserFactory(), outcome="busy"))
    tags.append(tag())
    lifecycle.confirm(order.id, actor=SAMIRA)
    tags.append(tag())
    order.items.update(quantity=9)
    tags.append(tag())
    Order.objects.update(customer_address="elsewhere")
    tags.append(tag())
    assert len(set(tags)) == len(tags)
    assert tag() == tags[-1]


def test_who_lost_the_order_gets_404_and_no_tag(api, charlies_api, order):
    tag = api.get(path(order)).headers["ETag"]
    answer = charlies_api.get(path(order), headers={"If-None-Match": tag})
    assert answer.status_code == 404
    assert "ETag" not in answer.headers
