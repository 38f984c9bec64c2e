"""`/api/v1/test/orders/{id}/…`: test mode's agent and courier (docs/test-mode.md)."""

from contextlib import AbstractContextManager
from typing import Any
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse
from rest_framework import viewsets
from rest_framework.request import Request
from rest_framework.response import Response

from agents.test_mode import simulation
from codservice.accounts.key_format import TEST
from codservice.api import idempotency, schema
from codservice.api.adapters import needed_body, optional_body, unknown_first
from codservice.api.fields import Body, Word, read_body
from orders import bodies, openapi, reading
from orders.models import CallNote, Order, Status
from orders.serializers import OrderCancel

_ANSWERS = {200: bodies.OrderDetailBody}


def _shown(*steps: Status) -> dict[int, bodies.OrderDetailBody]:
    return {200: openapi.detail(*steps)}


class TestCall(Body):
    outcome = Word(choices=simulation.OUTCOMES)


class TestModeViewSet(viewsets.GenericViewSet):
    scopes = dict.fromkeys(("confirm", "cancel", "call", "ship", "deliver", "return_order"), "orders:write")
    http_method_names = ["post"]

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Answer 404 to live keys before anything else is checked: these paths exist only in test mode."""
        if request.api_key.mode != TEST:  # type: ignore[attr-defined]
            raise Http404
        return super().dispatch(request, *args, **kwargs)

    @schema.describe("Confirm a test order", answers=_ANSWERS, shown=_shown(Status.CONFIRMED), errors=(404, 422))
    def confirm(self, request: Request, id: UUID) -> Response:
        """Acts as an agent whose customer said yes. Repeating it is harmless, as with each of these moves."""
        return self._move("confirm", request, id)

    @schema.describe(
        "Cancel a test order as an agent",
        request=OrderCancel,
        example={"reason": "Customer refused"},
        answers=_ANSWERS,
        shown={200: openapi.detail(Status.CANCELED, reason="Customer refused")},
        errors=(400, 404, 413, 415, 422),
    )
    def cancel(self, request: Request, id: UUID) -> Response:
        """Acts as an agent whose customer said no. The body is optional."""
        with self._unknown_first(request, id):
            reason = read_body(OrderCancel, optional_body(request))["reason"]
        return self._move("cancel", request, id, reason=reason)

    @schema.describe(
        "Call the customer of a test order",
        request=TestCall,
        example={"outcome": "no_answer"},
        answers=_ANSWERS,
        shown={200: openapi.CALLED},
        errors=(400, 404, 409, 413, 415, 422),
        is_idempotent=True,
    )
    @idempotency.once
    def call(self, request: Request, id: UUID) -> Response:
        """Acts as an agent whose call decided nothing: notes it and plans the next one."""
        account_id = request.auth.account_id
        with self._unknown_first(request, id):
            outcome = CallNote.Outcome(read_body(TestCall, needed_body(request))["outcome"])
        simulation.call(id, outcome, account_id=account_id)
        return self._detail(account_id, id)

    @schema.describe(
        "Ship a test order", answers=_ANSWERS, shown=_shown(Status.CONFIRMED, Status.SHIPPED), errors=(404, 422)
    )
    def ship(self, request: Request, id: UUID) -> Response:
        """Acts as a courier who has fetched the parcel."""
        return self._move("ship", request, id)

    @schema.describe(
        "Deliver a test order",
        answers=_ANSWERS,
        shown=_shown(Status.CONFIRMED, Status.SHIPPED, Status.DELIVERED),
        errors=(404, 422),
    )
    def deliver(self, request: Request, id: UUID) -> Response:
        """Acts as a courier whom the customer has paid."""
        return self._move("deliver", request, id)

    @schema.describe(
        "Return a test order",
        answers=_ANSWERS,
        shown=_shown(Status.CONFIRMED, Status.SHIPPED, Status.RETURNED),
        errors=(404, 422),
    )
    def return_order(self, request: Request, id: UUID) -> Response:
        """Acts as a courier who brings the parcel back."""
        return self._move("return", request, id)

    def _unknown_first(self, request: Request, id: UUID) -> AbstractContextManager[None]:
        return unknown_first(Order.objects.filter(account_id=request.auth.account_id, id=id))

    def _move(self, name: str, request: Request, id: UUID, **details: str) -> Response:
        simulation.move(name, id, account_id=request.auth.account_id, **details)
        return self._detail(request.auth.account_id, id)

    def _detail(self, account_id: UUID, id: UUID) -> Response:
        return Response(bodies.detail(reading.read(account_id, id)))
