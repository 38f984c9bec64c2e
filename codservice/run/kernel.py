"""What our processes ask of the kernel and the memory allocator."""

import ctypes
import gc
import os
import resource
import signal
import socket
import stat
import struct
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

SETTLED_SECONDS = 15.0
STOPS = {signal.SIGTERM, signal.SIGINT}

PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15
PR_SET_CHILD_SUBREAPER = 36

SO_ATTACH_FILTER = 26
# Instructions in the kernel's form (linux/filter.h): code, jump if true, jump if false, constant. A socket's filter
# sees segments from the TCP header on, where byte 13 has the flags. It drops those that ask for a connection.
_NO_SYN = b"".join(
    struct.pack("HBBI", *instruction)
    for instruction in [
        (0x30, 0, 0, 13),  # load the flags
        (0x45, 0, 1, 0x02),  # is SYN set?
        (0x06, 0, 0, 0),  # drop
        (0x06, 0, 0, 0xFFFFFFFF),  # keep
    ]
)

_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def name_process(name: str) -> None:
    """Set the name that `ps -o comm` and `pgrep` show. Linux only; a no-op elsewhere."""
    if _libc is not None:
        _libc.prctl(PR_SET_NAME, f"cod-{name}"[:15].encode(), 0, 0, 0)


def die_with_parent(signum: int, parent: int) -> None:
    """Have the kernel send us `signum` when `parent`, our parent process, dies. Linux only; a no-op elsewhere."""
    if _libc is None:
        return
    _libc.prctl(PR_SET_PDEATHSIG, signum, 0, 0, 0)
    if os.getppid() != parent:  # it died before the kernel knew
        os.kill(os.getpid(), signum)


@contextmanager
def stops_held_back() -> Iterator[None]:
    """Block the signals STOPS while we fork in this block.

    A child has our handlers until it sets its own, and would treat a signal for it as one for us. In the child, STOPS
    stay blocked until it unblocks them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def adopt_orphans() -> None:
    """Become the parent of orphaned descendants, so that none is left behind. Linux only; a no-op elsewhere."""
    if _libc is not None:
        _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def allow_open_files(count: int) -> int:
    """Raise the limit on open files to `count`; each connection is one, and many systems allow 1024 by default.

    Returns how many of these are allowed, as some systems allow fewer."""
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count if most == resource.RLIM_INFINITY else min(count, most)
    if allowed != resource.RLIM_INFINITY and allowed < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
    return wanted


def return_memory() -> None:
    """Give back memory that loading modules has left unused: a tenth of a process and more."""
    gc.collect()
    if _libc is not None and hasattr(_libc, "malloc_trim"):  # glibc
        _libc.malloc_trim(0)


def return_memory_soon() -> None:
    """The same after SETTLED_SECONDS, when what is loaded at its first use is loaded too."""
    timer = threading.Timer(SETTLED_SECONDS, return_memory)
    timer.daemon = True
    timer.start()


def _sockets() -> Iterator[socket.socket]:
    """Yield the sockets of this process, as duplicates."""
    try:
        opened: Iterable[int] = map(int, os.listdir("/proc/self/fd"))
    except OSError:  # no /proc
        opened = range(min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], 1 << 16))
    for number in opened:
        with suppress(OSError):  # it is closed
            if stat.S_ISSOCK(os.stat(number).st_mode):
                with socket.socket(fileno=os.dup(number)) as each:
                    yield each


def drop_connection(peer: tuple[str, int]) -> None:
    """End this process's TCP connection with `peer` (address and port), whichever code holds it. Linux only."""
    if _libc is None:
        return
    for each in _sockets():
        with suppress(OSError):  # not connected
            if each.getpeername()[:2] == peer:
                each.shutdown(socket.SHUT_RDWR)


def take_no_more_connections() -> None:
    """Have the kernel ignore new connections; those that wait already can still be accepted.

    Closing a listening socket resets the connections that wait to be accepted, whose clients may have sent requests. So
    no new ones may arrive before it is closed. Linux only; a no-op elsewhere.
    """
    if _libc is None:
        return
    code = ctypes.create_string_buffer(_NO_SYN)
    program = struct.pack("HP", len(_NO_SYN) // 8, ctypes.addressof(code))
    for each in _sockets():
        with suppress(OSError):  # not TCP, or a kernel without filters
            if each.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                each.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)
