"""The table of what was tried, with results, and how a step says that something is not as promised."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime

from tests.containers.engine import Failed


class Wrong(Exception):
    """Something is not as promised."""


@dataclass
class Table:
    """What was tried, how long it took, and the results."""

    rows: list[tuple[str, float, str, bool]] = field(default_factory=list)

    @contextmanager
    def row(self, tried: str) -> Iterator[list[str]]:
        """Add a row with what the block appends to the list. An exception becomes part of it, and the run goes on."""
        said: list[str] = []
        began, is_well = time.monotonic(), True
        try:
            yield said
        except (Failed, Wrong, AssertionError, OSError, ValueError, KeyError, IndexError, TypeError) as error:
            is_well = False
            said.append(f"{type(error).__name__}: {error}")
        seconds = time.monotonic() - began
        self.rows.append((tried, seconds, "; ".join(said), is_well))
        print(
            f"{datetime.now():%H:%M:%S} {'  ' if is_well else '!!'} {seconds:6.1f} s  {tried}: {'; '.join(said)}",
            flush=True,
        )

    def print(self) -> None:
        print("\n| tried | seconds | |\n|---|---|---|")
        for tried, seconds, said, is_well in self.rows:
            first = said.splitlines()[0] if said else "" if is_well else "failed"
            print(f"| {tried} | {seconds:.1f} | {'' if is_well else '**no** '}{first} |")


def expect(is_so: object, sentence: str) -> None:
    if not is_so:
        raise Wrong(sentence)
