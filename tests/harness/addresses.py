"""Every address of the service, from the URL configuration, so that tests of all addresses include new ones."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from django.contrib.auth.models import Group
from django.db.models import Model
from django.urls import URLPattern, URLResolver, get_resolver

from agents.models import Claim
from codservice.accounts.models import Account, ApiKey, Invitation, Membership, SecurityEntry, SignIn, User
from codservice.uploads.models import Upload
from inventory.models import Product
from orders.models import Order
from webhooks.models import Attempt, Delivery, Event, Webhook

# The model whose id follows a word of a path. A new word needs a row here.
IDS: dict[str, type[Model]] = {
    "orders": Order, "order": Order, "take": Order, "edit": Order, "desk": Claim, "products": Product,
    "webhooks": Webhook, "webhook": Webhook, "deliveries": Delivery, "delivery": Delivery, "event": Event,
    "attempt": Attempt, "keys": ApiKey, "apikey": ApiKey, "rules": Account, "account": Account, "people": User,
    "user": User, "group": Group, "securityentry": SecurityEntry,
    "team": Membership, "invitations": Invitation, "sessions": SignIn, "uploads": Upload,
}  # fmt: skip
# Values for parameters of paths that are not ids.
OTHERS = {"uidb64": ["x"], "token": ["y"], "name": ["orders", "nothing"]}
_PARAMETER = re.compile(r"<(?:\w+:)?(\w+)>")
_CHOICE = re.compile(r"\^\(\?P<\w+>([\w|]+)\)/\$")  # a choice of words, as in Django's admin


@dataclass(frozen=True, order=True)
class Address:
    """An address. `name` is what `reverse` takes, or the route if it has no name. Parameters are in angle brackets."""

    name: str
    route: str
    callback: Any = None

    @property
    def is_api(self) -> bool:
        return self.route.startswith("/api/v1/")

    @property
    def parameters(self) -> list[str]:
        return _PARAMETER.findall(self.route)

    @property
    def methods(self) -> set[str]:
        """The methods that a view of the API answers."""
        return {method.upper() for method in getattr(self.callback, "actions", None) or ()}

    @property
    def words(self) -> list[str]:
        """For each parameter, the word of the path before it."""
        places = re.split(r"<(?:\w+:)?\w+>", self.route)
        return [place.rstrip("/").rpartition("/")[2] for place in places[:-1]]

    @property
    def named(self) -> set[type[Model]]:
        """The tables whose ids are its parameters."""
        return {IDS[word] for word in self.words if word in IDS}

    def with_values(self, *values: str) -> str:
        left = iter(values)
        return _PARAMETER.sub(lambda _match: next(left), self.route)

    def paths(self) -> list[str]:
        """The paths for all rows of the tables that the parameters name."""
        values = [_values(word, name) for word, name in zip(self.words, self.parameters, strict=True)]
        return [self.with_values(*chosen) for chosen in product(*values)]

    def some_paths(self) -> list[str]:
        """Nine paths, enough for one merchant's order in each state; two of Django's own pages, which are all alike."""
        return self.paths()[: 2 if "object_id" in self.parameters else 9]


def _values(word: str, parameter: str) -> list[str]:
    if word in IDS:
        return [str(key) for key in IDS[word].objects.order_by("pk").values_list("pk", flat=True)]
    assert parameter in OTHERS, f"IDS must say whose ids stand behind {word!r}, for the parameter {parameter!r}"
    return OTHERS[parameter]


def addresses() -> list[Address]:
    return sorted(_below(get_resolver().url_patterns), key=lambda address: (address.route, address.name))


def _below(patterns: list[Any], prefix: str = "/", space: str = "") -> Iterator[Address]:
    for pattern in patterns:
        route = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from _below(pattern.url_patterns, route, f"{pattern.namespace}:" if pattern.namespace else space)
        elif isinstance(pattern, URLPattern):
            for each in _written_out(route):
                yield Address(space + pattern.name if pattern.name else each, each, pattern.callback)


def _written_out(route: str) -> list[str]:
    choice = _CHOICE.search(route)
    return [_CHOICE.sub(f"{word}/", route) for word in choice[1].split("|")] if choice else [route]
