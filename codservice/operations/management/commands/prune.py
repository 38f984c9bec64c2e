from argparse import ArgumentParser
from collections import Counter
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from codservice import commands, retention
from codservice.operations import duties


class Command(commands.Command):
    help = """Delete old data in small batches beside the running service, which does so itself once a day.

It deletes finished deliveries with their attempts, events without deliveries and deleted webhooks whose log is empty,
but nothing that the feed still shows. It also deletes, each at its own age, secrets that have stopped signing, answers
kept for an Idempotency-Key, sessions, invitations, claims, uploads, entries of the security log and test orders, and
anonymises customers of orders that ended over CUSTOMER_RETENTION_DAYS ago. Safe to interrupt and to run again."""
    examples = "prune --dry-run\nprune --older-than 60\nprune --older-than 365 --json"

    def add_arguments(self, parser: ArgumentParser) -> None:
        default = settings.DELIVERY_RETENTION_DAYS
        parser.add_argument(
            "--older-than",
            type=int,
            default=default,
            metavar="DAYS",
            help="how long to keep deleted webhooks, deliveries, attempts and events, the last three for 32 days at"
            f" least, or CUSTOMER_RETENTION_DAYS if that is less (DELIVERY_RETENTION_DAYS: {default})",
        )
        parser.add_argument("--dry-run", action="store_true", help="only count")
        parser.add_argument("--json", action="store_true", help="print the counts as JSON")

    def handle(self, *, older_than: int, dry_run: bool, **options: Any) -> None:
        if not 1 <= older_than <= settings.MOST_RETENTION_DAYS:
            raise CommandError(f"--older-than must be from 1 to {settings.MOST_RETENTION_DAYS} days.")
        kept = timedelta(days=older_than)
        counts: Counter[str] = Counter()
        failed = None
        batches = retention.sweep(kept, dry_run=dry_run)
        if not dry_run:
            before = {name: number for number, name in enumerate(retention.SWEEPS)}
            batches = self.progress(
                batches, total=len(before), unit="kinds", end=lambda batch: before[batch[0]], fewest=1
            )
        try:
            for _, batch in batches:
                counts.update(batch)
        except retention.SweepsFailed as error:
            failed = error
        if not (dry_run or failed) and older_than <= settings.DELIVERY_RETENTION_DAYS:
            duties.note("prune")  # a worker would find nothing more today
        if options["json"]:
            self.print_json({**counts, "dry_run": dry_run})
        else:
            for name, count in counts.items():
                self.stdout.write(f"{name.replace('_', ' ')}: {count}")
            if dry_run:
                self.say("Nothing was changed.")
        if failed:
            raise CommandError(str(failed)) from failed
