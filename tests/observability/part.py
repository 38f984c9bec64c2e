"""One of our processes as in production, which logs and counts."""

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

from tests.harness.background import PATIENCE
from tests.harness.python import Python
from tests.harness.service import Service


def figures_in(text: str) -> dict[str, float]:
    """The values of a page of /metrics, by series with labels."""
    rows = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {series: float(value) for series, _, value in rows}


class Part(Service):
    """One of our processes that listens, and its log."""

    def __init__(self, module: str, port: int, log: Path, environ: dict[str, str]) -> None:
        super().__init__(port, log)
        with log.open("wb") as output:
            self.popen = Python("-m", module, env=environ, stdout=output, stderr=output)

    def lines(self) -> list[dict[str, Any]]:
        """All lines logged so far, each a JSON object, without one that is still being written."""
        said = self.log.read_bytes()
        whole = said if self.popen.poll() is not None else said[: said.rfind(b"\n") + 1]
        return [json.loads(line) for line in whole.splitlines()]

    def is_up(self, path: str = "/healthz") -> bool:
        assert self.popen.poll() is None, self.log.read_text()
        return super().is_up(path)

    def metrics(self) -> dict[str, float]:
        """The values at /metrics."""
        answer = self.send("GET", "/metrics")
        assert answer.status == 200, answer.body
        return figures_in(answer.body.decode())

    def stop(self) -> None:
        self.popen.send_signal(signal.SIGTERM)
        try:
            self.popen.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.wait()
