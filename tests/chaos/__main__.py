"""A long run: `python -m tests.chaos --seed 1 --minutes 12`. Reports its progress, and at the end figures, as JSON too.

Exits with 1 if a promise was broken. The same seed gives the same plan of faults and the same dice to shops and agents;
how these meet depends on the machine.
"""

import argparse
import json
import os
import secrets
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.harness.processes import CHECKOUT

from .checker import check, figures
from .faults import BY_NAME, make_plan, named
from .plants import PLANTS
from .record import Row
from .run import Run, Settings

SHOWN = 10  # breaches of a rule


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6))
    parser.add_argument("--minutes", type=float, default=12.0, help="of load and faults (default: %(default)s)")
    parser.add_argument("--rate", type=float, default=70.0, help="changes a second (default: %(default)s)")
    parser.add_argument("--kills", type=float, default=9.0, help="a minute, other faults beside (default: %(default)s)")
    parser.add_argument("--fault", choices=BY_NAME, action="append", help="these faults alone, in this order")
    parser.add_argument("--plant", choices=PLANTS, action="append", default=[], help="break a promise, to see it found")
    parser.add_argument("--json", type=Path, default=Path("chaos.json"), help="where the figures go (%(default)s)")
    parser.add_argument("--write", action="store_true", help="put the figures into docs/reliability.md")
    given = parser.parse_args()
    plan = named(*given.fault) if given.fault else make_plan(given.seed, round(given.kills * given.minutes))
    say(f"seed {given.seed}: {given.minutes:g} minutes, {len(plan)} faults, {given.rate:g} changes a second")
    folder = Path(tempfile.mkdtemp(prefix="codservice-chaos-"))
    say(f"the service's output is in {folder}")
    plants = [PLANTS[name][0] for name in given.plant]
    record = Run(Settings(given.seed, given.minutes * 60, plan, given.rate, say, plants), folder).carry_out()
    breaches = check(record)
    found = {"seed": given.seed, "minutes": given.minutes, **figures(record, breaches)}
    shown: Counter[str] = Counter()
    for breach in breaches:
        shown[breach.rule] += 1
        if shown[breach.rule] <= SHOWN:
            print(f"{breach.rule}: {breach.what}")
    for name, value in found.items():
        print(f"{name:44}{json.dumps(value, ensure_ascii=False)}")
    given.json.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n")
    if given.write:
        write(found)
    print("broken" if breaches else "every promise was kept")
    return 1 if breaches else 0


def write(found: Row) -> None:
    """Write the figures to the section of the last long run."""
    page = CHECKOUT / "docs/reliability.md"
    rows = []
    for name, value in found.items():
        parts = value.items() if isinstance(value, dict) else [("", value)]
        told = ", ".join(f"{part} {said(number)}".strip() for part, number in parts) or "none"
        rows.append(f"| {name} | {told} |")
    before, heading, rest = page.read_text(encoding="utf-8").partition("## The last long run\n")
    table = "\n".join(["| | |", "|---|---|", *rows])
    command = f"make chaos SEED={found['seed']} MINUTES={found['minutes']:g}"
    section = (
        f"\n`{command}`, {time.strftime('%Y-%m-%d')}, on a machine with {os.cpu_count()} processors:\n\n{table}\n\n"
    )
    page.write_text(before + heading + section + rest[rest.index("## ") :], encoding="utf-8")


def said(value: Any) -> str:
    if isinstance(value, list):
        return " and ".join(map(said, value))
    return f"{value:,}".replace(",", " ") if isinstance(value, int) else str(value)


def say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
