"""The filters of the commands that list and resend deliveries: `--status`, `--webhook` and so on."""

from argparse import ArgumentParser
from typing import Any
from uuid import UUID

from django.core.management.base import CommandError

from codservice import commands
from codservice.accounts.account_argument import add_account_argument, find_account
from webhooks.models import Delivery, DeliveryQuerySet, Event, Webhook


def add(parser: ArgumentParser, *, status: str | None = None) -> None:
    """Add the filters. `status` is the default of `--status`; None means any."""
    known = ", ".join(Delivery.Status.values)
    default = f"; {status} unless said otherwise" if status else ""
    parser.add_argument("--status", default=status, help=f"one or several, comma separated, of {known}{default}")
    parser.add_argument("--event", help=f"one or several, comma separated, of {', '.join(Event.KINDS)}")
    parser.add_argument("--webhook", type=UUID, metavar="ID", help="of this webhook")
    add_account_argument(parser, required=False)
    commands.add_period_arguments(parser, "of changes")


def chosen(options: dict[str, Any]) -> DeliveryQuerySet:
    """Return the deliveries that the options of `add` choose. Raises CommandError for values that cannot be used."""
    deliveries = Delivery.objects.filter(commands.in_period(options))
    if options["status"] is not None:
        statuses = commands.read_words(options["status"], "status", Delivery.Status.values)
        deliveries = deliveries.filter(Delivery.shown_as(statuses))
    if options["event"] is not None:
        deliveries = deliveries.filter(event__kind__in=commands.read_words(options["event"], "event", Event.KINDS))
    if options["webhook"]:
        if not Webhook.objects.filter(pk=options["webhook"]).exists():
            raise CommandError(f"--webhook: There is no webhook {options['webhook']}.")
        deliveries = deliveries.filter(webhook_id=options["webhook"])
    if options["account"] is not None:
        deliveries = deliveries.filter(webhook__account_id=find_account(options["account"]).id)
    return deliveries
