"""import_orders: a file of orders, by the API's rules."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path
from threading import Event
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from codservice.accounts.actor import Actor
from codservice.accounts.models import Account, ApiKey, User
from codservice.files import file_command
from codservice.files.new_file import draft_of, new_file
from codservice.files.safe_csv import SafeWriter
from codservice.files.tables import Row, Table
from inventory.models import Product
from orders import customer_data
from orders.models import Order, OrderItem, Status, StatusChange
from orders.order_files.rows import OrderRows
from tests.factories import make_order, make_orders
from tests.harness.background import PATIENCE, held_up
from tests.harness.database import end_sessions, environment, wait_for_lock
from tests.harness.manage import kill_once
from tests.harness.memory import most_memory
from tests.harness.processes import CHECKOUT
from tests.harness.sheets import workbook
from tests.orders.files import COLUMNS, row, run


@pytest.mark.parametrize("command", ["import_orders", "import_products"])
@pytest.mark.parametrize("who", ["account", "holder"])
def test_a_deactivated_account_takes_no_file_in(command: str, who: str, alice: Account, write: Any) -> None:
    """As with the API and the pages."""
    (Account if who == "account" else User).objects.update(is_active=False)
    with pytest.raises(CommandError, match="is deactivated"):
        call_command(command, str(write([row()])), "--account", alice.holder.email)


def test_a_file_that_lacks_what_every_order_needs_is_refused_as_a_whole(alice: Account, tmp_path: Path) -> None:
    """A file with unknown headings and no rows used to count as imported."""
    path = tmp_path / "orders.csv"
    path.write_text("foo;bar\n")
    with pytest.raises(CommandError, match=r"has no column customer_name, customer_phone, .*quantity. Its first line"):
        call_command("import_orders", str(path), "--account", alice.holder.email)
    path.write_text("Nom;Tél;Wilaya;Adresse;Qté\n")
    assert run(path, alice)[1] == 0, "there is just none today"


@pytest.mark.process
def test_of_several_sheets_the_one_that_is_read_is_named(alice: Account, tmp_path: Path) -> None:
    path, err = tmp_path / "orders.xlsx", StringIO()
    path.write_bytes(workbook({"Août": [list(COLUMNS), list(row().values())], "Juillet": []}))
    call_command("import_orders", str(path), "--account", alice.holder.email, "--json", stdout=StringIO(), stderr=err)
    assert "Only the first visible one is read: Août." in err.getvalue()


def test_the_report_is_nobody_elses_to_read(alice: Account, write: Any, tmp_path: Path) -> None:
    """This also holds when it replaces a report that others could read."""
    report = tmp_path / "report.csv"
    for _ in range(2):
        run(write([row(customer_phone="1")]), alice, "--report", str(report))
        assert report.stat().st_mode & 0o777 == 0o600
        report.chmod(0o644)


def test_a_file_can_be_imported_again(alice: Account, write: Any) -> None:
    path = write([row(), row(external_id="A2")])
    run(path, alice)

    result, status = run(path, alice)

    assert (result["imported"], result["already_there"], status) == (0, 2, 0)
    assert Order.objects.count() == 2


def test_a_dry_run_says_what_would_happen_and_writes_nothing(alice: Account, write: Any) -> None:
    result, status = run(write([row(), row(external_id="A2", total_amount="-1")]), alice, "--dry-run")

    assert (result["imported"], result["refused"], result["dry_run"], status) == (1, 1, True, 1)
    assert not Order.objects.exists()


def test_atomic_imports_all_or_nothing(alice: Account, write: Any) -> None:
    bad, status = run(write([row(), row(external_id="A2", total_amount="1.001")]), alice, "--atomic")
    assert (bad["imported"], bad["refused"], status, Order.objects.count()) == (0, 1, 1, 0)

    good, status = run(write([row(), row(external_id="A2")]), alice, "--atomic")
    assert (good["imported"], status, Order.objects.count()) == (2, 0, 2)


def test_a_batch_costs_as_many_statements_as_an_order(
    alice: Account, write: Any, django_assert_num_queries: Any
) -> None:
    good = [row(external_id=f"N{number}") for number in range(400)]
    bad = [row(external_id=f"B{number}", total_amount="-1", product_id=str(uuid4())) for number in range(400)]

    # The account, known numbers, products and the insert, in a transaction that begins and ends; and erasures, before
    # and after.
    with django_assert_num_queries(8):
        result, _ = run(write(good + bad), alice)

    assert (result["imported"], result["refused"]) == (400, 400)


def test_rows_with_orders_ids_cost_as_many_statements_as_one(
    alice: Account, tmp_path: Path, django_assert_num_queries: Any
) -> None:
    ids = [order.id for order in make_orders(alice, [{"phone": "0550123456"}] * 20)]
    (tmp_path / "orders.csv").write_text(
        "Id,Name,Phone,Wilaya,Address,Product,Quantity,Price\n"
        + "".join(f"{each},Amine,0550123456,Alger,rue 1,Robe,1,900\n" for each in [*ids, uuid4()])
    )
    # The account, orders with these ids, the insert, their phones, in a transaction; and erasures, before and after.
    with django_assert_num_queries(8):
        result, _ = run(tmp_path / "orders.csv", alice)
    assert (result["imported"], result["already_there"]) == (1, 20)


def test_the_report_may_not_be_the_file_itself(alice: Account, write: Any) -> None:
    path = write([row()])

    with pytest.raises(CommandError, match="--report must not be the file that is read"):
        call_command("import_orders", str(path), "--account", alice.holder.email, "--report", str(path))
    assert not Order.objects.exists()


@pytest.mark.parametrize("is_linked", [False, True])
def test_nor_the_file_under_the_name_that_the_report_has_until_it_is_whole(
    alice: Account, write: Any, tmp_path: Path, is_linked: bool
) -> None:
    path = write([row(customer_phone="12")]).rename(tmp_path / "orders.csv.part")
    report = tmp_path / ("link" if is_linked else "orders.csv")
    if is_linked:
        report.symlink_to(tmp_path / "orders.csv")
    before = path.read_bytes()

    with pytest.raises(CommandError, match=r"orders\.csv\.part, which is the file that is read"):
        call_command("import_orders", str(path), "--account", alice.holder.email, "--report", str(report))

    assert path.read_bytes() == before
    assert not (tmp_path / "orders.csv").exists()


def test_a_folder_is_no_file(alice: Account, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="cannot be read: Is a directory"):
        call_command("import_orders", str(tmp_path), "--account", alice.holder.email)


def test_a_report_that_cannot_be_written_is_said_before_anything_is_imported(alice: Account, write: Any) -> None:
    with pytest.raises(CommandError, match=r"/no/where\.csv cannot be used"):
        call_command("import_orders", str(write([row()])), "--account", alice.holder.email, "--report", "/no/where.csv")
    assert not Order.objects.exists()


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
@pytest.mark.parametrize("is_linked", [False, True])
def test_a_report_takes_the_place_of_no_folder_and_no_pipe(
    alice: Account, write: Any, tmp_path: Path, make: Callable[[Path], None], is_linked: bool
) -> None:
    """A device is like a pipe: were a file in its place, nothing else on the machine would find it."""
    there, report = tmp_path / "there", tmp_path / ("link" if is_linked else "there")
    make(there)
    before = there.stat()
    if is_linked:
        report.symlink_to(there)

    with pytest.raises(CommandError, match=f"--report: {report} already exists and is not a file"):
        call_command("import_orders", str(write([row()])), "--account", alice.holder.email, "--report", str(report))

    assert not Order.objects.exists()
    assert (there.stat().st_ino, there.stat().st_mode) == (before.st_ino, before.st_mode)


@pytest.mark.parametrize("is_there", [False, True])
def test_a_report_is_written_where_a_link_leads(alice: Account, write: Any, tmp_path: Path, is_there: bool) -> None:
    (tmp_path / "folder").mkdir()
    target, report = tmp_path / "folder/refused.csv", tmp_path / "link"
    if is_there:
        target.write_text("an earlier one")
    report.symlink_to(target)

    run(write([row(quantity="0")]), alice, "--report", str(report))

    assert report.is_symlink()
    assert "quantity" in target.read_text()
    assert not target.is_symlink()


def test_of_two_runs_with_one_report_the_later_writes_it(
    alice: Account, write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The earlier used to rename what the later had written so far, which then failed."""
    report, whole = tmp_path / "r.csv", OrderRows.take_in
    draft_of(report).write_text("of a killed run")
    with ExitStack() as later:

        def begin_another(*args: Any) -> Any:
            later.enter_context(new_file(report, replaces=True)).write_text("the later one's")
            return whole(*args)

        monkeypatch.setattr(OrderRows, "take_in", begin_another)
        _, problem = interrupted(write([row(quantity="0")]), alice, "--report", str(report))
        assert problem.startswith(f"{report} cannot be used: its draft was removed or replaced by another run. Run")
        assert not report.exists()
    assert (report.read_text(), [*tmp_path.glob("r.csv*")]) == ("the later one's", [report])


