"""What Valkey holds; and a Valkey for one test, which it can fill, make a replica and stop and disturb nobody."""

import base64
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import unquote, urlsplit

import redis

from codservice import data_folder
from codservice.data_folder import Layout
from codservice.onebox.process import becomes_ready, spawn
from codservice.onebox.valkey import valkey

from .background import PATIENCE


def redis_texts(client: redis.Redis) -> list[str]:
    """All that the database holds, as text: keys, values, and the bodies of Celery's messages (base64 inside JSON)."""
    readers = {
        b"string": lambda key: [client.get(key)],
        b"list": lambda key: client.lrange(key, 0, -1),
        b"set": client.smembers,
        b"zset": lambda key: client.zrange(key, 0, -1),
        b"hash": lambda key: [each for pair in client.hgetall(key).items() for each in pair],
    }
    keys = list(client.scan_iter())
    found = keys + [value for key in keys for value in readers[client.type(key)](key) if value is not None]
    bodies = [base64.b64decode(body) for value in found for body in re.findall(rb'"body": ?"([\w+/=]+)"', value)]
    return [value.decode(errors="replace") for value in found + bodies]


class Broker:
    """A running server."""

    def __init__(self, url: str, pid: int) -> None:
        self.url, self.pid = url, pid
        self.client = redis.Redis.from_url(url)

    def refuse(self, why: str) -> None:
        """Answer but refuse writes, as a `replica` or because it is `full`."""
        if why == "replica":
            self.client.execute_command("REPLICAOF", "127.0.0.1", "1")
        else:
            self.client.config_set("maxmemory-policy", "noeviction")
            self.client.config_set("maxmemory", "1")

    def accept(self) -> None:
        self.client.execute_command("REPLICAOF", "NO", "ONE")
        self.client.config_set("maxmemory", "0")

    def hang(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def tasks(self) -> int:
        """The number of messages that wait for a worker."""
        return self.client.llen("celery")


@contextmanager
def running_broker(folder: Path) -> Iterator[Broker]:
    folder.mkdir(parents=True, exist_ok=True)
    layout = Layout(folder)
    process = valkey(layout)
    child = spawn(process)
    try:
        assert becomes_ready(process, child, seconds=PATIENCE)
        yield Broker(data_folder.redis_url(folder), child.pid)
    finally:
        child.send_signal(process.stop[0][0])
        try:
            assert isinstance(child, subprocess.Popen)
            child.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        shutil.rmtree(layout.runtime, ignore_errors=True)


@contextmanager
def moving_address() -> Iterator[tuple[str, Callable[[Broker], None]]]:
    """A URL, and a function that has it lead to a broker, like a name or a proxy: connections that are there stay."""
    with TemporaryDirectory(dir="/tmp") as folder:  # sockets' names may not be long
        link = Path(folder, "redis")

        def lead_to(broker: Broker) -> None:
            link.unlink(missing_ok=True)
            link.symlink_to(unquote(urlsplit(broker.url).path))

        yield f"unix://{link}?db=0", lead_to
