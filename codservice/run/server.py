"""The server of the web processes: granian, with our way to stop.

Their parent is told to stop, and sends each of them SIGUSR1 (`Server.shutdown`). From then on a web process accepts no
new connections, and tells its clients that theirs end (`leave`). LAST_SECONDS later an alarm unblocks the stop signals,
whoever sent them, and granian finishes the requests in flight, for at most `stop_seconds`.
"""

import multiprocessing
import os
import signal
import sys
import threading
from contextlib import suppress
from functools import partial
from multiprocessing.connection import wait
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from django.conf import settings
from granian.constants import HTTPModes, Interfaces, Loops
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.server.mp import MPServer

from codservice.run.gateway import Gateway
from codservice.run.kernel import STOPS, allow_open_files, die_with_parent, stops_held_back, take_no_more_connections

if TYPE_CHECKING:
    from codservice.run.web import Web

HEADER_MILLISECONDS = 10_000
HEADER_BYTES = 64 << 10
# Between the last new connection and the end, so that waiting connections are accepted and their requests arrive.
LAST_SECONDS = 1.0
# Connections that a process holds at once, including slow and idle ones, where it may open twice as many files; an idle
# one costs some kilobytes. Others wait.
CONNECTIONS = 4096


class Server(MPServer):
    """Serves a WSGI application (`module:name`) by processes that, before they stop, accept no more connections and
    finish those that they have."""

    def __init__(self, web: "Web", application: str, *, stop_seconds: int) -> None:
        super().__init__(
            application,
            address=web.address(),
            port=web.port,
            interface=Interfaces.ASGINL,
            loop=Loops.uvloop,
            workers=web.workers,
            backpressure=allow_open_files(2 * CONNECTIONS) // 2,  # the other files are for answering
            http=HTTPModes.http1,
            http1_settings=HTTP1Settings(header_read_timeout=HEADER_MILLISECONDS, max_buffer_size=HEADER_BYTES),
            websockets=False,
            log_level=LogLevels.warning,
            log_dictconfig={"formatters": {}, "handlers": {}, "loggers": {}},  # its lines go to our handler
            respawn_failed_workers=True,
            respawn_interval=0.1,
            workers_kill_timeout=stop_seconds,
        )
        self._gateway = partial(_gateway, application, web.threads, os.getpid())

    def run(self) -> None:
        """Serve until SIGTERM or SIGINT; requests in flight are finished."""
        if sys.platform == "linux":  # elsewhere processes are not forked, nor by Python 3.14's default
            multiprocessing.set_start_method("fork", force=True)
        # Closing the terminal means to stop, unless nohup prevents it. granian would restart its processes, which do
        # not stop by its signal alone.
        ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        hang_up = signal.SIG_IGN if ignored else self.signal_handler_interrupt
        self.on_startup(lambda: signal.signal(signal.SIGHUP, hang_up))
        # SIGUSR1 would end a process that has no handler for it yet, so it is blocked until then.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
        self.serve(target_loader=self._gateway, wrap_loader=False)

    def shutdown(self, exit_code: int = 0) -> None:
        for worker in self.wrks:
            worker.interrupt_by_parent = True  # from now on its end is expected, whoever tells it to stop
            with suppress(ProcessLookupError):
                os.kill(worker.inner.pid, signal.SIGUSR1)
        threading.Event().wait(LAST_SECONDS)
        try:
            super().shutdown(exit_code)
        except SystemExit:
            if not self.interrupt_signal:  # if told to stop, a process that ended just before is no failure
                raise

    def _spawn_worker(self, *args: Any, **kwargs: Any) -> Any:
        worker = super()._spawn_worker(*args, **kwargs)
        # It forks with STOPS blocked.
        worker.start = stops_held_back()(worker.start)  # type: ignore[method-assign]
        # A thread of granian collects ended processes. Until that thread is told, granian thinks that the process
        # refuses to stop, and kills whichever process has its number by then.
        worker.is_alive = lambda: not wait([worker.inner.sentinel], timeout=0)  # type: ignore[method-assign]
        return worker


def _gateway(application: str, threads: int, parent: int) -> Gateway:
    """Make the gateway, in each web process. Where processes are forked, the application is already in memory."""
    # A terminal and systemd tell all processes of a service to stop. Here that waits, in all threads, until the clients
    # have been told. Forked processes have blocked these signals since the fork.
    signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    if sys.platform == "linux":
        die_with_parent(signal.SIGKILL, parent)
    wsgi = resolve_name(application)
    if settings.configured:
        from codservice.accounts.authentication import is_known

        gateway = Gateway(wsgi, threads, is_known)
    else:
        gateway = Gateway(wsgi, threads)

    def leave(*_: object) -> None:
        take_no_more_connections()
        gateway.is_leaving = True
        signal.setitimer(signal.ITIMER_REAL, LAST_SECONDS)

    signal.signal(signal.SIGALRM, lambda *_: signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS))
    signal.signal(signal.SIGUSR1, leave)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})
    return gateway
