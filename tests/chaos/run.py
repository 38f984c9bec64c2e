"""One run: the service over a data folder of its own, load and faults for a while, then calm until all is delivered."""

import asyncio
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import redis

from codservice import data_folder
from codservice.data_folder import Layout
from tests.harness.background import eventually
from tests.harness.disk import small_disk
from tests.harness.onebox import OneBox
from tests.harness.processes import CHECKOUT, command_line, descendants, free_port
from tests.harness.receivers import Connection, Receiver, answer

from . import service
from .doors import Doors
from .faults import Fault, Killer
from .load import PASSWORD, SKUS, Agent, Numbers, Shop
from .record import Receipt, Record, Subscription
from .rows import read_rows

ACCOUNTS = ("alice", "bob", "carol")
LIMITED = "dave"  # has the usual rate limit
# Each looks at a screen for a second, so many decisions need many agents.
AGENTS = (
    "samira", "karim", "lynda", "nadia", "omar", "amel", "yacine", "meriem", "sofiane", "houria", "walid", "djamila",
)  # fmt: skip
SHOPS = 2  # of each account
BURST = 120
CANCELLED, CONFIRMED, STOCK = "order.cancelled", "order.confirmed", "inventory.updated"
# Path at the receiver → account and kinds. `/far` is reached through a door.
WEBHOOKS = {
    "/alice/all": ("alice", [CANCELLED, CONFIRMED, STOCK]),
    "/alice/cancelled": ("alice", [CANCELLED]),
    "/bob/stock": ("bob", [STOCK]),
    "/bob/far": ("bob", [CANCELLED, CONFIRMED]),
    "/carol/all": ("carol", [CANCELLED, CONFIRMED, STOCK]),
}
MEGABYTES = 1536  # of the disk; twelve minutes take a third of it
DRAINED_SECONDS = 180.0
QUIET_SECONDS = 3
READ_BACK = 200  # orders

# Run by `manage.py shell` in one process: the commands one by one would take half a minute.
_SET_UP = """
import io, json
from django.core.management import call_command
from tests.factories import open_always
def call(*arguments):
    said = io.StringIO()
    call_command(*arguments, stdout=said, stderr=io.StringIO())
    return said.getvalue().strip()
open_always()
keys = {{}}
for name in {accounts}:
    mail = name + "@example.dz"
    call("create_account", name, "--email", mail, *([] if name == {limited!r} else ["--rate-limit", "1000000"]))
    keys[name] = call("create_api_key", "--account", mail)
    call("import_products", {catalog!r}, "--account", mail)
for name in {agents}:
    call("create_agent", name, "--password", {password!r})
print(json.dumps(keys))
"""


@dataclass(frozen=True)
class Settings:
    """The settings of a run."""

    seed: int
    seconds: float
    plan: Sequence[Fault]
    rate: float
    """How many changes per second shops and agents request together, while they are answered."""
    say: Callable[[str], None]
    plants: Sequence[str] = ()
    """SQL statements that make the service break a promise: see `plants`."""


