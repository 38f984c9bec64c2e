from argparse import ArgumentParser
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import CommandError
from django.urls import reverse

from codservice import commands
from codservice.accounts import staff


class Command(commands.Command):
    help = "Create an agent or a supervisor of the call center, who signs in at the console."
    examples = "create_agent samira\ncreate_agent karim --supervisor\ncreate_agent samira --json"

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("username", help="the name to sign in with")
        parser.add_argument("--supervisor", action="store_true", help="create a supervisor instead of an agent")
        parser.add_argument("--password", help="the password; without it, a one-time password is created and printed")
        parser.add_argument("--json", action="store_true", help="print a JSON object")

    def handle(self, *, username: str, supervisor: bool, password: str | None, **options: Any) -> None:
        group = staff.SUPERVISORS if supervisor else staff.AGENTS
        with self.shown_or_undone():
            try:
                user, made = staff.make(username, group=group, password=password)
            except ValidationError as error:
                raise CommandError(f"{username.strip() or 'The username'}: {' '.join(error.messages)}") from None
            role = "supervisor" if supervisor else "agent"
            if options["json"]:
                self.print_json(
                    {"username": user.username, "role": role, "password": made, "login": reverse("admin:login")}
                )
                return
            self.stdout.write(f"{role.capitalize()} {user.username}")
            if made:
                self.stdout.write(f"One-time password: {made}")
        self.say(f"Next: sign in at {reverse('admin:login')}")
