"""create_account and create_api_key, as an operator types them."""

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from codservice.accounts.models import Account, ApiKey, User
from tests.conftest import ApiClient

pytestmark = pytest.mark.django_db


def run(*arguments: str, **options: Any) -> tuple[str, str]:
    out, err = StringIO(), StringIO()
    call_command(*arguments, stdout=out, stderr=err, **options)
    return out.getvalue().strip(), err.getvalue()


def test_an_account_and_a_key_let_a_merchant_in() -> None:
    run(
        "create_account",
        "Boutique",
        "--email",
        "Yasmine@Example.dz",
        "--password",
        "s3cret-s3cret",
        "--rate-limit",
        "90",
    )
    key, _ = run("create_api_key", "--account", "yasmine@example.dz")

    answer = ApiClient(key).get("/api/v1/orders")

    assert answer.status_code == 200
    assert answer["X-RateLimit-Limit"] == "90"
    assert User.objects.get(email="yasmine@example.dz").check_password("s3cret-s3cret")


def test_a_password_that_was_not_given_is_made_and_printed() -> None:
    out, _ = run("create_account", "Boutique", "--email", "y@example.dz", "--json")

    made = json.loads(out)

    assert User.objects.get(email="y@example.dz").check_password(made["password"])
    assert str(Account.objects.get().id) == made["id"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["Boutique", "--email", "nobody"], "no e-mail address"),
        (["Boutique", "--email", "TAKEN@example.dz"], "exists already"),
        (["  ", "--email", "y@example.dz"], "The name"),
        (["Boutique", "--email", "y@example.dz", "--rate-limit", "0"], "--rate-limit"),
    ],
)
def test_an_account_that_cannot_be_is_refused_in_words(arguments: list[str], says: str) -> None:
    User.objects.create_user("taken@example.dz", "taken@example.dz")

    with pytest.raises(CommandError, match=says):
        run("create_account", *arguments)

    assert not Account.objects.exists()


def test_a_key_has_the_scopes_and_the_expiry_that_were_asked_for(alice: Account) -> None:
    key, err = run(
        "create_api_key", "--account", alice.holder.email, "--scopes", "orders:read", "--expires", "2099-01-31"
    )

    row = ApiKey.objects.get()
    assert (row.scopes, row.expires_at.isoformat()) == (["orders:read"], "2099-01-31T00:00:00+00:00")
    assert key.startswith(row.prefix)
    assert key not in err


@pytest.mark.parametrize("expires", ["yesterday", "2020-01-01", "2026-13-01"])
def test_an_expiry_that_cannot_be_is_refused(alice: Account, expires: str) -> None:
    with pytest.raises(CommandError, match=expires):
        run("create_api_key", "--account", alice.holder.email, "--expires", expires)

    assert not ApiKey.objects.exists()


def test_an_unknown_account_is_refused_with_what_to_do() -> None:
    with pytest.raises(CommandError, match="create_account makes one"):
        run("create_api_key", "--account", "nobody@example.dz")