class Run:
    """One run (`carry_out`), and its parts for the killer to hurt."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        self.settings, self.folder = settings, folder
        self.record = Record()
        self.dice = random.Random(f"{settings.seed} run")
        self.is_over, self.is_calm = threading.Event(), threading.Event()
        self.data = folder / "disk/data"
        self.layout = Layout(self.data)
        self.port = free_port()
        self.starts = 0

    # --- The run from start to end ---------------------------------------------------------------------------------

    def carry_out(self) -> Record:
        with contextlib.ExitStack() as stack:
            self.disk = stack.enter_context(small_disk(self.folder / "disk", MEGABYTES)) if os.geteuid() == 0 else None
            self.receiver = stack.enter_context(Receiver(default=self._as_receivers_do))
            targets = {
                "front": ("127.0.0.1", self.port),
                "database": self.layout.postgres_socket,
                "broker": self.layout.valkey_socket,
                "receiver": self.receiver.address,
            }
            self.doors = stack.enter_context(Doors(**targets))
            stack.callback(shutil.rmtree, self.layout.runtime, ignore_errors=True)
            self.start()
            stack.callback(self._end)
            self.service.wait_until_up()
            shops = self._set_up()
            for sql in self.settings.plants:
                self.query(sql)
            self._work(shops)
            self._drain()
            self._collect(shops)
        return self.record

    def _set_up(self) -> list[Shop]:
        catalog = self.folder / "products.csv"
        catalog.write_text("sku,name,price\n" + "".join(f"{sku},Product,10\n" for sku in SKUS))
        names = [*ACCOUNTS, LIMITED]
        script = _SET_UP.format(accounts=names, limited=LIMITED, catalog=str(catalog), agents=AGENTS, password=PASSWORD)
        self.keys: dict[str, str] = json.loads(self.manage("shell", "--no-imports", "-c", script).splitlines()[-1])
        numbers = Numbers()
        shops = [self._shop(f"{account} {number}", account, numbers) for account in ACCOUNTS for number in range(SHOPS)]
        for path, (account, kinds) in WEBHOOKS.items():
            port = self.doors["receiver"].port if path.endswith("/far") else self.receiver.address[1]
            shop = next(shop for shop in shops if shop.account == account)
            reply = shop.call("POST", "webhooks", {"url": f"http://127.0.0.1:{port}{path}", "events": kinds})
            assert reply.status == 201, reply
            self.record.webhooks[path] = Subscription(account, kinds, reply.json()["signing_secret"])
        return shops

    def _shop(self, who: str, account: str, numbers: Numbers) -> Shop:
        door = self.doors["front"].port
        return Shop(who, account, self.keys[account], numbers, door, self.record, self.is_over, self.settings.seed)

    def _work(self, shops: list[Shop]) -> None:
        settings, door = self.settings, self.doors["front"].port
        self._shop("dave", LIMITED, Numbers()).burst(BURST)
        agents = [Agent(name, door, self.record, self.is_over, settings.seed) for name in AGENTS]
        # A shop's step makes 1.5 changes. An agent's makes one, which is two rows with its note.
        rates = {
            **dict.fromkeys(shops, settings.rate * 0.8 / len(shops)),
            **dict.fromkeys(agents, settings.rate * 0.2 / len(agents)),
        }
        pool = ThreadPoolExecutor(len(rates) + 1)
        self.began = time.monotonic()
        working = [pool.submit(client.work, rate) for client, rate in rates.items()]
        working.append(pool.submit(self._look_after))
        try:
            killer = Killer(self, self.record.injuries, settings.seed)
            killer.carry_out(settings.plan, settings.seconds * 0.95, self.is_over)
            self.is_over.wait(max(self.began + settings.seconds - time.monotonic(), 0))
            self.is_calm.set()  # receivers answer well from now on, and all waiting requests get through
            self.doors.open_all()
        finally:
            self.is_over.set()
        for each in working:  # a client that failed, or still waits for an answer, fails the run
            each.result(DRAINED_SECONDS)
        self.record.seconds = time.monotonic() - self.began

    def _drain(self) -> None:
        """Make retries due at once, until nothing waits any more and no late request adds to it."""
        deadline, quiet, events = time.monotonic() + DRAINED_SECONDS, 0, -1
        while time.monotonic() < deadline and quiet < QUIET_SECONDS:
            self.query(
                "UPDATE webhooks_delivery SET next_attempt_at = now() WHERE status = 'pending' AND attempt_count > 0"
                " AND next_attempt_at > now() AND id NOT IN (SELECT delivery_id FROM webhooks_claim)"
            )
            ((pending, now),) = self.query(
                "SELECT count(*) FILTER (WHERE status = 'pending'), (SELECT count(*) FROM webhooks_event)"
                " FROM webhooks_delivery"
            )
            quiet, events = quiet + 1 if not pending and now == events else 0, now
            time.sleep(1)
        if quiet < QUIET_SECONDS:
            self.settings.say("not everything was delivered in time")

    def _collect(self, shops: list[Shop]) -> None:
        record = self.record
        record.receipts = [
            Receipt(
                request.path,
                request.delivery,
                int(request.headers["x-service-attempt"]),
                request.headers["x-service-event"],
                request.headers["x-service-signature"],
                request.body,
            )
            for request in list(self.receiver.requests)
        ]
        for shop in shops[::SHOPS]:
            reply = shop.call("GET", "orders?per_page=1")
            record.totals[shop.account] = reply.json()["meta"]["total"]
        answered = [each for each in record.imports if each.answer]
        for each in self.dice.sample(answered, min(READ_BACK, len(answered))):
            shop = next(shop for shop in shops if shop.account == each.account)
            record.read_back[each.answer["id"]] = shop.call("GET", f"orders/{each.answer['id']}").json()
        with self.connect() as connection:
            record.rows = read_rows(connection)
        logs = [self.data / "postgres.log.1", self.data / "postgres.log"]
        record.log = "".join(log.read_text(errors="replace") for log in logs if log.exists())

    # --- The service -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        ports = {service.DATABASE: self.doors["database"].port, service.BROKER: self.doors["broker"].port}
        self.starts += 1
        self.service = OneBox(
            self.data,
            self.folder / f"output-{self.starts}",
            "tests.chaos.service",
            [],
            sys.executable,
            PORT=str(self.port),
            WEBHOOK_ALLOW_PRIVATE="true",
            PAGE_RATE_LIMIT="1000000",  # these agents are as fast as ten people
            **{name: str(port) for name, port in ports.items()},
        )

    def restart(self) -> None:
        """Restart the service as an operator does. A stop with an error is recorded as an exit."""
        if status := self.service.stop():
            self.record.exits.append(f"status {status} when told to stop: {self.service.said()[-500:]}")
        self.start()

    def kill_supervisor(self) -> None:
        below = descendants(self.service.popen.pid)
        self.service.popen.kill()
        self.service.popen.wait()
        try:
            # The kernel tells its children, which end.
            eventually(lambda: not any(command_line(pid) == command for pid, command in below.items()))
        finally:
            self.start()

    def _look_after(self) -> None:
        """Start the service again if it has ended by itself, as systemd would, and report the progress."""
        said_at = time.monotonic()
        while not self.is_over.wait(0.5):
            popen = self.service.popen
            if popen.poll() is not None and popen is self.service.popen and popen.returncode >= 0:
                time.sleep(1)  # or was it told to?
                if popen is self.service.popen:
                    # A start that cannot succeed ends with a sentence, and it is up to us to start it again.
                    if "is up" in self.service.said():
                        self.record.exits.append(self.service.said()[-500:])
                    else:
                        self.record.starts_again += 1
                    self.start()
            if time.monotonic() - said_at > 10:
                said_at = time.monotonic()
                self.record.samples.append(self._sample())
                self.settings.say(self._standing())

    def _sample(self) -> dict[str, float]:
        found: dict[str, float] = {
            "on the disk": shutil.disk_usage(self.folder / "disk").used / 1e6 if self.disk else 0
        }
        for pid in [self.service.popen.pid, *descendants(self.service.popen.pid)]:
            with contextlib.suppress(OSError):
                pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
                name = _name_of(pid)
                found[name] = found.get(name, 0) + pages * os.sysconf("SC_PAGE_SIZE") / 1e6
                found["sessions"] = found.get("sessions", 0) + command_line(pid).startswith("postgres: codservice")
        return found

    def _standing(self) -> str:
        record = self.record
        answered = sum(200 <= each.status < 400 for each in record.answers)
        kills = sum(bool(each.kills) for each in record.injuries)
        last = record.injuries[-1].fault if record.injuries else "nothing"
        return (
            f"{time.monotonic() - self.began:4.0f} s: {answered} requests done, {len(record.answers) - answered} not;"
            f" {len(self.receiver.requests)} deliveries received; {kills} kills, last: {last}"
        )

    def _end(self) -> None:
        below = descendants(self.service.popen.pid)
        self.service.popen.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.service.wait()
        self.service.popen.kill()
        self.service.popen.wait()
        for pid, command in below.items():
            if command_line(pid) == command:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def note_recovery(self, patience: float) -> None:
        """Record when the service answers again after faults. If `patience` runs out, a later call records it."""
        deadline = time.monotonic() + patience
        waiting = [each for each in self.record.injuries if each.recovered is None]
        if any(each.hurts for each in waiting):
            time.sleep(0.5)  # what was killed may still answer for a moment
        while not self._answers():
            if time.monotonic() > deadline:
                return
            time.sleep(0.1)
        for each in waiting:
            each.recovered = time.monotonic()

    def _answers(self) -> bool:
        shop = Shop("probe", "alice", self.keys["alice"], Numbers(), self.port, Record(), self.is_over, 0)
        # Several times, because the threads of each web process have database connections of their own.
        return all(shop.call("GET", "orders?per_page=1").status == 200 for _ in range(4))

    def await_part(self, name: str) -> int:
        """The process id of a part, once it runs and the database answers."""
        return eventually(lambda: self._part(name))

    def _part(self, name: str) -> int:
        commands = {"database": "postgres", "broker": "valkey-server"}
        with contextlib.suppress(psycopg.Error, OSError):
            self.query("SELECT 1", patience=0)
            if name == "supervisor":
                return self.service.popen.pid if self.service.popen.poll() is None else 0
            running = descendants(self.service.popen.pid)
            names = commands.get(name, f"cod-{name}")
            return next((pid for pid in running if _name_of(pid) == names), 0)
        return 0

    def under_way(self) -> list[str]:
        """The deliveries that a worker has claimed and not settled."""
        return [id_ for (id_,) in self.query("SELECT delivery_id::text FROM webhooks_claim")]

    def manage(self, *arguments: str) -> str:
        inherited = {name: value for name, value in os.environ.items() if name not in ("DATABASE_URL", "REDIS_URL")}
        done = subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=CHECKOUT,
            env=inherited | {"DATA_DIR": str(self.data)},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    # --- The service's own servers, without the doors --------------------------------------------------------------

    def connect(self, *, autocommit: bool = True) -> "psycopg.Connection[Any]":
        options = "-c default_transaction_read_only=off -c lock_timeout=5s"
        return psycopg.connect(data_folder.database_url(self.data), autocommit=autocommit, options=options)

    def query(self, sql: str, *, patience: float = 60.0) -> list[Any]:
        """The query's rows, as soon as the database answers."""
        deadline = time.monotonic() + patience
        while True:
            try:
                with self.connect() as connection:
                    cursor = connection.execute(sql)  # type: ignore[arg-type]
                    return cursor.fetchall() if cursor.description else []
            except psycopg.OperationalError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def redis(self, do: "Callable[[redis.Redis[Any]], Any]") -> Any:
        """What Valkey answers, or None when it is away."""
        with contextlib.suppress(redis.RedisError), redis.Redis.from_url(data_folder.redis_url(self.data)) as client:
            return do(client)

    # --- Receivers -------------------------------------------------------------------------------------------------

    async def _as_receivers_do(self, connection: Connection) -> None:
        """Answer fast or slowly, or fail or be silent for a first attempt, by the dice."""
        is_first = connection.request.headers.get("x-service-attempt") == "1"
        if self.is_calm.is_set():
            await answer()(connection)
        elif is_first and self.dice.random() < 0.01:
            await answer("500 Internal Server Error")(connection)
        elif is_first and self.dice.random() < 0.002:
            await asyncio.sleep(4)
        else:
            await asyncio.sleep(self.dice.choice([0, 0.02, 0.1, 0.5, 1.5]))
            await answer()(connection)


def _name_of(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""
