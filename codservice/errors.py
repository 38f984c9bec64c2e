"""Refusals: a business rule said no. Rule modules raise them, worded for the people who read them."""

from collections.abc import Callable
from typing import Any

Errors = dict[str, list[str]]  # sentences by the dotted path of the field that is wrong: `items.0.quantity`


class Refused(Exception):
    """A business rule said no, and nothing was changed.

    `code` is the API's short code and `status` the HTTP status (docs/errors.md); `message` is a sentence for people. A
    class that has only one says it itself, by `gettext_lazy`: whoever is refused reads it in their language. The API
    turns it into an error body, the console into a message, a command into a line. In the API a 422 also has `errors`:
    the message, under the field that is `in_the_way`. With 429 and 503 it says to `wait` so many seconds.
    """

    code = "refused"
    status = 422
    wait = 1
    in_the_way = "status"
    message: Any  # of a class: text, or lazy text; of an instance: text

    def __init__(self, message: str = "") -> None:
        self.message = message or str(self.message)
        super().__init__(self.message)

    def by_field(self, otherwise: str) -> Errors:
        """Return its sentences by the field that they are about: the message under `otherwise` if it names no field."""
        return {otherwise: [self.message]}


class Invalid(Refused):
    """Some fields cannot be used: `errors` says which and why."""

    code = "validation_failed"
    message = "Some fields cannot be used. `errors` says which and why."

    def __init__(self, errors: Errors) -> None:
        super().__init__()
        self.errors = errors

    def by_field(self, otherwise: str) -> Errors:
        return self.errors


def read_all(*reads: Callable[[], Any]) -> list[Any]:
    """Return the results of all `reads`. If some raise Invalid, raise one Invalid with all their problems."""
    results, errors = [], {}
    for read in reads:
        try:
            results.append(read())
        except Invalid as error:
            errors.update(error.errors)
    if errors:
        raise Invalid(errors)
    return results


class CannotStart(Exception):
    """The service cannot start. The message is one sentence for the person at the terminal."""
