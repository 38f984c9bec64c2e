"""What the rows of a file become, for commands and uploads alike."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from django.utils.translation import gettext_lazy as _

from codservice.accounts.actor import Actor
from codservice.errors import Errors
from codservice.files.headings import Column
from codservice.files.tables import Row

# Characters of rows in memory at once: a small spreadsheet may repeat one long text in each of its cells.
MAX_TEXT = 4 << 20

Entry = Sequence[Row]  # the rows that describe one thing
Blame = list[tuple[str, list[str]]]  # what is wrong in a row: a column, which may be empty, and sentences


class Taken(NamedTuple):
    """What became of a batch: counts by outcome, and the refused entries with their errors.

    `take_in` also counts the refused.
    """

    counts: dict[str, int]
    refused: list[tuple[Entry, Errors]]


class Intake:
    """Takes the rows of one file into an account, in the order of the file and a batch at a time.

    A subclass defines what happens to a batch, how it is counted, and the name of an entry that may come only once.
    `constants` are texts by column, for columns that the file does not have: they count as if each row had them. What
    people entered there is stored as it was `understood`.
    """

    columns: tuple[Column, ...] = ()
    required: Sequence[tuple[str, ...]] = ()  # the file must have at least one column of each group
    of_campaign: Sequence[str] = ()  # columns whose `constants` only hold for the files of one advertisement
    counted: Mapping[str, Any] = {}  # what `take` counts, with labels for people
    refused: Any = _("Refused")  # the label of those that are not taken
    batch = 1000  # rows
    example: Sequence[Mapping[str, Any]]  # rows to begin a file with; the first has all columns that the others have

    def __init__(self, account_id: UUID, *, actor: Actor, constants: Mapping[str, str] = {}) -> None:
        self.account_id, self.actor = account_id, actor
        self.constants = self.understood(account_id, constants)
        self._lines: dict[str, int] = {}  # where each name came first

    def entries(self, rows: Iterator[Row]) -> Iterator[Entry]:
        return ([row] for row in rows)

    def name_of(self, entry: Entry) -> str | None:
        """The name that no other entry of the file may have, or None if this one has no such name."""
        return None

    def first_line(self, entry: Entry) -> int:
        """The line in which the first entry with this one's name begins."""
        name = self.name_of(entry)
        return entry[0].line if name is None else self._lines.setdefault(name, entry[0].line)

    def note(self, entry: Entry) -> None:
        """Remember an entry that an earlier run over the same file tried. It never tried one that is not whole."""
        if _is_whole(entry):
            self.first_line(entry)

    def take_in(self, batch: Sequence[Entry]) -> Taken:
        """Take a batch in, in the caller's transaction. May be called again if that was undone."""
        counts, refused = self.take([entry for entry in batch if _is_whole(entry)])
        refused = [*refused, *(self.with_surplus(entry) for entry in batch if not _is_whole(entry))]
        return Taken({**counts, "refused": len(refused)}, refused)

    def with_surplus(self, entry: Entry) -> tuple[Entry, Errors]:
        """An entry that is refused because of surplus cells, and what is wrong in it."""
        return entry, {"": [SURPLUS]}

    def take(self, entries: Sequence[Entry]) -> Taken:
        """Take whole entries in, and count what is `counted`: a subclass's part of `take_in`."""
        raise NotImplementedError

    @classmethod
    def understood(cls, account_id: UUID, constants: Mapping[str, str]) -> Mapping[str, str]:
        """The same constants, by the columns in which rows would have them."""
        return constants

    @classmethod
    def wrong_constants(cls, constants: Mapping[str, str]) -> Errors:
        """What is wrong with constants, whatever the rows hold."""
        return {}

    @classmethod
    def to_check(cls, rows: Iterator[Row], constants: Mapping[str, str]) -> str:
        """What people should check in a file's first rows before they are taken in: a translated text, or none."""
        return ""

    def row_of(self, path: str) -> tuple[int, str]:
        """The row (its index in the entry) and column that an error's path leads to."""
        return 0, path


# What English and French spreadsheets show in place of a value that failed.
_ERRORS = {
    "#N/A", "#N/D", "#REF!", "#DIV/0!", "#VALUE!", "#VALEUR!", "#NAME?", "#NOM?", "#NUM!", "#NOMBRE!", "#NULL!",
    "#NUL!", "#SPILL!", "#PROPAGATION!", "#CALC!", "#ERROR!", *(f"Err:{number}" for number in range(501, 541)),
}  # fmt: skip
SHORTENED = re.compile(r"-?\d([.,]\d+)?E\+\d+", re.ASCII | re.IGNORECASE)  # as spreadsheets show a long number
NO_NUMBER = "Is a long number that a spreadsheet has shortened. Format the column as text, and enter the numbers again."
A_DATE = "Is a date that a spreadsheet made of something else. Format the column as text, and enter the values again."
_DATE = re.compile(r"\d{4}-\d\d-\d\d( 00:00:00)?", re.ASCII)  # as `sheets` writes it
FAILED = "Is an error from the spreadsheet's formula. Correct it, or enter the value."
LOST = "Its letters were lost when the file was saved. Save the original as XLSX or as CSV UTF-8."


def altered(cell: str) -> str:
    """What to say of a text, such as a SKU or an order number, that a spreadsheet has altered; empty if it has not."""
    if SHORTENED.fullmatch(cell):
        return NO_NUMBER
    return A_DATE if _DATE.fullmatch(cell) else ""


def failure(cell: str, *, is_words: bool = False) -> str:
    """What to say of a cell that holds no value any more; empty of others.

    That is a formula's error, in which some programs put a blank before the last sign. In a cell that should hold words
    it is also what is left of Arabic in a code page without it: a `?` for each letter, beside digits and signs.
    """
    if cell.startswith(("#", "Err:")) and "".join(cell.split()) in _ERRORS:
        return FAILED
    return LOST if is_words and cell.count("?") > 2 and not any(map(str.isalpha, cell)) else ""


SURPLUS = "The row has more cells than the first line has columns. Put text with commas in quotes."


def _is_whole(entry: Entry) -> bool:
    """Whether none of its rows has surplus cells: each is what its writer meant."""
    return not any(row.surplus for row in entry)


def blame(entry: Entry, errors: Errors, intake: Intake) -> dict[int, Blame]:
    """What is wrong in the entry's rows, by line."""
    found: dict[int, Blame] = {}
    for path, sentences in errors.items():
        index, column = intake.row_of(path)
        line = entry[min(index, len(entry) - 1)].line
        found.setdefault(line, []).append((column, sentences))
    return dict(sorted(found.items()))


def see_line(lines: Mapping[int, Any]) -> str:
    """The reason for a row that is refused because of another one."""
    return f"See line {next(iter(lines))}."


def text_in(row: Row) -> int:
    """The number of characters in a row."""
    return sum(map(len, row.cells.values())) + sum(map(len, row.surplus))


def batches(entries: Iterator[Entry], size: int) -> Iterator[list[Entry]]:
    """The entries in batches of about `size` rows, or fewer where they have more text than MAX_TEXT."""
    batch: list[Entry] = []
    rows = text = 0
    for entry in entries:
        batch.append(entry)
        rows += len(entry)
        text += sum(map(text_in, entry))
        if rows >= size or text > MAX_TEXT:
            yield batch
            batch, rows, text = [], 0, 0
    if batch:
        yield batch
