"""Looking names up, so that a name server that never answers holds up only its own names.

libcurl uses threads too, but at most twenty: lookups that hang would make all others wait until they fail as well. Here
each name has one thread, however many posts wait for it, and there may be many threads.
"""

import re
import socket
import threading
import time
from collections import deque
from collections.abc import Callable

KEPT = 60.0  # seconds that an answer is valid
AT_ONCE = 512  # threads, more than posts are under way; further names wait
MANY_NAMES = 10_000  # from this many names on, expired ones are forgotten
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*", re.IGNORECASE)  # as the last part of an IPv4 address


def absolute(name: str) -> str:
    """Return `name` with a final dot, so that it is looked up in the public DNS only.

    Without the dot the resolver would also try it inside our own domains, and its answer would tell a merchant which
    machines and services we have. A name that ends in a number is an address in some spelling and is left as it is."""
    bare = name.removesuffix(".")
    return name if _NUMBER.fullmatch(bare.rpartition(".")[2]) else f"{bare}."


def addresses_of(name: str) -> list[str]:
    """Return the addresses that the machine's resolver finds, however long it takes; none if it finds none."""
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return list(dict.fromkeys(str(peer[0]) for *_, peer in found))


class Resolver:
    """Looks names up. For use by one thread; `ring` is called in another thread when a lookup has ended.

    With `local_names`, names of our own domains are found too.
    """

    def __init__(self, ring: Callable[[], None], *, local_names: bool) -> None:
        self._ring = ring
        self._local_names = local_names
        self._known: dict[str, tuple[float, list[str]]] = {}
        self._under_way: set[str] = set()
        self._queued: deque[str] = deque()
        self._threads = 0
        self._answers: deque[tuple[str, list[str]]] = deque()

    def known(self, name: str) -> tuple[float, list[str]] | None:
        """Return when the name was looked up (`time.monotonic`) and its addresses; None when it has to be asked for."""
        answer = self._known.get(name)
        return answer if answer and time.monotonic() - answer[0] < KEPT else None

    def ask(self, name: str) -> None:
        """Begin to look the name up, unless that is under way."""
        if name not in self._under_way:
            self._under_way.add(name)
            self._queued.append(name)
            self._start()

    def answers(self) -> list[tuple[str, list[str]]]:
        """Return names whose lookup has ended, with their addresses: none for an unknown name or no answer."""
        found = []
        while self._answers:
            name, addresses = self._answers.popleft()
            self._threads -= 1
            self._under_way.discard(name)
            if addresses:
                if len(self._known) >= MANY_NAMES:
                    self._known = {name: answer for name, answer in self._known.items() if self.known(name)}
                self._known[name] = (time.monotonic(), addresses)
            found.append((name, addresses))
        self._start()
        return found

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
