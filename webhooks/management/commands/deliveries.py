from argparse import ArgumentParser
from collections.abc import Iterable
from datetime import datetime
from heapq import nlargest
from itertools import chain
from typing import Any

import msgspec
from django.db.models import OuterRef, Subquery

from codservice import commands
from codservice.accounts.account_argument import find_account
from webhooks import delivery_arguments
from webhooks.models import Attempt, Delivery, Webhook

_COLUMNS = (
    "id", "created_at", "status", "event", "attempt_count", "next_attempt_at", "last_attempt", "last_attempt_ms", "url",
)  # fmt: skip


class Command(commands.Command):
    help = """List deliveries of webhooks, newest first, with the result of their last attempt and how long it took.

A receiver has 3000 ms. Times are in UTC."""
    examples = (
        "deliveries --status failed --account yasmine@example.dz\n"
        "deliveries --webhook 01981f1e-6f43-7b52-8c7e-000000000001 --limit 500 --json"
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        delivery_arguments.add(parser)
        parser.add_argument(
            "--limit", type=commands.number(int, 0, 1_000_000), default=50, help="list at most this many (50)"
        )
        parser.add_argument("--json", action="store_true", help="print an array of objects")

    def handle(self, **options: Any) -> None:
        rows = [_row(delivery) for delivery in _newest(options)]
        if options["json"]:
            self.print_json(msgspec.to_builtins(rows))  # times exactly as in the API
            return
        if rows:
            self.say("  ".join(_COLUMNS))
        for row in rows:
            self.stdout.write("  ".join(_shown(row[name]) for name in _COLUMNS))
        self.say(f"Deliveries: {len(rows)}.")


def _newest(options: dict[str, Any]) -> Iterable[Delivery]:
    """The newest of the chosen deliveries, with what `_row` needs.

    They are read along the index of their webhook's log, for an account webhook by webhook, and for all accounts along
    that of `one_delivery_per_event_and_webhook`, as in the console.
    """
    last = Attempt.objects.filter(delivery_id=OuterRef("pk")).order_by("-number")
    chosen = (
        delivery_arguments.chosen(options)
        .with_webhook()
        .select_related("event")
        .defer("event__body")
        .annotate(
            last_failure=Subquery(last.values("failure")[:1]),
            last_code=Subquery(last.values("status_code")[:1]),
            last_milliseconds=Subquery(last.values("milliseconds")[:1]),
        )
    )
    limit, log = options["limit"], chosen.order_by("-created_at", "-id")
    if options["webhook"]:
        return log[:limit]
    if options["account"] is None:
        return chosen.order_by("-event_id", "-webhook_id")[:limit]
    webhooks = Webhook.objects.filter(account=find_account(options["account"])).values_list("id", flat=True)
    logs = (log.filter(webhook_id=webhook)[:limit] for webhook in webhooks)
    return nlargest(limit, chain.from_iterable(logs), key=lambda delivery: (delivery.created_at, delivery.id))


def _row(delivery: Delivery) -> dict[str, Any]:
    status = delivery.shown_status()
    return {
        "id": delivery.id,
        "webhook": delivery.webhook_id,
        "url": delivery.webhook.url,
        "event": delivery.event.kind,
        "status": status,
        "attempt_count": delivery.attempt_count,
        "last_attempt": delivery.last_code if delivery.last_failure in ("", "status") else delivery.last_failure,  # type: ignore[attr-defined]
        "last_attempt_ms": delivery.last_milliseconds,  # type: ignore[attr-defined]
        "next_attempt_at": delivery.next_attempt_at if status == Delivery.Status.PENDING else None,
        "created_at": delivery.created_at,
    }


def _shown(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat(timespec="seconds")
    return "-" if value is None else str(value)
