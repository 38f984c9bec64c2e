"""libcurl's multi interface in an event loop: many attempts at once from one thread."""

import contextlib
import os
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterator
from ipaddress import ip_network
from typing import Any

import pycurl

_SELECTOR_EVENTS = {
    pycurl.POLL_IN: selectors.EVENT_READ,
    pycurl.POLL_OUT: selectors.EVENT_WRITE,
    pycurl.POLL_INOUT: selectors.EVENT_READ | selectors.EVENT_WRITE,
}
_CURL_EVENTS = {
    selectors.EVENT_READ: pycurl.CSELECT_IN,
    selectors.EVENT_WRITE: pycurl.CSELECT_OUT,
    selectors.EVENT_READ | selectors.EVENT_WRITE: pycurl.CSELECT_IN | pycurl.CSELECT_OUT,
}


# How long libcurl may work on one connection at a stretch, in seconds of CPU time (a handshake and a body need some
# milliseconds), and how often that is checked, in seconds.
AT_A_STRETCH = 0.1
LOOK_AFTER = 0.1
# Work on one connection that takes LONG, in seconds of CPU time, ends a turn, so that all others are looked at again.
# Then its network comes last for LAST_FOR.
LONG = 0.005
LAST_FOR = 60.0
_BITS = {socket.AF_INET: 32, socket.AF_INET6: 48}  # of an address, by which receivers are told apart: some have a /48


