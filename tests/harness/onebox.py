"""The whole service on one machine, as `make run` starts it."""

import os
import signal
import subprocess
from pathlib import Path

import psycopg

from codservice import data_folder

from .background import PATIENCE, eventually
from .processes import CHECKOUT, free_port


class OneBox:
    """A supervisor (`python -m …`) over a data folder."""

    def __init__(
        self, data: Path, output: Path, module: str, prefix: list[str], python: str, **environment: str
    ) -> None:
        self.data = data
        self.output = output
        self.port = environment.pop("PORT", "") or str(free_port())
        # Without the URLs of the test session's own databases.
        inherited = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        self.environment = {**inherited, "DATA_DIR": str(data), "PORT": self.port, **environment}
        with self.output.open("wb") as file:
            self.popen = subprocess.Popen(
                [*prefix, python, "-B", "-m", module],
                cwd=CHECKOUT,
                env=self.environment,
                stdout=file,
                stderr=subprocess.STDOUT,
            )

    def said(self) -> str:
        return os.fsdecode(self.output.read_bytes())

    def wait_until_up(self) -> "OneBox":
        eventually(lambda: "is up" in self.said() or self.popen.poll() is not None)
        assert self.popen.poll() is None, self.said()
        return self

    def wait(self) -> int:
        return self.popen.wait(PATIENCE)

    def stop(self) -> int:
        self.popen.send_signal(signal.SIGTERM)
        return self.wait()

    def find(self, words: str) -> int:
        """The process id of the one direct child whose command line contains `words`."""
        children = [
            int(pid) for pid in Path(f"/proc/{self.popen.pid}/task/{self.popen.pid}/children").read_text().split()
        ]
        (pid,) = [pid for pid in children if words in Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")]
        return pid

    def query(self, sql: str) -> object:
        with psycopg.connect(data_folder.database_url(self.data)) as connection:
            cursor = connection.execute(sql)
            return cursor.fetchone()[0] if cursor.description else None