def test_of_what_is_refused_only_what_is_told_is_held_in_memory(alice: Account, write: Any) -> None:
    path = write([row(external_id=f"A{number}", customer_address="x" * 900_000) for number in range(60)])
    (result, _), most = most_memory(lambda: run(path, alice))
    assert (result["refused"], most < 30_000_000) == (60, True)


def test_what_a_person_reads(alice: Account, write: Any) -> None:
    out, err = StringIO(), StringIO()
    second = row(quantity="0") | dict.fromkeys(("customer_name", "customer_phone", "total_amount"), "")
    path = write([row(customer_phone="12"), second, *[row(external_id="", quantity=each) for each in ("1", "0", "x")]])

    for option in ("--dry-run", "--atomic"):  # a report lacks the orders that were good, and none of them is in
        with pytest.raises(CommandError, match=r"^Refused: 3\. Nothing .* kept\. Correct the whole file"):
            call_command("import_orders", str(path), option, "--account", alice.holder.email, stdout=out, stderr=err)
    assert not Order.objects.exists()
    out, err = StringIO(), StringIO()
    with pytest.raises(CommandError, match=r"Refused: 3\. Correct what --report FILE writes"):
        call_command("import_orders", str(path), "--account", alice.holder.email, stdout=out, stderr=err)

    assert [line.split(":")[:2] for line in out.getvalue().splitlines()] == [
        ["line 2", " customer_phone"],
        ["line 3", " quantity"],
        ["line 5", " quantity"],
        ["line 6", " quantity"],
    ]
    said = "Orders{}: 1 imported, 0 already there, 3 refused. Each run imports orders without an external_id again: 1."
    assert said.format("") in err.getvalue()
    with pytest.raises(CommandError):
        call_command("import_orders", str(path), "--account", alice.holder.email, "--dry-run", stdout=out, stderr=err)
    assert said.format(" (dry run)") in err.getvalue()


