"""libcurl's multi interface in an event loop: many attempts at once from one thread."""

import contextlib
import os
import selectors
import socket
import threading
import time
from collections.abc import Iterator
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


# How long a connection may be worked on at a stretch, in seconds of the processor's time (a handshake and a body need
# some milliseconds), and how often that is looked at, in seconds.
AT_A_STRETCH = 0.1
LOOK_AFTER = 0.1


class CurlLoop:
    """Handles under way. For one thread, apart from `wake_up`.

    A connection that libcurl does not come back from is cut off, and its attempt fails: OpenSSL reads a handshake's
    messages (session tickets, in TLS 1.3) until none is there, so that a receiver which sends nothing else would hold
    all the others up, their deadlines too.
    """

    def __init__(self, *, connections: int) -> None:
        self._selector = selectors.DefaultSelector()
        self._timer: float | None = None  # when libcurl wants to be called, in time.monotonic()
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_MAXCONNECTS, connections)  # kept open for the next posts to the same receivers
        self._multi.setopt(pycurl.M_SOCKETFUNCTION, self._watch)
        self._multi.setopt(pycurl.M_TIMERFUNCTION, self._set_timer)
        self._bell, self._ear = socket.socketpair()
        self._bell.setblocking(False)
        self._ear.setblocking(False)
        self._selector.register(self._ear, selectors.EVENT_READ)
        self._worked_on: tuple[int, int] | None = None  # the socket that libcurl sees to now, and the thread
        self._cutting = threading.Lock()
        self._closed = threading.Event()
        threading.Thread(target=self._cut_off, name="curl-watch", daemon=True).start()
        self.add, self.remove = self._multi.add_handle, self._multi.remove_handle

    def turn(self, until: float) -> bool:
        """Let libcurl do what is to be done; waits for it no longer than `until`. Whether it was woken up."""
        now = time.monotonic()
        if self._timer is not None:
            if self._timer <= now:
                self._timer = None
                self._multi.socket_action(pycurl.SOCKET_TIMEOUT, 0)
                until = now  # what it has ended must not wait for others
            else:
                until = min(until, self._timer)
        is_woken = False
        for key, mask in self._selector.select(max(until - now, 0)):
            if key.fileobj is self._ear:
                is_woken = True
                self._ear.recv(4096)
            else:
                self._see_to(key.fd, _CURL_EVENTS[mask])
        return is_woken

    def _see_to(self, fd: int, events: int) -> None:
        self._worked_on = fd, threading.get_ident()
        try:
            self._multi.socket_action(fd, events)
        finally:
            with self._cutting:  # not amid a cut: the descriptor may be another connection's by then
                self._worked_on = None

    def _cut_off(self) -> None:
        """Runs in a thread of its own. The processor's time counts, so that no pause of the machine does."""
        watched, since = None, 0.0
        while not self._closed.wait(LOOK_AFTER):
            with self._cutting:
                if self._worked_on is None:
                    watched = None
                    continue
                fd, thread = self._worked_on
                worked = time.clock_gettime(time.pthread_getcpuclockid(thread))
                if self._worked_on is not watched:
                    watched, since = self._worked_on, worked
                elif worked - since > AT_A_STRETCH:
                    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(fd)) as connection:
                        connection.shutdown(socket.SHUT_RDWR)

    def ended(self) -> Iterator[tuple[Any, int]]:
        """Handles that have ended, each with libcurl's error, 0 when there was none."""
        more = 1
        while more:
            more, good, bad = self._multi.info_read()
            for curl in good:
                yield curl, 0
            for curl, error, _ in bad:
                yield curl, error

    def wake_up(self) -> None:
        """End a wait in `turn`; may be called from another thread."""
        with contextlib.suppress(BlockingIOError):  # the bell is ringing already
            self._bell.send(b"!")

    def close(self) -> None:
        self._closed.set()
        self._multi.close()
        self._selector.close()
        self._bell.close()
        self._ear.close()

    def _watch(self, what: int, fd: int, multi: Any, data: Any) -> None:
        """libcurl's wish to be told of a socket's events, or no longer."""
        if what == pycurl.POLL_REMOVE:
            with contextlib.suppress(KeyError):
                self._selector.unregister(fd)
        elif fd in self._selector.get_map():
            self._selector.modify(fd, _SELECTOR_EVENTS[what])
        else:
            self._selector.register(fd, _SELECTOR_EVENTS[what])

    def _set_timer(self, milliseconds: int) -> None:
        self._timer = None if milliseconds < 0 else time.monotonic() + milliseconds / 1000
