"""The base of commands that import a file of rows."""

import gc
import signal
import sys
import tempfile
import time
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import IO, Any

from django.core.management.base import CommandError
from django.db import OperationalError, connection, transaction
from psycopg.errors import DeadlockDetected, LockNotAvailable

from codservice import postgresql
from codservice.commands import Command, cannot_be_used
from codservice.errors import Errors
from codservice.files import reports
from codservice.files.intake import Entry, Intake, Taken, batches, blame, see_line
from codservice.files.tables import Row, Table, UnreadableTable
from codservice.stops import stops_wait

MOST_SHOWN = 1000  # refused entries; a report has them all
MAX_PIPED = 1 << 30  # bytes; they are copied to the folder for temporary files, while a file is read where it is
_RETRY_AFTER = (0.2, 0.5, 1.0, 2.0, 4.0)  # seconds


class _OutcomeUnknown(OperationalError):
    """The database was lost during a COMMIT: all that this was to commit is in, or nothing of it."""


class FileCommand(Command):
    """A command that imports a file of rows, a batch at a time, each in a short transaction of its own.

    Refused rows are shown with their lines, and the exit status is 1. With `--report` they are also written to a file
    that can be corrected and given to the command again. After Ctrl-C or a crash, running the same command again goes
    on: it recognises what is in already. A subclass supplies the intake.
    """

    required: Sequence[str] = ()  # columns
    named_by: Sequence[str] = ()  # columns by which people recognise an entry
    if_unknown = "Run the same command again: it recognises what is in."  # how to go on after an _OutcomeUnknown

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, metavar="FILE", help="CSV or XLSX; - is CSV from standard input")
        parser.add_argument("--dry-run", action="store_true", help="check everything, change nothing")
        parser.add_argument("--report", type=Path, metavar="FILE", help="write the refused rows there, to correct them")
        parser.add_argument("--json", action="store_true", help="print the counts and what was refused as JSON")

    def begin(self, options: dict[str, Any]) -> Intake:
        """The intake for the file, from the other options. Raises CommandError."""
        raise NotImplementedError

    def hold(self) -> None:
        """With `--atomic`: lock what the whole file may need, at the start of its transaction."""

    def note(self, batch: Sequence[Entry], refused: Sequence[Entry]) -> None:
        """Called after each batch, all of which is taken in except for the refused entries."""

    def again(self) -> str:
        """How to go on after an interruption. Empty if by running the same command again."""
        return ""

    def summary(self) -> str:
        raise NotImplementedError

    def handle(self, *, file: Path, report: Path | None, **options: Any) -> None:
        self.intake, self.dry_run = self.begin(options), options["dry_run"]
        self.atomic = options.get("atomic", False) and not self.dry_run
        self.is_kept = not self.atomic
        self.counts: Counter[str] = Counter(dict.fromkeys((*self.intake.counted, "refused"), 0))
        # What is said of refused entries, as JSON and by line. Of their cells only those that name them.
        self.shown: list[tuple[dict[str, Any], dict[int, list[str]]]] = []
        self.under_way = (0, 0)  # the first and last line that the transaction takes in
        if report and (fault := reports.why_not_at(report, file)):
            raise CommandError(fault)
        stopped = self.take_table(self.open_table(file), report)
        if not self.is_kept:
            self.forget_counts()
        self.tell(as_json=options["json"])
        if stopped:
            said = f"{_what_stopped(stopped, report or file)} {self.how_to_go_on(stopped)}"
            raise CommandError(said, returncode=_status_of(stopped))
        if refused := self.counts["refused"]:
            what = f"Correct {report or 'what --report FILE writes'}"
            if self.keeps_nothing:  # the report alone would leave out all other rows
                what = "Nothing from this run was kept. Correct the whole file"
            raise CommandError(f"Refused: {refused}. {what}, and give it to this command.")

    @property
    def keeps_nothing(self) -> bool:
        return self.dry_run or not self.is_kept

    def how_to_go_on(self, stopped: BaseException) -> str:
        # A Ctrl-C that has waited for the COMMIT comes in place of what became of it.
        if any(isinstance(each, _OutcomeUnknown) for each in (stopped, stopped.__context__)):
            lines = "lines {} to {}".format(*self.under_way)
            return f"{self.again()} Whether {lines} are in is not known. {self.if_unknown}".strip()
        is_cut = isinstance(stopped, UnreadableTable)
        if self.keeps_nothing:
            again = "this again with the whole file" if is_cut else "the same command again"
            return f"Run {again}. Nothing from this run was kept."
        if again := self.again():
            return again
        if is_cut:
            return "What comes before is done. Run this again with the whole file."
        return "Run the same command again. It continues where it stopped."

    def open_table(self, file: Path) -> Table:
        """The file as a table. Raises CommandError."""
        try:
            table = Table(file, self.required, self.intake.columns, file=_kept(file))
        except FileNotFoundError:
            raise CommandError(f"There is no file {file}.") from None
        except OSError as error:
            raise CommandError(f"{file} cannot be read: {error.strerror}.") from None
        except UnreadableTable as error:
            raise CommandError(str(error)) from None
        if table.sheet:
            self.say(f"The file has several sheets. Only the first visible one is read: {table.sheet}.")
        return table

    def rows_of(self, table: Table) -> Iterator[Row]:
        """The rows, with a bar that shows how many are read. Raises UnreadableTable also where the disk fails."""
        try:
            yield from self.progress(table, total=table.line_count(), unit="lines", end=lambda row: row.end)
        except OSError as error:
            raise UnreadableTable(f"{table} cannot be read: {error.strerror}.") from None

    def take_table(self, table: Table, report: Path | None) -> BaseException | None:
        """Take the rows in, and return what stopped it halfway. Raises CommandError for a disk that fails at once."""
        rows = self.rows_of(table)
        try:
            with reports.written(report, table) as add, _rare_collections(), ExitStack() as until_known:
                with _committed() if self.atomic else nullcontext():
                    if self.atomic:
                        self.hold()
                    for batch in batches(self.intake.entries(rows), self.intake.batch):
                        self.take_batch(batch, add)
                    if is_undone := self.atomic and self.counts["refused"] > 0:
                        transaction.set_rollback(True)
                    until_known.enter_context(stops_wait())  # whether it is committed
                self.is_kept = not is_undone
        except (UnreadableTable, KeyboardInterrupt, SystemExit, OperationalError, OSError) as error:
            if isinstance(error, OSError) and not any(self.counts.values()):
                raise CommandError(_what_stopped(error, report or table.path)) from None
            return error
        return None

    def forget_counts(self) -> None:
        for name in self.intake.counted:
            self.counts[name] = 0

    def take_batch(self, batch: Sequence[Entry], add: Callable[[Row, str], None]) -> None:
        with ExitStack() as until_noted:
            taken = self.take_in(batch, until_noted)
            self.counts.update(taken.counts)
            refused = sorted(taken.refused, key=lambda refusal: refusal[0][0].line)
            self.note(batch, [entry for entry, _ in refused])
            for entry, errors in refused:
                reasons = self.reasons(entry, errors)
                if len(self.shown) < MOST_SHOWN:
                    names = {name: entry[0].cells.get(name) for name in self.named_by}
                    self.shown.append(({"line": entry[0].line, **names, "errors": errors}, reasons))
                for row in entry:
                    add(row, " ".join(reasons.get(row.line, [see_line(reasons)])))

    def take_in(self, batch: Sequence[Entry], until_noted: ExitStack) -> Taken:
        """Take a batch in, in one transaction. From its commit until it is noted, whoever stops us has to wait.

        Otherwise they would be told less than is in, and import some of it again.
        """
        first = (self.atomic and self.under_way[0]) or batch[0][0].line
        self.under_way = (first, batch[-1][-1].end)
        for wait in (*(() if self.atomic else _RETRY_AFTER), None):
            try:
                with _undone() if self.dry_run else _committed():
                    taken = self.intake.take_in(batch)
                    until_noted.enter_context(stops_wait())
                break
            except OperationalError as error:
                # Only what passes when another transaction ends is worth another try.
                if wait is None or not isinstance(error.__cause__, LockNotAvailable | DeadlockDetected):
                    raise
                until_noted.close()  # it was the commit that failed: there is nothing to note
                time.sleep(wait)
        return taken

    def reasons(self, entry: Entry, errors: Errors) -> dict[int, list[str]]:
        """What is wrong in each line, in words."""
        return {
            line: [f"{column}: {' '.join(sentences)}" if column else " ".join(sentences) for column, sentences in wrong]
            for line, wrong in blame(entry, errors, self.intake).items()
        }

    def tell(self, *, as_json: bool) -> None:
        left_out = self.counts["refused"] - len(self.shown)
        if as_json:
            errors = [said for said, _ in self.shown]
            self.print_json({**self.counts, "dry_run": self.dry_run, "errors": errors, "errors_left_out": left_out})
            return
        for _, by_line in self.shown:
            for line, reasons in by_line.items():
                for reason in reasons:
                    self.stdout.write(f"line {line}: {reason}")
        if left_out:
            self.stdout.write(f"… and {left_out} more.")
        self.say(self.summary())


