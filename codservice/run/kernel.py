"""What a process of ours asks of the kernel and of its allocator."""

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
from collections.abc import Iterator
from contextlib import contextmanager, suppress

SETTLED_SECONDS = 15.0
STOPS = {signal.SIGTERM, signal.SIGINT}

PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15
PR_SET_CHILD_SUBREAPER = 36

SO_ATTACH_FILTER = 26
# Each instruction as the kernel has it (linux/filter.h): code, jump if true, jump if false, constant. A socket's filter
# sees a segment from its TCP header on, whose flags are byte 13: those that ask for a connection are dropped.
_NO_SYN = b"".join(
    struct.pack("HBBI", *instruction)
    for instruction in [
        (0x30, 0, 0, 13),  # load the flags
        (0x45, 0, 1, 0x02),  # SYN among them?
        (0x06, 0, 0, 0),  # drop
        (0x06, 0, 0, 0xFFFFFFFF),  # keep
    ]
)

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


@contextmanager
def stops_held_back() -> Iterator[None]:
    """Hold STOPS back while we fork, in this block. A child has our handlers until it sets its own, and would take a
    signal that is to end it for one of ours. In the child STOPS wait until it lets them through."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def adopt_orphans() -> None:
    """Become the parent of orphaned descendants, so that none is left behind. Linux only; elsewhere nothing."""
    if _libc is not None:
        _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def allow_open_files(count: int) -> int:
    """Have room for so many, each connection being one: many systems allow 1024 unless asked for more. Returns for how
    many of them there is room, as some systems allow no more."""
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count if most == resource.RLIM_INFINITY else min(count, most)
    if allowed != resource.RLIM_INFINITY and allowed < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
    return wanted


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


def _sockets() -> Iterator[socket.socket]:
    """The sockets of this process, by descriptors of our own."""
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # closed meanwhile
            if stat.S_ISSOCK(os.stat(int(name)).st_mode):
                with socket.socket(fileno=os.dup(int(name))) as each:
                    yield each


def drop_connection(peer: tuple[str, int]) -> None:
    """End this process's TCP connection with `peer`, an address and a port, whoever holds it. Linux only."""
    if _libc is None:
        return
    for each in _sockets():
        with suppress(OSError):  # not connected
            if each.getpeername()[:2] == peer:
                each.shutdown(socket.SHUT_RDWR)


def take_no_more_connections() -> None:
    """Have the kernel answer nobody who asks for a connection; those that it has already can be accepted.

    Whoever closes a listening socket resets the connections that wait there to be accepted, whose clients may have sent
    their requests. So nothing new may come before it is closed. Linux only; elsewhere nothing.
    """
    if _libc is None:
        return
    code = ctypes.create_string_buffer(_NO_SYN)
    program = struct.pack("HP", len(_NO_SYN) // 8, ctypes.addressof(code))
    for each in _sockets():
        with suppress(OSError):  # no TCP, or a kernel without filters
            if each.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                each.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)
