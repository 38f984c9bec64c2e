"""A child process: its definition, how it is started and how it is stopped."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from codservice.errors import CannotStart
from codservice.run.kernel import STOPS, die_with_parent, name_process, stops_held_back

LOG_BYTES = 8 << 20
BEGUN = "codservice starts this process"  # a line in its log


@dataclass(frozen=True)
class Process:
    """What to run. Plain data, so that a test can supervise processes of its own."""

    name: str
    command: Sequence[str] = ()
    target: Callable[[], int | None] | None = None
    """Runs in a fork of the supervisor instead of a command, and shares the memory of what is loaded already."""
    before_start: Callable[[], None] | None = None
    """`spawn` calls it before every start. It may raise `CannotStart`."""
    is_ready: Callable[[], bool] | None = None
    """Called until it returns True; later processes of the list wait for that. None: ready as soon as it runs."""
    is_early: bool = False
    """Whether it starts before its turn, to load meanwhile. The end of its standard input tells it that its turn has
    come."""
    once: bool = False
    """Whether it runs only once. It is ready when it has ended with status 0; any other status ends the service."""
    start_seconds: float | None = 60.0
    """A start that takes longer has failed. None: no limit."""
    stop: Sequence[tuple[signal.Signals, float]] = ((signal.SIGTERM, 10.0),)
    """The signals that stop it, each with the seconds it is given to end. SIGKILL follows the last."""
    orphan_signal: signal.Signals = signal.SIGKILL
    """The signal that the kernel sends it when the supervisor dies (Linux)."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """More arguments for `subprocess.Popen`, such as `cwd` or `user`."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Added to the supervisor's own environment."""
    log: Path | None = None
    """The file for its output. `begin_log_anew` empties it when it has grown. None: the terminal."""


class Child(Protocol):
    """What the supervisor needs of a running child. `subprocess.Popen` provides it."""

    pid: int
    returncode: Any
    stdin: Any

    def poll(self) -> int | None: ...
    def wait(self) -> int: ...
    def send_signal(self, sig: int, /) -> None: ...


def spawn(process: Process) -> Child:
    """Start it in its own session, which Ctrl-C does not reach. It gets a signal when we die (Linux)."""
    if process.before_start:
        process.before_start()
    bind = _bind(process.orphan_signal, os.getpid())
    with stops_held_back():
        return _begin(process, bind)


def _begin(process: Process, bind: Callable[[], None]) -> Child:
    if process.target is not None:
        return _Fork(process.name, process.target, bind)
    output = process.log.open("ab", buffering=0) if process.log else None
    try:
        if output:
            with contextlib.suppress(OSError):  # on a full disk
                output.write(f"{datetime.now(UTC):%F %T} UTC {BEGUN}\n".encode())
        return subprocess.Popen(  # noqa: S603 - the processes are ours
            process.command,
            stdin=subprocess.PIPE if process.is_early else subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, **process.environment},
            start_new_session=True,
            # Runs after the change of user, which would clear the death signal.
            preexec_fn=bind,
            **process.options,
        )
    finally:
        if output:
            output.close()


def becomes_ready(process: Process, child: Child, *, seconds: float) -> bool:
    """Wait until it is ready, without a supervisor. Returns False if it has ended or takes longer than `seconds`."""
    deadline = time.monotonic() + seconds
    while process.is_ready and not process.is_ready():
        if child.poll() is not None or time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def begin_log_anew(log: Path) -> None:
    """Empty a log that has grown, while its process appends to it. `.1` gets a copy if there is room."""
    with contextlib.suppress(OSError):  # no process has written to it yet
        if log.stat().st_size > LOG_BYTES:
            kept = log.with_name(log.name + ".1")
            try:
                shutil.copyfile(log, kept)
            finally:  # also on a full disk, which the log may have filled
                os.truncate(log, 0)


def why(said: str) -> str:
    """Return the line of a server's output that says why it ended; later lines only say how."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    faults = [line for line in lines if any(word in line for word in ("FATAL:", "ERROR:", "error:"))]
    return (faults or lines or [""])[-1]


def log_hint(process: Process) -> str:
    """Return a sentence with the log line that says why this start ended, after a space; empty if there is none."""
    if process.log is None or not process.log.exists():
        return ""
    with process.log.open("rb") as file:
        file.seek(max(0, process.log.stat().st_size - 4096))
        reason = why(file.read().decode(errors="replace").rpartition(f"{BEGUN}\n")[2])
    return f" {process.log} says: {reason}" if reason else ""


class _Fork:
    """A forked child that runs a function and exits with its status."""

    stdin = None

    def __init__(self, name: str, target: Callable[[], int | None], bind: Callable[[], None]) -> None:
        self.returncode: int | None = None
        _flush()
        self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                status = _run(name, target, bind)
            finally:  # whatever happened, the code after this is for the parent only
                os._exit(status)

    def poll(self) -> int | None:
        return self._collect(os.WNOHANG)

    def wait(self) -> int:
        self._collect(0)
        assert self.returncode is not None  # noqa: S101 - it has ended
        return self.returncode

    def send_signal(self, sig: int, /) -> None:
        if self.poll() is None:
            os.kill(self.pid, sig)

    def _collect(self, options: int) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, options)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


def _run(name: str, target: Callable[[], int | None], bind: Callable[[], None]) -> int:
    """Run a forked child to its end and return its exit status."""
    try:
        os.setsid()
        bind()
        name_process(name)
        signal.set_wakeup_fd(-1)
        for signum in (signal.SIGCHLD, signal.SIGHUP):
            signal.signal(signum, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        return target() or 0
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
            return 1
        return end.code or 0
    except CannotStart as error:
        print(f"codservice: {error}", file=sys.stderr)
        return 1
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        _flush()


def _flush() -> None:
    """Flush stdout and stderr; a full disk or a closed pipe does not matter."""
    for stream in filter(None, (sys.stdout, sys.stderr)):  # None: it was closed before we started
        with contextlib.suppress(OSError):
            stream.flush()


def _bind(signum: int, parent: int) -> Callable[[], None]:
    def bind() -> None:
        for stop in STOPS:
            signal.signal(stop, signal.SIG_DFL)  # no longer the supervisor's
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        die_with_parent(signum, parent)

    return bind


def signal_group(leader: int, signum: int) -> None:
    """Signal the whole process group of `leader`, whether the leader is dead or alive."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signum)
