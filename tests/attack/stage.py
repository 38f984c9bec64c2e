"""Fills the database of a service with people, orders and all that pages show: `python -m tests.attack.stage [few]`.

Prints as JSON what attackers get: an API key without a rate limit, ids, the cookies of people who are signed in, and
each page of the URL configuration, with ids of what exists. Sessions are made here, because logins are limited.
"""

import json
import os
import sys
from typing import Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "codservice.settings")
django.setup()

from django.conf import settings  # noqa: E402
from django.test import Client  # noqa: E402

from agents.desk import claims  # noqa: E402
from codservice.accounts.models import ApiKey  # noqa: E402
from inventory.models import Product  # noqa: E402
from tests import factories  # noqa: E402
from tests.attack import lists  # noqa: E402
from tests.harness.addresses import addresses  # noqa: E402
from tests.harness.deliveries import write_delivery  # noqa: E402
from webhooks import registry  # noqa: E402
from webhooks.models import Event  # noqa: E402

NO_PAGES = ("/api/", "/i18n/")
ENDS_THE_SESSION = "logout"


def build(texts: list[str], last: int) -> dict[str, Any]:
    """Make all of it. `texts` become names and SKUs of products; `last` is the end of the last order's phone number."""
    account = factories.AccountFactory(name="Alice's shop", rate_limit=100_000_000)
    names = {lists.kept(text)[:64].strip() for text in texts} - {""}
    Product.objects.bulk_create([Product(account=account, sku=name, name=name, price=1) for name in sorted(names)])
    products = [factories.ProductFactory(account=account) for _ in range(3)]
    people = {
        "agent": factories.AgentFactory(username="samira"),
        "supervisor": factories.AgentFactory(username="karim", role="Supervisors"),
        "operator": factories.UserFactory(is_staff=True, is_superuser=True),
        "holder": account.holder,
    }
    _, secret = ApiKey.issue(account, name="Shop")
    orders = [factories.make_order(account, phone=f"05501234{number}") for number in range(10, last + 1)]
    webhook, _ = registry.register(account.id, url="https://receiver.invalid/", events=Event.Kind.values)
    told = Event.objects.filter(account=account)[0]
    delivery = write_delivery(webhook, "failed", attempts=4, kind=told.kind, body=told.body)
    claims.take(orders[0].id, agent=people["agent"])
    ids = {"orders": orders[1].id, "webhooks": webhook.id, "deliveries": delivery.id}
    cookies = {"": ""}
    for name, person in people.items():
        client = Client()
        client.force_login(person)
        cookies[name] = f"{settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}"
    paths = sorted({path for address in addresses() for path in address.some_paths()})
    paths = [path for path in paths if not path.startswith(NO_PAGES) and ENDS_THE_SESSION not in path]
    return {
        "key": secret,
        "ids": {name: str(value) for name, value in ids.items()},
        "products": [(str(product.id), product.sku) for product in products],
        "people": cookies,
        "pages": [(who, path) for path in paths for who in ("", "agent", "supervisor", "operator", "holder")],
    }


if __name__ == "__main__":
    print(json.dumps(build([], 11) if "few" in sys.argv else build(lists.naughty_strings(), 39)))
