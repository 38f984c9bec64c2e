"""Checks whether something has become much slower: a short look at each ratio, in under two minutes.

    make bench-smoke

Exits with 1 if a ratio is below two thirds of its figure in FIGURES or, where less is better, above one and a half
times it. Such a ratio is measured again and longer first, as the machine may just have had other work.
"""

import json
import sys
from collections.abc import Callable

from benchmarks import command_line, deliveries, orders, service

# Figures of longer runs. Those of time are the low end of what the runs showed beside other work.
FIGURES = {"import_vs_pgbench": 0.2, "list_100k_vs_1k": 1.1, "vs_bare_client": 0.5, "statements_per_delivery": 0.01}
LESS_IS_BETTER = {"list_100k_vs_1k", "statements_per_delivery"}
TURNS = (2, 4)  # of the first look, and of the second


def main() -> int:
    command_line(__doc__).parse_args()
    with service.running() as running:
        result = look(lambda turns: orders.import_against_pgbench(running, turns, seconds=3, name=f"import{turns}"))
    result |= look(list_when_it_grows)
    with service.storage() as storage, deliveries.receiver() as fast:
        bench = deliveries.Bench(storage.data_dir)
        webhooks = bench.webhooks(fast, deliveries.HEALTHY_WEBHOOKS)
        result |= look(lambda turns: deliveries.against_bare_client(bench, webhooks, fast, 10_000, turns))
    wrong = slower(result)
    for name in wrong:
        print(f"{name} is {result[name]}: much worse than {FIGURES[name]}", file=sys.stderr)
    print(json.dumps({name: result[name] for name in FIGURES}))
    return int(bool(wrong))


def list_when_it_grows(turns: int) -> dict[str, float]:
    grown = orders.list_when_it_grows(few=1_000, many=100_000, seconds=turns * 0.3, accounts=4)
    return {"list_100k_vs_1k": grown["list_1m_vs_10k"]}


def look(measure: Callable[[int], dict[str, float]]) -> dict[str, float]:
    """The result of `measure` with few turns, or with more if that is slower than it was."""
    for turns in TURNS:
        result = measure(turns)
        if not slower(result):
            break
    return result


def slower(result: dict[str, float]) -> list[str]:
    """The names of the figures that are much worse than they were."""
    return [
        name
        for name, figure in FIGURES.items()
        if name in result and (result[name] > figure * 1.5 if name in LESS_IS_BETTER else result[name] < figure * 2 / 3)
    ]


if __name__ == "__main__":
    sys.exit(main())
