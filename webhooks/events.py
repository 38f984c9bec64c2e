"""Telling of a change: the event is written in the transaction of the change itself, or neither is."""

from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection

from codservice.api.bodies import dump_json
from webhooks.models import Event


def publish(account_id: UUID, kind: Event.Kind, *, data: dict[str, Any], at: datetime) -> Event:
    """Write the event that `kind` happened at `at` (contract, section 9).

    The body is rendered and fixed here, so that every attempt sends and signs the same bytes. Raises RuntimeError
    outside a transaction: an event that could be lost, or that could tell of a change that was rolled back, is
    worse than none.
    """
    if not connection.in_atomic_block:
        raise RuntimeError("events.publish must run in the transaction of the change that it tells of.")
    body = dump_json({"event": kind, "timestamp": at, "data": data}).decode()
    return Event.objects.create(account_id=account_id, kind=kind, body=body, created_at=at)
