"""Telling of a change: the event is written in the transaction of the change itself, or neither is."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection

from codservice.api.bodies import dump_json
from webhooks.models import Event


def publish(account_id: UUID, kind: Event.Kind, *, data: dict[str, Any], at: datetime) -> None:
    """Write the event that `kind` happened at `at` (contract, section 9); see `publish_all`."""
    publish_all(account_id, kind, data=[data], at=at)


def publish_all(account_id: UUID, kind: Event.Kind, *, data: Sequence[dict[str, Any]], at: datetime) -> None:
    """Write one event for each of `data`, in order, by one statement however many they are.

    The bodies are rendered and fixed here, so that every attempt sends and signs the same bytes. Raises RuntimeError
    outside a transaction: an event that could be lost, or that could tell of a change that was rolled back, is
    worse than none.
    """
    if not connection.in_atomic_block:
        raise RuntimeError("events.publish must run in the transaction of the change that it tells of.")
    Event.objects.bulk_create(
        Event(
            account_id=account_id,
            kind=kind,
            body=dump_json({"event": kind, "timestamp": at, "data": each}).decode(),
            created_at=at,
        )
        for each in data
    )
