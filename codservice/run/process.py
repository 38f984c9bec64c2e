"""One child process: what it is, how it is started and how it is stopped."""

import contextlib
import ctypes
import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LOG_BYTES = 8 << 20
SETTLED_SECONDS = 15.0

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36

_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


@dataclass(frozen=True)
class Process:
    """What is to run. Plain data, so that a test can supervise processes of its own."""

    name: str
    command: Sequence[str]
    before_start: Callable[[], None] | None = None
    """Called before every start; may raise `CannotStart`."""
    is_ready: Callable[[], bool] | None = None
    """Asked until it says yes; what comes later in the list waits for it. None: ready as soon as it runs."""
    once: bool = False
    """Runs to its end and is ready when it ended with 0; anything else ends the service."""
    start_seconds: float | None = 60.0
    """A start that takes longer than this has failed. None: as long as it takes."""
    stop: Sequence[tuple[signal.Signals, float]] = ((signal.SIGTERM, 10.0),)
    """Signals to stop it with, each with the seconds it is given; SIGKILL comes last."""
    orphan_signal: signal.Signals = signal.SIGKILL
    """What the kernel sends it when the supervisor dies (Linux)."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """More arguments of `subprocess.Popen`, such as `cwd`, `user`."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Added to the supervisor's own environment."""
    log: Path | None = None
    """File that gets its output, started anew (the old one kept) when it has grown; None: the terminal."""


def spawn(process: Process) -> subprocess.Popen[bytes]:
    """Start it in a session of its own (Ctrl-C reaches only the supervisor), bound to our life."""
    if process.log and process.log.exists() and process.log.stat().st_size > LOG_BYTES:
        process.log.replace(process.log.with_name(process.log.name + ".1"))
    output = process.log.open("ab") if process.log else None
    try:
        return subprocess.Popen(  # noqa: S603 - the processes are ours
            process.command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, **process.environment},
            start_new_session=True,
            # Runs after the change of user, which would clear the setting again.
            preexec_fn=_bind(process.orphan_signal, os.getpid()),
            **process.options,
        )
    finally:
        if output:
            output.close()


def _bind(signum: int, parent: int) -> Callable[[], None]:
    def bind() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        die_with_parent(signum, parent)

    return bind


def die_with_parent(signum: int, parent: int) -> None:
    """Have the kernel send us `signum` when `parent`, our parent process, dies. Linux only; elsewhere nothing."""
    if _libc is None:
        return
    _libc.prctl(PR_SET_PDEATHSIG, signum, 0, 0, 0)
    if os.getppid() != parent:  # it died before the kernel knew
        os.kill(os.getpid(), signum)


def adopt_orphans() -> None:
    """Become the parent of orphaned descendants, so that none is left behind. Linux only; elsewhere nothing."""
    if _libc is not None:
        _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def return_memory() -> None:
    """Give back what loading the modules left over: a tenth of a process and more."""
    gc.collect()
    if _libc is not None and hasattr(_libc, "malloc_trim"):  # glibc
        _libc.malloc_trim(0)


def return_memory_soon() -> None:
    """The same in some seconds, when what is loaded at the first use is loaded too."""
    timer = threading.Timer(SETTLED_SECONDS, return_memory)
    timer.daemon = True
    timer.start()


def signal_group(leader: int, signum: int) -> None:
    """Signal the whole process group of `leader`, the leader dead or alive."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signum)
