from argparse import ArgumentParser
from typing import Any

from codservice import commands
from codservice.accounts import security_log
from codservice.accounts.account_argument import add_account_argument, find_account
from orders import customer_data, phones


class Command(commands.Command):
    help = """Write what an account knows about one customer to stdout, as JSON: their orders with calls and history.

The customer is given by the first or second phone number of an order, in any usual form. Rows of files that were
refused and have the number are there too. What is of test mode is marked. The security log notes the export."""
    examples = "export_customer '0550 12 34 56' --account yasmine@example.dz > customer.json"

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("phone", type=phones.argument, metavar="PHONE", help="the customer's number")
        add_account_argument(parser)

    def handle(self, *, phone: str, **options: Any) -> None:
        account = find_account(options["account"])
        count = customer_data.of_customer(account, phone).count()
        security_log.note_account(security_log.Action.EXPORTED, account)
        for piece in customer_data.export(account, phone):
            self.stdout.write(piece.decode(), ending="")
        self.say(f"Orders: {count}.")