def _what_stopped(stopped: BaseException, file: Path) -> str:
    """A sentence about why the command stopped. `file` is the report if there is one, otherwise the file read."""
    match stopped:
        case UnreadableTable():
            return str(stopped)
        case OperationalError():
            return cannot_be_used(stopped)
        case OSError():
            return f"{file} cannot be used: {stopped.strerror}."
    return "Stopped."


def _status_of(stopped: BaseException) -> int:
    """The exit status: after a signal the one that shells expect, otherwise 1."""
    if isinstance(stopped, KeyboardInterrupt):
        return 128 + signal.SIGINT
    return stopped.code if isinstance(stopped, SystemExit) else 1  # type: ignore[return-value]


def _kept(path: Path) -> IO[bytes] | None:
    """A copy, in an unnamed file, of standard input or another pipe, which can be read only once. Otherwise None.

    Raises UnreadableTable for a device, and for more than MAX_PIPED bytes: some pipes never end.
    """
    if path.is_char_device():
        raise UnreadableTable(f"{path} is a device, not a file.")
    is_standard_input = path == Path("-")
    if not is_standard_input and not path.is_fifo():
        return None
    if is_standard_input and sys.stdin is None:  # closed with the shell's <&-
        raise UnreadableTable("The standard input is closed. Give it a file, such as < orders.csv.")
    kept = tempfile.TemporaryFile()  # noqa: SIM115 - the caller reads it
    with nullcontext(sys.stdin.buffer) if is_standard_input else path.open("rb") as source:
        while piece := source.read(1 << 20):
            kept.write(piece)
            if kept.tell() > MAX_PIPED:
                most = MAX_PIPED >> 20
                raise UnreadableTable(f"The input has more than {most} MiB. Send it in parts, or give a file.")
    return kept


@contextmanager
def _committed() -> Iterator[None]:
    """A transaction, or a part of a larger one. Raises _OutcomeUnknown if the answer to its COMMIT was lost."""
    is_done = False
    try:
        with transaction.atomic():
            yield
            is_done = True
    except OperationalError as error:
        if is_done and not connection.in_atomic_block and postgresql.is_away(error):
            raise _OutcomeUnknown(*error.args) from error.__cause__
        raise


@contextmanager
def _undone() -> Iterator[None]:
    """Roll back, at the end, all that happens inside."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Collect garbage less often. A batch makes many objects but no cycles; the usual search for cycles took a third of
    an import."""
    usual = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    try:
        yield
    finally:
        gc.set_threshold(*usual)
        gc.unfreeze()
