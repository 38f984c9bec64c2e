from argparse import ArgumentParser
from collections import Counter
from datetime import timedelta
from typing import Any

from django.core.management.base import CommandError
from django.utils import timezone

from codservice import commands
from codservice.api import idempotency
from codservice.api.models import IdempotencyRecord
from webhooks import retention
from webhooks.models import Attempt, Webhook


class Command(commands.Command):
    help = """Delete what is older than retention keeps it, in small batches beside the running service.

Finished deliveries with their attempts, events without deliveries, deleted webhooks whose log is empty; besides, at
any age that has passed: secrets that have stopped signing and answers kept for an Idempotency-Key."""
    examples = "prune --dry-run\nprune --older-than 30\nprune --older-than 365 --json"

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--older-than", type=int, default=90, metavar="DAYS", help="keep this many days (90)")
        parser.add_argument("--dry-run", action="store_true", help="only count")
        parser.add_argument("--json", action="store_true", help="print the counts as JSON")

    def handle(self, *, older_than: int, dry_run: bool, **options: Any) -> None:
        if not 1 <= older_than <= 36_500:
            raise CommandError("--older-than must be from 1 to 36500 days.")
        before = timezone.now() - timedelta(days=older_than)
        counts: Counter[str] = Counter(
            deliveries=0, attempts=0, events=0, webhooks=0, previous_secrets=0, idempotency_keys=0
        )
        webhooks = list(Webhook.objects.values_list("id", flat=True))
        for webhook_id in self.progress(webhooks, total=len(webhooks), unit="webhooks"):
            if dry_run:
                old = retention.old_deliveries(webhook_id, before)
                counts["deliveries"] += old.count()
                counts["attempts"] += Attempt.objects.filter(delivery__in=old).count()
                continue
            for deliveries, attempts in retention.forget_deliveries(webhook_id, before):
                counts.update(deliveries=deliveries, attempts=attempts)
        if dry_run:
            counts["events"] = retention.old_events(before).count()
            counts["webhooks"] = retention.old_webhooks(before).count()
            counts["previous_secrets"] = Webhook.objects.filter(previous_secret_until__lt=timezone.now()).count()
            kept_since = timezone.now() - idempotency.KEPT_FOR
            counts["idempotency_keys"] = IdempotencyRecord.objects.filter(created_at__lt=kept_since).count()
        else:
            retention.drop_left_over()
            for events in retention.forget_events(before):
                counts["events"] += events
            counts["webhooks"] = retention.forget_webhooks(before)
            counts["previous_secrets"] = retention.forget_previous_secrets()
            counts["idempotency_keys"] = idempotency.forget_old()
        if options["json"]:
            self.print_json({**counts, "dry_run": dry_run})
            return
        for name, count in counts.items():
            self.stdout.write(f"{name.replace('_', ' ')}: {count}")
        if dry_run:
            self.say("Nothing was deleted. What the deliveries leave behind would go too.")
