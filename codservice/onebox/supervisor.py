"""Start processes in order, each when those before it are ready; restart what dies; stop everything in order."""

import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import FrameType

from codservice.errors import CannotStart
from codservice.onebox.process import Child, Process, begin_log_anew, log_hint, signal_group, spawn
from codservice.run.kernel import adopt_orphans

FIRST_BACKOFF = 0.2
LONGEST_BACKOFF = 5.0
# Failed starts in a row (about half a minute with their pauses) after which a process that never worked is given up.
FAILED_STARTS = 10
# A start has succeeded when the process was ready and alive for this long; if it dies later, counting begins anew.
STABLE_SECONDS = 1.0
# The same for a process without a readiness test.
UNTESTED_STABLE_SECONDS = 5.0
POLL_SECONDS = 0.05
# Until the service is up, it is asked as often, and after so many times, as in an outage of hours, each second.
FIRST_LOOKS = 200
LOOK_SECONDS = 60.0  # between looks at logs that grow


# The exit status of a process that has said in a sentence why it cannot run: trying again does not help.
SAID_WHY = os.EX_CONFIG


def say(sentence: str) -> None:
    """Print a sentence for the person at the terminal. If that fails, the service goes on."""
    with suppress(OSError):
        print(f"codservice: {sentence}", file=sys.stderr, flush=True)


class SaidWhy(CannotStart):
    """The service cannot start, and one of its processes has already said why."""


@dataclass
class _Slot:
    process: Process
    popen: Child | None = None
    started_at: float = 0.0
    ready_at: float | None = None
    is_done: bool = False
    has_worked: bool = False
    failed_starts: int = 0
    restart_at: float = 0.0

    @property
    def is_ready(self) -> bool:
        return self.is_done or (self.popen is not None and self.ready_at is not None)

    def is_stable(self, now: float) -> bool:
        if self.ready_at is None:
            return False
        seconds = STABLE_SECONDS if self.process.is_ready else UNTESTED_STABLE_SECONDS
        return now - self.ready_at >= seconds


