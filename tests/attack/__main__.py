"""Starts the whole service and attacks it with public lists and tools: `make attack`.

    python -m tests.attack [JUDGE …]

Each tool must also find the faults of `planted.py`: a tool that finds none there is blind, which is a finding too.
Reports what each found, and at the end prints a table and the same as one line of JSON. Exits with 1 if anything was
found.
"""

import json
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from typing import Any

import yaml

from tests.attack import judges, lists, pages, repository
from tests.attack.judges import Said
from tests.attack.repository import NOT_TRIED
from tests.attack.target import Target, attacked_service, many, planted_faults


@dataclass
class Row:
    judge: str
    tried: str
    found: list[str]
    seconds: float


def every_place(target: Target, seconds: float = 1800) -> Said:
    """Both lists, completely and in every place of the API, unless a very slow machine runs out of time."""
    attack = lists.Attack(target.call, **target.ids)
    count, found = many(attack, lists.cases(yaml.safe_load(target.send("GET", "/api/schema")[1])), seconds)
    return f"{count} requests", found


def texts_on_pages(target: Target) -> Said:
    count, found = pages.shown_texts(target)
    return f"{count} orders, their pages in both rooms", found


def heavy_bodies(target: Target) -> Said:
    """The most expensive bodies, fifty at once, while somebody reads."""

    def order_of(items: list[dict[str, Any]]) -> dict[str, Any]:
        return {**lists.ORDER, "items": items}

    bodies = [
        json.dumps(order_of([{}] * 200_000)),
        json.dumps(order_of([lists.LINE | {"product_name": "x" * 9_000}] * 100)),
        json.dumps(order_of([lists.LINE | {"attributes": {str(n): "" for n in range(60_000)}}])),
        json.dumps(order_of([lists.LINE | {"attributes": {str(n): "x" * 200 for n in range(20)}}] * 100)),
        '{"a":' + "[" * 500_000,
        '{"a":' + "1" * 1_000_000 + "}",
    ]
    kind = {"Content-Type": "application/json"}

    def read() -> float:
        started = time.monotonic()
        status, _ = target.call("GET", "/api/v1/orders?per_page=20", b"", {})
        return time.monotonic() - started if status == 200 else 99.0

    def send(number: int) -> int:
        return target.call("POST", "/api/v1/orders", bodies[number % len(bodies)].encode(), kind)[0]

    alone = sorted(read() for _ in range(100))
    started, waits = time.monotonic(), []
    with ThreadPoolExecutor(50) as pool:
        senders = [pool.submit(send, number) for number in range(50)]
        while not all(each.done() for each in senders):
            waits.append(read())
    seconds = time.monotonic() - started
    statuses = [each.result() for each in senders]
    found = [f"a body is answered {status}" for status in statuses if status >= 500 and status != 503]
    found += ["a reader is not answered"] * (max(waits) >= 99)
    return (
        f"50 bodies in {seconds:.1f} s; a reader waits {alone[50] * 1000:.0f} ms before, at most "
        f"{max(waits) * 1000:.0f} ms meanwhile"
    ), found


OF_OURS: dict[str, Callable[[Target], Said]] = {
    "lists: every place of the API": every_place,
    "lists: texts on pages": texts_on_pages,
    "lists: parameters of pages": pages.parameters,
    "heavy bodies": heavy_bodies,
}
# By name: the attack on the service, and the same attack on the planted faults.
OF_OTHERS: dict[str, tuple[Callable[[Target], Said], Callable[[Target], Said]]] = {
    "schemathesis": (judges.schemathesis, lambda planted: judges.schemathesis(planted, examples=10, seconds=10)),
    "sqlmap": (judges.sqlmap, judges.sqlmap),
    "wapiti": (judges.wapiti, lambda planted: judges.wapiti(planted, seconds=20)),
    "ffuf": (judges.ffuf, judges.ffuf),
    "slowhttptest": (judges.slowhttptest, lambda planted: judges.slowhttptest(planted, seconds=5, connections=20)),
}
# It crawls and posts every form. On a service of its own it finds few rows of each kind, and revokes no key that other
# attacks need.
ALONE = "wapiti"
OF_FILES: dict[str, tuple[Callable[[], Said], Callable[[], Said] | None]] = {
    "bandit": (repository.bandit, lambda: repository.bandit(["tests/attack/planted.py"])),
    "detect-secrets": (repository.secrets, None),  # test_repository.py shows that it finds one
    "newest pins": (repository.pins, lambda: repository.pins(repository.OLD)),
    "pip-audit": (repository.advisories, None),  # tests itself
}


def tried(judge: str, call: Callable[[], Said], blind: Callable[[], Said] | None) -> Row:
    started = time.monotonic()
    print(f"  {judge} …", file=sys.stderr, flush=True)
    try:
        said, found = call()
        if said.startswith("0 "):
            found = [*found, "tried nothing"]
        if blind and not said.startswith(NOT_TRIED) and not blind()[1]:
            found = [*found, "found nothing in planted faults either: it sees nothing"]
    except (AssertionError, OSError, ValueError, KeyError) as error:  # a judge without a report has not judged
        said, found = "", [f"broke off: {error!r}"]
    print(f"  {judge}: {said}", *found[:50], sep="\n    ", file=sys.stderr, flush=True)
    return Row(judge, said, found, round(time.monotonic() - started, 1))


def rows(wanted: list[str]) -> list[Row]:
    def is_wanted(judge: str) -> bool:
        return not wanted or any(word in judge for word in wanted)

    done = [tried(judge, *calls) for judge, calls in OF_FILES.items() if is_wanted(judge)]
    with attacked_service() as target, planted_faults() as (planted, one_by_one):
        for judge, call in OF_OURS.items():
            if is_wanted(judge):
                done.append(tried(judge, lambda call=call: call(target), None))
        for judge, (call, blind) in OF_OTHERS.items():
            if is_wanted(judge):
                with attacked_service(few=True) if judge == ALONE else nullcontext(target) as attacked:
                    done.append(
                        tried(
                            judge,
                            lambda call=call, attacked=attacked: call(attacked),
                            lambda judge=judge, blind=blind: blind(one_by_one if "slow" in judge else planted),
                        )
                    )
    return done


def main(wanted: list[str]) -> int:
    done = rows(wanted)
    for row in done:
        print(f"{row.judge:32} {len(row.found):4} found  {row.seconds:6.0f} s  {row.tried}")
    print(json.dumps([asdict(row) for row in done], ensure_ascii=False))
    return int(any(row.found for row in done))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
