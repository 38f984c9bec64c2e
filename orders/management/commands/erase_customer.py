from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from codservice import commands
from codservice.accounts.account_argument import add_account_argument, find_account
from codservice.accounts.actor import Actor
from codservice.errors import Refused
from orders import customer_data, phones


class Command(commands.Command):
    help = """Erase one customer from an account's data, at the customer's request (law 18-07). This cannot be undone.

The customer is given by the first or second phone number of an order, in any usual form. Their name, phones, address
and every text about them are removed from orders, calls, history, events, the log of deliveries and kept answers, in
test mode too; what figures are made of stays. A record says that it was done, by whom, when and in how many orders. The
command refuses, with exit status 1, while an order of the customer has not ended, or while a file of orders that may
bring the customer back is being imported. It is safe to interrupt and to run again."""
    examples = (
        "erase_customer '0550 12 34 56' --account yasmine@example.dz --dry-run\n"
        "erase_customer 0550123456 --account yasmine@example.dz --json"
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("phone", type=phones.argument, metavar="PHONE", help="the customer's number")
        add_account_argument(parser)
        parser.add_argument("--dry-run", action="store_true", help="only print how many orders there are")
        parser.add_argument("--json", action="store_true", help="print the counts as JSON")

    def handle(self, *, phone: str, dry_run: bool, **options: Any) -> None:
        account = find_account(options["account"])
        try:
            if dry_run:
                erased = customer_data.to_erase(account, phone)
            else:
                erased = customer_data.erase(account, phone, actor=Actor.of_command("erase_customer"))
        except Refused as refused:
            raise CommandError(refused.message) from refused
        if options["json"]:
            self.print_json({**erased._asdict(), "dry_run": dry_run})
        else:
            self.stdout.write(f"orders: {erased.orders}\ntest orders: {erased.test_orders}")
            if dry_run:
                self.say("Nothing was changed.")
