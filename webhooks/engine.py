"""The engine: drains the queue of `webhooks.delivery` through `webhooks.sender`, in a sliding window, from one thread.

The database is asked by two threads beside it, so that nothing waits for a statement: results are gathered for a moment
and settled together, and places that they leave are filled by the next claim.
"""

import logging
import resource
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any
from uuid import UUID, uuid4

from django.conf import settings
from django.db import DatabaseError, InterfaceError, InternalError, OperationalError

from webhooks import delivery, metrics
from webhooks.sender import Outcome, Post, Sender

logger = logging.getLogger(__name__)

WINDOW = 400  # attempts under way in one worker
KEPT_FROM_FAILING = 0.25  # of the window, so that whoever works finds room in it at once
SETTLE_AFTER = 0.02  # seconds that a result waits for others to be settled with
SETTLE_AGAIN_AFTER = 1.0  # seconds, when the database was away
SETTLE_TRIES_AT_STOP = 10


class Engine:
    """Drains the queue in one thread at a time; one per process, so that connections to receivers are kept."""

    def __init__(self, *, window: int = WINDOW) -> None:
        self.token = uuid4()
        self._window = window
        self._lock = threading.Lock()
        self._woken = threading.Event()
        self._stopping = threading.Event()
        self._sender: Sender | None = None
        # Two threads with a connection each: while one settles, the other claims.
        self._database = ThreadPoolExecutor(2, thread_name_prefix="deliveries")

    def wake_up(self) -> None:
        """Let a drain that is running look again for what is due."""
        self._woken.set()
        if self._sender is not None:
            self._sender.wake_up()

    def stop(self) -> None:
        """Claim nothing more; what is under way is finished and settled. For good."""
        self._stopping.set()
        self.wake_up()

    def drain(self) -> int:
        """Send until nothing is due; how many attempts. 0 at once when another thread is at it, which is then woken."""
        metrics.SWEEPS.inc()
        self.wake_up()
        sent = 0
        # Tried again after each drain: a wake-up that came between its last look and its end is ours to follow.
        while self._woken.is_set() and not self._stopping.is_set() and self._lock.acquire(blocking=False):
            try:
                sent += self._drain()
            finally:
                self._lock.release()
        return sent

    def _drain(self) -> int:
        if self._sender is None:
            _allow_connections(3 * self._window)
            self.token = uuid4()  # not that of the process that this one was forked from
            self._sender = Sender(
                width=self._window, allow_private=settings.WEBHOOK_ALLOW_PRIVATE, ca_file=settings.WEBHOOK_CA_FILE
            )
        sender = self._sender
        claiming: Future[list[Post]] | None = None
        settling: Future[int] | None = None
        under_way: set[UUID] = set()  # claimed and not settled
        results: list[Outcome] = []
        being_settled: list[Outcome] = []
        settle_at = 0.0
        failed_settles = 0
        sent = 0
        while True:
            # Nothing new while results cannot be written: a claim could take over what they belong to.
            may_claim = not self._stopping.is_set() and not failed_settles
            if self._woken.is_set() and claiming is None and sender.room and may_claim:
                self._woken.clear()
                room_for_failing = max(sender.room - int(self._window * KEPT_FROM_FAILING), 0)
                claiming = self._in_database(delivery.claim, self.token, sender.room, room_for_failing)
            is_over = sender.is_idle and claiming is None
            is_time = time.monotonic() >= settle_at or (is_over and not failed_settles)
            if results and settling is None and is_time:
                settling = self._in_database(delivery.settle, self.token, results)
                being_settled, results = results, []
            if is_over and settling is None and not results:
                return sent
            wait = max(settle_at - time.monotonic(), 0.0) if results and settling is None else 1.0
            outcomes = sender.finished(wait)
            metrics.note_attempts(outcomes)
            metrics.SENDS_IN_FLIGHT.set(self._window - sender.room)
            if outcomes and not results:
                settle_at = time.monotonic() + SETTLE_AFTER
            results += outcomes
            if claiming is not None and claiming.done():
                posts, claiming = self._claimed(claiming), None
                # One that is under way here was claimed anew because its claim had run out, after a long pause of
                # this process; that is as good as a longer claim.
                posts = [post for post in posts if post.delivery_id not in under_way]
                for post in posts:
                    under_way.add(post.delivery_id)
                    sender.start(post)
                sent += len(posts)
                if posts:  # there may be more
                    self._woken.set()
            if settling is not None and settling.done():
                if self._has_settled(settling, being_settled, failed_settles):
                    under_way.difference_update(outcome.post.delivery_id for outcome in being_settled)
                    failed_settles = 0
                    self._woken.set()  # the webhooks whose attempts ended have room again
                else:
                    failed_settles += 1
                    results = being_settled + results
                    settle_at = time.monotonic() + SETTLE_AGAIN_AFTER
                settling = None

    def _claimed(self, claiming: "Future[list[Post]]") -> list[Post]:
        """What a claim has brought: nothing when the database was away (the next wake-up tries again) or at a stop."""
        try:
            posts = claiming.result()
        except DatabaseError as error:
            logger.warning("nothing could be claimed: %s", error)
            return []
        if posts and self._stopping.is_set():
            self._in_database(delivery.release, self.token, [post.delivery_id for post in posts])
            return []
        return posts

    def _has_settled(self, settling: "Future[int]", results: Sequence[Outcome], failed_settles: int) -> bool:
        """Whether these results are done with; not when they are to be settled again."""
        try:
            settling.result()
        except (OperationalError, InterfaceError, InternalError) as error:
            # The database is away, or read-only after a failover. What it did count it will not count again.
            logger.warning("%s results could not be settled yet: %s", len(results), error)
            return self._stopping.is_set() and failed_settles >= SETTLE_TRIES_AT_STOP
        except DatabaseError:
            logger.exception("%s results cannot be settled; what they tell of will be sent again", len(results))
        return True

    def _in_database(self, function: Any, *args: Any) -> Future[Any]:
        future = self._database.submit(function, *args)
        future.add_done_callback(self._ring)
        return future

    def _ring(self, _: Future[Any]) -> None:
        if self._sender is not None:
            self._sender.wake_up()


def _allow_connections(count: int) -> None:
    """Each connection is an open file, and many systems allow 1024 unless asked for more."""
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count if most == resource.RLIM_INFINITY else min(count, most)
    if allowed != resource.RLIM_INFINITY and allowed < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


engine = Engine()
