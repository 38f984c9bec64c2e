"""What a process of ours asks of the kernel and of its allocator."""

import ctypes
import gc
import os
import sys
import threading

SETTLED_SECONDS = 15.0

PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15
PR_SET_CHILD_SUBREAPER = 36

_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def name_process(name: str) -> None:
    """Have `ps -o comm` and `pgrep` show what we are. Linux only; elsewhere nothing."""
    if _libc is not None:
        _libc.prctl(PR_SET_NAME, f"cod-{name}"[:15].encode(), 0, 0, 0)


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