@pytest.mark.django_db(transaction=True)
def test_killed_in_the_middle_and_run_again(alice: Account, write: Any) -> None:
    path = write([row(external_id=f"N{number}") for number in range(2500)])
    command = ["manage.py", "import_orders", str(path), "--account", alice.holder.email]
    with held_up(lambda: make_order(alice, external_id="N2499")):  # still running when it is killed
        kill_once(Order.objects.count, *command)
    end_sessions()  # what it had asked PostgreSQL to do has ended
    before = Order.objects.count()
    assert 0 < before < 2500

    result, status = run(path, alice)

    assert (result["already_there"], result["imported"], result["refused"], status) == (before, 2500 - before, 0, 0)
    assert Order.objects.count() == OrderItem.objects.count() == StatusChange.objects.count() == 2500


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("told", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted_it_says_how_to_go_on(
    told: signal.Signals, code: int, alice: Account, write: Any, tmp_path: Path
) -> None:
    """Ctrl-C, or systemd, stops it while a batch waits for the open transaction of another import of the same order."""
    path, report = write([row(external_id=f"N{number}") for number in range(1500)]), tmp_path / "refused.csv"
    with transaction.atomic():
        make_order(alice, external_id="N1200")
        process = subprocess.Popen(
            [sys.executable, "manage.py", "import_orders", str(path), "--account", alice.holder.email, "--json",
             "--report", str(report)],
            cwd=CHECKOUT, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        wait_for_lock()
        process.send_signal(told)
        out, err = process.communicate(timeout=PATIENCE)

    assert process.returncode == code, err
    assert json.loads(out)["imported"] == 1000
    assert "Run the same command again" in err
    assert "Traceback" not in err
    assert not list(tmp_path.glob("refused*"))
    result, _ = run(path, alice)
    assert (result["already_there"], result["imported"]) == (1001, 499)


def interrupted(path: Path, account: Account, *options: str) -> tuple[str, str]:
    """Return what it says and how it ends."""
    err = StringIO()
    with pytest.raises(CommandError) as raised:
        call_command(
            "import_orders", str(path), "--account", account.holder.email, *options, stdout=StringIO(), stderr=err
        )
    return err.getvalue(), str(raised.value)


@pytest.mark.parametrize("options", [(), ("--atomic",), ("--dry-run",)])
def test_interrupted_it_says_which_orders_without_a_number_are_in(
    alice: Account, write: Any, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    monkeypatch.setattr(OrderRows, "batch", 2)
    path, whole, batches = write([row(external_id="")] * 5), OrderRows.take, []

    def stopped(self: OrderRows, entries: Any) -> Any:
        batches.append(entries)
        if len(batches) == 3:
            raise KeyboardInterrupt
        return whole(self, entries)

    monkeypatch.setattr(OrderRows, "take", stopped)
    _, problem = interrupted(path, alice, *options)
    if options:
        assert "Run the same command again" in problem
        assert not Order.objects.exists()
    else:
        assert (
            "up to line 5 is done, but not all orders there have an external_id (4). Before you run this again, remove"
            " lines 2 to 5 from the file" in problem
        )
        assert "continues where it stopped" not in problem
        assert Order.objects.count() == 4


@pytest.mark.parametrize("options", [(), ("--atomic",), ("--json",)])
@pytest.mark.parametrize("is_twins", [False, True])
def test_who_is_erased_meanwhile_may_be_back_and_that_is_said(
    alice: Account, charlie: Account, write: Any, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...],
    is_twins: bool,
) -> None:  # fmt: skip
    """The erasure knows of an uploaded file, and refuses. It does not know of a command's, so the command warns."""
    twin = ApiKey.issue(alice, name="Trial", is_test=True)[0].account
    path, whole = write([row(external_id=f"N{number}") for number in range(3)]), OrderRows.take
    for account in (charlie, twin if is_twins else alice):
        make_order(account, phone="0661 22 33 44")
    Order.objects.update(status=Status.CANCELED)

    def imported() -> str:
        err = StringIO()
        call_command("import_orders", str(path), "--account", alice.holder.email, *options,
                     stdout=StringIO(), stderr=err)  # fmt: skip
        return err.getvalue()

    def beside_an_erasure_in(account: Account) -> str:
        def take(self: OrderRows, entries: Any) -> Any:
            customer_data.erase(account, "+213661223344", actor=Actor.of_command("erase_customer"))
            return whole(self, entries)

        with monkeypatch.context() as erasing:
            erasing.setattr(OrderRows, "take", take)
            return imported()

    assert "erased" not in beside_an_erasure_in(charlie)
    assert "A customer of this account was erased while this ran" in beside_an_erasure_in(alice)
    assert "erased" not in imported()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("told", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("options", [(), ("--atomic",)])
def test_stopped_just_after_a_commit_it_knows_what_is_in(
    alice: Account, write: Any, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], told: signal.Signals
) -> None:
    """Otherwise whoever does what it says would import a batch of orders without a number twice."""
    monkeypatch.setattr(OrderRows, "batch", 2)
    path, take, commit = write([row(external_id="")] * 4), OrderRows.take, BaseDatabaseWrapper.commit
    batches = []

    def taken(self: OrderRows, entries: Any) -> Any:
        batches.append(entries)
        return take(self, entries)

    def committed_and_stopped(self: BaseDatabaseWrapper) -> None:
        commit(self)
        if batches:
            os.kill(os.getpid(), told)

    monkeypatch.setattr(OrderRows, "take", taken)
    monkeypatch.setattr(BaseDatabaseWrapper, "commit", committed_and_stopped)
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        said, problem = interrupted(path, alice, *options)
    finally:
        signal.signal(signal.SIGTERM, before)
    kept = 4 if options else 2
    assert f"Orders: {kept} imported" in said
    assert f"Before you run this again, remove lines 2 to {kept + 1} from the file" in problem
    assert Order.objects.count() == kept


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("is_in", [True, False])
@pytest.mark.parametrize("options", [(), ("--atomic",)])
@pytest.mark.parametrize("presses", [False, True], ids=["", "Ctrl-C meanwhile"])
def test_where_the_answer_to_a_commit_is_lost_it_does_not_claim_to_know(
    alice: Account, write: Any, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], is_in: bool, presses: bool
) -> None:
    """A server may die just after it has written the commit. Whoever then did as told imported orders twice."""
    monkeypatch.setattr(OrderRows, "batch", 2)
    path, take, commit = write([row(external_id="")] * 4), OrderRows.take, BaseDatabaseWrapper.commit
    batches = []

    def taken(self: OrderRows, entries: Any) -> Any:
        batches.append(entries)
        return take(self, entries)

    def unanswered(self: BaseDatabaseWrapper) -> None:
        if len(batches) < 2:
            return commit(self)
        if is_in:
            commit(self)
        self.close()
        if presses:
            os.kill(os.getpid(), signal.SIGINT)
        raise OperationalError("server closed the connection unexpectedly")

    monkeypatch.setattr(OrderRows, "take", taken)
    monkeypatch.setattr(BaseDatabaseWrapper, "commit", unanswered)
    said, problem = interrupted(path, alice, *options)
    kept = 0 if options else 2
    assert f"Orders: {kept} imported" in said
    assert "Nothing from this run was kept" not in problem
    assert "continues where it stopped" not in problem
    assert f"Whether lines {2 + kept} to 5 are in is not known. Before you run this again, look" in problem
    assert ("remove lines 2 to 3 from the file" in problem) == (kept > 0)
    assert Order.objects.count() == (4 if is_in else kept)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("is_in", [True, False])
def test_what_is_recognised_can_then_be_given_again(
    alice: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_in: bool
) -> None:
    path, commit = tmp_path / "products.csv", BaseDatabaseWrapper.commit
    path.write_text("sku,name,price\nA,Robe,100\n")

    def unanswered(self: BaseDatabaseWrapper) -> None:
        if is_in:
            commit(self)
        self.close()
        raise OperationalError("server closed the connection unexpectedly")

    arguments = ["import_products", str(path), "--account", alice.holder.email, "--atomic"]
    with monkeypatch.context() as lost:
        lost.setattr(BaseDatabaseWrapper, "commit", unanswered)
        with pytest.raises(CommandError, match=r"Whether lines 2 to 2 are in is not known. Run the same command again"):
            call_command(*arguments, stdout=StringIO(), stderr=StringIO())
    call_command(*arguments, stdout=StringIO(), stderr=StringIO())
    assert Product.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_told_to_stop_after_a_commit_that_failed_it_tries_no_more(
    alice: Account, write: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, take, commit = write([row()]), OrderRows.take, BaseDatabaseWrapper.commit
    batches = []

    def taken(self: OrderRows, entries: Any) -> Any:
        batches.append(entries)
        return take(self, entries)

    def refused(self: BaseDatabaseWrapper) -> None:
        if len(batches) == 1:
            with self.cursor() as cursor:
                cursor.execute("DO $$ BEGIN RAISE EXCEPTION 'held' USING ERRCODE = 'lock_not_available'; END $$")
        commit(self)

    monkeypatch.setattr(OrderRows, "take", taken)
    monkeypatch.setattr(BaseDatabaseWrapper, "commit", refused)
    monkeypatch.setattr(time, "sleep", lambda seconds: os.kill(os.getpid(), signal.SIGINT))
    _said, problem = interrupted(path, alice)
    assert "Run the same command again" in problem
    assert len(batches) == 1
    assert not Order.objects.exists()


def test_what_is_to_be_cut_off_are_whole_rows_and_no_heading(
    alice: Account, write: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OrderRows, "batch", 2)
    path, whole = write([row(external_id="", customer_address="rue 1\nAlger\n")] * 5), OrderRows.take
    path.write_text(f"sep=,\n{path.read_text()}")

    def stopped(self: OrderRows, entries: Any) -> Any:
        if Order.objects.count() == 4:
            raise KeyboardInterrupt
        return whole(self, entries)

    monkeypatch.setattr(OrderRows, "take", stopped)
    _, problem = interrupted(path, alice)
    assert (
        "up to line 14 is done, but not all orders there have an external_id (4). Before you run this again, remove"
        " lines 3 to 14 from the file" in problem
    )

    monkeypatch.setattr(OrderRows, "take", whole)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:2] + lines[14:]))
    assert run(path, alice)[0]["imported"] == 1
    assert Order.objects.count() == 5


