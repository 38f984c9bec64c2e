"""A process of ours as a production runs it, which logs and counts."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.harness.background import PATIENCE
from tests.harness.processes import CHECKOUT
from tests.harness.service import Service


def figures_in(text: str) -> dict[str, float]:
    """Of a page of /metrics: series as text, with their labels → value."""
    rows = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {series: float(value) for series, _, value in rows}


class Part(Service):
    """One process of ours that listens, and what it has logged."""

    def __init__(self, module: str, port: int, log: Path, environ: dict[str, str]) -> None:
        super().__init__(port, log)
        with log.open("wb") as output:
            self.popen = subprocess.Popen(
                [sys.executable, "-m", module],
                env=environ,
                stdout=subprocess.DEVNULL,
                stderr=output,
                cwd=CHECKOUT,
            )

    def lines(self) -> list[dict[str, Any]]:
        """Every line that it has logged, each a JSON object; without one that it is just writing."""
        said = self.log.read_bytes()
        whole = said if self.popen.poll() is not None else said[: said.rfind(b"\n") + 1]
        return [json.loads(line) for line in whole.splitlines()]

    def is_up(self, path: str = "/healthz") -> bool:
        assert self.popen.poll() is None, self.log.read_text()
        return super().is_up(path)

    def metrics(self) -> dict[str, float]:
        """What /metrics shows."""
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
