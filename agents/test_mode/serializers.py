from typing import Any

from rest_framework import serializers

from agents.test_mode.simulation import OUTCOMES
from codservice.api.fields import Word, read_body
from orders.models import CallNote


class TestCall(serializers.Serializer):
    outcome = Word(choices=OUTCOMES)


def read_call(body: dict[str, Any]) -> CallNote.Outcome:
    """The outcome in the body of a call. Raises Invalid."""
    return CallNote.Outcome(read_body(TestCall, body)["outcome"])
