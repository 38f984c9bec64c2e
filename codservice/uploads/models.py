from collections.abc import Iterator

import msgspec
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Func, Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _
from uuid_utils.compat import uuid7

from codservice.accounts.models import Account
from codservice.long_lists import batches_by

REFUSED_BYTES = 8 << 20
# What the cells of a refused row take in Python at most: four bytes a character if one is an emoji, and each its own.
_BYTES = Func(
    "cells",
    template="4 * char_length(array_to_string(%(expressions)s, '')) + 64 * cardinality(%(expressions)s)",
    output_field=models.IntegerField(),
)


class Upload(models.Model):
    """A file that a merchant uploads, and how far it is (`codservice.uploads`)."""

    class Status(models.TextChoices):
        ARRIVING = "arriving", _("Uploading")
        READING = "reading", _("Being read")
        MATCHING = "matching", _("Columns to be matched")
        RUNNING = "running", _("Being imported")
        DONE = "done", _("Done")
        FAILED = "failed", _("Failed")
        STOPPED = "stopped", _("Stopped")

    AT_WORK = (Status.READING, Status.RUNNING)  # work for a worker
    OPEN = (Status.ARRIVING, Status.MATCHING, *AT_WORK)

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    account = models.ForeignKey(Account, on_delete=models.CASCADE, related_name="uploads", db_index=False)
    kind = models.CharField(max_length=16)  # a key of `kinds.KINDS`
    name = models.CharField(max_length=255)
    size = models.PositiveIntegerField(help_text="Bytes.")
    status = models.CharField(max_length=16, choices=Status.choices, default=Status.ARRIVING)
    actor = models.CharField(max_length=255)
    user_id = models.UUIDField()
    created_at = models.DateTimeField(db_default=Now())
    finished_at = models.DateTimeField(null=True)
    problem = models.TextField(blank=True, default="")
    # Known once the file is read.
    sheet = models.CharField(
        max_length=100, blank=True, default="", db_default="", help_text="The one that was read, of several."
    )
    digest = models.CharField(max_length=64, blank=True, default="")
    titles = ArrayField(models.TextField(), default=list)
    # Files with the same titles have the same one. Once the columns are matched, the second half is their campaign's.
    fingerprint = models.CharField(max_length=64, blank=True, default="", db_column="headings")
    row_count = models.PositiveIntegerField(default=0)
    # The place in the file of each of our columns.
    mapping = models.JSONField(default=dict)
    # What each row has in those of our columns that the file lacks.
    constants = models.JSONField(default=dict, db_default={})
    # Progress: the line of the last row that was taken in or refused, the number of rows, and their counts by outcome.
    position = models.PositiveIntegerField(default=0)
    rows_done = models.PositiveIntegerField(default=0)
    counts = models.JSONField(default=dict)
    # The claim of the worker at it, when that runs out, and how many times one has begun without making progress.
    claim = models.UUIDField(null=True)
    claimed_until = models.DateTimeField(null=True)
    tries = models.PositiveSmallIntegerField(default=0)

    class Meta:
        indexes = [
            # For the account's page, and for how files with the same fingerprint were matched before.
            models.Index(fields=["account", "kind", "-created_at", "-id"], name="upload_of_account"),
            # For workers, which look for uploads every two seconds.
            models.Index(
                fields=["claimed_until"], condition=Q(status__in=["reading", "running"]), name="upload_to_work_at"
            ),
            # For pruning.
            models.Index(fields=["created_at"], name="upload_by_time"),
        ]

    def rows(self, *, after: int = 0) -> Iterator["FileRow"]:
        """The rows after a line, with one block of them in memory at a time."""
        last_line: int | None = after
        while last_line is not None:
            blocks = Block.objects.filter(upload=self, last_line__gt=last_line).order_by("last_line")
            last_line = None
            if block := blocks.first():
                last_line = block.last_line
                yield from (row for row in _rows_of(block.data) if row.line > after)

    def read_refused(self) -> Iterator["RefusedRow"]:
        """The refused rows by line. As many are in memory at once as take REFUSED_BYTES, but a long one alone."""
        rows = RefusedRow.objects.filter(upload=self).order_by("line")
        for weighed in batches_by(rows.annotate(bytes=_BYTES).values_list("line", "bytes", named=True), ["line"], 100):
            lines: list[int] = []
            total = 0
            for row in weighed:
                if lines and total + row.bytes > REFUSED_BYTES:
                    yield from rows.filter(line__range=(lines[0], lines[-1]))
                    lines, total = [], 0
                lines.append(row.line)
                total += row.bytes
            yield from rows.filter(line__range=(lines[0], lines[-1]))

    def change(self, **fields: object) -> None:
        """Change these fields, and write no others."""
        for name, value in fields.items():
            setattr(self, name, value)
        self.save(update_fields=fields)

    def end(self, status: Status, problem: str = "") -> None:
        """End it, and delete its file in the same transaction: erasing a customer does not search ended uploads' files.

        The caller has locked its row.
        """
        Piece.objects.filter(upload=self).delete()
        Block.objects.filter(upload=self).delete()
        self.change(status=status, problem=problem, finished_at=Now(), claim=None, claimed_until=None)


class Piece(models.Model):
    """Some bytes of a file that is arriving."""

    account = models.ForeignKey(Account, on_delete=models.CASCADE, related_name="+", db_index=False)
    upload = models.ForeignKey(Upload, on_delete=models.CASCADE, related_name="pieces", db_index=False)
    number = models.PositiveIntegerField()
    data = models.BinaryField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["upload", "number"], name="one_piece_of_a_number")]


class FileRow(msgspec.Struct, array_like=True):
    """A row of a file that was read (`files.tables`): the line in which it begins, and all its cells."""

    line: int
    cells: list[str]
    is_apart: bool = False


_rows_of = msgspec.json.Decoder(list[FileRow]).decode


class Block(models.Model):
    """Rows of a file that was read, up to `last_line`: `data` is a JSON list of FileRow."""

    account = models.ForeignKey(Account, on_delete=models.CASCADE, related_name="+", db_index=False)
    upload = models.ForeignKey(Upload, on_delete=models.CASCADE, related_name="blocks", db_index=False)
    last_line = models.PositiveIntegerField()
    data = models.BinaryField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["upload", "last_line"], name="one_block_up_to_a_line")]


class RefusedRow(models.Model):
    """A refused row as it was in the file, and why: `faults` is a list of [column, [sentence, …]].

    `name` is its entry's `Intake.name_of`: an order's number or a product's SKU; empty if it has none.
    """

    account = models.ForeignKey(Account, on_delete=models.CASCADE, related_name="+", db_index=False)
    upload = models.ForeignKey(Upload, on_delete=models.CASCADE, related_name="refused_rows", db_index=False)
    line = models.PositiveIntegerField()
    name = models.CharField(max_length=64, default="", db_default="")
    cells = ArrayField(models.TextField())
    faults = models.JSONField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["upload", "line"], name="a_row_is_refused_once")]
        indexes = [
            # For the home page, which tells of an order once, however often it was refused.
            models.Index(fields=["account", "name"], condition=~Q(name=""), name="refused_rows_by_name")
        ]
