from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError
from django.utils import timezone

from codservice import commands, values
from codservice.accounts.account_argument import add_account_argument, find_account
from codservice.accounts.models import SCOPES, ApiKey


class Command(commands.Command):
    help = "Make an API key. Only the key is printed on stdout, and only now: it is stored nowhere."
    examples = (
        "create_api_key --account yasmine@example.dz\n"
        'create_api_key --account yasmine@example.dz --name "Stock sync" '
        "--scopes inventory:read inventory:write --expires 2027-12-31"
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_account_argument(parser)
        parser.add_argument("--name", default="API key", help="what it is for")
        parser.add_argument("--scopes", nargs="+", choices=SCOPES, metavar="SCOPE", help="; ".join(SCOPES))
        parser.add_argument("--expires", metavar="DATE", help="the last day, in Algeria's time, on which it works")

    def handle(self, *, account: str, name: str, scopes: list[str] | None, expires: str | None, **options: Any) -> None:
        try:
            name = values.text(name, max_length=100)
        except ValueError as error:
            raise CommandError(f"--name: {error}") from None
        expires_at = commands.read_moment(expires, "expires", ends=True) if expires is not None else None
        if expires_at is not None and expires_at <= timezone.now():
            raise CommandError(f"--expires: {expires} is over already.")
        _, key = ApiKey.issue(find_account(account), name=name, scopes=scopes, expires_at=expires_at)
        self.stdout.write(key)
