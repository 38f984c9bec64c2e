"""Sign and post deliveries, many at once from one thread. Does not use the ORM.

libcurl's multi interface carries the posts (`webhooks.curl_loop`). One deadline covers connecting, TLS, sending and
waiting, and libcurl asks us before it opens a socket, so that the address that is really dialled is checked
(`webhooks.transfer`). Names are looked up before that (`webhooks.lookups`), within the same deadline.
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
    """Up to `width` posts under way. For use by one thread, apart from `wake_up`.

    `start` adds a post, `finished` waits for some to end. Posts wait for room; `give_back` returns those that have
    waited too long. A post that has not begun by its `begin_by` is among the `unsure` until `resume` or `forget` is
    called for it. One whose kept connection was LOST begins anew, once, on a new connection, and may be `unsure` then.
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
        self._unsure: dict[UUID, tuple[Transfer, float]] = {}  # with the time since when
        self._ended: list[tuple[float, int, Outcome]] = []  # a heap, by when each may be returned, then as they ended
        self._number = itertools.count()

    @property
    def room(self) -> int:
        """How many more posts can be started; negative when some wait."""
        return self._places - len(self._waiting)

    @property
    def is_idle(self) -> bool:
        return not (self._running or self._lookups or self._unsure or self._ended or self._waiting)

    @property
    def unsure(self) -> list[UUID]:
        """The deliveries whose claims have to be renewed before they are posted."""
        return list(self._unsure)

    def start(self, post: Post) -> None:
        """Begin an attempt as soon as there is room. It always ends in an outcome, whatever is wrong with it."""
        self._waiting.append(post)
        self._fill()

    def give_back(self, before: float) -> list[UUID]:
        """Drop and return the deliveries that still wait for room and should have begun `before` this time."""
        late = []
        while self._waiting and self._waiting[0].begin_by < before:
            late.append(self._waiting.popleft().delivery_id)
        return late

    def resume(self, delivery_id: UUID, *, begin_by: float, url: str, secrets: Sequence[str]) -> None:
        """Begin an unsure post whose claim stands, with its webhook's present address and secrets."""
        transfer, since = self._unsure.pop(delivery_id)
        transfer.started += time.monotonic() - since  # it waited for our database, which is no fault of its receiver
        transfer.post.begin_by, transfer.post.url, transfer.post.secrets = begin_by, url, secrets
        self._begin(transfer)

    def forget(self, delivery_id: UUID) -> None:
        """Drop an unsure post that is no longer ours to send. It gets no outcome."""
        del self._unsure[delivery_id]

    def finished(self, timeout: float) -> list[Outcome]:
        """Return the outcomes of posts that have ended. Waits up to `timeout` seconds for one, or for `wake_up`."""
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
        """End a wait in `finished`. May be called from any thread."""
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
        """Begin waiting posts in their order while there is room."""
        while self._waiting and self._places > 0:
            self._begin(Transfer(self._waiting.popleft(), time.monotonic()))

    def _begin(self, transfer: Transfer) -> None:
        """Send it once its name is known, to public addresses only, and while its claim is sure to stand."""
        if not transfer.post.secrets:
            logger.error(
                "the signing secret for delivery %s cannot be read with any of this worker's ENCRYPTION_KEYS: restart"
                " it if they have been changed, otherwise see `check_service`",
                transfer.post.delivery_id,
            )
            self._end_unsent(transfer, NO_SECRET)
            return
        try:
            addresses = self._lookups.addresses(transfer)
        except ValueError:  # a URL that urllib cannot parse
            self._end_unsent(transfer, UNREACHABLE)
            return
        if addresses is None:
            return
        if not self._allow_private and not all(map(is_public, addresses)):
            self._end_unsent(transfer, BLOCKED)
        elif (now := time.monotonic()) >= transfer.deadline:
            self._end_unsent(transfer, UNREACHABLE)
        elif now > transfer.post.begin_by:
            self._unsure[transfer.post.delivery_id] = transfer, now
            self.wake_up()
        else:
            self._send(transfer)

    def _send(self, transfer: Transfer) -> None:
        try:
            curl = self._free.pop() if self._free else new_handle(self._roots.name, allow_private=self._allow_private)
            transfer.load(curl, self._lookups.addresses_to_tell(transfer.post.url), allow_private=self._allow_private)
            self._loop.add(curl)
        except Exception:  # a post that cannot be sent must not stop the others
            logger.exception("delivery %s cannot be sent", transfer.post.delivery_id)
            self._end_unsent(transfer, UNREACHABLE)
        else:
            self._running[curl] = transfer

    def _send_named(self) -> None:
        """Send posts whose name is known by now; end those that have waited for it too long."""
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
        self._tell(transfer, transfer.outcome_with(failure))

    def _tell(self, transfer: Transfer, outcome: Outcome) -> None:
        """Report an outcome at once, but UNREACHABLE only at the deadline, whatever its cause was."""
        at = transfer.deadline if outcome.failure == UNREACHABLE else 0.0
        heapq.heappush(self._ended, (at, next(self._number), outcome))
