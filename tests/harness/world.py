"""A world with everything in it: two merchants with a row in every table, and the people who work for them."""

import json
from dataclasses import dataclass
from datetime import time, timedelta
from typing import Any

from django.apps import apps
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db import models
from django.db.models import Q
from django.test import Client
from django.utils import timezone
from django_otp.plugins.otp_totp.models import TOTPDevice
from uuid_utils.compat import uuid7

from agents.desk import claims
from agents.models import Assignment, CallDay, CallFigure, CallingPeriod, CallingRules, CallPart
from agents.supervision import summing
from codservice import days
from codservice.accounts.actor import Actor, Role
from codservice.accounts.models import Account, ApiKey, Invitation, Membership, User
from codservice.api.models import IdempotencyRecord
from codservice.operations.models import Duty
from codservice.uploads.models import Block, Piece, RefusedRow, Upload
from inventory.models import StockMovement
from orders import editing, lifecycle
from orders.models import (
    CallNote,
    CallState,
    ChangedDay,
    DayFigure,
    Erasure,
    Order,
    OrderEdit,
    Searchable,
    ShippingFee,
    SummedUp,
)
from tests import factories
from tests.harness.client import ApiClient, browser_of, new_key
from tests.harness.deliveries import write_delivery
from webhooks import models as webhook_models
from webhooks import registry

Outcome = CallNote.Outcome
# Names of attributes that a template could confuse with a dict's methods: shops name attributes as they like. The value
# cannot occur in a page's random token.
ATTRIBUTES = dict.fromkeys(["items", "keys", "values", "get", "copy", "0", "a.b", "__class__", "%s"], "x-y-z")


@dataclass
class World:
    """`alice` and `charlie` are merchants, `manager` and `reader` work for Charlie, and the others in the console.

    `roleless` may do nothing there.
    """

    alice: Account
    charlie: Account
    manager: User
    reader: User
    agent: User
    supervisor: User
    roleless: User
    operator: User

    def client(self, person: str, **kwargs: Any) -> Client:
        """A test client of `stranger`, `holder` (Charlie), one of the people here, or `key` (Charlie's API key)."""
        kwargs = {"raise_request_exception": False, **kwargs}
        if person == "key":
            return ApiClient(new_key(self.charlie))
        if person == "stranger":
            return Client(**kwargs)
        return browser_of(self.charlie.holder if person == "holder" else getattr(self, person), **kwargs)


PEOPLE = ("stranger", "holder", "manager", "reader", "agent", "supervisor", "roleless", "operator", "key")


def make_world() -> World:
    world = World(
        alice=factories.AccountFactory(name="Alice's shop", rate_limit=1_000_000),
        charlie=factories.AccountFactory(name="Charlie's shop", rate_limit=1_000_000),
        manager=factories.UserFactory(username="manager@example.com", email="manager@example.com"),
        reader=factories.UserFactory(username="reader@example.com", email="reader@example.com"),
        agent=factories.AgentFactory(),
        supervisor=factories.AgentFactory(role="Supervisors"),
        roleless=factories.UserFactory(is_staff=True),
        operator=factories.UserFactory(is_staff=True, is_superuser=True),
    )
    for role in Membership.Role:
        Membership.objects.create(account=world.charlie, user=getattr(world, role.value), role=role)
    alices = factories.UserFactory(username="alices@example.com", email="alices@example.com")
    Membership.objects.create(account=world.alice, user=alices, role="manager")
    for user in (world.charlie.holder, world.manager, world.reader, world.alice.holder):
        Client().force_login(user)
    for number, account in enumerate((world.charlie, world.alice)):  # Charlie's pages are tested, so he comes first
        _furnish(account, f"055{number}", world)
    Assignment.objects.create(agent=world.agent, languages=["ar", "fr"])
    for user in (world.agent, world.supervisor):
        TOTPDevice.objects.create(user=user, name="phone", confirmed=user == world.agent)
    LogEntry.objects.create(
        user=world.operator,
        content_type=ContentType.objects.get_for_model(Account),
        object_id=str(world.alice.id),
        object_repr=world.alice.name,
        action_flag=CHANGE,
    )
    Duty.objects.create(name="world", done_at=timezone.now(), taken_until=timezone.now())
    return world


def _furnish(account: Account, prefix: str, world: World) -> None:
    """Write a row of the account in every table, and an order in every state. Its phone numbers begin with `prefix`."""
    # First, so that the orders' events are delivered to it.
    webhook = registry.register(account.id, url="https://203.0.114.1/hooks", events=webhook_models.Event.Kind.values)[0]
    _invite_and_give_keys(account, f"{prefix}@example.com")
    _set_rules(account)
    _sum_up(account)
    _take_orders(account, prefix, world)
    _upload_files(account)
    _deliver_and_recover(webhook)


def _invite_and_give_keys(account: Account, email: str) -> None:
    now = timezone.now()
    Invitation.objects.create(account=account, email=email, role="reader", expires_at=now + timedelta(days=1))
    IdempotencyRecord.objects.create(account=account, key="1", fingerprint=b"1", status=201, body=b"{}", created_at=now)
    ApiKey.issue(account, name="Revoked")[0].revoke()
    ApiKey.issue(account, name="Shop")


