"""create_account and create_api_key, as an operator types them."""

import json
import os
import re
import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from codservice import days
from codservice.accounts.models import Account, ApiKey, SecurityEntry, User
from codservice.days import ALGIERS
from tests import factories
from tests.harness.background import PATIENCE
from tests.harness.client import ApiClient
from tests.harness.database import environment
from tests.harness.manage import manage
from tests.harness.processes import CHECKOUT
from tests.harness.python import Python

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
    holder = User.objects.get(email="yasmine@example.dz")
    assert holder.check_password("s3cret-s3cret")
    assert not holder.has_one_time_password
    assert ApiKey.objects.get().name == days.today().isoformat(), "histories call it “API key 2026-11-29”"


def test_a_password_that_was_not_given_is_made_and_printed() -> None:
    out, _ = run("create_account", "Boutique", "--email", "y@example.dz", "--json")

    made = json.loads(out)

    holder = User.objects.get(email="y@example.dz")
    assert holder.check_password(made["password"])
    assert holder.has_one_time_password
    assert str(Account.objects.get().id) == made["id"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["Boutique", "--email", "nobody"], "is not an e-mail address"),
        *((["Boutique", "--email", email], "is not an e-mail address") for email in factories.UNMAILABLE),
        (["Boutique", "--email", "TAKEN@example.dz"], "already exists"),
        (["Boutique", "--email", "agent@example.dz"], "already exists"),
        (["  ", "--email", "y@example.dz"], "The name"),
        (["Bouti\x00que", "--email", "y@example.dz"], "The name"),
        (["Boutique", "--email", "y@example.dz", "--rate-limit", "0"], "--rate-limit"),
        (["Boutique", "--email", "y@example.dz", "--password", ""], "--password: .*short"),
        (["Boutique", "--email", "y@example.dz", "--password", "12345678"], "--password: .*common.*numeric"),
        (["Boutique", "--email", "yasmine@example.dz", "--password", "yasmine@example"], "--password: .*similar"),
    ],
)
def test_an_account_that_cannot_be_is_refused_in_words(arguments: list[str], says: str) -> None:
    User.objects.create_user("taken@example.dz", "taken@example.dz")
    factories.AgentFactory(username="Agent@example.dz")

    with pytest.raises(CommandError, match=says):
        run("create_account", *arguments)

    assert not Account.objects.exists()


def test_a_key_has_the_scopes_and_the_expiry_that_were_asked_for(alice: Account) -> None:
    key, err = run(
        "create_api_key", "--account", alice.holder.email, "--scopes", "orders:read", "--expires", "2099-01-31"
    )

    row = ApiKey.objects.get()
    assert (row.scopes, row.expires_at.isoformat()) == (["orders:read"], "2099-01-31T23:00:00+00:00"), (
        "the end of that day in Algiers, as on the page of keys"
    )
    assert key.startswith(row.prefix)
    assert key not in err


@pytest.mark.parametrize(
    "typed",
    [
        ["inventory:read", "orders:read"],
        ["inventory:read,orders:read"],
        ["inventory:read,", "orders:read"],
        ["orders:read,inventory:read", "orders:read"],
    ],
)
def test_scopes_are_apart_by_blanks_or_by_commas(alice: Account, typed: list[str]) -> None:
    run("create_api_key", "--account", alice.holder.email, "--scopes", *typed)

    assert sorted(ApiKey.objects.get().scopes) == ["inventory:read", "orders:read"]


@pytest.mark.parametrize(("typed", "says"), [("orders:all", "“orders:all” is not one of"), ("", "“” is not one of")])
def test_scopes_that_there_are_not_are_refused(alice: Account, typed: str, says: str) -> None:
    with pytest.raises(CommandError, match=f"--scopes: {says}"):
        run("create_api_key", "--account", alice.holder.email, "--scopes", typed)

    assert not ApiKey.objects.exists()


