from argparse import ArgumentParser
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import CommandError

from codservice import commands
from codservice.accounts import staff
from codservice.accounts.models import User


class Command(commands.Command):
    help = "Create the operator, who can do everything, with a one-time password. Does nothing if there is one."
    examples = "create_operator\ncreate_operator --username nadia"

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--username", help="the name to sign in with (default: operator)")

    def handle(self, *, username: str | None, **options: Any) -> None:
        if User.objects.filter(is_superuser=True).exists():
            if username is not None:  # a person runs this, not the service's start
                self.say(
                    "There is already an operator, so none was created. Operators create others on the page People."
                )
            return
        username = "operator" if username is None else username
        with self.shown_or_undone():
            try:
                operator, password = staff.make(username, is_superuser=True)
            except ValidationError as error:
                if User.objects.filter(is_superuser=True).exists():
                    return  # another start was faster
                said = " ".join(error.messages)
                problem = f"The username “{username}” cannot be used. Choose another with --username: {said}"
                raise CommandError(problem) from None
            name = operator.username
            self.stdout.write(f"Operator: sign in as {name} with the password {password} (shown only now)")
