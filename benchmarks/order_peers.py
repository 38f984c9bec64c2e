"""How fast orders are imported, beside what others would build.

    make bench-order-peers

- The same import as an idiomatic DRF project (`projects/idiomatic`): nested ModelSerializers, the ORM, DRF's throttle
  on Redis, a query for the API key. It takes the same bodies from the same clients and writes orders, lines and
  history, but no events, deliveries or communes as our import does.
- django-oscar with django-oscar-api, set up by their documentation (`projects/shop`). An order is three requests of a
  guest: two products into a basket, and the checkout. It also looks for offers and vouchers and counts what is bought,
  but need not count stock, keep the shop's own number or charge for the delivery.

Both are served like our service, by granian with two processes of two threads, with databases of their own in the same
PostgreSQL. They take turns with it, and ratios are medians of the turns.
"""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import urlopen

from benchmarks import command_line, service
from benchmarks.orders import SECONDS, TURNS, bodies, importing
from benchmarks.peers import python_with
from benchmarks.postgresql import CLIENTS
from codservice import data_folder
from tests.harness.processes import free_port

OSCAR = ("django-oscar==4.2.1", "django-oscar-api==3.3.0")
SHARED = ("Django", "djangorestframework", "psycopg", "psycopg-binary", "dj-database-url", "redis", "granian")
PROJECTS = Path(__file__).resolve().parent / "projects"
Turn = Callable[[float], float]  # seconds → orders per second


def main() -> None:
    command_line(__doc__).parse_args()
    with (
        service.running(**service.PRODUCTION) as running,
        idiomatic(running) as drf,
        oscar(running) as shop,
    ):
        ours = imported(running.url, running.merchant("import").key)
        rates = in_turns({"ours": ours, "idiomatic DRF": drf, "oscar": shop})
    result = {
        "imports_per_second": round(statistics.median(rates["ours"])),
        "vs_idiomatic_drf": ratio(rates["ours"], rates["idiomatic DRF"]),
        "vs_oscar": ratio(rates["ours"], rates["oscar"]),
    }
    print(json.dumps(result))


def in_turns(of: dict[str, Turn]) -> dict[str, list[float]]:
    """The rates of each in turns, after a short turn that does not count."""
    for turn in of.values():
        turn(2)
    rates: dict[str, list[float]] = {name: [] for name in of}
    for number in range(TURNS):
        for name, turn in of.items():
            rates[name].append(turn(SECONDS))
        print(f"turn {number + 1}:", "   ".join(f"{name} {rate[-1]:6.1f}/s" for name, rate in rates.items()))
    return rates


def ratio(ours: list[float], theirs: list[float]) -> float:
    return round(statistics.median(a / b for a, b in zip(ours, theirs, strict=True)), 2)


@contextmanager
def idiomatic(beside: service.Installation) -> Iterator[Turn]:
    with served("idiomatic", beside) as (url, key):
        yield imported(url, key)


def imported(url: str, key: str) -> Turn:
    turn = importing(f"{url}/api/v1/orders", key)
    return lambda seconds: turn(seconds).rate


@contextmanager
def oscar(beside: service.Installation) -> Iterator[Turn]:
    """django-oscar, in an environment of its own, with our versions of the packages that both use."""
    shared = (f"{name}=={version(name)}" for name in SHARED)
    with python_with(*OSCAR, *shared) as python, served("shop", beside, python) as (url, key):
        yield checked_out(url, key)


def checked_out(url: str, key: str) -> Turn:
    """The same orders from as many clients, each as the requests of `check_out`."""

    def turn(seconds: float) -> float:
        began = time.perf_counter()
        with ThreadPoolExecutor(CLIENTS) as clients:
            counts = clients.map(lambda client: check_out(url, key, client, began + seconds), range(CLIENTS))
        return sum(counts) / (time.perf_counter() - began)

    return turn


def check_out(url: str, key: str, client: int, end: float) -> int:
    """Fill baskets as a guest and check them out, one after the other until `end`. Returns how many."""
    host = urlsplit(url).netloc
    connection = HTTPConnection(host)
    session = f"SID:ANON:{host.partition(':')[0]}:{client}"
    headers = {"Authorization": key, "Session-Id": session, "Content-Type": "application/json"}

    def post(path: str, body: dict[str, Any]) -> dict[str, Any]:
        connection.request("POST", f"/api/{path}/", json.dumps(body), headers)
        with connection.getresponse() as answer:
            text = answer.read()
        if answer.status != 200:
            raise SystemExit(f"{path} was answered with {answer.status}: {text[:500]!r}")
        return json.loads(text)

    count = 0
    with closing(connection):
        for order in bodies(client):
            if time.perf_counter() >= end:
                return count
            for number, item in enumerate(order["items"], start=2 * client + 1):
                basket = post("basket/add-product", {"url": f"/api/products/{number}/", "quantity": item["quantity"]})
            first, last = order["customer_name"].split()
            address = {
                "first_name": first,
                "last_name": last,
                "phone_number": order["customer_phone"],
                "line1": order["customer_address"],
                "line4": order["customer_commune"],
                "state": order["customer_wilaya"],
                "postcode": "16000",
                "country": "/api/countries/DZ/",
            }
            checkout = {"basket": basket["url"], "guest_email": "guest@example.dz", "shipping_address": address}
            post("checkout", checkout)
            count += 1
    return count


@contextmanager
def served(peer: str, beside: service.Installation, python: str = sys.executable) -> Iterator[tuple[str, str]]:
    """Serve a project of `projects` with a new database beside ours. Yields its URL and what its `fill` prints."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    variables = beside.environ | {
        "DJANGO_SETTINGS_MODULE": f"{peer}.settings",
        "PEER_DATABASE_URL": beside.another_database(f"peer_{peer}"),
        "PEER_REDIS_URL": data_folder.redis_url(beside.data_dir).replace("?db=0", "?db=9"),
    }

    def django(*arguments: str) -> str:
        command = [python, "-W", "ignore", "-m", "django", *arguments, "-v0"]
        return subprocess.check_output(command, cwd=PROJECTS, env=variables, text=True).strip()

    django("migrate", "--run-syncdb")
    filled = django("shell", "-c", f"import {peer}.fill")
    process = subprocess.Popen(
        [
            *(python, "-m", "granian", "--interface", "wsgi", "--workers", "2", "--blocking-threads", "2"),
            *("--no-ws", "--log-level", "warning", "--port", str(port)),
            *("--factory", "django.core.wsgi:get_wsgi_application"),
        ],
        cwd=PROJECTS,
        env=variables,
    )
    try:
        _wait(url)
        yield url, filled
    finally:
        process.terminate()
        process.wait(30)


def _wait(url: str) -> None:
    """Wait until there is any answer."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            urlopen(url, timeout=30).close()
            return
        except HTTPError:
            return
        except OSError:
            time.sleep(0.1)
    raise SystemExit("The peer did not start.")


if __name__ == "__main__":
    main()
