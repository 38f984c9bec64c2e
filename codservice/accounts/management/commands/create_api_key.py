from argparse import ArgumentParser
from datetime import UTC, datetime, time
from typing import Any

from django.core.management.base import CommandError
from django.utils.dateparse import parse_date, parse_datetime

from codservice import commands
from codservice.accounts.models import SCOPES, ApiKey


class Command(commands.Command):
    help = "Make an API key. Only the key is printed on stdout, and only now: it is stored nowhere."
    examples = (
        "create_api_key --account yasmine@example.dz\n"
        'create_api_key --account yasmine@example.dz --name "Stock sync" '
        "--scopes inventory:read inventory:write --expires 2027-12-31"
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        commands.add_account_argument(parser)
        parser.add_argument("--name", default="API key", help="what it is for")
        parser.add_argument("--scopes", nargs="+", choices=SCOPES, metavar="SCOPE", help="; ".join(SCOPES))
        parser.add_argument("--expires", metavar="DATE", help="the date (UTC) or ISO 8601 time when it stops working")

    def handle(self, *, account: str, name: str, scopes: list[str] | None, expires: str | None, **options: Any) -> None:
        expires_at = self.read_time(expires) if expires else None
        _, key = ApiKey.issue(commands.find_account(account), name=name, scopes=scopes, expires_at=expires_at)
        self.stdout.write(key)

    def read_time(self, text: str) -> datetime:
        try:
            day = parse_date(text)
            moment = datetime.combine(day, time(), UTC) if day else parse_datetime(text)
        except ValueError:
            moment = None
        if moment is None:
            raise CommandError(f"--expires {text}: write a date such as 2027-12-31.")
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        if moment <= datetime.now(UTC):
            raise CommandError(f"--expires {text} is over already.")
        return moment
