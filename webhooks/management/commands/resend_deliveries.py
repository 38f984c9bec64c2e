from argparse import ArgumentParser
from typing import Any
from uuid import UUID

from django.core.management.base import CommandError
from django.db.models import QuerySet

from codservice import commands
from codservice.long_lists import batches_by
from webhooks import delivery_arguments, resending
from webhooks.models import Delivery


class Command(commands.Command):
    help = f"""Send deliveries once more, now, with the same ids and bodies: single ones by id, or many by filters.

A finished delivery gets one more attempt. One that waits for its next attempt gets it now. Deliveries of webhooks
that are deleted or off, dropped ones, and those that have had {resending.MOST_ATTEMPTS} attempts, are left alone.
Prints how many will be sent."""
    examples = (
        "resend_deliveries 4f0c6f0e-7f55-4a5e-9d8e-6c8a2f0f8a11\n"
        "resend_deliveries --status failed --account yasmine@example.dz --from 2026-03-01 --dry-run\n"
        "resend_deliveries --status failed,pending --webhook 01981f1e-6f43-7b52-8c7e-000000000001 --json"
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "ids",
            nargs="*",
            type=UUID,
            metavar="ID",
            help="deliveries to send; without any, those that the filters choose",
        )
        delivery_arguments.add(parser, status="failed")
        parser.add_argument(
            "--all", action="store_true", help="send every delivery of this status, without ids or other filters"
        )
        parser.add_argument("--dry-run", action="store_true", help="only count them")
        parser.add_argument("--json", action="store_true", help="print the counts as JSON")

    def handle(self, *, ids: list[UUID], dry_run: bool, **options: Any) -> None:
        narrowed = any(options[name] is not None for name in ("event", "webhook", "account", "since", "until"))
        if ids and (narrowed or options["all"] or options["status"] != Delivery.Status.FAILED):
            raise CommandError("Give either ids or filters, not both.")
        if ids:
            deliveries = Delivery.objects.filter(id__in=ids)
        elif narrowed or options["all"]:
            deliveries = delivery_arguments.chosen(options)
        else:
            raise CommandError("Give ids or a filter, or --all for every delivery of this status.")
        asked = len(set(ids)) or deliveries.count()
        deliveries = deliveries.filter(resending.POSSIBLE)
        count = deliveries.count()
        if not dry_run:
            count = self.resend(deliveries, total=-(-count // resending.MOST_AT_ONCE))
        left = max(asked - count, 0)  # more may have come meanwhile
        if options["json"]:
            self.print_json({"resent": count, "left_alone": left, "dry_run": dry_run})
        else:
            self.stdout.write(str(count))
            self.say(f"Sent again{' (dry run)' if dry_run else ''}: {count}, left alone {left}.")
        if ids and left:
            raise CommandError(
                f"{left} of the ids cannot be sent again: unknown, dropped, of a webhook that is deleted or off,"
                f" or tried {resending.MOST_ATTEMPTS} times."
            )

    def resend(self, deliveries: QuerySet[Delivery], *, total: int) -> int:
        """Resend the deliveries and return how many; if it is stopped or fails, print how many were resent so far.

        The security log gets one entry for each webhook."""
        count, noted = 0, set[UUID]()
        try:
            found = batches_by(deliveries.values_list("id", named=True), ["id"], resending.MOST_AT_ONCE)
            for batch in self.progress(found, total=total, unit="batches"):
                count += len(resending.resend_noted([each.id for each in batch], noted))
        except BaseException:
            self.say(f"Not all were sent again, only {count}.")
            raise
        return count
