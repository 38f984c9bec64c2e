"""Attempts that wait for the lookup of a name, and the addresses of known names for libcurl."""

import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import urlsplit

from webhooks.resolver import KEPT, MANY_NAMES, Resolver
from webhooks.transfer import Transfer


class Lookups:
    """Holds attempts until their name is known or their time is over. Calls `ring` when a lookup has ended."""

    def __init__(self, ring: Callable[[], None], *, local_names: bool) -> None:
        self._resolver = Resolver(ring, local_names=local_names)
        self._held: dict[int, Transfer] = {}  # as they came: by deadline, apart from those that begin anew
        self._by_name: dict[str, list[Transfer]] = {}
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
        if answer := self._resolver.known(name):
            return answer[1]
        self._held[id(transfer)] = transfer
        self._by_name.setdefault(name, []).append(transfer)
        self._resolver.ask(name)
        return None

    def answered(self) -> Iterator[tuple[Transfer, list[str]]]:
        """Yield attempts whose name has been looked up, with its addresses, and hold them no longer."""
        for name, addresses in self._resolver.answers():
            for transfer in self._by_name.pop(name):
                if self._held.pop(id(transfer), None) is not None:  # otherwise its time was over
                    yield transfer, addresses

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
        if not name or not (answer := self._resolver.known(name)):
            return ""
        looked_up, addresses = answer
        now, told = time.monotonic(), self._told.get((name, port), 0.0)
        if told < looked_up:
            if len(self._told) >= MANY_NAMES:
                self._told = {key: at for key, at in self._told.items() if now - at < KEPT}
            self._told[name, port] = now
        elif now - told > 1.0:  # by then the first post with them has begun
            return ""
        return f"+{name}:{port}:" + ",".join(f"[{each}]" if ":" in each else each for each in addresses)


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
