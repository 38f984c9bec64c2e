"""Looking names up, so that a name server that never answers holds up nobody but its own names.

libcurl looks up in threads too, twenty at most; lookups that hang would make all others wait until these have failed
as well. Here each name has a thread of its own, however many posts wait for it, and there may be many.
"""

import re
import socket
import threading
import time
from collections import deque
from collections.abc import Callable

KEPT = 60.0  # seconds that an answer is believed
AT_ONCE = 512  # threads, more than posts are under way; a name beyond waits for its turn
MANY_NAMES = 10_000  # names after which those that are not believed any more are forgotten
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*", re.IGNORECASE)  # as the last part of an IPv4 address


def absolute(name: str) -> str:
    """`name` as the public DNS has it. Without the dot the resolver would also try it inside our own domains, and its
    answer would tell a merchant which machines and services there are beside us. What ends in a number is no name but
    an address in some spelling, and is left as it is."""
    bare = name.removesuffix(".")
    return name if _NUMBER.fullmatch(bare.rpartition(".")[2]) else f"{bare}."


def addresses_of(name: str) -> list[str]:
    """The addresses that the machine's resolver finds, as long as that takes; none for no such name, or no answer."""
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return list(dict.fromkeys(str(peer[0]) for *_, peer in found))


class Resolver:
    """Looks names up. All is for one thread; `ring` is called in another one when an answer has come.

    With `local_names` those of our own domains are known too.
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
        """When the name was looked up, by `time.monotonic`, and its addresses; None when it has to be asked for."""
        answer = self._known.get(name)
        return answer if answer and time.monotonic() - answer[0] < KEPT else None

    def ask(self, name: str) -> None:
        """Have the name looked up, unless that is under way."""
        if name not in self._under_way:
            self._under_way.add(name)
            self._queued.append(name)
            self._start()

    def answers(self) -> list[tuple[str, list[str]]]:
        """Names whose lookup has ended, with their addresses: none when there is no such name or no answer."""
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
            except RuntimeError:  # the system has no thread to give
                self._end(name, [])

    def _look_up(self, name: str) -> None:
        self._end(name, addresses_of(name if self._local_names else absolute(name)))

    def _end(self, name: str, addresses: list[str]) -> None:
        self._answers.append((name, addresses))
        self._ring()
