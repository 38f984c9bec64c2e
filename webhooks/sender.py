"""Sign and post deliveries, many at once from one thread. Knows no ORM.

libcurl's multi interface carries the posts (`webhooks.curl_loop`): its deadline covers connecting, TLS, sending and
waiting in one, and it asks us before it opens a socket, so that the address is checked that is really dialled
(`webhooks.transfer`). Names are looked up before (`webhooks.lookups`), within the same deadline.
"""

import heapq
import itertools
import logging
import time
from collections import deque
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from webhooks.addresses import is_public
from webhooks.curl_loop import CurlLoop
from webhooks.lookups import Lookups
from webhooks.posts import BLOCKED, NO_SECRET, UNREACHABLE, Outcome, Post
from webhooks.transfer import LOST, Transfer, new_handle, trusted_roots

logger = logging.getLogger(__name__)


class Sender:
    """Posts under way, so many at once. `start` adds one, `finished` waits for some to end. For one thread, apart from
    `wake_up`. What finds no room waits for it; `give_back` tells what has waited too long.

    One that has not begun by its `begin_by` is among the `unsure` until `resume` or `forget` says what becomes of it.
    One whose kept connection was LOST begins anew, once, on a connection of its own, and may be among them then.
    """

    def __init__(self, *, width: int, allow_private: bool = False, ca_file: str | None = None) -> None:
        self.width = width
        self._allow_private = allow_private
        self._roots = trusted_roots(ca_file)
        self._loop = CurlLoop(connections=width)
        self._lookups = Lookups(self.wake_up, local_names=allow_private)
        self._free: list[Any] = []  # handles
        self._waiting: deque[Post] = deque()
        self._running: dict[Any, Transfer] = {}
        self._unsure: dict[UUID, Transfer] = {}
        self._ended: list[tuple[float, int, Outcome]] = []  # a heap: when each may be told of, and which came first
        self._number = itertools.count()

    @property
    def room(self) -> int:
        """How many more can be started; below 0 when some wait."""
        return self._places - len(self._waiting)

    @property
    def is_idle(self) -> bool:
        return not (self._running or self._lookups or self._unsure or self._ended or self._waiting)

    @property
    def unsure(self) -> list[UUID]:
        """The deliveries whose claims have to be looked at again before they are posted."""
        return list(self._unsure)

    def start(self, post: Post) -> None:
        """Begin an attempt as soon as there is room. It ends in an outcome whatever is wrong with it."""
        self._waiting.append(post)
        self._fill()

    def give_back(self, now: float) -> list[UUID]:
        """The deliveries that still wait for room and should have begun by `now`; they are no longer ours to send."""
        late = []
        while self._waiting and self._waiting[0].begin_by < now:
            late.append(self._waiting.popleft().delivery_id)
        return late

    def resume(self, delivery_id: UUID, *, begin_by: float, url: str, secrets: Sequence[str]) -> None:
        """Its claim stands: begin it after all, to what its webhook's address is now, and signed by its secrets."""
        transfer = self._unsure.pop(delivery_id)
        transfer.post.begin_by, transfer.post.url, transfer.post.secrets = begin_by, url, secrets
        self._begin(transfer)

    def forget(self, delivery_id: UUID) -> None:
        """It is not ours to send any more; there is no outcome."""
        del self._unsure[delivery_id]

    def finished(self, timeout: float) -> list[Outcome]:
        """What has ended; waits up to `timeout` seconds for the first to end or for `wake_up`."""
        until = time.monotonic() + timeout
        while True:
            told_at = self._ended[0][0] if self._ended else until
            is_woken = self._loop.turn(min(self._lookups.next_deadline(until), told_at))
            self._send_named()
            for curl, error in self._loop.ended():
                self._end(curl, error)
            self._fill()
            outcomes = []
            while self._ended and self._ended[0][0] <= time.monotonic():
                outcomes.append(heapq.heappop(self._ended)[2])
            if outcomes or is_woken or time.monotonic() >= until:
                return outcomes

    def wake_up(self) -> None:
        """End a wait in `finished`; may be called from another thread."""
        self._loop.wake_up()

    def close(self) -> None:
        for curl in self._running:
            self._loop.remove(curl)
            curl.close()
        for curl in self._free:
            curl.close()
        self._loop.close()
        self._roots.close()

    @property
    def _places(self) -> int:
        return self.width - len(self._running) - len(self._lookups) - len(self._unsure)

    def _fill(self) -> None:
        """Begin what waits, the first first, as far as there is room."""
        while self._waiting and self._places > 0:
            self._begin(Transfer(self._waiting.popleft(), time.monotonic()))

    def _begin(self, transfer: Transfer) -> None:
        """Send it, once its name is known, to public addresses alone, while its claim is sure to stand."""
        if not transfer.post.secrets:
            logger.error("the secret of %s's webhook is under none of ENCRYPTION_KEYS", transfer.post.delivery_id)
            self._end_unsent(transfer, NO_SECRET)
            return
        try:
            addresses = self._lookups.addresses(transfer)
        except ValueError:  # no URL that urllib can take apart
            self._end_unsent(transfer, UNREACHABLE)
            return
        if addresses is None:
            return
        now = time.monotonic()
        if not self._allow_private and not all(map(is_public, addresses)):
            self._end_unsent(transfer, BLOCKED)
        elif now >= transfer.deadline:
            self._end_unsent(transfer, UNREACHABLE)
        elif now > transfer.post.begin_by:
            self._unsure[transfer.post.delivery_id] = transfer
            self.wake_up()
        else:
            self._send(transfer)

    def _send(self, transfer: Transfer) -> None:
        try:
            curl = self._free.pop() if self._free else new_handle(self._roots.name, allow_private=self._allow_private)
            transfer.load(curl, self._lookups.addresses_to_tell(transfer.post.url), allow_private=self._allow_private)
            self._loop.add(curl)
        except Exception:  # one that cannot be sent shall not stop the others
            logger.exception("delivery %s cannot be posted", transfer.post.delivery_id)
            self._end_unsent(transfer, UNREACHABLE)
        else:
            self._running[curl] = transfer

    def _send_named(self) -> None:
        """Send what has waited for a name that is known by now; end what has waited too long."""
        for transfer, addresses in self._lookups.answered():
            if addresses:
                self._begin(transfer)
            else:
                self._end_unsent(transfer, UNREACHABLE)
        for transfer in self._lookups.late():
            self._end_unsent(transfer, UNREACHABLE)

    def _end(self, curl: Any, error: int) -> None:
        transfer = self._running.pop(curl)
        outcome = transfer.outcome(curl, error)
        self._loop.remove(curl)
        self._free.append(curl)
        if error == LOST and not transfer.is_repeat:
            transfer.is_repeat = True
            self._begin(transfer)
        else:
            self._tell(transfer, outcome)

    def _end_unsent(self, transfer: Transfer, failure: str) -> None:
        self._tell(transfer, transfer.came_to(failure))

    def _tell(self, transfer: Transfer, outcome: Outcome) -> None:
        """Tell of it at once; that there was no connection when the attempt's time is over, whatever it was."""
        at = transfer.deadline if outcome.failure == UNREACHABLE else 0.0
        heapq.heappush(self._ended, (at, next(self._number), outcome))
