from typing import Any

from rest_framework import serializers

from agents.rehearsal.playing import OUTCOMES
from codservice.api.error_answers import flatten
from codservice.api.fields import Strict
from codservice.errors import Invalid
from orders.models import CallNote


class OutcomeField(Strict, serializers.CharField):
    openapi = {"type": "string", "enum": [str(outcome) for outcome in OUTCOMES]}

    def clean(self, data: Any) -> CallNote.Outcome:
        if data not in OUTCOMES:
            raise ValueError(f"Must be one of {', '.join(OUTCOMES)}.")
        return CallNote.Outcome(data)


class TestCall(serializers.Serializer):
    outcome = OutcomeField()


_CALL = TestCall()


def read_call(body: dict[str, Any]) -> CallNote.Outcome:
    """The outcome in the body of a call. Raises Invalid."""
    try:
        return _CALL.run_validation(body)["outcome"]
    except serializers.ValidationError as error:
        raise Invalid(flatten(error.detail)) from None
