"""Which orders may contain a text: an index for the list's `q`, which finds parts of words in any script.

For each order it holds hashes of all trigrams (three characters in a row) of the texts that `q` searches. An order that
contains a text has all of the text's hashes. Orders that have them are then read and compared, so a hash collision
costs a look and changes nothing. Each account has its own hashes.

A worker indexes orders, STEP at a time, so that imports pay nothing for it, and only for accounts with FEW or more:
fewer are read as quickly. Orders that the index lacks are always read: those after the account's `Searchable.through`,
and those in `SearchChange`, where triggers (migration `search`) note in the same transaction any order whose texts
change or which is dated earlier. So the result is the same whatever was killed when. An index through a time that is
still to come, or less than `daily.SET_BACK` ago, as the clock was set back, is not used and is made anew.
"""

from collections.abc import Iterable
from uuid import UUID
from zlib import crc32

from django.db import connection, transaction
from django.db.models import Q
from django.db.models.functions import Upper

from codservice import postgresql
from codservice.long_lists import IsOneOf
from orders import daily, day_sums
from orders.models import Order, numbers_meant

LENGTH = 3
FEW = 10_000  # so many orders are read in some hundredths of a second
SHARE = 50  # if more than one in so many of an account's orders has the hashes, reading all of them is quicker
STEP = 5_000  # orders that one transaction indexes, in about a second

# Texts are compared as PostgreSQL's `upper` gives them, as `icontains` does.
_TEXTS = ("customer_name", "customer_phone", "phone_e164", "customer_address")


def candidates(account_id: UUID, text: str, other: str, phone: str | None) -> Q:
    """The account's orders that may contain `text` or `other`, all orders if the index does not help.

    They include orders whose `external_id` `text` may mean (`numbers_meant`) or whose second phone is `phone`, which
    other indexes find.
    """
    *texts, through = postgresql.row(
        "SELECT upper(%s), upper(%s), through FROM orders_searchable"
        " WHERE account_id = %s AND through < clock_timestamp() - %s",
        [text, other, account_id, daily.SET_BACK],
    ) or ("", None)
    if min(map(len, texts)) < LENGTH:
        return Q()
    hashes = {"of_text": _hashes(account_id, texts[:1]), "of_other": _hashes(account_id, texts[-1:])}
    values = {"account": account_id, "meant": numbers_meant(text), "phone": phone, "share": SHARE, **hashes}
    (is_all, ids) = postgresql.row(_FOUND, values)
    return Q() if is_all else Q(IsOneOf("pk", ids)) | Q(created_at__gt=through)


# The ids are an array's text, which is only sent back to PostgreSQL, for the list and its count.
_FOUND = """
WITH most AS (SELECT sum(delta) / %(share)s AS most FROM orders_ordercount WHERE account_id = %(account)s), found AS (
    SELECT order_id FROM orders_ordertrigrams
    WHERE (trigrams @> %(of_text)s::int[] OR trigrams @> %(of_other)s::int[]) AND account_id = %(account)s
    UNION ALL SELECT id FROM orders_order WHERE account_id = %(account)s AND phone_2_e164 = %(phone)s
    LIMIT 1 + (SELECT most FROM most)
)
SELECT (SELECT count(*) FROM found) > (SELECT most FROM most), ARRAY(
    SELECT order_id FROM found
    UNION ALL SELECT order_id FROM orders_searchchange WHERE account_id = %(account)s
    UNION ALL SELECT id FROM orders_order WHERE account_id = %(account)s AND external_id = ANY(%(meant)s)
)::text
"""


def _hashes(account_id: UUID, texts: Iterable[str]) -> list[int]:
    own = crc32(account_id.bytes)
    parts = {text[at : at + LENGTH] for text in texts for at in range(len(text) - LENGTH + 1)}
    return [crc32(part.encode(), own) - 2**31 for part in parts]


# --- Indexing, by a worker -------------------------------------------------------------------------------------------

_GROWN = """
INSERT INTO orders_searchable (account_id)
SELECT account_id FROM orders_ordercount GROUP BY account_id HAVING sum(delta) >= %s ON CONFLICT DO NOTHING
"""
# Notes of accounts that are not indexed are not needed: an account is entered in a transaction of its own, before its
# orders are indexed as they are then.
_FORGET = """
DELETE FROM orders_searchchange c
WHERE NOT EXISTS (SELECT FROM orders_searchable s WHERE s.account_id = c.account_id)
"""
_TAKE_CHANGED = """
DELETE FROM orders_searchchange WHERE id IN (
    SELECT id FROM orders_searchchange WHERE account_id = %s ORDER BY id LIMIT %s
) RETURNING order_id
"""


def due() -> list[UUID]:
    """The accounts for which `index` may have something to do."""
    postgresql.execute(_FORGET)
    postgresql.execute(_GROWN, [FEW])
    return [account_id for (account_id,) in postgresql.rows("SELECT account_id FROM orders_searchable")]


def index(account_id: UUID) -> bool:
    """Index the account's next STEP orders, once there are as many, and up to STEP that have changed.

    Returns whether more is left. One transaction, and one at a time: while another runs, does nothing and returns
    False.
    """
    mine = Order.objects.filter(account_id=account_id)
    with transaction.atomic():
        found = postgresql.row(
            "SELECT through, through > clock_timestamp() - %s FROM orders_searchable WHERE account_id = %s"
            " FOR UPDATE SKIP LOCKED",
            [daily.SET_BACK, account_id],
        )
        if not found:
            return False
        through, is_ahead = found
        if is_ahead:  # the clock was set back: what comes now may be dated before `through`, so begin anew
            postgresql.execute("UPDATE orders_searchable SET through = NULL WHERE account_id = %s", [account_id])
            through = None
        # Separate statements, so that each sees at least what the one before it has found.
        over = day_sums.complete_until() - daily.SET_BACK
        changed = [order_id for (order_id,) in postgresql.rows(_TAKE_CHANGED, [account_id, STEP])]
        new = Q() if through is None else Q(created_at__gt=through)
        in_order = mine.filter(new, created_at__lt=over).order_by("created_at", "id")
        ends = in_order.values_list("created_at", flat=True)[STEP - 1 : STEP]
        chosen = Q(id__in=changed)
        for end in ends:
            chosen |= new & Q(created_at__lte=end)
            postgresql.execute("UPDATE orders_searchable SET through = %s WHERE account_id = %s", [end, account_id])
        orders = list(mine.filter(chosen).values_list("id", *map(Upper, _TEXTS)))
        gone = [*changed, *(order_id for order_id, *_ in orders)]
        postgresql.execute("DELETE FROM orders_ordertrigrams WHERE order_id = ANY(%s)", [gone])
        copying = "COPY orders_ordertrigrams (order_id, account_id, trigrams) FROM STDIN"
        with connection.cursor() as cursor, cursor.copy(copying) as copy:
            for order_id, *texts in orders:
                copy.write_row((order_id, account_id, _hashes(account_id, texts)))
    return bool(ends) or len(changed) == STEP


def clean_pending_list() -> None:
    """Move the index's pending list into place, so that searches need not scan it."""
    postgresql.execute("SELECT gin_clean_pending_list('order_by_trigrams')")
