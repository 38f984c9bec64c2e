"""Attempts that wait for the lookup of a name, and the addresses of known names for libcurl.

libcurl looks names up in threads too, but at most twenty: lookups that hang would make all others wait until they fail
as well. Here each name has one thread, however many attempts wait for it, and there may be many threads.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import urlsplit

from webhooks.resolver import KEPT, absolute, addresses_of
from webhooks.transfer import Transfer

AT_ONCE = 512  # threads, more than posts are under way; further names wait


class Lookups:
    """Holds attempts until their name has been looked up or their time is over.

    For use by one thread; `ring` is called in another when a lookup has ended. With `local_names`, names of our own
    domains are found too.
    """

    def __init__(self, ring: Callable[[], None], *, local_names: bool) -> None:
        self._ring = ring
        self._local_names = local_names
        self._held: dict[int, Transfer] = {}  # as they came: by deadline, apart from those that begin anew
        self._by_name: dict[str, list[Transfer]] = {}  # names whose lookup is under way or queued
        self._queued: deque[str] = deque()
        self._threads = 0
        self._answers: deque[tuple[str, list[str]]] = deque()
        # Both in the order of their times, so that the expired ones are in front.
        self._looked_up: dict[str, tuple[float, list[str]]] = {}  # when (`time.monotonic`), and the addresses
        self._told: dict[tuple[str, int], float] = {}  # when libcurl was told a name's addresses

    def __len__(self) -> int:
        return len(self._held)

    def addresses(self, transfer: Transfer) -> list[str] | None:
        """Return the addresses of the attempt's host, or the one that its URL has instead of a name.

        None means that it is held until the name has been looked up. Raises ValueError for a URL that cannot be parsed.
        """
        name, _ = _name_and_port(transfer.post.url)
        if not name:
            return [urlsplit(transfer.post.url).hostname or ""]
        if answer := self._known(name):
            return answer[1]
        self._held[id(transfer)] = transfer
        if name in self._by_name:
            self._by_name[name].append(transfer)
        else:
            self._by_name[name] = [transfer]
            self._queued.append(name)
            self._start()
        return None

    def answered(self) -> Iterator[tuple[Transfer, list[str]]]:
        """Yield attempts whose name has been looked up, and hold them no longer.

        With the name's addresses: none for an unknown name or no answer.
        """
        while self._answers:
            name, addresses = self._answers.popleft()
            self._threads -= 1
            if addresses:
                self._looked_up.pop(name, None)
                now = time.monotonic()
                self._looked_up[name] = (now, addresses)
                while now - self._looked_up[oldest := next(iter(self._looked_up))][0] >= KEPT:
                    del self._looked_up[oldest]
            for transfer in self._by_name.pop(name):
                if self._held.pop(id(transfer), None) is not None:  # otherwise its time was over
                    yield transfer, addresses
        self._start()

    def late(self) -> Iterator[Transfer]:
        """Yield attempts whose time is over, and hold them no longer."""
        while self._held and (first := next(iter(self._held.values()))).deadline <= time.monotonic():
            del self._held[id(first)]
            yield first

    def next_deadline(self, until: float) -> float:
        """Return when the time of the next attempt is over, or `until` if that is sooner."""
        return min(until, next(iter(self._held.values())).deadline) if self._held else until

    def addresses_to_tell(self, url: str) -> str:
        """Return the addresses of the name in `url` in libcurl's form.

        Empty when libcurl has them already or `url` has no name.
        """
        name, port = _name_and_port(url)
        if not name or not (answer := self._known(name)):
            return ""
        looked_up, addresses = answer
        now, told = time.monotonic(), self._told.get((name, port), 0.0)
        if told < looked_up:
            self._told.pop((name, port), None)
            self._told[name, port] = now
            while now - self._told[oldest := next(iter(self._told))] >= KEPT:
                del self._told[oldest]
        elif now - told > 1.0:  # by then the first post with them has begun
            return ""
        return f"+{name}:{port}:" + ",".join(f"[{each}]" if ":" in each else each for each in addresses)

    def _known(self, name: str) -> tuple[float, list[str]] | None:
        answer = self._looked_up.get(name)
        return answer if answer and time.monotonic() - answer[0] < KEPT else None

    def _start(self) -> None:
        while self._queued and self._threads < AT_ONCE:
            name = self._queued.popleft()
            self._threads += 1
            try:
                threading.Thread(target=self._look_up, args=(name,), daemon=True).start()
            except RuntimeError:  # the system allows no more threads
                self._end(name, [])

    def _look_up(self, name: str) -> None:
        self._end(name, addresses_of(name if self._local_names else absolute(name)))

    def _end(self, name: str, addresses: list[str]) -> None:
        self._answers.append((name, addresses))
        self._ring()


@lru_cache(maxsize=10_000)
def _name_and_port(url: str) -> tuple[str, int]:
    """Return the name that has to be looked up for `url` (empty when it is an address) and the port."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    try:
        ip_address(host)
    except ValueError:
        return host, port
    return "", port
