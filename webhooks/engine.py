"""Drains the queue: claims and settles by `webhooks.delivery`, posts by `webhooks.sender`, from one thread.

The posts go out in a sliding window. Two more threads query the database, so that no post waits for a statement.
Results are gathered for a moment and settled together. A claim also asks for as many posts as are expected to end while
it runs.
"""

import logging
import math
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from itertools import takewhile
from typing import IO, Any, NamedTuple
from uuid import UUID, uuid4

from django.conf import settings
from django.db import DatabaseError, connection

from codservice.errors import CannotStart
from codservice.run import kernel, pulse
from webhooks import delivery, metrics
from webhooks.posts import Outcome, Post
from webhooks.roster import Roster
from webhooks.sender import Sender

logger = logging.getLogger(__name__)

WINDOW = 400  # attempts under way in one worker
KEPT_FROM_FAILING = 0.25  # of the window: webhooks whose last attempt failed hold the rest at most
OTHERS_FIRST = 8  # every so many claims, retries and webhooks that fail come first, so that they never wait for good
SETTLE_AFTER = 0.01  # seconds that a result waits, to be settled together with others
SETTLE_AGAIN_AFTER = 1.0  # seconds until the next try, when the database was away
SETTLE_TRIES_AT_STOP = 10


class Engine:
    """Drains the queue in one thread at a time. There is one per process, so that connections to receivers are kept."""

    def __init__(self, *, window: int = WINDOW) -> None:
        self.token = uuid4()
        self.window = window
        self.woken = threading.Event()
        self.stopping = threading.Event()
        self._lock = threading.Lock()
        self._sender: Sender | None = None
        self._sign_of_life: IO[bytes] | None = None
        # Two threads with a connection each: while one settles, the other claims. A pool of two would wake both of them
        # for each query.
        self._claim_thread = ThreadPoolExecutor(1, thread_name_prefix="claims")
        self._result_thread = ThreadPoolExecutor(1, thread_name_prefix="results")

    def wake_up(self) -> bool:
        """Make a running drain look again for what is due. Returns whether there is one."""
        self.woken.set()
        is_draining = self._lock.locked()  # read after that, since a drain that ends looks at `woken` once more
        if is_draining and self._sender is not None:
            self._sender.wake_up()
        return is_draining

    def stop(self) -> None:
        """Claim nothing more, for good. Attempts that are under way are finished and settled."""
        self.stopping.set()
        self.wake_up()

    def drain(self) -> int:
        """Send until nothing is due, and return the number of attempts.

        When another thread is draining, wake it and return 0 at once.
        """
        metrics.SWEEPS.inc()
        self.wake_up()
        sent = 0
        # Check again after each drain: nobody else follows a wake-up that came between its last look and its end.
        while self.woken.is_set() and not self.stopping.is_set() and self._lock.acquire(blocking=False):
            try:
                sent += _Drain(self, self._sender or self._open(), self._claim_thread, self._result_thread).run()
            finally:
                self._lock.release()
        return sent

    def _open(self) -> Sender:
        # A post that cannot open a file would fail, and its receiver would be reported as unreachable.
        if (room := kernel.allow_open_files(3 * self.window) // 3) < self.window:
            logger.warning(
                "at most %s deliveries are sent at once, because the limit on open files (ulimit -Hn) is low", room
            )
            self.window = room
        # Both threads begin now: while names are looked up the system may allow no more, and results would be lost.
        for thread in (self._claim_thread, self._result_thread):
            thread.submit(lambda: None)
        self.token = uuid4()  # not the token of the process that this one was forked from
        self._enter_roster()
        self._sender = Sender(
            width=self.window, allow_private=settings.WEBHOOK_ALLOW_PRIVATE, ca_file=settings.WEBHOOK_CA_FILE
        )
        return self._sender

    def _enter_roster(self) -> None:
        """Show that this worker lives, and give back the claims of this machine's dead ones. Others have to run out."""
        try:
            roster = Roster.of(connection.settings_dict)
            self._sign_of_life = roster.enter(self.token)
            dead = roster.dead()
            if dead and (count := self._claim_thread.submit(delivery.release_all, dead).result()):
                logger.info("%s attempts of workers that died were given back", count)
            for token in dead:
                roster.forget(token)
        except (CannotStart, OSError, DatabaseError) as error:
            logger.warning("claims of workers that died could not be given back, and will expire: %s", error)


class _Claiming(NamedTuple):
    """A claim that is being made."""

    posts: Future[list[Post]]
    asked_at: float  # by time.monotonic
    # The smaller of its two limits. A claim that brings fewer posts leaves what is due to webhooks with posts under
    # way, which is seen when their results are written, and what stood in line behind rows that somebody holds locked,
    # which the next wake-up finds.
    lower_limit: int
    sent_before: int  # attempts that had ended when it began


class _Renewing(NamedTuple):
    """A renewal of claims that is being made."""

    renewed: Future[dict[UUID, delivery.Renewed]]
    unsure: list[UUID]  # those of them whose posts have not begun


class _Drain:
    """One drain, from the first claim to the last result."""

    def __init__(
        self, engine: Engine, sender: Sender, claim_thread: ThreadPoolExecutor, result_thread: ThreadPoolExecutor
    ) -> None:
        self._engine = engine
        self._sender = sender
        self._claim_thread = claim_thread
        self._claiming: _Claiming | None = None
        self._claims = 0  # how many were begun
        self._renewing: _Renewing | None = None
        self._releasing: Future[None] | None = None  # the last one: their thread takes one after the other
        self._settling = _Settling(partial(self._ask, result_thread, delivery.settle, engine.token))
        self._under_way: dict[UUID, float] = {}  # claimed and not settled: when each was claimed or last renewed
        self._failing: set[UUID] = set()  # those of them whose webhooks failed when they were claimed
        self._sent = 0  # attempts that have ended
        self._ahead = 0  # how many ended while the last claim was made: the next can expect as many more places
        self._may_be_more = False  # whether the last claim may have left something for lack of room

    def run(self) -> int:
        """Drain, and return how many attempts were made."""
        while True:
            pulse.note()
            now = time.monotonic()
            self._renew(now)
            self._claim(now)
            is_over = self._sender.is_idle and self._claiming is None and self._renewing is None
            self._settling.begin(is_last=is_over)
            if is_over and self._settling.is_idle:
                if self._releasing is not None:
                    wait([self._releasing])
                return self._sent
            outcomes = self._sender.finished(self._settling.seconds_left())
            metrics.note_attempts(outcomes)
            metrics.SENDS_IN_FLIGHT.set(self._engine.window - max(self._sender.room, 0))
            self._settling.add(outcomes)
            self._sent += len(outcomes)
            self._start_claimed()
            self._give_back()
            self._resume_renewed()
            self._forget_settled()

    def _claim(self, now: float) -> None:
        """Begin a claim when a wake-up said that something is due and there is room for it.

        `now` is what `_renew` got, so every lease under way then had at least LEASE − RENEW_AFTER (6 s) left. If this
        claim finds one expired, it took so long that its own `begin_by` is past, and its posts are renewed before they
        begin. Of leases whose renewal was skipped or failed this is not so: `_start_claimed` leaves what is under way.
        """
        # Not while results cannot be written or claims are being renewed: it could claim the same deliveries again.
        is_at_rest = self._claiming is None and self._renewing is None and not self._settling.failures
        may_claim = is_at_rest and not self._engine.stopping.is_set()
        limit = self._sender.room + self._ahead
        if self._engine.woken.is_set() and limit > 0 and may_claim:
            self._engine.woken.clear()
            most_failing = self._engine.window - int(self._engine.window * KEPT_FROM_FAILING)
            for_failing = max(min(limit, most_failing - len(self._failing)), 0)
            self._claims += 1
            others_first = self._claims % OTHERS_FIRST == 0
            if others_first:  # one post to a webhook that fails, as it may hang; with room for one, a retry beside it
                for_failing, limit = min(for_failing, 1), max(limit, 2)
            claim = partial(
                delivery.claim, limit=limit, limit_failing=for_failing, asked_at=now, others_first=others_first
            )
            posts = self._ask(self._claim_thread, claim, self._engine.token)
            self._claiming = _Claiming(posts, now, lower_limit=for_failing, sent_before=self._sent)
            self._may_be_more = True  # until it is known

    def _start_claimed(self) -> None:
        """Start the posts that a claim brought, or give them back when stopping."""
        if self._claiming is None or not self._claiming.posts.done():
            return
        claiming, self._claiming = self._claiming, None
        self._ahead = self._sent - claiming.sent_before
        try:
            claimed = claiming.posts.result()
        except DatabaseError as error:  # the next wake-up tries again
            logger.warning("no deliveries could be claimed: %s", error)
            return
        self._may_be_more = len(claimed) >= claiming.lower_limit
        # A delivery that is under way here was claimed again because its claim ran out during a long pause of this
        # process. That only prolongs its claim.
        posts = [post for post in claimed if post.delivery_id not in self._under_way]
        if posts and self._engine.stopping.is_set():
            self._release([post.delivery_id for post in posts])
            return
        for post in posts:
            self._under_way[post.delivery_id] = claiming.asked_at
            if post.is_failing:
                self._failing.add(post.delivery_id)
            self._sender.start(post)
        if posts and self._may_be_more:
            self._engine.woken.set()

    def _give_back(self) -> None:
        """Release posts that found no room because receivers have become slower since they were claimed."""
        if late := self._sender.give_back(math.inf if self._engine.stopping.is_set() else time.monotonic()):
            self._release(late)
            self._engine.woken.set()

    def _release(self, ids: list[UUID]) -> None:
        self._forget(ids)
        self._releasing = self._ask(self._claim_thread, delivery.release, self._engine.token, ids)

    def _renew(self, now: float) -> None:
        """Renew the claims of posts that could not begin at once and of results that cannot be written."""
        if self._renewing is not None or self._claiming is not None:
            return
        old = list(takewhile(lambda id_: now - self._under_way[id_] > delivery.RENEW_AFTER, self._under_way))
        unsure = self._sender.unsure
        if ids := list(dict.fromkeys([*unsure, *old])):
            for id_ in ids:
                self._under_way.pop(id_, None)
                self._under_way[id_] = now  # at the end, so that the oldest stay in front
            self._renewing = _Renewing(self._ask(self._claim_thread, delivery.renew, self._engine.token, ids), unsure)

    def _resume_renewed(self) -> None:
        """Begin posts that had not begun and are still ours; let go of those whose claim or webhook is gone.

        When stopping, let go of all of them: while the database is slow, they could wait for one renewal after another.
        """
        if self._renewing is None or not self._renewing.renewed.done():
            return
        renewing, self._renewing = self._renewing, None
        may_look_again = not self._engine.stopping.is_set()
        try:
            renewed = renewing.renewed.result()
        except DatabaseError as error:  # the next wake-up tries again
            logger.warning("claims could not be renewed: %s", error)
            renewed, may_look_again = {}, False
        gone = []
        for id_ in renewing.unsure:
            if id_ in renewed and not self._engine.stopping.is_set():
                self._sender.resume(id_, **renewed[id_]._asdict())
            else:
                self._sender.forget(id_)
                gone.append(id_)
        if gone:
            logger.info(
                "%s deliveries are given back: their claims have expired, their webhooks are gone or being changed,"
                " their customers are being erased, or this worker stops",
                len(gone),
            )
            self._release(gone)
            if may_look_again:
                self._engine.woken.set()

    def _forget_settled(self) -> None:
        """Forget attempts whose results are written, and look again if there is room now for what had none."""
        tries = SETTLE_TRIES_AT_STOP if self._engine.stopping.is_set() else math.inf
        if settled := self._settling.ended(tries):
            self._forget(outcome.post.delivery_id for outcome in settled)
            if self._settling.is_more_due or self._may_be_more:
                self._engine.woken.set()

    def _forget(self, ids: Iterable[UUID]) -> None:
        for id_ in ids:
            self._under_way.pop(id_, None)
            self._failing.discard(id_)

    def _ask(self, thread: ThreadPoolExecutor, function: Any, *args: Any) -> Future[Any]:
        """Query the database in another thread; its answer ends the sender's wait."""
        future = thread.submit(function, *args)
        future.add_done_callback(lambda _: self._sender.wake_up())
        return future


class _Settling:
    """Results on their way into the database: gathered for a moment, written together, and retried while it is away."""

    def __init__(self, settle: Callable[[list[Outcome]], Future[bool]]) -> None:
        self._settle = settle
        self._gathered: list[Outcome] = []
        self._begin_at = 0.0  # when the gathered are to be written
        self._writing: tuple[list[Outcome], Future[bool]] | None = None
        self.failures = 0  # in a row
        self.is_more_due = False  # whether more is due for the webhooks whose results were written last

    @property
    def is_idle(self) -> bool:
        return not self._gathered and self._writing is None

    def add(self, outcomes: list[Outcome]) -> None:
        if outcomes and not self._gathered:
            self._begin_at = time.monotonic() + SETTLE_AFTER
        self._gathered += outcomes

    def begin(self, *, is_last: bool) -> None:
        """Write the gathered results when their moment is over or no more will come."""
        is_time = time.monotonic() >= self._begin_at or (is_last and not self.failures)
        if self._gathered and self._writing is None and is_time:
            self._writing = self._gathered, self._settle(self._gathered)
            self._gathered = []

    def seconds_left(self) -> float:
        """Return the seconds until there is something to begin, at most 1."""
        if self._gathered and self._writing is None:
            return max(self._begin_at - time.monotonic(), 0.0)
        return 1.0

    def ended(self, tries: float) -> list[Outcome]:
        """Return the results that are done with: written, or given up after more than `tries` failures in a row."""
        if self._writing is None or not self._writing[1].done():
            return []
        (outcomes, settled), self._writing = self._writing, None
        try:
            self.is_more_due = settled.result()
        except DatabaseError as error:
            # The database is away, or read-only after a failover. It will not count twice what it did count.
            logger.warning("%s results could not be written yet: %s", len(outcomes), error)
            self.failures += 1
            if self.failures <= tries:
                self._gathered = outcomes + self._gathered
                self._begin_at = time.monotonic() + SETTLE_AGAIN_AFTER
                return []
        # Written, or given up: the claims of what is given up run out, and other workers send it again.
        self.failures = 0
        return outcomes


engine = Engine()
