from argparse import ArgumentParser
from typing import Any

from codservice import commands
from orders import counts, day_sums


class Command(commands.Command):
    help = """Correct the counts behind the totals of order lists, beside the running service.

Triggers keep them up to date. `check_service` says when they are wrong, for example after a change of the orders' table
with triggers switched off. The figures of merchants' home pages and of the call center are recalculated too, week by
week, which takes minutes when there are millions of orders. Safe to run again."""
    examples = "recount_orders\nrecount_orders --json"

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="print the count as JSON")

    def handle(self, **options: Any) -> None:
        corrected = counts.recount()
        weeks, count = day_sums.weeks()
        for account_id, week in self.progress(weeks, total=count, unit="weeks"):
            day_sums.sum_anew(account_id, week)
        if options["json"]:
            self.print_json({"corrected": corrected})
        else:
            self.stdout.write(f"corrected: {corrected}")