def test_a_disk_that_is_full_hides_nothing_that_is_in(
    alice: Account, write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path, report = write([row(), row(external_id="A2", customer_phone="1"), row(external_id="")]), tmp_path / "r.csv"
    monkeypatch.setattr(SafeWriter, "write", lambda self, cells: full() if "A2" in map(str, cells) else None)
    said, problem = interrupted(path, alice, "--report", str(report))
    assert "Orders: 2 imported" in said
    assert f"{report} cannot be used: No space left on device. Everything up to line 4 is done" in problem

    said, problem = interrupted(path, alice, "--report", str(report), "--atomic")
    assert "Orders: 0 imported" in said
    assert "Nothing from this run was kept." in problem


def test_a_disk_that_cannot_be_read_is_not_taken_for_the_reports(
    alice: Account, write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(self: Table) -> Iterator[Row]:
        yield next(whole(self))
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    path, whole = write([row(), row(external_id="A2")]), Table.__iter__
    monkeypatch.setattr(Table, "__iter__", failing)
    _, problem = interrupted(path, alice, "--report", str(tmp_path / "r.csv"))
    assert f"{path} cannot be read: Input/output error." in problem


@pytest.mark.parametrize("options", [(), ("--atomic",), ("--dry-run",)])
def test_of_a_file_that_breaks_off_it_says_whether_what_comes_before_is_in(
    alice: Account, write: Any, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    monkeypatch.setattr(OrderRows, "batch", 1)
    path = write([row(), row(external_id="A2"), row(external_id="A3")])
    path.write_text(f'{path.read_text()}"')
    _, problem = interrupted(path, alice, *options)
    assert "with the whole file" in problem
    assert Order.objects.exists() == ("What comes before is done" in problem) == (not options)
    assert ("Nothing from this run was kept." in problem) == bool(options)


@pytest.mark.django_db(transaction=True)
def test_a_batch_waits_for_locks_of_others_longer_than_a_request_would(alice: Account, write: Any) -> None:
    held, done = Event(), Event()

    def hold() -> None:
        try:
            with transaction.atomic():
                make_order(alice, external_id="A1")
                held.set()
                done.wait(3)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        holding = pool.submit(hold)
        held.wait(PATIENCE)
        result, status = run(write([row(), row(external_id="A2")]), alice)
        done.set()
        holding.result()

    assert (result["already_there"], result["imported"], status) == (1, 1, 0)


@pytest.mark.parametrize(
    ("content", "says"), [(b"", "is empty"), ("name\nCafé".encode("cp850"), "UTF-8"), (None, "no file")]
)
@pytest.mark.django_db
def test_a_file_that_cannot_be_read_is_refused_in_words(
    alice: Account, tmp_path: Path, content: bytes | None, says: str
) -> None:
    path = tmp_path / "orders.csv"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(CommandError, match=says):
        call_command("import_orders", str(path), "--account", alice.holder.email)


@pytest.mark.django_db
def test_a_standard_input_that_is_closed_is_a_sentence(alice: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)

    with pytest.raises(CommandError, match="The standard input is closed"):
        call_command("import_orders", "-", account=alice.holder.email)


@pytest.mark.django_db
def test_a_file_comes_by_standard_input(alice: Account, write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container, which does not see the file."""
    rows = [row(external_id=f"A{number}") for number in range(3)]
    with write(rows).open() as file:
        monkeypatch.setattr(sys, "stdin", file)
        call_command("import_orders", "-", "--account", alice.holder.email)
    assert Order.objects.count() == 3

    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO("name\nCafé".encode("cp850"))))
    with pytest.raises(CommandError, match="The file is not UTF-8"):
        call_command("import_orders", "-", "--account", alice.holder.email)


@pytest.mark.django_db
def test_an_input_without_end_does_not_fill_the_disk(alice: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_command, "MAX_PIPED", 3 << 20)
    zeros = BytesIO(bytes(16 << 20))
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(zeros))
    with pytest.raises(CommandError, match=r"^The input has more than 3 MiB\. Send it in parts, or give a file\.$"):
        call_command("import_orders", "-", "--account", alice.holder.email)
    assert zeros.tell() <= 5 << 20


def test_a_device_is_no_file(alice: Account) -> None:
    """/dev/zero can be read without end, and so can /dev/full."""
    with pytest.raises(CommandError, match=r"^/dev/zero is a device, not a file\.$"):
        call_command("import_orders", "/dev/zero", "--account", alice.holder.email)


@pytest.mark.django_db
def test_a_file_comes_by_a_pipe(alice: Account, write: Any, tmp_path: Path) -> None:
    """`zcat orders.csv.gz | manage.py import_orders /dev/stdin`, or `<(…)`."""
    content, pipe = write([row(), row(external_id="A2")]).read_bytes(), tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    with ThreadPoolExecutor() as writer:
        written = writer.submit(pipe.write_bytes, content)
        call_command("import_orders", str(pipe), "--account", alice.holder.email)
        written.result()
    assert Order.objects.count() == 2
