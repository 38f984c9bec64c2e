"""How a file arrives: in pieces, each in a request of its own, so that no process holds all of it.

The pieces are kept in the database, where any web process can write and any worker can read them. From a browser
without scripts a file comes whole, in one request, whose size the gateway bounds; it is kept in pieces too.
"""

from uuid import UUID

from django.db import transaction
from django.db.models import Func, IntegerField, Sum
from django.utils.translation import gettext as _
from uuid_utils.compat import uuid7

from codservice import values
from codservice.accounts.models import Account, User
from codservice.errors import Refused
from codservice.uploads import processing
from codservice.uploads.kinds import KINDS
from codservice.uploads.models import Piece, RefusedRow, Upload

PIECE_BYTES = 128 << 10  # at 60 kbit/s it arrives before `run.gateway` gives a body up
MAX_BYTES = 40 << 20
MAX_NAME = 255  # the end is kept, which says what the file is
MAX_OPEN = 3  # uploads of an account that are not over
# Bytes of an account's refused rows, beyond which no file is taken: each may bring 256 MiB of them, in a spreadsheet of
# some kilobytes too, and they are kept for a month.
MAX_REFUSED = 256 << 20
SUFFIXES = (".csv", ".txt", ".tsv", ".xlsx")  # Excel writes “Unicode text” as .txt, and Google tables as .tsv


class Unacceptable(Refused):
    """The file cannot be accepted. The message says why, in the person's language."""

    code = "upload_refused"


def begin(account: Account, kind: str, *, name: str, size: int, user: User) -> Upload:
    """Begin an upload, whose pieces may then arrive. Raises Unacceptable.

    An earlier upload of the same file by this person ends if it has not fully arrived.
    """
    try:
        name = values.text(name.replace("\\", "/").rpartition("/")[2])[-MAX_NAME:]
    except ValueError:
        raise Unacceptable(_("Choose a file.")) from None
    if not name.lower().endswith(SUFFIXES):
        raise Unacceptable(
            _(
                "The file must be CSV or XLSX, with a name that ends in .csv, .txt, .tsv or .xlsx. Open any other "
                "spreadsheet, such as .xls, in its program and save it as XLSX."
            )
        )
    if not size:
        raise Unacceptable(_("The file is empty."))
    if size > MAX_BYTES:
        raise Unacceptable(_("The file can have at most %(most)d MB. Send it in parts.") % {"most": MAX_BYTES >> 20})
    if _refused_bytes(account) > MAX_REFUSED:
        raise Unacceptable(_("Too many refused rows of earlier files are kept. Discard those that you do not need."))
    with transaction.atomic():
        Account.lock(account.pk)
        again = Upload.objects.filter(account=account, kind=kind, user_id=user.id, name=name, size=size)
        processing.give_way(again.filter(status=Upload.Status.ARRIVING))
        if Upload.objects.filter(account=account, kind__in=KINDS, status__in=Upload.OPEN).count() >= MAX_OPEN:
            raise Unacceptable(_("Earlier files are not finished. Match their columns, wait for them, or stop one."))
        return Upload.objects.create(
            id=uuid7(), account=account, kind=kind, name=name, size=size, actor=user.display_name, user_id=user.id
        )


def _refused_bytes(account: Account) -> int:
    """What the account's refused rows take in the database, with the reasons, which may be longer than the rows."""
    cells, faults = (Func(name, function="pg_column_size", output_field=IntegerField()) for name in ("cells", "faults"))
    rows = RefusedRow.objects.filter(upload__in=Upload.objects.filter(account=account))
    return rows.aggregate(bytes=Sum(cells + faults))["bytes"] or 0


def piece_count(upload: Upload) -> int:
    return -(-upload.size // PIECE_BYTES)


def take_piece(upload_id: UUID, account: Account, *, number: int, data: bytes) -> bool:
    """Store a piece and return whether no other is needed: the file is complete, or its upload has ended meanwhile.

    Pieces may come twice and in any order. Raises Upload.DoesNotExist, and Unacceptable for a piece that does not
    belong to this file.
    """
    with transaction.atomic():
        upload = Upload.objects.select_for_update(no_key=True).get(pk=upload_id, account=account)
        if upload.status != Upload.Status.ARRIVING:
            return True
        count = piece_count(upload)
        if not 0 <= number < count or len(data) != min(PIECE_BYTES, upload.size - number * PIECE_BYTES):
            raise Unacceptable(_("The file changed while it was being sent. Send it again."))
        Piece.objects.bulk_create(
            [Piece(account=account, upload=upload, number=number, data=data)], ignore_conflicts=True
        )
        if is_whole := Piece.objects.filter(upload=upload).count() == count:
            upload.change(status=Upload.Status.READING)
    return is_whole
