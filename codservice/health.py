"""Whether the process is up and can do its work, for load balancers and `make run`."""

from collections.abc import Callable
from contextlib import suppress

import redis
from django.conf import settings
from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.request import validate_host

from codservice import mails, metrics, postgresql
from codservice.data_folder import is_set

_broker = redis.Redis.from_url(settings.REDIS_URL, **settings.REDIS_CLIENT)


def alive(request: HttpRequest) -> JsonResponse:
    return JsonResponse({"status": "ok"})


def ready(request: HttpRequest) -> JsonResponse:
    """Answer 200 if no CHECKS find a problem, else 503; the body has the problems, for those who may read /metrics.

    Answers 421 if `?database=` names another database than ours (`identity`). Whoever may read /metrics is told with
    `?url` where browsers find us, if not at localhost."""
    with suppress(DatabaseError):
        if "database" in request.GET and request.GET["database"] != identity():
            return JsonResponse({"database": "is not the one in ?database="}, status=421)
    problems = {name: problem for name, check in CHECKS.items() if (problem := check())}
    may_ask = metrics.may_ask(request.META)
    if problems and not may_ask:  # what Redis or PostgreSQL says is nothing for strangers
        return JsonResponse({"status": "unavailable"}, status=503)
    body = {name: problems.get(name, "ok") for name in CHECKS}
    if "url" in request.GET and may_ask:
        body["url"] = "" if validate_host("localhost", settings.ALLOWED_HOSTS) else mails.link("")
    return JsonResponse(body, status=503 if problems else 200)


def identity() -> str:
    """Return what tells our database from all others, even one restored from its backup. Raises DatabaseError."""
    (found,) = postgresql.row(
        "SELECT concat(system_identifier, '.', oid) FROM pg_control_system(), pg_database"
        " WHERE datname = current_database()"
    )
    return str(found)


def _database_problem() -> str:
    try:
        found = postgresql.row("SELECT current_setting('transaction_read_only') FROM django_migrations LIMIT 1")
    except DatabaseError:
        found = None
    if found is None:  # it does not answer, or has no row yet: the first migration is under way
        return (
            "does not answer, or has no tables yet. Start PostgreSQL, check DATABASE_URL and run `manage.py migrate`."
        )
    if found == ("on",):
        connection.takes_no_writes = True  # the next request may reach another server at the same address
        return "accepts no writes. Is it a standby, or is its disk full? Check PostgreSQL and DATABASE_URL."
    return ""


def _broker_problem() -> str:
    """Check with a write: a replica, or a Redis whose memory is full, would answer a ping."""
    try:
        _broker.set("codservice:ready", 1, px=1000)
    except redis.AuthenticationError:
        return "refuses our password, or that we give none. Check REDIS_URL."
    except (redis.ConnectionError, redis.TimeoutError):
        start = "Redis, and check REDIS_URL" if is_set("REDIS_URL") else f"`make run` with DATA_DIR={settings.DATA_DIR}"
        return f"does not answer. Start {start}."
    except redis.RedisError as error:
        said = str(error).removesuffix(".")
        return f"accepts no writes ({said}). Is it a replica, or is its memory full? Check Redis and REDIS_URL."
    return ""


ANSWERS: dict[str, Callable[[HttpRequest], HttpResponse]] = {
    "/healthz": alive,
    "/readyz": ready,
    "/metrics": metrics.exposition,
}
# Part → a function that says what is wrong and what to do, or returns "". Apps add theirs when they are ready. Checks
# that read much are only for the command check_service, which also shows the figures.
CHECKS: dict[str, Callable[[], str]] = {"database": _database_problem, "broker": _broker_problem}
SLOW_CHECKS: dict[str, Callable[[], str]] = {}
FIGURES: dict[str, Callable[[], float | str]] = {}
