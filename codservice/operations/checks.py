"""Slow checks for `check_service`. Each returns what is wrong and what to do about it, or an empty string."""

import time
from datetime import timedelta
from smtplib import SMTP, SMTPAuthenticationError

from django.conf import settings
from django.core.mail import get_connection
from django.core.mail.message import sanitize_address
from django.db import OperationalError, connection, transaction
from django.db.migrations.loader import MigrationLoader
from psycopg.errors import DiskFull

from codservice import postgresql
from codservice.operations import duties
from codservice.operations.tasks import PRUNE_EVERY

SIGN_LATE = timedelta(seconds=60)  # workers and beat give a sign of life every 10 s
PRUNE_LATE = PRUNE_EVERY + timedelta(days=1)
MOST_SKEW = 5.0  # seconds between this host's clock and the database's


def migrations() -> str:
    loader = MigrationLoader(connection)
    plans = (loader.graph.forwards_plan(leaf) for leaf in loader.graph.leaf_nodes())
    wanted = dict.fromkeys(key for plan in plans for key in plan)
    missing = [".".join(key) for key in wanted if key not in loader.applied_migrations]
    if missing:
        return f"{len(missing)} not applied, starting with {missing[0]}. Run `manage.py migrate`."
    owner = postgresql.row(
        "SELECT relowner::regrole FROM pg_class"
        " WHERE oid = 'django_migrations'::regclass AND NOT pg_has_role(relowner, 'USAGE')"
    )
    return f"the tables belong to {owner[0]}. Let the user of DATABASE_URL own them." if owner else ""


def clock() -> str:
    started = time.time()
    theirs = postgresql.row("SELECT EXTRACT(EPOCH FROM clock_timestamp())::float")[0]
    skew = (started + time.time()) / 2 - theirs
    if abs(skew) <= MOST_SKEW:
        return ""
    direction = "ahead of" if skew > 0 else "behind"
    return f"this host's is {abs(skew):.0f} s {direction} the database's. Set both with a time service (NTP)."


def sessions() -> str:
    """Behind PgBouncer nothing can be set for a session, so the role must have what the service relies on."""
    relied = settings.DATABASE_SESSION
    found = postgresql.rows(
        "SELECT name FROM unnest(%s::text[], %s::text[]) AS relied (name, value)"
        " WHERE split_part(current_setting(name), ',', 1) <> value"  # DateStyle is `ISO, DMY`
        " UNION ALL SELECT name FROM pg_settings WHERE name = 'lock_timeout' AND setting = '0'",
        [list(relied), list(relied.values())],
    )
    wrong = [name for (name,) in found]
    if not wrong:
        return ""
    return (
        f"have a wrong {', '.join(wrong)}. Take it out of the options in DATABASE_URL. Behind PgBouncer, run"
        " docs/operations/pgbouncer/role.sql as a superuser, then restart PgBouncer."
    )


def disk() -> str:
    """PostgreSQL cannot tell how full its disk is, only whether a file can grow, so make it spill a sort to disk."""
    try:
        with transaction.atomic():
            postgresql.execute("SET LOCAL work_mem = '64kB'")
            # 1 MB, which nobody misses if there is any room left.
            postgresql.execute(
                "SELECT count(row) FROM"
                " (SELECT repeat('x', 8000) || n AS row FROM generate_series(1, 128) AS n ORDER BY -n) AS rows"
            )
    except OperationalError as error:
        if not isinstance(error.__cause__, DiskFull):
            raise
        return "PostgreSQL's disk is full, so orders cannot be taken. Free some space."
    return ""


def space() -> str:
    """How much the database takes on PostgreSQL's disk, and what its largest tables take with their indexes."""
    (found,) = postgresql.row(
        "SELECT concat(pg_size_pretty(pg_database_size(current_database())), ', of which ',"
        " string_agg(concat(relname, ' ', pg_size_pretty(bytes)), ', ' ORDER BY bytes DESC)) FROM"
        " (SELECT relname, pg_total_relation_size(relid) AS bytes FROM pg_stat_user_tables"
        " ORDER BY bytes DESC LIMIT 5) AS largest"
    )
    return str(found)


def worker() -> str:
    return _silence("worker", "Start one (`python -m codservice.run.worker`).")


def beat() -> str:
    return _silence(
        "beat",
        "Start beat (`python -m codservice.run.beat`), and a worker, which records what beat sends."
        " End a worker that runs and takes no tasks.",
    )


def _silence(name: str, advice: str) -> str:
    age = duties.age(name)
    if age is None:
        return f"has never given a sign of life. {advice}"
    return f"has given no sign of life for {age:.0f} s. {advice}" if age > SIGN_LATE.total_seconds() else ""


def retention() -> str:
    age = duties.age("prune")
    if age is None:  # a worker begins 15 minutes after its first start
        age = _age_of_database()
    if age <= PRUNE_LATE.total_seconds():
        return ""
    return (
        f"no deletion of old data has ended for {age / 86400:.0f} days. Look for errors of"
        " codservice.operations.tasks.prune in the worker's log, or run `manage.py prune`."
    )


def _age_of_database() -> float:
    """Seconds since its first migration."""
    (age,) = postgresql.row("SELECT EXTRACT(EPOCH FROM now() - min(applied))::float FROM django_migrations")
    return age or 0.0  # None with no migrations, of which `migrations` tells


def mail() -> str:
    """Sign in to the mail server, name the sender, and send nothing.

    From here: a worker on another host may reach it or not.
    """
    try:
        with get_connection() as backend:
            smtp = getattr(backend, "connection", None)  # other backends have none
            return _refusal_of_sender(smtp) if smtp else ""
    except SMTPAuthenticationError as error:
        return f"the server refuses the user or password of EMAIL_URL ({error.smtp_code}). Correct them, and restart."
    except UnicodeError:  # without its text, which quotes signs of the password
        return "the host, user or password of EMAIL_URL has signs that SMTP cannot send. Use ASCII."
    except OSError as error:  # SMTP's others included
        return f"cannot be sent ({error}). Check the mail server and EMAIL_URL."


def _refusal_of_sender(smtp: SMTP) -> str:
    """Ask as a mail does. A server may let everybody in, and take mail only over TLS, after a log-in or from some."""
    smtp.ehlo_or_helo_if_needed()
    code, text = smtp.mail(sanitize_address(settings.DEFAULT_FROM_EMAIL, "utf-8"))
    if code < 400:
        return ""
    said = " ".join(text.decode("utf-8", "replace").split())
    return (
        f"the server does not take mail from DEFAULT_FROM_EMAIL ({code} {said})."
        " Check EMAIL_URL (STARTTLS, user) and DEFAULT_FROM_EMAIL."
    )
