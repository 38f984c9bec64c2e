import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from codservice import data_folder
from codservice.data_folder import Layout

CHECKOUT = Path(__file__).resolve().parent.parent.parent


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def eventually(check: Callable[[], object], seconds: float = 15.0) -> None:
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline, f"did not come true within {seconds} s"
        time.sleep(0.05)


def is_alive(pid: int) -> bool:
    try:
        # A zombie that nobody collects has ended all the same.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def descendants(pid: int) -> dict[int, str]:
    """Process ids below `pid`, with their command lines."""
    found: dict[int, str] = {}
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # it may end while we look
            for child in map(int, task.read_text().split()):
                if is_alive(child):
                    found[child] = Path(f"/proc/{child}/cmdline").read_text().replace("\0", " ")
                    found |= descendants(child)
    return found


class Service:
    """One `python -m ...` of the supervisor over a data folder."""

    def __init__(
        self, data: Path, output: Path, module: str, prefix: list[str], python: str, **environment: str
    ) -> None:
        self.data = data
        self.output = output
        self.port = environment.pop("PORT", "") or str(free_port())
        # Nothing of the test session's own databases.
        inherited = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        with self.output.open("wb") as file:
            self.popen = subprocess.Popen(
                [*prefix, python, "-B", "-m", module],
                cwd=CHECKOUT,
                env={**inherited, "DATA_DIR": str(data), "PORT": self.port, **environment},
                stdout=file,
                stderr=subprocess.STDOUT,
            )

    def said(self) -> str:
        return self.output.read_text()

    def wait_until_up(self) -> "Service":
        eventually(lambda: "is up" in self.said() or self.popen.poll() is not None, 40)
        assert self.popen.poll() is None, self.said()
        return self

    def wait(self) -> int:
        return self.popen.wait(40)

    def stop(self) -> int:
        self.popen.send_signal(signal.SIGTERM)
        return self.wait()

    def find(self, words: str) -> int:
        """The id of the one direct child whose command line has `words`."""
        children = [
            int(pid) for pid in Path(f"/proc/{self.popen.pid}/task/{self.popen.pid}/children").read_text().split()
        ]
        (pid,) = [pid for pid in children if words in Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")]
        return pid

    def query(self, sql: str) -> object:
        import psycopg

        with psycopg.connect(data_folder.database_url(self.data)) as connection:
            cursor = connection.execute(sql)
            return cursor.fetchone()[0] if cursor.description else None


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[..., Service]]:
    """Starts services; what still runs at the end of the test is killed."""
    started: list[Service] = []

    def start(
        data: Path | None = None,
        *,
        module: str = "tests.run.stub",
        prefix: Sequence[str] = (),
        python: str = sys.executable,
        **environment: str,
    ) -> Service:
        output = tmp_path / f"output-{len(started)}"
        started.append(Service(data or tmp_path / "data", output, module, list(prefix), python, **environment))
        return started[-1]

    yield start
    for service in started:
        below = descendants(service.popen.pid)
        service.popen.kill()
        service.popen.wait()
        for pid in below:
            if is_alive(pid):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(Layout(service.data).runtime, ignore_errors=True)