@pytest.mark.parametrize(
    "expires",
    ["yesterday", "2020-01-01", "2026-13-01", "2099-01-31T12:00:00", "", "9999-12-31", "9999-12-31T23:30:00Z"],
)
def test_an_expiry_that_cannot_be_is_refused(alice: Account, expires: str) -> None:
    """The very last hour of the calendar does not exist in Algeria's time, and the page of keys could not show it."""
    with pytest.raises(CommandError, match="--expires: "):
        run("create_api_key", "--account", alice.holder.email, "--expires", expires)

    assert not ApiKey.objects.exists()


def test_the_twenty_first_live_key_is_refused(alice: Account) -> None:
    for number in range(20):
        ApiKey.issue(alice, name=str(number))

    with pytest.raises(CommandError, match="20 working keys"):
        run("create_api_key", "--account", alice.holder.email)


def test_an_unknown_account_is_refused_with_what_to_do() -> None:
    with pytest.raises(CommandError, match="Create an account with create_account"):
        run("create_api_key", "--account", "nobody@example.dz")


def test_a_key_may_expire_today_and_then_works_until_midnight_in_algiers(alice: Account) -> None:
    today = timezone.localdate(timezone=ALGIERS)

    key, _ = run("create_api_key", "--account", alice.holder.email, "--expires", today.isoformat())

    assert ApiClient(key).get("/api/v1/orders").status_code == 200


@pytest.mark.parametrize("name", ["", "\x00", "x" * 101])
def test_a_keys_name_that_cannot_be_is_refused_in_words(alice: Account, name: str) -> None:
    with pytest.raises(CommandError, match="--name: "):
        run("create_api_key", "--account", alice.holder.email, "--name", name)


@pytest.mark.parametrize(
    "arguments",
    [
        ["create_account", "Boutique", "--email", "nobody"],
        ["create_api_key", "--account", "nobody@example.dz"],
        ["create_api_key", "--account", "nobody@example.dz", "--scopes", "orders:all"],
    ],
)
def test_the_exit_status_is_0_only_on_success_and_stdout_is_for_data(arguments: list[str]) -> None:
    done = manage(*arguments, env=environment(), unset=["WEBHOOK_ALLOW_PRIVATE"])

    assert done.returncode in (1, 2)
    assert re.search("(?i)error: ", done.stderr)
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


def test_without_a_database_it_says_so_in_a_sentence() -> None:
    nowhere = environment() | {"DATABASE_URL": "postgresql://nobody@127.0.0.1:1/nothing"}
    done = manage("create_api_key", "--account", "y@example.dz", env=nowhere, unset=["WEBHOOK_ALLOW_PRIVATE"])

    assert (done.returncode, done.stdout) == (1, "")
    assert "The database cannot be used" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("started", "actor"),
    [
        (["manage.py", "create_operator"], "manage.py create_operator"),
        (["-m", "codservice.run.prepare"], "codservice.run.prepare"),
    ],
)
def test_the_security_log_says_what_made_the_operator(started: list[str], actor: str) -> None:
    assert Python(*started, env=environment()).wait(PATIENCE) == 0

    assert SecurityEntry.objects.values_list("target", "by", "actor").get() == ("operator", "command", actor)


