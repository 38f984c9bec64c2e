"""`/api/v1/webhooks`: create, list, read, delete and rotate the secret; and who may see or change which."""

import re
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import connections
from django.utils import timezone

from codservice.accounts.models import ApiKey
from tests.harness.background import at_once
from tests.harness.client import ApiClient
from tests.harness.deliveries import publish
from webhooks import registry, secrets
from webhooks.models import Delivery, Webhook

URL = "https://shop.example/hooks"
BODY = {"url": URL, "events": ["order.confirmed", "inventory.updated"]}

pytestmark = pytest.mark.usefixtures("names")


def test_a_webhook_is_registered_and_its_secret_shown_once(api, alice):
    answer = api.post("/api/v1/webhooks", BODY)

    assert answer.status_code == 201
    body = answer.json()
    assert set(body) == {"data", "signing_secret"}
    secret = body["signing_secret"]
    assert re.fullmatch(r"whsec_[A-Za-z0-9+/]{43}=", secret)
    webhook = Webhook.objects.get(account=alice)
    assert body["data"] == {
        "id": str(webhook.id),
        "url": URL,
        "events": BODY["events"],
        "is_active": True,
        "signing_secret_hint": secret[:10] + "…",
    }
    assert secrets.decrypt(bytes(webhook.secret)) == secret
    assert secret not in api.get(f"/api/v1/webhooks/{webhook.id}").content.decode()
    assert secret not in api.get("/api/v1/webhooks").content.decode()


def test_the_answer_says_where_the_webhook_can_be_read(api):
    answer = api.post("/api/v1/webhooks", BODY)

    assert answer.headers["Location"] == f"/api/v1/webhooks/{answer.json()['data']['id']}"
    assert api.get(answer.headers["Location"]).json()["data"] == answer.json()["data"]


def test_the_list_is_oldest_first(api, alice, register):
    made = [register(alice, f"https://shop.example/{number}") for number in range(3)]

    answer = api.get("/api/v1/webhooks")

    assert answer.status_code == 200
    assert list(answer.json()) == ["data"]
    assert [each["id"] for each in answer.json()["data"]] == [str(webhook.id) for webhook in made]
    assert all(
        set(each) == {"id", "url", "events", "is_active", "signing_secret_hint"} for each in answer.json()["data"]
    )


def test_one_webhook_is_read(api, alice, register):
    webhook = register(alice)

    answer = api.get(f"/api/v1/webhooks/{webhook.id}")

    assert answer.status_code == 200
    assert answer.json()["data"]["id"] == str(webhook.id)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"url": None}, "url"),
        ({"url": 5}, "url"),
        ({"url": ""}, "url"),
        ({"url": "http://shop.example/"}, "url"),
        ({"events": None}, "events"),
        ({"events": []}, "events"),
        ({"events": "order.confirmed"}, "events"),
        ({"events": {"order.confirmed": True}}, "events"),
        ({"events": ["order.confirmed", "order.confirmed"]}, "events"),
        ({"events": ["order.eaten"]}, "events"),
        ({"events": ["ping"]}, "events"),
        ({"events": [["order.confirmed"]]}, "events"),
        ({"events": [None]}, "events"),
        ({"events": ["order.confirmed"] * 10_000}, "events"),
    ],
)
def test_what_cannot_be_used_is_422_and_registers_nothing(api, changes, field):
    answer = api.post("/api/v1/webhooks", BODY | changes)

    assert answer.status_code == 422
    assert answer.json()["error"] == "validation_failed"
    assert list(answer.json()["errors"]) == [field]
    assert not Webhook.objects.exists()


def test_missing_fields_are_all_named(api):
    assert set(api.post("/api/v1/webhooks", {}).json()["errors"]) == {"url", "events"}


def test_what_only_we_decide_is_ignored(api, alice, charlie):
    mine = {
        "id": str(uuid4()),
        "account": str(charlie.id),
        "account_id": str(charlie.id),
        "signing_secret": "whsec_mine",
        "secret": "whsec_mine",
        "signing_secret_hint": "x",
        "created_at": "2020-01-01T00:00:00Z",
        "deleted_at": "2020-01-01T00:00:00Z",
    }

    answer = api.post("/api/v1/webhooks", BODY | mine)

    assert answer.status_code == 201
    webhook = Webhook.objects.get()
    assert webhook.account_id == alice.id
    assert webhook.deleted_at is None
    assert str(webhook.id) != mine["id"]
    assert answer.json()["signing_secret"] != "whsec_mine"


def test_it_can_be_registered_off_and_is_then_sent_nothing(api, alice):
    answer = api.post("/api/v1/webhooks", BODY | {"is_active": False})
    assert (answer.status_code, answer.json()["data"]["is_active"]) == (201, False)

    publish(alice)
    assert not Delivery.objects.exists()

    answer = api.patch(answer.headers["Location"], {"is_active": True})
    assert (answer.status_code, answer.json()["data"]["is_active"]) == (200, True)
    publish(alice)
    assert Delivery.objects.count() == 1


