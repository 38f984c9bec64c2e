"""A checkout that runs under an engine: its containers, its API over HTTPS, requests to it, and what came of them."""

import json
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.containers.engine import Engine
from tests.containers.load import DOMAIN
from tests.containers.report import Wrong, expect
from tests.harness.processes import CHECKOUT

RATE = 20.0  # requests a second
ANSWER_SECONDS = 60.0  # until a page is answered again
ARRIVAL_SECONDS = 60.0  # for deliveries, after the last request
# On a busy machine posts may time out. Their retries are due after minutes, for which nobody waits here.
RETRY_NOW = "UPDATE webhooks_delivery SET next_attempt_at = now() WHERE status = 'pending' AND attempt_count > 0"


class Project:
    """A checkout in which compose runs."""

    def __init__(self, engine: Engine, checkout: Path, name: str) -> None:
        self.engine = engine
        self.folder = engine.work / name
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=checkout, check=True, capture_output=True, text=True,
        ).stdout  # fmt: skip
        for path in filter(None, listed.split("\0")):
            if (checkout / path).exists():
                (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(checkout / path, self.folder / path)
        self.authority = self.folder / "root.crt"
        self.key = ""

    def sh(self, line: str) -> str:
        """Run a line of the manual as it is."""
        return self.engine.run("sh", "-euc", line, folder=self.folder)

    def compose(self, *arguments: str) -> str:
        return self.engine.run("docker", "compose", *arguments, folder=self.folder)

    def containers(self, service: str) -> list[str]:
        return self.compose("ps", "--quiet", service).split()

    def inspect(self, container: str) -> dict[str, Any]:
        return dict(json.loads(self.engine.run("docker", "inspect", container))[0])

    def psql(self, sql: str) -> str:
        arguments = ["exec", "-T", "database", "psql", "-U", "postgres", "-Atc", sql, "codservice"]
        return self.compose(*arguments).strip()

    def curl(self, path: str, *arguments: str) -> tuple[int, str]:
        """Status and body over HTTPS through the proxy, whose authority is trusted."""
        command = ["curl", "-s", "--max-time", "20", "--cacert", str(self.authority), "-w", "\n%{http_code}"]
        command += ["--resolve", f"{DOMAIN}:443:127.0.0.1", *arguments, f"https://{DOMAIN}{path}"]
        body, _, status = self.engine.run(*command, may_fail=True).rpartition("\n")
        return int(status or 0), body

    def api(self, method: str, path: str, body: Any = None) -> Any:
        more = ["-X", method, "-H", f"Authorization: Bearer {self.key}"]
        if body is not None:
            more += ["-H", "Content-Type: application/json", "-d", json.dumps(body)]
        status, said = self.curl(f"/api/v1{path}", *more)
        expect(200 <= status < 300, f"{method} {path}: {status} {said[:300]}")
        return json.loads(said) if said else None

    def wait_for(self, path: str = "/readyz") -> float:
        began = time.monotonic()
        while time.monotonic() - began < ANSWER_SECONDS:
            if self.curl(path)[0] == 200:
                return time.monotonic() - began
            time.sleep(0.3)
        raise Wrong(f"{path} does not answer 200 for {ANSWER_SECONDS:.0f} s")

    def received(self) -> Counter[str]:
        said = self.compose("logs", "--no-log-prefix", "--no-color", "receiver")
        return Counter(re.findall(r"[0-9a-f]{8}-[0-9a-f-]{27}", said))


@contextmanager
def load(project: Project, seconds: float) -> Iterator[dict[str, Any]]:
    """Send requests through the proxy while the block runs, for at least `seconds`. The dict then has their results."""
    sent: dict[str, Any] = {}
    arguments = [str(RATE), str(seconds), str(project.authority), project.key]
    command = [sys.executable, "-m", "tests.containers.load", *arguments]
    running = subprocess.Popen(project.engine.beside(command), cwd=CHECKOUT, stdout=subprocess.PIPE)
    try:
        time.sleep(3)
        yield sent
    finally:
        sent |= json.loads(running.communicate()[0])


def judge(project: Project, sent: dict[str, Any], row: list[str], *, may_fail: bool) -> None:
    """Report failed requests, lost orders and missing or repeated deliveries. Raises Wrong for broken promises.

    Requests may have failed only if they `may_fail`.
    """
    row.append(f"{sent['requests']} requests, {sent['failed']} failed {sent['statuses']}")
    row.append(f"longest {sent['longest_ms']} ms")
    canceled = project.psql("SELECT id FROM orders_order WHERE status = 'canceled'").split()
    lost = set(sent["imported"]) - set(project.psql("SELECT id FROM orders_order").split())
    lost |= set(sent["cancelled"]) - set(canceled)
    wanted = project.psql("SELECT id FROM webhooks_delivery").split()
    deadline = time.monotonic() + ARRIVAL_SECONDS
    while (missing := set(wanted) - set(received := project.received())) and time.monotonic() < deadline:
        project.psql(RETRY_NOW)
        time.sleep(1)
    told = int(project.psql("SELECT count(*) FROM webhooks_event WHERE kind = 'order.cancelled'"))
    repeats = sum(received.values()) - len(received)
    row.append(f"orders lost {len(lost)}, deliveries missing {len(missing)}, repeated {repeats} (in all)")
    expect(sent["cancelled"], "no order was imported and cancelled meanwhile")
    expect(not lost, f"{len(lost)} orders are not as they were answered")
    expect(not missing, f"{len(missing)} deliveries did not arrive within {ARRIVAL_SECONDS:.0f} s")
    expect(told == len(canceled), f"{len(canceled)} canceled orders and {told} events")
    expect(may_fail or not sent["failed"], f"failures: {sent['failures']}")
