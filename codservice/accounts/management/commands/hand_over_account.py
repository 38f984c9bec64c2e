from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from codservice import commands
from codservice.accounts import team
from codservice.accounts.account_argument import add_account_argument, find_account
from codservice.accounts.models import Membership


class Command(commands.Command):
    help = (
        "Make a colleague the holder of a merchant's account. The previous holder becomes a manager. Use it when "
        "a holder leaves, because API keys work only while the holder may sign in."
    )
    examples = "hand_over_account --account yasmine@example.dz --to nadia@example.dz"

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_account_argument(parser)
        parser.add_argument("--to", required=True, metavar="EMAIL", help="the colleague, by their e-mail address")

    def handle(self, *, account: str, to: str, **options: Any) -> None:
        found = find_account(account)
        if found.holder.email.lower() == to.lower():
            raise CommandError(f"{found.holder.email} is already the holder of this account.")
        members = found.memberships.select_related("user")
        member = members.filter(user__email__iexact=to).first() if to else None
        nobody = CommandError(
            f"Nobody with the address “{to}” works for this account and may sign in. Its holder must invite them"
            " first, or if they are deactivated, an operator must let them sign in again on the page People."
        )
        if member is None:
            raise nobody
        try:
            team.hand_over(found.id, member.id)
        except Membership.DoesNotExist:  # deactivated, or no longer a member
            raise nobody from None
        self.stdout.write(f"Account “{found.name}” for {member.user.email}")
