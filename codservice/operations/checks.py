"""Slow checks for `check_service`: each says what is wrong and what to do, or nothing."""

import time
from datetime import timedelta

from django.db import connection
from django.db.migrations.loader import MigrationLoader

from codservice.operations import duties
from codservice.operations.tasks import PRUNE_EVERY

BEAT_LATE = timedelta(seconds=60)  # it sends its sign of life every 10 s
PRUNE_LATE = PRUNE_EVERY + timedelta(days=1)
MOST_SKEW = 5.0  # seconds between this host's clock and the database's


def migrations() -> str:
    loader = MigrationLoader(connection)
    plans = (loader.graph.forwards_plan(leaf) for leaf in loader.graph.leaf_nodes())
    wanted = dict.fromkeys(key for plan in plans for key in plan)
    missing = [".".join(key) for key in wanted if key not in loader.applied_migrations]
    if not missing:
        return ""
    return f"{len(missing)} are not applied, {missing[0]} is the first: run `manage.py migrate`"


def clock() -> str:
    started = time.time()
    with connection.cursor() as cursor:
        cursor.execute("SELECT EXTRACT(EPOCH FROM clock_timestamp())::float")
        theirs = cursor.fetchone()[0]
    skew = (started + time.time()) / 2 - theirs
    if abs(skew) <= MOST_SKEW:
        return ""
    direction = "ahead of" if skew > 0 else "behind"
    return f"this host's is {abs(skew):.0f} s {direction} the database's: let a time service (NTP) set both"


def sessions() -> str:
    """Behind PgBouncer nothing is set in a session: the role has to bring the limits along."""
    with connection.cursor() as cursor:
        cursor.execute("SHOW lock_timeout")
        if cursor.fetchone()[0] != "0":
            return ""
    return "wait for locks for ever: run docs/operations/pgbouncer/role.sql as a superuser, then restart PgBouncer"


def beat() -> str:
    age = duties.age("beat")
    advice = "start beat (`python -m codservice.run.beat`), and a worker, which notes what beat sends"
    if age is None:
        return f"has never sent anything: {advice}"
    return f"has sent nothing for {age:.0f} s: {advice}" if age > BEAT_LATE.total_seconds() else ""


def retention() -> str:
    age = duties.age("prune")
    if age is None or age <= PRUNE_LATE.total_seconds():
        return ""
    return (
        f"the last round that deleted what is old ended {age / 86400:.0f} days ago: look for errors of"
        " codservice.operations.tasks.prune in the worker's log, or run `manage.py prune`"
    )