def _set_rules(account: Account) -> None:
    CallingRules.objects.create(account=account)
    season = timezone.now().date() + timedelta(days=60)
    CallingPeriod.objects.create(
        account=account, name="Ramadan", first_day=season, last_day=season, opens_at=time(10), closes_at=time(16)
    )
    ShippingFee.objects.create(account=account, wilaya_code="16", home=400)


def _sum_up(account: Account) -> None:
    """Write figures of the account's days and of the call center's."""
    yesterday = days.today() - timedelta(days=1)
    SummedUp.objects.create(account=account, until=days.start_of(days.today()))
    for dimension in DayFigure.Dimension.values:
        counts = {"new_count": 90, "confirmed_count": 40, "canceled_count": 20, "refused_count": 20}
        key = {"product": str(account.id), "wait": "0"}.get(dimension, "x")
        DayFigure.objects.create(account=account, day=yesterday, dimension=dimension, key=key, **counts)
    ChangedDay.objects.create(account=account, day=yesterday - timedelta(days=400))
    # Shortly after midnight too: nothing of a day is summed up until some time has passed.
    part = yesterday if timezone.now() - summing.PUNCTUAL < days.start_of(days.today()) else days.today()
    whole = part - timedelta(days=1)
    CallDay.objects.get_or_create(day=whole)
    CallPart.objects.get_or_create(day=part, defaults={"until": days.start_of(part)})
    CallFigure.objects.create(day=whole, dimension=CallFigure.Dimension.SOURCE, key=f"{account.id}", calls=90)


def _take_orders(account: Account, prefix: str, world: World) -> None:
    """Write an order in every state, a product, and claims on two of the customers."""
    now, agent, supervisor = timezone.now(), Actor.of_staff(world.agent), Actor.of_staff(world.supervisor)
    product = factories.ProductFactory(account=account)
    StockMovement.objects.create(account=account, product=product, old_quantity=0, new_quantity=10, at=now, actor="x")
    Searchable.objects.create(account=account)
    Erasure.objects.create(account=account, actor="x", order_count=1)
    line = factories.order_line(
        quantity=1, product_id=product.id, product_name="Robe", unit_price=100, attributes=ATTRIBUTES
    )
    orders = [
        factories.make_order(
            account,
            phone=f"{prefix}{number:06}",
            external_id=f"{account.id.hex[-6:]}-{number}",
            notes="Call in the evening",
            customer_commune="Bab Ezzouar",
            items=[line],
        )
        for number in range(9)
    ]
    called, waiting, review, promised, confirmed, shipped, delivered, returned, canceled = orders
    editing.edit(called.id, editing.Edit(customer_address="Cité 5 juillet"), actor=agent)
    for order in orders:
        at = now + timedelta(hours=1)
        lifecycle.add_call_note(
            order.id, lifecycle.Call(agent=world.agent, outcome=Outcome.CALLBACK, note="Later", callback_at=at)
        )
    lifecycle.cancel(canceled.id, actor=Actor(Role.MERCHANT, "Shop"), reason="Out of stock")
    for order, moves in (
        (confirmed, ["confirm"]),
        (shipped, ["confirm", "ship"]),
        (delivered, ["confirm", "ship", "deliver"]),
        (returned, ["confirm", "ship", "return"]),
    ):
        for move in moves:
            lifecycle.move(move, order.id, actor=supervisor)
    Order.objects.filter(id=review.id).update(call_state=CallState.REVIEW)
    Order.objects.filter(id=promised.id).update(
        call_state=CallState.CALLBACK, callback_agent=world.agent, call_due_at=now
    )
    claims.take(called.id, agent=world.agent)
    claims.take(waiting.id, agent=world.supervisor)


def _upload_files(account: Account) -> None:
    """Write an upload in every state, with a refused row."""
    for status in Upload.Status:
        file = Upload.objects.create(
            account=account, kind="orders", name="orders.csv", size=20, status=status, actor="x", user_id=uuid7(),
            digest="d", titles=["Nom"], fingerprint="h", row_count=2, rows_done=1, mapping={"customer_name": 0},
            counts={"imported": 1, "refused": 1}, problem="The file is empty.", claimed_until=timezone.now(),
        )  # fmt: skip
        Piece.objects.create(account=account, upload=file, number=0, data=b"Nom\nAmine")
        Block.objects.create(account=account, upload=file, last_line=2, data=b'[[2,["Amine"]]]')
        faults = [["customer_name", ["Must not be empty."]]]
        RefusedRow.objects.create(account=account, upload=file, line=3, cells=["Amine"], faults=faults)


