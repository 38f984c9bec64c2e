from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from codservice import commands
from codservice.accounts import one_time_codes
from codservice.accounts.models import User


class Command(commands.Command):
    help = (
        "Turn off the one-time codes of somebody who has lost their phone: an account's holder, or an "
        "operator. They are signed out everywhere. Check first who is asking."
    )
    examples = "turn_codes_off yasmine@example.dz\nturn_codes_off operator"

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("username", help="the name or e-mail address that they sign in with")

    def handle(self, *, username: str, **options: Any) -> None:
        person = User.meant_by(username)
        if person is None or not person.signs_in_as(username) or not one_time_codes.are_on(person):
            raise CommandError(f"Nobody signs in as {username} with one-time codes.")
        one_time_codes.forget(person)
        self.stdout.write(f"{person.username} signs in by password alone, and is signed out everywhere")
