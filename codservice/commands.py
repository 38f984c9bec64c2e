"""What our management commands share: examples in `--help`, progress on stderr, data on stdout."""

import json
import os
import re
import signal
import sys
import textwrap
import threading
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any, TypeVar

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, DjangoHelpFormatter, OutputWrapper
from django.db import DatabaseError, OperationalError, ProgrammingError, transaction
from django.db.models import Q
from psycopg import errors
from tqdm import tqdm

from codservice import days, postgresql
from codservice.data_folder import is_set
from codservice.logs import CONTROLS

T = TypeVar("T")
Number = TypeVar("Number", int, float)
_ADVICE = {
    errors.InsufficientPrivilege: " Let the user of DATABASE_URL own the database and its tables.",
    errors.ReadOnlySqlTransaction: " Is it a standby, or is its disk full?",
    errors.LockNotAvailable: " Another session holds a lock that this needs. Try again.",
    errors.DeadlockDetected: " Another session held a lock that this needs. Try again.",
    errors.DiskFull: " Free some space on PostgreSQL's disk.",
    errors.QueryCanceled: " Set DATABASE_STATEMENT_TIMEOUT=0 for this command to give it more time. Behind PgBouncer,"
    " which does not pass that on, also give it PostgreSQL's own address, with DATABASE_PGBOUNCER off.",
}
# What PostgreSQL or PgBouncer says when it lets nobody in; libpq keeps no error code for it.
_CROWDED = re.compile("too many (clients|connections)|remaining connection slots|no more connections")
_FULL = re.compile("No space left on device")


_EXAMPLES = "examples:\n"


class _HelpFormatter(DjangoHelpFormatter):
    """Django's formatter, which shows a command's own options first.

    Descriptions are wrapped by paragraph, but never within an option's name. Examples stay as written, to be copied."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith(_EXAMPLES):
            return text
        paragraphs = text.strip().split("\n\n")
        return "\n\n".join(textwrap.fill(" ".join(each.split()), width, break_on_hyphens=False) for each in paragraphs)


class Command(BaseCommand):
    """A command with `examples`, shown under its `--help`. It exits with 0 only when all that was asked for is done.

    When it is told to stop, it ends its children and undoes what is half done, as at Ctrl-C.
    """

    examples = ""
    # Django would first load every page to check its URL. `manage.py check` and the tests do that.
    requires_system_checks: list[str] = []  # type: ignore[assignment]

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> Any:
        parser = super().create_parser(prog_name, subcommand, **kwargs)
        parser.formatter_class = _HelpFormatter
        if self.examples:
            parser.epilog = _EXAMPLES + "\n".join(f"  manage.py {line}" for line in self.examples.splitlines())
        return parser

    def execute(self, *args: Any, **options: Any) -> Any:
        self.stdout = _Output(options.pop("stdout", None) or self.stdout._out)
        try:
            with _stopped_in_order():
                result = super().execute(*args, **options)
                self.stdout.flush()
                return result
        except OperationalError as error:
            raise CommandError(cannot_be_used(error)) from error
        except ProgrammingError as error:
            if isinstance(error.__cause__, errors.InsufficientPrivilege):
                raise CommandError(cannot_be_used(error)) from error
            if postgresql.is_behind(error):
                raise CommandError("The database is not up to date. Run `manage.py migrate`.") from error
            raise
        except UnicodeEncodeError as error:
            # A byte of the command line that Python could not decode: no text of PostgreSQL's has one.
            if "\udc80" <= error.object[error.start] <= "\udcff":
                raise CommandError("An argument is not UTF-8.") from error
            raise
        except (KeyboardInterrupt, _ToldToStop):
            self.say("Stopped.")
            raise
        except BrokenPipeError:  # the reader of our output has seen enough, as in `| head`
            sys.exit(128 + signal.SIGPIPE)
        finally:
            _give_up(self.stdout._out, self.stderr._out)

    @contextmanager
    def shown_or_undone(self) -> Iterator[None]:
        """Undo what the block makes if its output cannot be written: a password or a key is shown only once."""
        with transaction.atomic():
            yield
            self.stdout.flush()

    def print_json(self, data: Any) -> None:
        """Print one line, in which a terminal finds nothing to obey: JSON itself would leave some signs as they are."""
        self.stdout.write(printable(json.dumps(data, ensure_ascii=False, default=str)))

    def say(self, line: str) -> None:
        """Print a line for the person at the terminal, on stderr, since stdout is for data.

        If it cannot be written, as on a full disk, the command goes on.
        """
        with suppress(OSError):
            self.stderr.write(line, str)  # without colour: Django would print it in red

    def progress(
        self, items: Iterable[T], *, total: int, unit: str, end: Callable[[T], int] | None = None, fewest: int = 20
    ) -> Iterator[T]:
        """Yield the items, with a progress bar if stderr is a terminal, or else a line per 5 % of `fewest` and more.

        `total` is how many there were a moment ago: more or fewer may come. Where an item may stand for several, or for
        a part of one, `end` returns how many are done with it.
        """
        reached = ((end(item), item) for item in items) if end else enumerate(items, start=1)
        if sys.stderr.isatty():
            with tqdm(total=total, unit=f" {unit}", file=sys.stderr) as bar:
                for count, item in reached:
                    yield item
                    bar.update(count - bar.n)
                bar.update(max(total - bar.n, 0))
            return
        told = 0 if total >= fewest else 100  # percent
        for count, item in reached:
            yield item
            percent = count * 20 // max(total, 1) * 5
            if told < percent and count <= total:
                told = percent
                self.say(f"{percent} %: {count} of {total} {unit}")
        if told < 100:
            self.say(f"100 %: {total} of {total} {unit}")


class _Output(OutputWrapper):
    """Our stdout. If it cannot be written, as on a full disk, the user sees a sentence and not a traceback."""

    def __init__(self, out: Any) -> None:
        if out is None:  # the shell's >&-
            raise CommandError("The output cannot be written: it is closed.")
        super().__init__(out)

    def write(self, *args: Any, **kwargs: Any) -> None:
        with _refusal_in_words():
            super().write(*args, **kwargs)

    def flush(self) -> None:
        with _refusal_in_words():
            super().flush()


def printable(text: str) -> str:
    """A text of somebody else's for a line, in which a terminal finds nothing to obey."""
    return CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _give_up(*streams: Any) -> None:
    """Drop output that still cannot be written: at exit Python would try once more, and complain or fail."""
    for stream in streams:
        try:
            stream.flush()
        except OSError:
            if stream in (sys.stdout, sys.stderr):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@contextmanager