class CurlLoop:
    """Handles under way. For use by one thread, apart from `wake_up`.

    A connection that libcurl does not return from is cut off, and its attempt fails. OpenSSL reads handshake messages
    (session tickets, in TLS 1.3) until there are no more, so a receiver that sends nothing else would hold up all
    others and their deadlines. A connection that is kept for the next post is cut off as soon as it sends something:
    libcurl would read it, and would not use the connection again anyway.

    Of many such connections, one is worked on in a turn. Once it took LONG, those to its network come after all others.
    That is an order only, so that it does no harm to those who share such an address, or on a slow machine.
    """

    def __init__(self, *, connections: int) -> None:
        self._selector = selectors.DefaultSelector()
        self._timer: float | None = None  # when libcurl wants to be called, in time.monotonic()
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_MAXCONNECTS, connections)  # kept open for the next posts to the same receivers
        self._multi.setopt(pycurl.M_SOCKETFUNCTION, self._watch)
        self._multi.setopt(pycurl.M_TIMERFUNCTION, self._set_timer)
        self.add = self._multi.add_handle
        self._bell, self._ear = socket.socketpair()
        self._bell.setblocking(False)
        self._ear.setblocking(False)
        self._selector.register(self._ear, selectors.EVENT_READ)
        self._in_use: dict[int, int] = {}  # sockets, with their inodes
        self._kept: dict[int, int] = {}  # likewise; libcurl does not say when it closes one, and numbers are reused
        self._peers: dict[int, str] = {}  # whom connections that were worked on are made to
        self._long: dict[str, float] = {}  # of these: when they were worked on for LONG, the last of them at the end
        self._at_work: tuple[int | None, int] | None = None  # the socket that libcurl works on now, and the thread
        self._cutting = threading.Lock()
        self._closed = threading.Event()
        threading.Thread(target=self._guard, name="curl-guard", daemon=True).start()

    def turn(self, until: float) -> bool:
        """Let libcurl do its work, waiting for some no longer than `until`. Returns whether `wake_up` was called."""
        if self._timer is not None:
            until = min(until, self._timer)
        is_woken, ready = False, []
        for key, mask in self._selector.select(max(until - time.monotonic(), 0)):
            if key.fileobj is self._ear:
                is_woken = True
                self._ear.recv(4096)
            elif (inode := self._kept.pop(key.fd, None)) is not None:
                self._selector.unregister(key.fd)
                _cut_off(key.fd, inode)
            else:
                ready.append((key.fd, _CURL_EVENTS[mask]))
        # libcurl's timer begins new transfers: after the cut-offs above, so that none takes a connection just cut off;
        # before the sockets below, so that claims are as young as possible when their posts begin.
        if self._timer is not None and self._timer <= time.monotonic():
            self._timer = None
            self._work(None, self._multi.socket_action, pycurl.SOCKET_TIMEOUT, 0)
        ready = [each for each in ready if each[0] in self._in_use]  # that work may have closed some
        now = time.monotonic()
        while self._long and now - self._long[oldest := next(iter(self._long))] > LAST_FOR:
            del self._long[oldest]
        if self._long:
            ready.sort(key=lambda each: self._long.get(self._peer(each[0]), 0.0))
        worked = time.thread_time()
        for fd, events in ready:
            if fd not in self._in_use:  # work on another has closed it
                continue
            peer = self._peer(fd)  # before it may be cut off
            self._work(fd, self._multi.socket_action, fd, events)
            before, worked = worked, time.thread_time()
            if worked - before > LONG:
                self._long.pop(peer, None)
                self._long[peer] = time.monotonic()
                break  # the rest is still ready in the next turn
        return is_woken

    def _peer(self, fd: int) -> str:
        """Return the network (`1.2.3.4/32`) that a connection is made to; empty while it is not made."""
        if not (peer := self._peers.get(fd, "")):
            with contextlib.suppress(OSError), _duplicate(fd) as connection:
                if bits := _BITS.get(connection.family):
                    peer = self._peers[fd] = str(ip_network((connection.getpeername()[0], bits), strict=False))
        return peer

    def remove(self, curl: Any) -> None:
        self._work(None, self._multi.remove_handle, curl)

    def _work(self, fd: int | None, call: Callable[..., Any], *args: Any) -> None:
        """Have libcurl work on one socket, or, for None, on any."""
        self._at_work = fd, threading.get_ident()
        try:
            call(*args)
        finally:
            with self._cutting:  # not during a cut: the descriptor may belong to another connection by then
                self._at_work = None

    def _guard(self) -> None:
        """Cut off connections that libcurl works on for too long. Runs in a thread of its own.

        It measures CPU time, so that pauses of the machine do not count.
        """
        watched, since, cuts = None, 0.0, 0
        while not self._closed.wait(LOOK_AFTER):
            with self._cutting:
                if self._at_work is None:
                    watched = None
                    continue
                fd, thread = self._at_work
                worked = time.clock_gettime(time.pthread_getcpuclockid(thread))
                if self._at_work is not watched:
                    watched, since, cuts = self._at_work, worked, 0
                elif worked - since > AT_A_STRETCH:
                    # The socket it works on, or the kept ones, which it reads before it begins; if that fails, all.
                    of_all = {**self._kept, **self._in_use}
                    suspects = of_all if cuts else self._kept.copy() if fd is None else [fd]
                    for each in suspects:
                        if each in of_all:
                            _cut_off(each, of_all[each])
                    since, cuts = worked, cuts + 1

    def ended(self) -> Iterator[tuple[Any, int]]:
        """Yield the handles that have ended, each with libcurl's error, which is 0 for none."""
        more = 1
        while more:
            more, good, bad = self._multi.info_read()
            for curl in good:
                yield curl, 0
            for curl, error, _ in bad:
                yield curl, error

    def wake_up(self) -> None:
        """End a wait in `turn`. May be called from any thread."""
        with contextlib.suppress(BlockingIOError):  # the bell is ringing already
            self._bell.send(b"!")

    def close(self) -> None:
        self._work(None, self._multi.close)
        self._closed.set()
        self._selector.close()
        self._bell.close()
        self._ear.close()

    def _watch(self, what: int, fd: int, multi: Any, data: Any) -> None:
        """Called by libcurl to watch a socket, or to stop: it then keeps the connection or closes it."""
        if what == pycurl.POLL_REMOVE:
            if (inode := self._in_use.pop(fd, None)) is not None:
                self._selector.modify(fd, selectors.EVENT_READ)
                self._kept[fd] = inode
        elif fd in self._in_use:
            self._selector.modify(fd, _SELECTOR_EVENTS[what])
        else:
            inode = self._in_use[fd] = os.fstat(fd).st_ino
            kept = self._kept.pop(fd, None)
            if kept not in (None, inode):  # it was closed, and its number belongs to another
                self._selector.unregister(fd)
                kept = None
            if not kept:
                self._peers.pop(fd, None)
            watch = self._selector.modify if kept else self._selector.register
            watch(fd, _SELECTOR_EVENTS[what])

    def _set_timer(self, milliseconds: int) -> None:
        self._timer = None if milliseconds < 0 else time.monotonic() + milliseconds / 1000


@contextlib.contextmanager
def _duplicate(fd: int) -> Iterator[socket.socket]:
    """Yield a duplicate of a socket, which libcurl cannot close. Raises OSError if it is closed or none."""
    duplicate = os.dup(fd)
    try:
        connection = socket.socket(fileno=duplicate)
    except OSError:
        os.close(duplicate)
        raise
    with connection:
        yield connection


def _cut_off(fd: int, inode: int) -> None:
    """Shut the connection down, if the descriptor is still its own, so that its reader finds the end at once.

    Data that came before is taken out of the kernel's buffer, whose megabytes would be seconds of work.
    """
    with contextlib.suppress(OSError), _duplicate(fd) as connection:
        if os.fstat(connection.fileno()).st_ino == inode:
            with contextlib.suppress(OSError):  # it has ended already
                connection.shutdown(socket.SHUT_RDWR)
            while connection.recv(1 << 20, socket.MSG_TRUNC):  # thrown away: tcp(7)
                pass
