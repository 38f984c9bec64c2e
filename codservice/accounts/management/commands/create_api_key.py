from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError
from django.utils import timezone

from codservice import commands, days, values
from codservice.accounts.account_argument import add_account_argument, find_account
from codservice.accounts.models import SCOPES, ApiKey, TooManyKeys


class Command(commands.Command):
    help = "Create an API key. Only the key is printed on stdout, and only once: it is not stored."
    examples = (
        "create_api_key --account yasmine@example.dz\n"
        "create_api_key --account yasmine@example.dz --test\n"
        'create_api_key --account yasmine@example.dz --name "Stock sync" '
        f"--scopes inventory:read inventory:write --expires {days.today().year + 1}-12-31"
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_account_argument(parser)
        parser.add_argument("--name", default=days.today().isoformat(), help="what it is for (default: today's date)")
        parser.add_argument("--scopes", nargs="+", metavar="SCOPE", help=f"one or several of {', '.join(SCOPES)}")
        parser.add_argument(
            "--test", action="store_true", help="a key of the account's twin for tests (docs/test-mode.md)"
        )
        parser.add_argument("--expires", metavar="DATE", help="the last day on which it works, in Algerian time")

    def handle(
        self, *, account: str, name: str, scopes: list[str] | None, expires: str | None, test: bool, **options: Any
    ) -> None:
        try:
            name = values.text(name, max_length=100)
        except ValueError as error:
            raise CommandError(f"--name: {error}") from None
        if scopes is not None:  # separated by blanks, commas or both
            scopes = commands.read_words(",".join(" ".join(scopes).replace(",", " ").split()), "scopes", SCOPES)
        expires_at = commands.read_moment(expires, "expires", ends=True) if expires is not None else None
        if expires_at is not None and expires_at <= timezone.now():
            raise CommandError(f"--expires: {expires} is in the past.")
        if expires_at is not None and expires_at.year not in days.YEARS:
            raise CommandError(
                f"--expires: {expires} is too late. Choose a day before the end of {days.YEARS[-1]}, or none."
            )
        found = find_account(account)
        with self.shown_or_undone():
            try:
                _, key = ApiKey.issue(found, name=name, scopes=scopes, expires_at=expires_at, is_test=test)
            except TooManyKeys as refused:
                raise CommandError(refused.message) from None
            self.stdout.write(key)
        if found.is_closed:
            self.say("The key is refused while the account or its holder is deactivated.")
