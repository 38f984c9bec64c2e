from argparse import ArgumentParser
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import CommandError
from django.db import IntegrityError, transaction

from codservice import commands
from codservice.accounts import security_log, staff
from codservice.accounts.models import User
from codservice.accounts.security_log import Action


class Command(commands.Command):
    help = "Make the operator, who may do everything, with a one-time password. Where one exists, does nothing."
    examples = "create_operator\ncreate_operator --username nadia"

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--username", help="the name to sign in with (default: operator)")

    def handle(self, *, username: str | None, **options: Any) -> None:
        if User.objects.filter(is_superuser=True).exists():
            if username is not None:  # a person has asked, and no start
                self.say("There is an operator already, so none was made: operators make others on the page People.")
            return
        username = "operator" if username is None else username
        try:
            username = User._meta.get_field("username").clean(User.normalize_username(username.strip()), None)
        except ValidationError as error:
            raise CommandError(f"--username: {' '.join(error.messages)}") from None
        operator = User(username=username, is_staff=True, is_superuser=True)
        password = staff.give_one_time_password(operator)
        with self.shown_or_undone():
            try:
                with transaction.atomic():
                    if User.objects.filter(username__iexact=username).exists():
                        raise IntegrityError("it is another's but for case")
                    operator.save()
                    security_log.note_person(Action.PERSON_MADE, operator)
            except IntegrityError:
                if User.objects.filter(is_superuser=True).exists():
                    return  # a start at the same moment was faster
                raise CommandError(f"The username {username} is taken; choose another with --username.") from None
            self.stdout.write(f"Operator: sign in as {username} with the password {password} (shown only now)")
