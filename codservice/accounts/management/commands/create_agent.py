import secrets
from argparse import ArgumentParser
from typing import Any

from django.contrib.auth.models import Group
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management.base import CommandError
from django.db import transaction
from django.urls import reverse

from codservice import commands
from codservice.accounts.models import User


class Command(commands.Command):
    help = "Make an agent or a supervisor of the call center, who signs in at the console."
    examples = "create_agent samira\ncreate_agent karim --supervisor\ncreate_agent samira --json"

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("username", help="the name to sign in with")
        parser.add_argument("--supervisor", action="store_true", help="make a supervisor instead of an agent")
        parser.add_argument("--password", help="the password; without it one is made and printed, this once")
        parser.add_argument("--json", action="store_true", help="print a JSON object")

    def handle(self, *, username: str, supervisor: bool, password: str | None, **options: Any) -> None:
        user = User(username=username.strip(), is_staff=True)
        made = None if password else secrets.token_urlsafe(12)
        try:
            user.full_clean(exclude=["password"])
            if password:
                validate_password(password, user)
        except ValidationError as error:
            raise CommandError(f"{user.username}: {' '.join(error.messages)}") from None
        role = "supervisor" if supervisor else "agent"
        user.set_password(password or made)
        with transaction.atomic():
            user.save()
            user.groups.add(Group.objects.get(name="Supervisors" if supervisor else "Agents"))
        if options["json"]:
            self.print_json(
                {"username": user.username, "role": role, "password": made, "login": reverse("admin:login")}
            )
            return
        self.stdout.write(f"{role.capitalize()} {user.username}")
        if made:
            self.stdout.write(f"Password: {made}")
        self.say(f"Next: sign in at {reverse('admin:login')}")
