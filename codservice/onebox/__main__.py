"""`python -m codservice.onebox`: the whole service in the foreground, until Ctrl-C or SIGTERM."""

import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress

from codservice.data_folder import Layout, data_dir, hold, is_set, kept_from_cleaners
from codservice.errors import CannotStart
from codservice.onebox.process import Process
from codservice.onebox.service import STOP_ORDER, processes
from codservice.onebox.supervisor import SaidWhy, Supervisor, say
from codservice.run.kernel import die_with_parent, return_memory
from codservice.run.web import Web
from codservice.secret_file import secrets

PATIENCE_SECONDS = 30.0


def main(list_processes: Callable[[Layout, Web], list[Process]] = processes) -> int:
    """Run until stopped and return the exit status. If it cannot start, print one sentence that says why."""
    if "--stop-with-parent" in sys.argv[1:]:
        die_with_parent(signal.SIGTERM, os.getppid())
    try:
        web = Web.from_environ()
        layout = Layout(data_dir())
        if (lock := hold(layout)) is None:
            raise CannotStart(
                f"Another codservice already runs on DATA_DIR {layout.data}. Stop it, or set another DATA_DIR."
            )
        with lock, web.hold():
            if not is_set("SECRET_KEY"):
                secrets(layout.data)
            try:
                listed = list_processes(layout, web)
                with kept_from_cleaners(layout):
                    return Supervisor(listed, stop_order=STOP_ORDER, is_up=_announce(web, layout)).run()
            finally:
                # It only has sockets without a listener, and copies of programs.
                shutil.rmtree(layout.runtime, ignore_errors=True)
    except SaidWhy:
        return 1
    except CannotStart as error:
        say(str(error))
        return 1


def _announce(web: Web, layout: Layout) -> Callable[[], bool]:
    """Return a function that, once /readyz answers 200, prints where everything is and returns true."""
    had_data = layout.cluster.exists()
    started = time.monotonic()
    patience = PATIENCE_SECONDS

    def is_up() -> bool:
        nonlocal patience
        status, body = web.get("/readyz?url")
        if status == 200:
            url = json.loads(body).get("url") or web.url
            # “(new)” shows a misspelt DATA_DIR before anybody misses the data of the right one.
            is_new = layout.cluster.exists() and not had_data
            with suppress(OSError):
                print(
                    f"codservice is up after {time.monotonic() - started:.1f} s; Ctrl-C stops it.\n"
                    f"  Console   {url}/console/\n"
                    f"  Account   {url}/account/\n"
                    f"  API docs  {url}/api/docs\n"
                    f"  Data      {layout.data}{' (new)' if is_new else ''}",
                    flush=True,
                )
            if os.geteuid() == 0:
                say("Web and workers run as root. A user of their own would be safer (SECURITY.md).")
            return_memory()
            return True
        if time.monotonic() - started > patience:
            patience = float("inf")
            answer = f"{status} {body.strip()}" if status else "nothing"
            # Where HOST is one address that is not loopback, the answer does not say what is wrong.
            say(f"Not ready yet: {web.url}/readyz answers {answer}. `manage.py check_service` says more.")
        return False

    return is_up


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:  # before the supervisor listens for it; ends by the signal, as shells expect
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
