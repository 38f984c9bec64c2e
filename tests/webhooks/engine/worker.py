"""An engine in a process of its own: `python -m tests.webhooks.engine.worker WINDOW FILES`.

Its hard limit of open files becomes FILES, if that is not 0. Prints `ready`, waits for a line, drains until the
next line, and prints how many it has sent.
"""

import os
import resource
import subprocess
import sys
import threading
import time

from tests.harness.background import PATIENCE
from tests.harness.database import environment
from tests.harness.python import Python


class Worker:
    """An engine in a process of its own, which drains until it is told to stop."""

    def __init__(self, window: int, most_files: int = 0) -> None:
        """Start the process. `most_files` is its hard limit of open files, which it cannot raise."""
        self.popen = Python(
            *("-m", "tests.webhooks.engine.worker", str(window), str(most_files)),
            env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def wait_until_ready(self) -> "Worker":
        assert self.popen.stdout is not None
        assert self.popen.stdout.readline() == "ready\n"
        return self

    def start(self) -> None:
        self.tell("go\n")

    def tell(self, line: str) -> None:
        assert self.popen.stdin is not None
        self.popen.stdin.write(line)
        self.popen.stdin.flush()

    def stop(self) -> int:
        """Stop the engine, and return how many it has sent."""
        self.tell("stop\n")
        assert self.popen.stdout is not None
        sent = int(self.popen.stdout.readline())
        assert self.popen.wait(PATIENCE) == 0
        return sent

    def kill(self) -> None:
        self.popen.kill()
        self.popen.wait()


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "codservice.settings")
    if most := int(sys.argv[2]):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    import django

    django.setup()
    from django.db import connection

    from webhooks.engine import Engine

    connection.ensure_connection()
    engine = Engine(window=int(sys.argv[1]))
    print("ready", flush=True)
    if not sys.stdin.readline():
        return
    is_told = threading.Event()

    def listen() -> None:
        sys.stdin.readline()
        is_told.set()
        engine.stop()

    threading.Thread(target=listen, daemon=True).start()
    sent = 0
    while not is_told.is_set():
        sent += engine.drain()
        time.sleep(0.02)
    print(sent, flush=True)


if __name__ == "__main__":
    main()
