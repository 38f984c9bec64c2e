"""Sign and post deliveries, many at once from one thread. Knows no ORM.

libcurl's multi interface carries the posts (`webhooks.curl_loop`): its deadline covers connecting, TLS, sending and
waiting in one, and it asks us before it opens a socket, so that the address is checked that is really dialled
(`webhooks.transfer`). Names are looked up before (`webhooks.lookups`), within the same deadline.
"""

import logging
import time
from typing import Any

from webhooks.addresses import is_public
from webhooks.curl_loop import CurlLoop
from webhooks.lookups import Lookups
from webhooks.posts import BLOCKED, NO_SECRET, TIMEOUT, UNREACHABLE, Outcome, Post
from webhooks.transfer import Transfer, new_handle, trusted_roots

logger = logging.getLogger(__name__)


class Sender:
    """Posts under way. `start` adds one, `finished` waits for some to end. For one thread, apart from `wake_up`."""

    def __init__(self, *, width: int, allow_private: bool = False, ca_file: str | None = None) -> None:
        self.width = width
        self._allow_private = allow_private
        self._roots = trusted_roots(ca_file)
        self._loop = CurlLoop(connections=width)
        self._lookups = Lookups(self.wake_up)
        self._free: list[Any] = []  # handles
        self._running: dict[Any, Transfer] = {}
        self._unsent: list[Outcome] = []  # ended without libcurl

    @property
    def room(self) -> int:
        """How many more can be started."""
        return self.width - len(self._running) - len(self._lookups)

    @property
    def is_idle(self) -> bool:
        return not (self._running or self._lookups or self._unsent)

    def start(self, post: Post) -> None:
        """Begin an attempt. It ends in an outcome whatever is wrong with it."""
        transfer = Transfer(post, time.monotonic())
        if not post.secrets:
            logger.error("the secret of %s's webhook is under none of ENCRYPTION_KEYS", post.delivery_id)
            self._end_unsent(transfer, NO_SECRET)
            return
        try:
            is_held = self._lookups.hold(transfer)
        except ValueError:  # no URL that urllib can take apart
            self._end_unsent(transfer, UNREACHABLE)
            return
        if not is_held:
            self._send(transfer)

    def finished(self, timeout: float) -> list[Outcome]:
        """What has ended; waits up to `timeout` seconds for the first to end or for `wake_up`."""
        until = time.monotonic() + timeout
        while True:
            is_woken = self._loop.turn(0.0 if self._unsent else self._lookups.next_deadline(until))
            self._send_named()
            outcomes, self._unsent = self._unsent, []
            outcomes += [self._end(curl, error) for curl, error in self._loop.ended()]
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
            if not addresses:
                self._end_unsent(transfer, UNREACHABLE)
            elif not self._allow_private and not all(map(is_public, addresses)):
                self._end_unsent(transfer, BLOCKED)
            else:
                self._send(transfer)
        for transfer in self._lookups.late():
            self._end_unsent(transfer, TIMEOUT)

    def _end(self, curl: Any, error: int) -> Outcome:
        outcome = self._running.pop(curl).outcome(curl, error)
        self._loop.remove(curl)
        self._free.append(curl)
        return outcome

    def _end_unsent(self, transfer: Transfer, failure: str) -> None:
        self._unsent.append(transfer.unsent(failure))