class Supervisor:
    """Runs `processes` until SIGTERM, SIGINT or SIGHUP, or until one of them cannot be started at all.

    A process that has worked once, or dies after all were up, is restarted for ever: full disks are freed, and other
    servers come back.

    Processes are started and restarted in list order: one that died waits until everything before it is ready. Early
    ones are started at once, and told when it is their turn. `stop_order` is the order of stopping; names that are not
    running are skipped. Once all are ready, `is_up` is called until it returns true.

    Single-threaded on purpose: the kernel ties a child's life to the thread that made it.
    """

    def __init__(
        self,
        processes: Sequence[Process],
        *,
        stop_order: Sequence[str],
        is_up: Callable[[], bool] = lambda: True,
    ) -> None:
        self._children = [_Slot(process) for process in processes]
        self._stop_order = stop_order
        self._is_up = is_up
        self._announced = False
        self._looks = 0
        self._stop_signals = 0
        self._wake, self._waker = socket.socketpair()

    def run(self) -> int:
        """Block until the end. Returns 0 after a requested stop, and raises `CannotStart` with the reason otherwise."""
        self._listen()
        adopt_orphans()
        try:
            for child in self._children:
                if child.process.is_early:
                    self._start(child)
            while not self._stop_signals:
                self._reap()
                self._start_due()
                self._see_to_logs()
                self._wait(self._pause())
            return 0
        finally:
            self._stop_all()

    def _listen(self) -> None:
        self._wake.setblocking(False)
        self._waker.setblocking(False)
        signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, self._on_stop)
        signal.signal(signal.SIGINT, self._on_stop)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup
            signal.signal(signal.SIGHUP, self._on_stop)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def _on_stop(self, signum: int, frame: FrameType | None) -> None:
        # Only a second Ctrl-C means more. Other signals may come twice for one stop: from a shell and the kernel when a
        # terminal is closed, or from `make` and from whoever signalled both of us.
        if signum == signal.SIGINT or not self._stop_signals:
            self._stop_signals += 1

    def _see_to_logs(self) -> None:
        for child in self._children:
            if child.process.log:
                begin_log_anew(child.process.log)

    def _wait(self, seconds: float) -> None:
        """Sleep until a signal arrives or the time is over."""
        readable, _, _ = select.select([self._wake], [], [], seconds)
        if readable:
            try:
                while self._wake.recv(512):
                    pass
            except BlockingIOError:
                pass

    def _pause(self) -> float:
        """Return how long to sleep until the next thing is due, unless a signal comes."""
        for child in self._children:
            if not child.is_ready:
                return POLL_SECONDS if child.popen else max(0.0, child.restart_at - time.monotonic())
        if self._announced:
            return LOOK_SECONDS
        return POLL_SECONDS if self._looks < FIRST_LOOKS else 1.0

    def _start_due(self) -> None:
        """Go down the list as far as everything is ready, and start what is not running."""
        for child in self._children:
            if child.popen is None and not child.is_done:
                if time.monotonic() < child.restart_at:
                    return
                self._start(child)
            if child.popen and child.popen.stdin:
                child.popen.stdin.close()
            if not child.is_ready:
                self._check(child)
            if not child.is_ready or self._stop_signals:
                return
        if not self._announced:
            self._looks += 1
            self._announced = self._is_up()

    def _start(self, child: _Slot) -> None:
        try:
            child.popen = spawn(child.process)
        except (CannotStart, OSError, subprocess.SubprocessError) as error:
            if self._stop_signals:  # it was cut short, as by Ctrl-C
                return
            if not self._is_kept(child):
                if isinstance(error, CannotStart):
                    raise
                raise CannotStart(f"{child.process.name} cannot be started: {error}.") from error
            self._failed(child, f"cannot be started ({error})")
        child.started_at = time.monotonic()
        child.ready_at = None

    def _check(self, child: _Slot) -> None:
        """Note that a running child is ready, or end a start that takes too long."""
        process, now = child.process, time.monotonic()
        if child.popen is None or process.once:
            return
        if process.is_ready is None or process.is_ready():
            child.ready_at = now
        elif process.start_seconds is not None and now - child.started_at > process.start_seconds:
            say(f"{process.name} was not ready within {process.start_seconds:.0f} s.")
            signal_group(child.popen.pid, signal.SIGKILL)

    def _reap(self) -> None:
        for child in self._children:
            if child.popen and child.popen.poll() is not None:
                self._ended(child, child.popen)
        _reap_strangers({child.popen.pid for child in self._children if child.popen})

    def _ended(self, child: _Slot, popen: Child) -> None:
        name, how = child.process.name, _how(popen.returncode)
        # Processes that it left running, such as a web server's, would hold its port.
        signal_group(popen.pid, signal.SIGKILL)
        child.popen = None
        if child.is_stable(time.monotonic()):
            child.has_worked, child.failed_starts = True, 0
        if popen.returncode == SAID_WHY and not self._is_kept(child):
            raise SaidWhy(f"{name} has said why")
        if child.process.once:
            if popen.returncode != 0:
                raise CannotStart(f"{name} {how}. Its output above says why.{log_hint(child.process)}")
            child.is_done = True
            return
        self._failed(child, how)

    def _is_kept(self, child: _Slot) -> bool:
        """Whether it is restarted however often it fails."""
        return child.has_worked or self._announced

    def _failed(self, child: _Slot, how: str) -> None:
        child.failed_starts += 1
        if child.failed_starts >= FAILED_STARTS and not self._is_kept(child):
            raise CannotStart(
                f"{child.process.name} failed {FAILED_STARTS} times in a row. The last time it {how}."
                f"{log_hint(child.process)}"
            )
        pause = min(LONGEST_BACKOFF, FIRST_BACKOFF * 2 ** min(child.failed_starts - 1, FAILED_STARTS))
        child.restart_at = time.monotonic() + pause
        say(f"{child.process.name} {how}. It is started again in {pause:.1f} s.")

    def _stop_all(self) -> None:
        children = {child.process.name: child for child in self._children}
        order = [children[name] for name in self._stop_order if name in children]
        for child in [child for child in self._children if child not in order] + order:
            if child.popen is not None:
                self._stop(child.process, child.popen)
                child.popen = None

    def _stop(self, process: Process, popen: Child) -> None:
        """Send each of its signals in turn to the process alone, then SIGKILL to all that it left."""
        before = self._stop_signals
        for signum, seconds in process.stop:
            if popen.poll() is not None:
                break
            popen.send_signal(signum)
            deadline = time.monotonic() + seconds
            # After a second Ctrl-C, wait no longer.
            while popen.poll() is None and time.monotonic() < deadline and self._stop_signals <= max(before, 1):
                self._wait(POLL_SECONDS)
        if popen.poll() is None:
            say(f"{process.name} did not stop and is being killed.")
        signal_group(popen.pid, signal.SIGKILL)
        popen.wait()


def _reap_strangers(own: set[int]) -> None:
    """Collect dead orphans that we adopted. Our own children are left to `Popen`, which needs their status."""
    if not hasattr(os, "waitid"):
        return
    while True:
        try:
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if found is None or found.si_pid in own:
            return
        os.waitpid(found.si_pid, 0)


def _how(returncode: int) -> str:
    if returncode >= 0:
        return f"ended with status {returncode}"
    try:
        return f"was ended by {signal.Signals(-returncode).name}"
    except ValueError:
        return f"was ended by signal {-returncode}"
