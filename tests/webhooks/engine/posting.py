"""Posts with only `webhooks.sender`, in a process of its own: `python -m tests.webhooks.engine.posting`.

Reads a JSON object with `urls` and the Sender's arguments from stdin, posts to all of them at once, and writes a JSON
object with the outcomes and the memory that they took. The `own_seconds` of an outcome are those that passed, and that
were noted, without what this process waited for a processor.
"""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from tests.harness.processes import CHECKOUT

LATEST = 3.3  # own seconds of an attempt: its three, and what the sender may need to tell of it
SECRET = "whsec_" + "A" * 43 + "="


def post_all(urls: Sequence[str], *, environ: Mapping[str, str] = os.environ, **more: Any) -> Any:
    """Post to each of `urls` in another process, and return the outcomes and the memory (see the module)."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.webhooks.engine.posting"],
        input=json.dumps({"urls": list(urls), **more}),
        env=dict(environ),
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def _resident() -> float:
    """Megabytes of memory that this process holds."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def queued() -> float:
    """The seconds, from an arbitrary start, that this thread has waited for a processor. No receiver is to blame."""
    return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9


def main() -> None:
    from webhooks.sender import Post, Sender

    assert "django" not in sys.modules, "the sender knows no ORM"
    given = json.load(sys.stdin)
    peak = 0.0
    is_over = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not is_over.wait(0.01):
            peak = max(peak, _resident())

    before = _resident()
    threading.Thread(target=watch, daemon=True).start()
    sender = Sender(width=1000, allow_private=given.get("allow_private", False), ca_file=given.get("ca_file"))
    started, outcomes = {}, {}
    for number, url in enumerate(given["urls"]):
        post = Post(uuid4(), url, "order.confirmed", b'{"number":%d}' % number, [SECRET], 1)
        started[post.delivery_id] = time.monotonic(), queued()
        sender.start(post)
    while not sender.is_idle:
        for outcome in sender.finished(1.0):
            began, queued_before = started[outcome.post.delivery_id]
            seconds, noted = time.monotonic() - began, outcome.milliseconds / 1000
            outcomes[outcome.post.url] = {
                "failure": outcome.failure,
                "status": outcome.status_code,
                "seconds": seconds,
                "noted_seconds": noted,
                "own_seconds": max(seconds, noted) - (queued() - queued_before),
                "kept": len(outcome.response),
            }
    assert sender.room == sender.width
    sender.close()
    is_over.set()
    json.dump({"outcomes": outcomes, "megabytes": peak - before}, sys.stdout)


if __name__ == "__main__":
    main()