def _refusal_in_words() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise CommandError(f"The output cannot be written: {error.strerror}.") from error


class _ToldToStop(SystemExit):
    """SIGTERM or SIGHUP was received."""


@contextmanager
def _stopped_in_order() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into a SystemExit of 128 + n while the block runs, unless they are handled or ignored."""

    def stop(number: int, frame: Any) -> None:
        for each in minded:  # a second signal would disturb the clean-up
            signal.signal(each, signal.SIG_IGN)
        raise _ToldToStop(128 + number)

    is_main = threading.current_thread() is threading.main_thread()
    stops = (signal.SIGTERM, signal.SIGHUP) if is_main else ()
    minded = [each for each in stops if signal.getsignal(each) is signal.SIG_DFL]
    for each in minded:
        signal.signal(each, stop)
    try:
        yield
    finally:
        for each in minded:
            signal.signal(each, signal.SIG_DFL)


def cannot_be_used(error: DatabaseError) -> str:
    """Return PostgreSQL's message in one line, and what to do about it."""
    said = str(error).strip().partition("\n")[0]
    if getattr(error.__cause__, "sqlstate", None) is not None:  # it answers
        advice = _ADVICE.get(type(error.__cause__), "")
    elif _CROWDED.search(said):
        advice = " It accepts no more connections. Try again, or find out who is connected."
    elif _FULL.search(said):
        advice = _ADVICE[errors.DiskFull]
    elif is_set("DATABASE_URL"):
        advice = " Check PostgreSQL and DATABASE_URL."
    else:
        advice = f" Start `make run` as the same user with DATA_DIR={settings.DATA_DIR}, or set DATABASE_URL."
    return f"The database cannot be used: {said}.{advice}"


def number(kind: Callable[[str], Number], least: Number, most: Number) -> Callable[[str], Number]:
    """Return a type for `add_argument(type=…)`: an int or a float from `least` to `most`."""

    def read(text: str) -> Number:
        with suppress(ValueError):
            if least <= (value := kind(text)) <= most:
                return value
        raise ArgumentTypeError(f"“{text}” is not a number from {least} to {most}")

    return read


def read_words(text: str, option: str, known: Iterable[str]) -> list[str]:
    """Read one or more of the `known` words, comma separated. Raises CommandError."""
    words = [word.strip() for word in text.split(",")]
    if unknown := [word for word in words if word not in known]:
        raise CommandError(f"--{option}: “{unknown[0]}” is not one of {', '.join(known)}.")
    return words


def read_moment(text: str, option: str, *, ends: bool = False) -> datetime:
    """Read an ISO 8601 time, or a date: the day's start in Algeria, or with `ends` its end. Raises CommandError."""
    try:
        return days.read_moment(text, ends=ends)
    except ValueError as error:
        raise CommandError(f"--{option}: {error}") from None


def add_period_arguments(parser: ArgumentParser, what: str) -> None:
    """Add `--from` and `--to`, which `in_period` reads. Their help begins with `what`, such as “orders made”."""
    parser.add_argument("--from", dest="since", metavar="TIME", help=f"{what} at or after this time or date")
    parser.add_argument("--to", dest="until", metavar="TIME", help=f"{what} before this time, or up to this date")


def in_period(options: dict[str, Any]) -> Q:
    """Return a filter for what was created in the period of `add_period_arguments`. CommandError if it is empty."""
    since, until = options["since"], options["until"]
    first = read_moment(since, "from") if since is not None else None
    end = read_moment(until, "to", ends=True) if until is not None else None
    if first and end and first >= end:
        raise CommandError("--to: The period must end after it begins.")
    return (Q(created_at__gte=first) if first else Q()) & (Q(created_at__lt=end) if end else Q())
