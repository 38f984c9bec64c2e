"""What is done to the service while it works: a plan by seed, and the killer that carries it out.

A kill is SIGKILL to a whole part, at a random time. The deliveries that a worker has under way are read while it is
stopped (SIGSTOP), so that none begins between the look and the kill.
"""

import contextlib
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
import redis

from tests.harness.processes import descendants

from .doors import Door
from .record import Injury

PATIENCE = 60.0  # seconds until the service answers again


@dataclass(frozen=True)
class Fault:
    """A kind of fault. `share` is how often it happens, relative to the others of a plan."""

    name: str
    share: float
    act: Callable[["Killer"], Sequence[str] | None]
    """Inflicts the fault, and undoes it if it lasts. Returns the deliveries that were under way."""
    kills: str = ""
    hurts: bool = True


class Killer:
    """Carries out a plan, one fault after another, and records what it did."""

    def __init__(self, run: Any, injuries: list[Injury], seed: int) -> None:
        self.run, self.injuries = run, injuries
        self.dice = random.Random(f"{seed} killer")

    def carry_out(self, plan: Sequence[Fault], seconds: float, is_over: threading.Event) -> None:
        """Carry out the whole plan, spread over `seconds`, or longer if the service takes long to recover."""
        began = time.monotonic()
        for number, fault in enumerate(plan):
            due = began + seconds * (number + self.dice.random()) / len(plan)
            if is_over.wait(max(due - time.monotonic(), 0)):
                break
            self.do(fault)
        self.run.note_recovery(PATIENCE)

    def do(self, fault: Fault) -> None:
        injury = Injury(fault.name, time.monotonic(), 0.0, kills=fault.kills, hurts=fault.hurts)
        self.injuries.append(injury)
        try:
            injury.in_flight = fault.act(self) or ()
        except (AssertionError, psycopg.Error) as error:  # a part that did not come back
            self.run.record.exits.append(f"{fault.name}: {error}")
        injury.ended = time.monotonic()
        # Sometimes without waiting, so that the next fault comes while the service is recovering.
        self.run.note_recovery(PATIENCE if self.dice.random() < 0.8 else 0.0)

    # --- Kills -----------------------------------------------------------------------------------------------------

    def kill(self, part: str) -> Sequence[str]:
        """End a part with all its processes, as soon as it runs. Returns the deliveries that were under way."""
        leader = self.run.await_part(part)
        under_way: Sequence[str] = ()
        if part in ("worker", "application", "supervisor"):
            worker = self.run.await_part("worker")
            _signal([worker, *descendants(worker)], signal.SIGSTOP)
            under_way = self.run.under_way()
        if part == "supervisor":
            self.run.kill_supervisor()
        else:
            _signal([leader, *descendants(leader)], signal.SIGKILL)
        return under_way

    def kill_one_web(self) -> None:
        children = list(descendants(self.run.await_part("web")))
        if children:
            _signal([self.dice.choice(children)], signal.SIGKILL)

    def stop_at_once(self) -> None:
        """Stop PostgreSQL as `pg_ctl stop -m immediate` does."""
        _signal([self.run.await_part("database")], signal.SIGQUIT)

    def kill_backend(self) -> None:
        """Kill one session's process. PostgreSQL then ends all others, and recovers."""
        pids = self.run.query("SELECT pid FROM pg_stat_activity WHERE application_name = 'codservice'")
        if pids:
            _signal([self.dice.choice(pids)[0]], signal.SIGKILL)

    def tell_to_stop(self, part: str) -> None:
        """Send SIGTERM, as in a deployment: what is under way is finished."""
        _signal([self.run.await_part(part)], signal.SIGTERM)

    # --- PostgreSQL ------------------------------------------------------------------------------------------------

    def end_sessions(self) -> None:
        self.run.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'codservice'")

    def read_only(self) -> None:
        """Make PostgreSQL read-only, as after a failover, or in managed databases when the disk is nearly full."""
        for change, seconds in (
            ("SET default_transaction_read_only = on", 4),
            ("RESET default_transaction_read_only", 0),
        ):
            self.run.query(f"ALTER SYSTEM {change}")
            self.run.query("SELECT pg_reload_conf()")
            time.sleep(seconds)

    def use_up_connections(self) -> None:
        self.run.await_part("database")
        with contextlib.ExitStack() as held, contextlib.suppress(psycopg.Error):
            try:
                while True:
                    held.enter_context(self.run.connect())
            except psycopg.OperationalError:
                time.sleep(4)

    def hold_locks(self) -> None:
        self.run.await_part("database")
        with self.run.connect(autocommit=False) as connection, contextlib.suppress(psycopg.errors.LockNotAvailable):
            connection.execute("SELECT FROM inventory_product FOR UPDATE")
            connection.execute("SELECT FROM orders_order WHERE status = 'pending_confirmation' FOR UPDATE")
            time.sleep(4)

    # --- Redis -----------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        self.run.redis(lambda client: client.flushall())

    def follow_nobody(self) -> None:
        """Make Valkey read-only, like a replica whose primary has gone: it answers with errors."""
        self.run.redis(lambda client: client.replicaof("127.0.0.1", "1"))
        time.sleep(8)
        self.run.redis(lambda client: client.replicaof("NO", "ONE"))

    def fill(self) -> None:
        """Make Valkey run out of memory, so that it refuses what needs more."""
        before = self.run.redis(lambda client: client.config_get("maxmemory*"))
        self.run.redis(lambda client: [client.config_set("maxmemory-policy", "noeviction"), _little(client)])
        time.sleep(8)
        self.run.redis(lambda client: [client.config_set(name, value) for name, value in (before or {}).items()])

    # --- Time, networks and disk -------------------------------------------------------------------------------------

    def hang(self, part: str, seconds: float) -> None:
        leader = self.run.await_part(part)
        stopped = [leader, *descendants(leader)]
        _signal(stopped, signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            _signal(stopped, signal.SIGCONT)

    def trouble(self, way: str) -> None:
        """Make one of the troubles of networks at a door."""
        door: Door = self.run.doors[way]
        match self.dice.choice(["delay", "hold", "lose", "close", "cut"]):
            case "delay":
                door.delay = 0.05
                time.sleep(4)
            case "hold":
                door.is_held = True
                time.sleep(4)
            case "lose":
                door.loses_answers = True
                time.sleep(1)
            case "close":
                door.is_closed = True
                door.cut()
                time.sleep(3)
            case "cut":
                for _ in range(5):
                    door.cut()
                    time.sleep(0.2)
        door.open()

    def fill_disk(self) -> None:
        """Leave no byte free in the data folder for a while. Sometimes PostgreSQL has to start like that, too."""
        if self.run.disk is None:
            self.run.settings.say("the disk stays as it is: only root can make one that may be filled")
            return
        until = time.monotonic() + 12
        victim = self.run.await_part("database") if self.dice.random() < 0.5 else None
        try:
            while time.monotonic() < until:
                with contextlib.suppress(AssertionError):  # the service freed some meanwhile
                    self.run.disk.fill()
                if victim:
                    _signal([victim, *descendants(victim)], signal.SIGKILL)
                victim = None
                time.sleep(0.02)
        finally:
            self.run.disk.free()


def _signal(pids: Sequence[int], signum: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signum)


def _little(client: "redis.Redis[Any]") -> None:
    client.config_set("maxmemory", "1")


FAULTS = [
    Fault("worker killed", 22, lambda k: k.kill("worker"), kills="worker", hurts=False),
    Fault("beat killed", 10, lambda k: k.kill("beat"), kills="beat", hurts=False),
    Fault("broker killed", 12, lambda k: k.kill("broker"), kills="broker", hurts=False),
    Fault("web killed", 12, lambda k: k.kill("web"), kills="web"),
    Fault("one of the web processes killed", 12, lambda k: k.kill_one_web(), kills="web"),
    Fault("application killed", 8, lambda k: k.kill("application"), kills="application"),
    Fault("supervisor killed", 7, lambda k: k.kill("supervisor"), kills="supervisor"),
    Fault("PostgreSQL killed", 9, lambda k: k.kill("database"), kills="PostgreSQL"),
    Fault("PostgreSQL stopped at once", 5, lambda k: k.stop_at_once(), kills="PostgreSQL"),
    Fault("a backend of PostgreSQL killed", 6, lambda k: k.kill_backend(), kills="PostgreSQL"),
    Fault("worker told to stop", 3, lambda k: k.tell_to_stop("worker"), hurts=False),
    Fault("web told to stop", 3, lambda k: k.tell_to_stop("web")),
    Fault("service restarted", 2, lambda k: k.run.restart()),
    Fault("all sessions ended", 3, lambda k: k.end_sessions()),
    Fault("PostgreSQL read-only", 2, lambda k: k.read_only()),
    Fault("PostgreSQL out of connections", 2, lambda k: k.use_up_connections()),
    Fault("rows locked", 2, lambda k: k.hold_locks()),
    Fault("Redis flushed", 6, lambda k: k.flush(), hurts=False),
    Fault("Redis hung", 2, lambda k: k.hang("broker", 4), hurts=False),
    Fault("Redis read-only", 2, lambda k: k.follow_nobody(), hurts=False),
    Fault("Redis full", 2, lambda k: k.fill(), hurts=False),
    Fault("worker hung", 2, lambda k: k.hang("worker", 5), hurts=False),
    Fault("trouble on the way to PostgreSQL", 4, lambda k: k.trouble("database")),
    Fault("trouble on the way to Redis", 4, lambda k: k.trouble("broker"), hurts=False),
    Fault("trouble on the way to receivers", 4, lambda k: k.trouble("receiver"), hurts=False),
    Fault("trouble on the way to the service", 4, lambda k: k.trouble("front")),
    Fault("disk full", 2, lambda k: k.fill_disk()),
]
BY_NAME = {fault.name: fault for fault in FAULTS}
KILLS = sum(fault.share for fault in FAULTS if fault.kills)


def make_plan(seed: int, kills: int) -> list[Fault]:
    """A plan with `kills` kills and the other faults in proportion, in an order that depends on the seed.

    Blocks of faults that hurt alternate with blocks of those that must not, so that the promises of calm are tried.
    """
    dice = random.Random(f"{seed} plan")
    plan = [fault for fault in FAULTS for _ in range(round(fault.share * kills / KILLS))]
    hurting, others = ([fault for fault in plan if fault.hurts is hurts] for hurts in (True, False))
    dice.shuffle(hurting)
    dice.shuffle(others)
    blocks = max(min(len(hurting), len(others)) // 8, 1)
    return [fault for block in range(blocks) for part in (hurting, others) for fault in part[block::blocks]]


def named(*names: str) -> list[Fault]:
    return [BY_NAME[name] for name in names]
