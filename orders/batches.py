"""Batches of orders (docs/orders.md): many imports in one request, each with its own outcome."""

from typing import Annotated, Any
from uuid import UUID

from msgspec import UNSET, Meta, Struct, UnsetType

from codservice.accounts.actor import Actor
from codservice.api.error_answers import Error
from codservice.api.fields import read_body
from codservice.errors import Invalid
from codservice.wire import Id, one_of
from orders import importing, serializers
from orders.bodies import OrderStatus
from orders.importing import DuplicateExternalId

_Index = Annotated[int, Meta(ge=0, description="The order's position in the request, from 0.")]


class BatchCreatedBody(Struct):
    index: _Index
    id: Id
    external_id: str | None
    status: OrderStatus


class BatchErrorBody(Struct):
    index: _Index
    external_id: Annotated[str | None, Meta(description="As an import would keep it; null if it cannot be used.")]
    error: Annotated[str, one_of([Invalid.code, "duplicate"])]
    message: str
    errors: Annotated[
        dict[str, list[str]],
        Meta(
            description="What is wrong, by the dotted path of the field within this order; "
            "the path is empty if it is no object."
        ),
    ]
    id: (
        Annotated[
            Id | None,
            Meta(description="For a `duplicate`: the order that has the external_id; null if it is gone by now."),
        ]
        | UnsetType
    ) = UNSET


class OrderBatchBody(Struct):
    created: list[BatchCreatedBody]
    errors: list[BatchErrorBody]


class OrderBatchRefusedBody(Error):
    errors: Annotated[
        list[BatchErrorBody] | dict[str, list[str]],
        Meta(description="One entry per order; if the request itself cannot be used, an object by dotted path."),
    ]
    created: Annotated[list[BatchCreatedBody], Meta(description="Always empty.")] | UnsetType = UNSET


def import_batch(account_id: UUID, body: dict[str, Any], *, actor: Actor) -> OrderBatchBody | OrderBatchRefusedBody:
    """Import what can be imported of a batch; the batch is refused if nothing can.

    Raises Invalid if the body is no batch. Costs as many statements as a single import.
    """
    sent = read_body(serializers.OrderBatch, body)["orders"]
    answer = OrderBatchBody([], [])
    for index, outcome in enumerate(importing.import_orders(account_id, sent, actor=actor)):
        if isinstance(outcome, Invalid):
            answer.errors.append(_error(index, serializers.external_id(sent[index]), outcome))
        else:
            answer.created.append(BatchCreatedBody(index, outcome.id, outcome.external_id, outcome.status))
    if answer.created:
        return answer
    return refused(answer.errors)


def refused(errors: list[BatchErrorBody]) -> OrderBatchRefusedBody:
    """The answer to a batch of which nothing was imported."""
    return OrderBatchRefusedBody(
        Invalid.code, "None of the orders was imported. `errors` says why for each.", errors, []
    )


def _error(index: int, external_id: str | None, refusal: Invalid) -> BatchErrorBody:
    if isinstance(refusal, DuplicateExternalId):
        there = "An order of this account already has this external_id. `id` is that order."
        message = there if refusal.order_id else refusal.GONE
        return BatchErrorBody(index, external_id, "duplicate", message, refusal.errors, refusal.order_id)
    return BatchErrorBody(index, external_id, "validation_failed", refusal.message, refusal.errors)