def test_whether_it_is_on_is_true_or_false(api):
    assert api.post("/api/v1/webhooks", BODY | {"is_active": None}).json()["data"]["is_active"] is True
    answer = api.post("/api/v1/webhooks", BODY | {"is_active": "false"})
    assert (answer.status_code, list(answer.json()["errors"])) == (422, ["is_active"])
    assert Webhook.objects.count() == 1


def test_the_21st_is_refused_and_a_deleted_one_makes_room(api, alice, register):
    webhooks = [register(alice) for _ in range(20)]

    answer = api.post("/api/v1/webhooks", BODY)

    assert answer.status_code == 422
    assert "20" in answer.json()["errors"]["url"][0]
    assert Webhook.objects.count() == 20
    Webhook.objects.filter(id=webhooks[0].id).update(deleted_at=timezone.now())
    assert api.post("/api/v1/webhooks", BODY).status_code == 201


@pytest.mark.django_db(transaction=True)
def test_20_is_exact_however_many_come_at_once(alice, api_for, register):
    for _ in range(17):
        register(alice)
    key = api_for(alice).defaults["HTTP_AUTHORIZATION"].removeprefix("Bearer ")

    answers = at_once(8, lambda number: ApiClient(key).post("/api/v1/webhooks", BODY).status_code)

    assert sorted(answers) == [201] * 3 + [422] * 5
    assert Webhook.objects.filter(account=alice).count() == 20


# --- Deleting --------------------------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_deleting_drops_what_is_pending_and_keeps_the_log(api, alice, register, delivery_of):
    webhook, other = register(alice), register(alice)
    fresh, retry = delivery_of(webhook), delivery_of(webhook, attempts=1)
    done, failed = delivery_of(webhook, "delivered", attempts=1), delivery_of(webhook, "failed", attempts=4)
    others = delivery_of(other)

    answer = api.delete(f"/api/v1/webhooks/{webhook.id}")

    assert answer.status_code == 204
    assert answer.content == b""
    statuses = dict(Delivery.objects.values_list("id", "status"))
    assert statuses == {
        fresh.id: "dropped",
        retry.id: "dropped",
        done.id: "delivered",
        failed.id: "failed",
        others.id: "pending",
    }
    assert Delivery.objects.get(id=retry.id).attempts.count() == 1
    assert Delivery.objects.get(id=fresh.id).next_attempt_at is None


@pytest.mark.django_db(transaction=True)
def test_a_deleted_webhook_is_gone_for_every_call(api, alice, register, delivery_of):
    webhook = register(alice)
    delivery = delivery_of(webhook, "failed", attempts=4)
    assert api.delete(f"/api/v1/webhooks/{webhook.id}").status_code == 204

    assert [call(api).status_code for call in calls(webhook.id, delivery.id)] == [404] * 7
    assert api.get("/api/v1/webhooks").json() == {"data": []}


@pytest.mark.django_db(transaction=True)
def test_a_later_webhook_with_the_same_url_starts_anew(api, alice, delivery_of):
    first = api.post("/api/v1/webhooks", BODY).json()
    delivery_of(Webhook.objects.get())
    api.delete(f"/api/v1/webhooks/{first['data']['id']}")

    second = api.post("/api/v1/webhooks", BODY).json()

    assert second["signing_secret"] != first["signing_secret"]
    assert not Delivery.objects.filter(webhook=second["data"]["id"]).exists()


@pytest.mark.django_db(transaction=True)
def test_many_are_dropped_in_several_statements(alice, register, delivery_of, monkeypatch):
    monkeypatch.setattr(registry, "_BATCH", 3)
    monkeypatch.setattr(registry, "DROP_SECONDS", 60.0)  # however busy the machine is
    webhook = register(alice)
    for _ in range(7):
        delivery_of(webhook)

    registry.delete(alice.id, webhook.id)

    assert Delivery.objects.filter(status="dropped").count() == 7


@pytest.mark.django_db(transaction=True)
def test_two_deletions_at_once_are_one(alice, register, api_for):
    webhook = register(alice)
    key = api_for(alice).defaults["HTTP_AUTHORIZATION"].removeprefix("Bearer ")

    answers = at_once(4, lambda number: ApiClient(key).delete(f"/api/v1/webhooks/{webhook.id}").status_code)

    assert sorted(answers) == [204, 404, 404, 404]


# --- Secrets ---------------------------------------------------------------------------------------------------------


def test_a_new_secret_leaves_the_old_one_valid_for_a_day(api, alice):
    made = api.post("/api/v1/webhooks", BODY).json()

    answer = api.post(f"/api/v1/webhooks/{made['data']['id']}/rotate-secret")

    assert answer.status_code == 200
    body = answer.json()
    assert body["signing_secret"] != made["signing_secret"]
    assert body["data"]["signing_secret_hint"] == body["signing_secret"][:10] + "…"
    webhook = Webhook.objects.get()
    assert secrets.decrypt(bytes(webhook.secret)) == body["signing_secret"]
    assert secrets.decrypt(bytes(webhook.previous_secret)) == made["signing_secret"]
    day = webhook.previous_secret_until - timezone.now()
    assert timedelta(hours=23, minutes=59) < day <= timedelta(hours=24)