def _deliver_and_recover(webhook: webhook_models.Webhook) -> None:
    """Write a failed delivery, one under way, and a recovery."""
    now = timezone.now()
    webhook_models.Recovery.objects.create(
        account=webhook.account, webhook=webhook, since=now, until=now, position=0, event_id=uuid7(), stop_at=0
    )
    write_delivery(webhook, "failed", attempts=4)
    under_way = write_delivery(webhook, attempts=1)
    webhook_models.Claim.objects.create(delivery=under_way, webhook=webhook, token=uuid7(), until=now)


# --- Text in every field ---------------------------------------------------------------------------------------------

# Short fields keep only the beginning, which closes an attribute and a title, and adds to a tag without quotes.
MARKUP = (
    "'\"></title><svg onload=alert(1)> onfocus=alert() autofocus "
    "</textarea></pre></style></select></script><script>alert(1)</script>"
    "<img src=//evil.example/beacon><iframe src=//evil.example></iframe>{{7*7}}{% csrf_token %}"
)


def order_of(account: Account, agent: User, text: str) -> Order:
    """An order with `text` wherever orders show what others wrote."""
    product = factories.ProductFactory(account=account, sku=text[:64], name=text)
    item = factories.order_line(quantity=1, product_id=product.id, attributes={text[:64]: text})
    order = factories.make_order(
        account,
        customer_name=text,
        customer_address=text,
        notes=text,
        external_id=text[:64],
        items=[item],
    )
    Order.objects.filter(id=order.id).update(customer_phone=text[:40], customer_wilaya=text, customer_commune=text)
    lifecycle.add_call_note(order.id, lifecycle.Call(agent=agent, outcome=Outcome.NOTE, note=text))
    OrderEdit.objects.create(
        account=account, order=order, field="customer_name", old=text, new=text, at=order.created_at, actor=text
    )
    lifecycle.cancel(order.id, actor=Actor(Role.MERCHANT, text), reason=text)
    return order


# Fields that only we fill. Merchants, customers, agents, operators or receivers write all others.
OURS = {
    "accounts.User.password", "accounts.SignIn.session_key", "accounts.ApiKey.prefix",
    "webhooks.Webhook.secret_hint", "webhooks.Event.kind",
    "webhooks.Attempt.failure", "orders.Order.phone_e164", "orders.Order.phone_2_e164",
    "orders.ShippingFee.wilaya_code", "orders.Order.wilaya_code", "orders.Order.commune_code",
    "orders.OrderEdit.field", "agents.Claim.phone_e164", "operations.Duty.name", "api.IdempotencyRecord.key",
    "admin.LogEntry.object_id", "admin.LogEntry.change_message", "otp_totp.TOTPDevice.key", "sessions", "auth",
    "contenttypes", "uploads.Upload.kind", "uploads.Upload.digest", "uploads.Upload.fingerprint",
    "uploads.Upload.mapping", "uploads.Upload.counts", "uploads.RefusedRow.faults",
}  # fmt: skip


def rows_of(account: Account) -> dict[type[models.Model], Any]:
    """The account's rows in each table that has an `account`, and the account itself and its people."""
    found = {
        model: model.objects.filter(account=account)  # type: ignore[attr-defined]
        for model in apps.get_models()
        if any(field.name == "account" for field in model._meta.fields)
    }
    people = User.objects.filter(Q(account=account) | Q(membership__account=account))
    return {Account: Account.objects.filter(pk=account.pk), User: people, **found}


def inscribe(text: str) -> dict[str, str]:
    """Write `text` into every field that others fill, in every row, with a different sign before it for each field.

    Addresses become some that would run. Returns the field of each sign.
    """
    signs: dict[str, str] = {}
    for model in apps.get_models():
        values: dict[str, Any] = {}
        texts: list[models.Field] = []
        for field in model._meta.fields:
            label = f"{model._meta.label}.{field.name}"
            if {label, model._meta.app_label} & OURS or field.choices:
                continue
            sign = f"§{len(signs)}§"
            if label == "webhooks.Event.body":  # JSON, always
                value: Any = json.dumps({"data": {"text": sign + text}}, ensure_ascii=False)
            elif label == "uploads.Upload.constants":  # keys are always our columns
                value = {"product_name": sign + text}
            elif isinstance(field, models.JSONField):
                value = {sign + text: sign + text}
            elif isinstance(field, models.CharField | models.TextField):
                value = f"javascript:alert(1)//{sign}{text}" if field.name.endswith("url") else sign + text
                texts.append(field)
            elif label == "webhooks.Attempt.response":
                value = (sign + text).encode()
            else:
                continue
            signs[sign] = label
            values[field.name] = value
        if values:
            _write(model, values, texts)
    return signs


def _write(model: type[models.Model], values: dict[str, Any], texts: list[models.Field]) -> None:
    """Write the values to each row. Texts get a number at the end, as rows may have to differ."""
    for number, row in enumerate(model.objects.order_by("pk"), start=1):  # type: ignore[attr-defined]
        numbered = {
            field.name: f"{values[field.name][: (field.max_length or 4000) - len(str(number))]}{number}"
            for field in texts
        }
        model.objects.filter(pk=row.pk).update(**values | numbered)  # type: ignore[attr-defined]
