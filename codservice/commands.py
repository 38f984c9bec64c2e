"""What our management commands share: examples in `--help`, progress on stderr, data on stdout."""

import json
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from django.core.management.base import BaseCommand, CommandError
from tqdm import tqdm

from codservice.accounts.models import Account

T = TypeVar("T")


class Command(BaseCommand):
    """A command with `examples`, shown under its `--help`. It exits 0 only when all that was asked for is done."""

    examples = ""

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> Any:
        parser = super().create_parser(prog_name, subcommand, **kwargs)
        parser.formatter_class = RawDescriptionHelpFormatter
        if self.examples:
            parser.epilog = "examples:\n" + "\n".join(f"  manage.py {line}" for line in self.examples.splitlines())
        return parser

    def print_json(self, data: Any) -> None:
        self.stdout.write(json.dumps(data, ensure_ascii=False, default=str))

    def say(self, line: str) -> None:
        """A line for the person at the terminal, on stderr: stdout is for data."""
        self.stderr.write(line, self.style.NOTICE)

    def progress(self, items: Iterable[T], *, total: int, unit: str) -> Iterator[T]:
        """The items, with a progress bar when stderr is a terminal and a line per 5 % elsewhere."""
        if sys.stderr.isatty():
            yield from tqdm(items, total=total, unit=f" {unit}", file=sys.stderr)
            return
        step = max(total // 20, 1)
        for count, item in enumerate(items, start=1):
            yield item
            if count % step == 0 and total >= 20:
                self.say(f"{count} of {total} {unit}")


def add_account_argument(parser: ArgumentParser) -> None:
    parser.add_argument("--account", required=True, metavar="EMAIL", help="the account, by its holder's e-mail address")


def find_account(email: str) -> Account:
    """The account of the holder with this address; CommandError when there is none."""
    account = Account.objects.filter(holder__email__iexact=email).first()
    if account is None:
        raise CommandError(f"No account's holder has the address {email}. create_account makes one.")
    return account