def test_a_webhook_tells_until_when_the_old_secret_signs_too(api):
    url = f"/api/v1/webhooks/{api.post('/api/v1/webhooks', BODY).json()['data']['id']}"

    def told():
        return [api.get(url).json()["data"], *api.get("/api/v1/webhooks").json()["data"], api.patch(url).json()["data"]]

    rotated = api.post(f"{url}/rotate-secret").json()["data"]
    until = Webhook.objects.get().previous_secret_until
    assert rotated["previous_secret_until"] == until.isoformat().replace("+00:00", "Z")
    assert told() == [rotated] * 3
    again = api.post(f"{url}/rotate-secret").json()["data"]["previous_secret_until"]
    assert again > rotated["previous_secret_until"], "that of the secret that was replaced now"
    Webhook.objects.update(previous_secret_until=timezone.now())
    assert not any("previous_secret_until" in webhook for webhook in told())


# --- Who may ---------------------------------------------------------------------------------------------------------


def calls(webhook_id, delivery_id):
    return [
        lambda client: client.get(f"/api/v1/webhooks/{webhook_id}"),
        lambda client: client.get(f"/api/v1/webhooks/{webhook_id}/deliveries"),
        lambda client: client.get(f"/api/v1/deliveries/{delivery_id}"),
        lambda client: client.post(f"/api/v1/webhooks/{webhook_id}/ping"),
        lambda client: client.post(f"/api/v1/webhooks/{webhook_id}/rotate-secret"),
        lambda client: client.post(f"/api/v1/deliveries/{delivery_id}/resend"),
        lambda client: client.delete(f"/api/v1/webhooks/{webhook_id}"),
    ]


def test_anothers_webhook_is_like_none(alice, charlies_api, register, delivery_of):
    webhook = register(alice)
    delivery = delivery_of(webhook, "failed", attempts=4)
    secret = bytes(webhook.secret)

    for foreign, unknown in zip(calls(webhook.id, delivery.id), calls(uuid4(), uuid4()), strict=True):
        theirs, nobodys = foreign(charlies_api), unknown(charlies_api)
        assert theirs.status_code == nobodys.status_code == 404
        assert theirs.content == nobodys.content
        assert set(theirs.headers) == set(nobodys.headers)

    assert charlies_api.get("/api/v1/webhooks").json() == {"data": []}
    webhook.refresh_from_db()
    assert (bytes(webhook.secret), webhook.deleted_at) == (secret, None)
    assert list(Delivery.objects.values_list("status", flat=True)) == ["failed"]


def test_each_call_needs_its_scope(alice, api_for, register, delivery_of):
    webhook = register(alice)
    delivery = delivery_of(webhook, "failed", attempts=4)
    reads, writes = calls(webhook.id, delivery.id)[:3], calls(webhook.id, delivery.id)[3:]
    reads.append(lambda client: client.get("/api/v1/webhooks"))
    writes.append(lambda client: client.post("/api/v1/webhooks", BODY))
    reader = api_for(alice, scopes=["webhooks:read"])
    writer = api_for(alice, scopes=["webhooks:write"])

    assert [call(writer).status_code for call in reads] == [403] * 4
    assert [call(reader).status_code for call in writes] == [403] * 5
    assert [call(reader).status_code for call in reads] == [200] * 4
    assert "webhooks:write" in writes[0](reader).json()["message"]
    assert ApiKey.objects.count() == 2


@pytest.mark.parametrize("path", ["webhooks/", "webhooks/nope", "webhooks/{}/", "deliveries", "deliveries/{}"])
def test_no_other_paths(api, alice, register, path):
    webhook = register(alice)

    assert api.get("/api/v1/" + path.format(webhook.id)).status_code == 404


def test_other_methods_are_405(api, alice, register):
    webhook = register(alice)

    answer = api.put(f"/api/v1/webhooks/{webhook.id}")

    assert answer.status_code == 405
    assert set(re.split(r", ", answer.headers["Allow"])) >= {"GET", "DELETE"}


def test_registering_while_the_account_is_locked_is_503_and_recovers(transactional_db, alice, api):
    from django.db import transaction

    from codservice.accounts.models import Account

    with transaction.atomic(), ThreadPoolExecutor(1) as other:
        Account.objects.select_for_update().get(id=alice.id)

        def register() -> int:
            try:
                return api.post("/api/v1/webhooks", BODY).status_code
            finally:
                connections.close_all()

        assert other.submit(register).result() == 503
    assert api.post("/api/v1/webhooks", BODY).status_code == 201
