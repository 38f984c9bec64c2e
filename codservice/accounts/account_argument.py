"""The `--account` argument of management commands."""

from argparse import ArgumentParser

from django.core.management.base import CommandError

from codservice.accounts.models import Account


def add_account_argument(parser: ArgumentParser, *, required: bool = True) -> None:
    whose = "the account" if required else "this account's only"
    parser.add_argument(
        "--account", required=required, metavar="EMAIL", help=f"{whose}, by its holder's e-mail address"
    )


def find_account(email: str) -> Account:
    """The account whose holder has this address. Raises CommandError when there is none."""
    holders = Account.objects.select_related("holder")
    # An empty one, as of an unset variable in a script, does not mean a holder who has none.
    account = holders.filter(holder__email__iexact=email).first() if email else None
    if account is None:
        raise CommandError(f"No account's holder has the address “{email}”. Create an account with create_account.")
    return account


def find_open_account(email: str) -> Account:
    """Like `find_account`, but also raises CommandError for a closed account, which takes in nothing by any way."""
    account = find_account(email)
    if account.is_closed:
        raise CommandError(f"The account of {email}, or its holder, is deactivated. Activate it in the console first.")
    return account