def manage_into(out: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command with its stdout, a pipe that nobody reads, redirected like this by the shell."""
    reader, writer = os.pipe()
    os.close(reader)
    to: dict[str, Any] = {"stdout": writer, "stderr": subprocess.PIPE}
    with open(writer, "w"), open("/dev/full", "w") as full:
        if "&-" in out:  # a Python that begins with it closed
            command = ["sh", "-c", f'"$0" manage.py "$@" {out}', sys.executable, *arguments]
            environ = environment() | {"PYTHONUNBUFFERED": ""}  # as usual: small output is written at the end
            return subprocess.run(command, cwd=CHECKOUT, env=environ, text=True, **to)
        for redirection in out.split():
            number, _, path = redirection.partition(">")
            to["stderr" if number else "stdout"] = full if path == full.name else subprocess.DEVNULL
        with Python("manage.py", *arguments, env=environment(), text=True, **to) as running:
            _, err = running.communicate(timeout=PATIENCE)
    return subprocess.CompletedProcess(arguments, running.returncode, "", err)


# To a device that is always full, to a closed stdout, and to the pipe.
NOWHERE = {">/dev/full": "No space left on device", ">&-": "it is closed", "": ""}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("arguments", "out"),
    [
        # What all commands do alike is tried on one. A full device refuses last: only when everything is written.
        (["create_account", "Boutique", "--email", "y@example.dz"], ">/dev/full"),
        (["create_account", "Boutique", "--email", "y@example.dz", "--json"], ">/dev/full"),
        (["create_agent", "samira"], ">/dev/full"),
        *((["create_operator"], out) for out in NOWHERE),
        (["seed_demo", "--orders", "0"], ">/dev/full"),
    ],
)
def test_nobody_is_made_whose_password_cannot_be_shown(arguments: list[str], out: str) -> None:
    noted = SecurityEntry.objects.count()

    done = manage_into(out, *arguments)

    assert not User.objects.exists()
    assert SecurityEntry.objects.count() == noted
    expected = f"CommandError: The output cannot be written: {NOWHERE[out]}.\n" if NOWHERE[out] else ""
    assert done.stderr == expected


@pytest.mark.django_db
@pytest.mark.parametrize("closed", ["account", "holder", ""])
def test_a_key_that_is_refused_for_now_says_so(alice: Account, closed: str) -> None:
    if closed:
        one = alice if closed == "account" else alice.holder
        one.is_active = False
        one.save()
    said = StringIO()

    call_command("create_api_key", "--account", alice.holder.email, stdout=StringIO(), stderr=said)

    assert ("refused while the account or its holder is deactivated" in said.getvalue()) == bool(closed)


@pytest.mark.django_db(transaction=True)
def test_no_key_is_made_that_cannot_be_shown(alice: Account) -> None:
    done = manage_into(">/dev/full", "create_api_key", "--account", alice.holder.email)

    assert not ApiKey.objects.exists()
    assert "The output cannot be written" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("arguments", "outs"),
    [
        (["deliveries", "--json"], list(NOWHERE)),
        (["export_orders", "--account", "{}"], [">/dev/full"]),
        (["migrate"], list(NOWHERE)),  # Django's own
    ],
)
def test_an_output_that_cannot_be_written_is_a_sentence(alice: Account, arguments: list[str], outs: list[str]) -> None:
    arguments = [each.format(alice.holder.email) for each in arguments]

    for out in outs:
        done = manage_into(out, *arguments)
        if reason := NOWHERE[out]:
            assert done.returncode == 1
            assert done.stderr.endswith(f"CommandError: The output cannot be written: {reason}.\n")
        assert "Traceback" not in done.stderr
        assert "Exception ignored" not in done.stderr


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("err", ["2>/dev/full", "2>&-"])
def test_what_nobody_can_be_told_stops_nothing(alice: Account, err: str, tmp_path: Path) -> None:
    path = tmp_path / "products.csv"
    path.write_text("sku,name,price\n" + "".join(f"A{number},Robe,100\n" for number in range(40)))

    for arguments in (
        ["import_products", str(path), "--account", alice.holder.email],
        ["create_account", "Boutique", "--email", "y@example.dz"],
    ):
        assert manage_into(f">/dev/null {err}", *arguments).returncode == 0
    assert alice.products.count() == 40
    assert User.objects.filter(username="y@example.dz").exists()


@pytest.mark.django_db(transaction=True)
def test_what_else_is_wrong_is_said_before_an_output_that_cannot_be_written() -> None:
    done = manage_into(">/dev/full", "resend_deliveries", "01981f1e-6f43-7b52-8c7e-000000000001")

    assert done.returncode == 1
    assert "CommandError: 1 of the ids cannot be sent again: " in done.stderr.splitlines()[-1]
    assert "Exception ignored" not in done.stderr
