"""Web servers behind a proxy restart one after the other while shops import: no request fails or is done twice."""

import http.client
import json
import threading
import time
from contextlib import ExitStack
from itertools import count, cycle

import pytest

from orders.models import Order
from tests.factories import AccountFactory, order_body
from tests.harness.background import PATIENCE, Background
from tests.harness.client import new_key
from tests.harness.processes import free_port
from tests.harness.service import running_service

pytestmark = [pytest.mark.hosts, pytest.mark.django_db(transaction=True)]

DEPLOYS = 10
SHOPS = 4


class Proxy:
    """A proxy over two web servers in turn. It skips one that takes no connection, and sends nothing twice."""

    def __init__(self, ports: list[int], key: str) -> None:
        self.turns, self.headers = cycle(ports), {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}

    def post(self, body: bytes) -> int:
        for _ in range(20):
            web = http.client.HTTPConnection("127.0.0.1", next(self.turns), timeout=PATIENCE)
            try:
                web.connect()
            except ConnectionRefusedError:
                time.sleep(0.01)
                continue
            web.request("POST", "/api/v1/orders", body, self.headers)
            response = web.getresponse()
            response.read()
            web.close()
            return response.status
        raise AssertionError("no web takes connections")


def test_no_request_fails_while_webs_are_restarted_one_after_the_other(tmp_path):
    key = new_key(AccountFactory(rate_limit=1_000_000))
    ports, numbers, stop = [free_port(), free_port()], count(), threading.Event()

    def shop(_number):
        proxy, answers = Proxy(ports, key), {}
        while not stop.is_set():
            name = f"order-{next(numbers)}"
            try:
                answers[name] = proxy.post(json.dumps(order_body(external_id=name)).encode())
            except OSError as error:
                answers[name] = repr(error)
        return answers

    with ExitStack() as webs:
        running = []
        for port in ports:
            running.append(webs.enter_context(ExitStack()))
            running[-1].enter_context(running_service(tmp_path / f"{port}.log", PORT=str(port)))
        shops = [Background(lambda number=number: shop(number)) for number in range(SHOPS)]
        time.sleep(1)
        for deploy in range(DEPLOYS):
            port, web = ports[deploy % 2], running[deploy % 2]
            web.close()
            time.sleep(0.5)  # all requests go to the other
            web.enter_context(running_service(tmp_path / f"{port}-{deploy}.log", PORT=str(port)))
        stop.set()
        answers = {name: status for each in shops for name, status in each.result().items()}

    assert {name: status for name, status in answers.items() if status != 201} == {}
    assert len(answers) > 100 * DEPLOYS
    assert set(Order.objects.values_list("external_id", flat=True)) == set(answers)
