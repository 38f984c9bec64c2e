"""How fast orders are imported, beside what others would build.

    make bench-order-peers

Beside an idiomatic DRF version of the same import: nested ModelSerializers, the ORM, DRF's throttle on Redis, a query
for the API key. It takes the same bodies of the same clients, writes orders, lines and history, and nothing of what
our import also does: no event, no deliveries, no communes.

It is served as our service is, by granian with two processes of two threads, on a database of its own in the same
PostgreSQL, and measured in turns with it; ratios are medians of the turns.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

from benchmarks import load, service
from benchmarks.orders import CLIENTS, SECONDS, TURNS, imports, psql
from benchmarks.seeing import PRODUCTION
from codservice import data_folder

PROJECTS = Path(__file__).resolve().parent / "projects"
Turn = Callable[[float], float]  # orders per second, over so many seconds


def main(turns: int = TURNS, seconds: float = SECONDS) -> None:
    with (
        open(os.devnull, "w") as log,
        service.running(stderr=log, **PRODUCTION) as running,
        idiomatic(running.environ) as drf,
    ):
        rates = in_turns({"ours": ours(running), "idiomatic DRF": drf}, turns, seconds)
    print(
        json.dumps(
            {
                "imports_per_second": round(statistics.median(rates["ours"])),
                "vs_idiomatic_drf": ratio(rates["ours"], rates["idiomatic DRF"]),
            }
        )
    )


def in_turns(of: dict[str, Turn], turns: int, seconds: float) -> dict[str, list[float]]:
    """The rates of each, after a short turn that does not count."""
    for turn in of.values():
        turn(2)
    rates: dict[str, list[float]] = {name: [] for name in of}
    for number in range(turns):
        for name, turn in of.items():
            rates[name].append(turn(seconds))
        print(f"turn {number + 1}:", "   ".join(f"{name} {rate[-1]:6.1f}/s" for name, rate in rates.items()))
    return rates


def ratio(ours: list[float], theirs: list[float]) -> float:
    return round(statistics.median(a / b for a, b in zip(ours, theirs, strict=True)), 2)


def ours(running: service.Service) -> Turn:
    return imported(running.url, running.make_key("import"))


@contextmanager
def idiomatic(environ: dict[str, str]) -> Iterator[Turn]:
    with served("idiomatic", environ) as (url, key):
        yield imported(url, key)


def imported(url: str, key: str) -> Turn:
    """The import by `CLIENTS` clients; each order is to be answered with 201."""
    orders = f"{url}/api/v1/orders"

    def turn(seconds: float) -> float:
        done = load.drive(orders, lambda client: imports(orders, key, client), clients=CLIENTS, seconds=seconds)
        if set(done.statuses) != {201}:
            raise SystemExit(f"Not every import was answered with 201: {dict(done.statuses)}")
        return done.rate

    return turn


@contextmanager
def served(peer: str, environ: dict[str, str], python: str = sys.executable) -> Iterator[tuple[str, str]]:
    """A project of `projects` on a new database beside ours: its address, and what its `fill` prints."""
    data_dir = Path(environ["DATA_DIR"])
    database, name = data_folder.database_url(data_dir), f"peer_{peer}"
    port = service.free_port()
    url = f"http://127.0.0.1:{port}"
    variables = environ | {
        "DJANGO_SETTINGS_MODULE": f"{peer}.settings",
        "PEER_DATABASE_URL": f"{database.rsplit('/', 1)[0]}/{name}",
        "PEER_REDIS_URL": data_folder.redis_url(data_dir).replace("?db=0", "?db=9"),
        "PEER_URL": url,
    }
    psql(database, f"CREATE DATABASE {name}")

    def run(*arguments: str) -> str:
        return subprocess.run(
            [python, "-m", *arguments], cwd=PROJECTS, env=variables, check=True, stdout=subprocess.PIPE, text=True
        ).stdout.strip()

    run("django", "migrate", "--run-syncdb", "-v0")
    filled = run("django", "shell", "-v0", "-c", f"import {peer}.fill")
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
    """Until it answers, whatever it answers."""
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
