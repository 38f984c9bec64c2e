"""An engine in a process of its own: `python -m tests.webhooks.engine.worker WINDOW`.

Says `ready`, waits for a line, drains until the next line, and says how many it has sent.
"""

import os
import sys
import threading
import time


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "codservice.settings")
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
