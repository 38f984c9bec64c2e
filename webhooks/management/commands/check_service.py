from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError
from django.db import DatabaseError

from codservice import commands, health
from codservice.celery import app
from webhooks import queue


class Command(commands.Command):
    help = """Say whether all parts of the service do their work: what /readyz checks, and whether a worker answers.

Exit status 1 when something is wrong, for cron and monitoring."""
    examples = "check_service\ncheck_service --json"
    requires_system_checks: list[str] = []  # type: ignore[assignment]

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="print an object with what is wrong, by part")
        parser.add_argument("--timeout", type=float, default=2.0, help="seconds that a worker may take to answer (2)")

    def handle(self, *, timeout: float, **options: Any) -> None:
        problems = {name: check() for name, check in (health.CHECKS | health.SLOW_CHECKS).items()}
        problems["worker"] = "cannot be asked" if problems["broker"] else _ask_worker(timeout)
        try:
            age = round(queue.oldest_due(), 1)
        except DatabaseError:
            age = None
        is_well = not any(problems.values())
        if options["json"]:
            parts = {name: problem or "ok" for name, problem in problems.items()}
            self.print_json({"ok": is_well, **parts, "oldest_due_seconds": age})
        else:
            for name, problem in problems.items():
                self.stdout.write(f"{name}: {problem or 'ok'}")
            self.stdout.write(f"oldest due delivery: {'unknown' if age is None else f'{age} s'}")
        if not is_well:
            raise CommandError("Something is wrong: " + ", ".join(name for name in problems if problems[name]) + ".")


def _ask_worker(timeout: float) -> str:
    try:
        answers = app.control.ping(timeout=timeout)
    except Exception as error:  # whatever the broker's library raises
        return f"cannot be asked: {error}"
    return "" if answers else "none answers"
