import secrets
from argparse import ArgumentParser
from typing import Any

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management.base import CommandError
from django.core.validators import validate_email
from django.db import IntegrityError, transaction

from codservice import commands, values
from codservice.accounts.models import Account, User


class Command(commands.Command):
    help = "Make a merchant's account and the person who holds it."
    examples = (
        'create_account "Boutique Yasmine" --email yasmine@example.dz\n'
        'create_account "Big shop" --email big@example.dz --rate-limit 600 --json'
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="the merchant's name")
        parser.add_argument("--email", required=True, help="the holder's e-mail address, to sign in with")
        parser.add_argument("--password", help="the holder's password; without it one is made and printed")
        parser.add_argument("--rate-limit", type=int, help="requests per minute and API key, instead of the default")
        parser.add_argument("--json", action="store_true", help="print a JSON object")

    def handle(self, *, name: str, email: str, password: str | None, rate_limit: int | None, **options: Any) -> None:
        email = email.strip().lower()
        try:
            validate_email(email)
        except ValidationError:
            raise CommandError(f"{email} is no e-mail address.") from None
        try:
            name = values.text(name, max_length=255)
        except ValueError as error:
            raise CommandError(f"The name: {error}") from None
        if rate_limit is not None and not 1 <= rate_limit <= 1_000_000:
            raise CommandError("--rate-limit must be from 1 to 1000000.")
        if password:
            try:
                validate_password(password, User(username=email, email=email, first_name=name))
            except ValidationError as error:
                raise CommandError(f"--password: {' '.join(error.messages)}") from None
        made = None if password else secrets.token_urlsafe(12)
        try:
            with transaction.atomic():
                holder = User.objects.create_user(username=email, email=email, password=password or made)
                account = Account.objects.create(name=name, holder=holder, rate_limit=rate_limit)
        except IntegrityError:
            raise CommandError(f"A user with the address {email} exists already.") from None
        if options["json"]:
            self.print_json({"id": account.id, "name": account.name, "email": email, "password": made})
            return
        self.stdout.write(f"Account “{account.name}” for {email}")
        if made:
            self.stdout.write(f"Password: {made}")
        self.say(f"Next: manage.py create_api_key --account {email}")
