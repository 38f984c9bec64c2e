import time
from argparse import ArgumentParser
from collections.abc import Callable
from functools import partial
from typing import Any

from django.core.management.base import CommandError
from django.db import DatabaseError, OperationalError, connection

from codservice import commands, health


class Command(commands.Command):
    help = """Check whether all parts of the service work, and say what to do about those that do not.

It checks the database and its disk, broker, worker and beat; how long the oldest due delivery has waited; migrations,
signing secrets, clocks and retention; the log-in to the mail server; and whether stock agrees with its ledger and
orders with their counts, which takes some seconds when there are millions. It also says what the database takes on the
disk.

The exit status is 1 when something is wrong, for cron and monitoring."""
    examples = "check_service\ncheck_service --json\ncheck_service --timeout 10"

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="print what is wrong, by part, as a JSON object")
        parser.add_argument(
            "--timeout", type=commands.number(float, 0, 3600), default=15.0, metavar="SECONDS",
            help="how long to wait for a worker and beat that may have just been started (15)",
        )  # fmt: skip

    def handle(self, *, timeout: float, **options: Any) -> None:
        checks = health.CHECKS | health.SLOW_CHECKS
        checks["database"] = partial(_reached, checks["database"])
        for name in ("worker", "beat"):
            checks[name] = partial(_wait_for, checks[name], timeout)
        problems: dict[str, str] = {}
        for name, check in self.progress(checks.items(), total=len(checks), unit="checks"):
            problems[name] = _ask(check)
        figures = {name: _measured(measure) for name, measure in health.FIGURES.items()}
        wrong = [name for name, problem in problems.items() if problem]
        if options["json"]:
            self.print_json(
                {"ok": not wrong, **{name: problem or "ok" for name, problem in problems.items()}, **figures}
            )
        else:
            for name, problem in problems.items():
                self.stdout.write(f"{name.replace('_', ' ')}: {problem or 'ok'}")
            for name, figure in figures.items():
                self.stdout.write(f"{name.replace('_', ' ')}: {'unknown' if figure is None else figure}")
        if wrong:
            raise CommandError(f"Something is wrong: {', '.join(wrong).replace('_', ' ')}.")


def _reached(check: Callable[[], str]) -> str:
    """The check's result if the database answers; otherwise why it does not, which `/readyz` does not reveal."""
    try:
        connection.ensure_connection()
    except OperationalError as error:
        return commands.cannot_be_used(error)
    return check()


def _wait_for(check: Callable[[], str], seconds: float) -> str:
    """Repeat the check for some seconds while it fails, as what it checks may have just been started."""
    deadline = time.monotonic() + seconds
    while (problem := check()) and time.monotonic() < deadline:
        time.sleep(0.2)
    return problem


def _ask(check: Callable[[], str]) -> str:
    try:
        return check()
    except (DatabaseError, NotImplementedError) as error:  # psycopg's for dates that it cannot read
        reason = f" ({str(error).strip().splitlines()[0]})" if connection.connection else ""
        return f"cannot be checked{reason}. Fix the database first."


def _measured(measure: Callable[[], float | str]) -> float | str | None:
    try:
        figure = measure()
    except (DatabaseError, NotImplementedError):
        return None
    return figure if isinstance(figure, str) else round(figure, 1)
