"""Whatever Redis does, the API serves. When Redis is back, requests are counted again."""

import pytest

from tests.factories import AccountFactory, order_body
from tests.harness.background import at_once, eventually
from tests.harness.broker import moving_address, running_broker
from tests.harness.client import new_key
from tests.harness.service import running_service

ORDERS = "/api/v1/orders"
pytestmark = pytest.mark.django_db(transaction=True)


def test_a_redis_that_refuses_forgets_hangs_or_dies_fails_no_request(tmp_path):
    key = new_key(AccountFactory(rate_limit=1000))
    with (
        running_broker(tmp_path / "broker") as broker,
        running_broker(tmp_path / "other") as other,
        moving_address() as (url, lead_to),
        running_service(tmp_path / "log", REDIS_URL=url, DJANGO_SETTINGS_MODULE="codservice.settings") as service,
    ):
        lead_to(broker)

        def statuses():
            """Yield the statuses of a shop's calls, several times, so that each web process gets some."""
            for _ in range(5):
                order = service.send("POST", ORDERS, order_body(), key=key)
                yield order.status
                yield service.send("GET", ORDERS, key=key).status
                yield service.send("GET", f"{ORDERS}/{order.json()['id']}", key=key).status
                yield service.send("POST", f"{ORDERS}/{order.json()['id']}/cancel", key=key).status
                yield service.send("GET", ORDERS).status  # a stranger

        def is_counted():
            """By each thread of each process: calls one after the other would go to the same one."""
            answers = at_once(12, lambda _: service.send("GET", ORDERS, key=key))
            return all(int(answer.headers["X-RateLimit-Remaining"]) < 1000 for answer in answers)

        served = [201, 200, 200, 200, 401] * 5
        assert list(statuses()) == served
        for why in ("replica", "full"):
            broker.refuse(why)
            assert list(statuses()) == served
            broker.accept()
            eventually(is_counted)
        broker.client.flushall()
        assert list(statuses()) == served
        broker.hang()
        assert list(statuses()) == served
        broker.go_on()
        eventually(is_counted)
        broker.refuse("replica")
        lead_to(other)
        eventually(is_counted)
        assert [service.send("GET", "/readyz").json()["broker"] for _ in range(5)] == ["ok"] * 5
        other.client.shutdown(nosave=True)
        assert list(statuses()) == served
