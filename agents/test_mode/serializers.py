from typing import Any

from rest_framework import serializers

from agents.test_mode.simulation import OUTCOMES
from codservice.api.fields import Strict, read_body
from orders.models import CallNote


class OutcomeField(Strict, serializers.CharField):
    openapi = {"type": "string", "enum": [str(outcome) for outcome in OUTCOMES]}

    def clean(self, data: Any) -> CallNote.Outcome:
        if data not in OUTCOMES:
            raise ValueError(f"Must be one of {', '.join(OUTCOMES)}.")
        return CallNote.Outcome(data)


class TestCall(serializers.Serializer):
    outcome = OutcomeField()


def read_call(body: dict[str, Any]) -> CallNote.Outcome:
    """The outcome in the body of a call. Raises Invalid."""
    return read_body(TestCall, body)["outcome"]
