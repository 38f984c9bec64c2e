from argparse import ArgumentParser
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import CommandError

from codservice import commands
from codservice.accounts import merchants


class Command(commands.Command):
    help = "Create a merchant's account and its holder."
    examples = (
        'create_account "Boutique Yasmine" --email yasmine@example.dz\n'
        'create_account "Big shop" --email big@example.dz --rate-limit 600 --json'
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="the merchant's name")
        parser.add_argument("--email", required=True, help="the holder's e-mail address, to sign in with")
        parser.add_argument(
            "--password", help="the holder's password; without it, a one-time password is created and printed"
        )
        parser.add_argument(
            "--rate-limit", type=commands.number(int, 1, merchants.MOST_REQUESTS),
            help="requests per minute and API key, instead of the default",
        )  # fmt: skip
        parser.add_argument("--json", action="store_true", help="print a JSON object")

    def handle(self, *, name: str, email: str, password: str | None, rate_limit: int | None, **options: Any) -> None:
        with self.shown_or_undone():
            try:
                account, made = merchants.make(name, email=email, password=password, rate_limit=rate_limit)
            except ValidationError as error:
                sentences = (_sentence(field, said) for field, said in error.message_dict.items())
                raise CommandError(" ".join(sentences)) from None
            email = account.holder.email
            if options["json"]:
                self.print_json({"id": account.id, "name": account.name, "email": email, "password": made})
                return
            self.stdout.write(f"Account “{account.name}” for {email}")
            if made:
                self.stdout.write(f"One-time password: {made}")
        self.say(f"Next: manage.py create_api_key --account {email}")


def _sentence(field: str, said: list[str]) -> str:
    """What is wrong with an argument, after its name. Messages about the address already contain it."""
    before = {"name": "The name: ", "email": ""}.get(field, f"--{field}: ")
    return before + " ".join(said)
