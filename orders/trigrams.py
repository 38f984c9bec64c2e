"""Which orders a text may stand in: an index for the list's `q`, which finds parts of words in any script.

Of each order it holds hashes of all that is three characters long in what `q` reads. An order in which a text stands
has all hashes of the text; whoever has them is read and compared, so a hash that two texts share costs a look and
changes nothing. The hashes of each account are its own.

Orders are indexed by a worker, STEP at a time, so that an import pays nothing for it, and only those of accounts with
FEW or more: fewer are read as quickly. What the index does not hold is read itself: orders after the account's
`Searchable.through`, and those in `SearchChange`, where triggers (migration `search`) note in the same transaction
whatever changes a text or is written with an earlier time. So what is found is the same whatever was killed when.
"""

import re
from collections.abc import Iterable
from datetime import timedelta
from uuid import UUID
from zlib import crc32

from django.db import connection, transaction
from django.db.models import Q
from django.db.models.functions import Upper

from codservice.long_lists import IsOneOf
from orders import day_sums
from orders.models import Order

LENGTH = 3
FEW = 10_000  # orders are read in some hundredths of a second
SHARE = 50  # of an account's orders: when one in so many has the hashes, reading all of them is quicker
STEP = 5_000  # orders that one transaction indexes, in about a second
SET_BACK = timedelta(minutes=1)  # so far a clock may be set back

# The texts are compared as PostgreSQL writes them in capitals (`icontains`).
_TEXTS = ("customer_name", "customer_phone", "phone_e164", "customer_address")


def candidates(account_id: UUID, text: str, number: str, phone: str | None) -> Q:
    """Those of the account's orders in which `text`, or in whose phone `number`, may stand; all where no index helps.

    Orders whose `external_id` is `text`, or whose second phone is `phone`, are among them: these have indexes.
    """
    texts = [text, number] if re.fullmatch(r"\+?[0-9]*", number) else [text]  # nothing else stands in a phone
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT upper(%s), upper(%s), through FROM orders_searchable WHERE account_id = %s AND through IS NOT NULL",
            [texts[0], texts[-1], account_id],
        )
        *texts, through = cursor.fetchone() or ("", None)
    if min(map(len, texts)) < LENGTH:
        return Q()
    hashes = {"of_text": _hashes(account_id, texts[:1]), "of_number": _hashes(account_id, texts[-1:])}
    with connection.cursor() as cursor:
        cursor.execute(_FOUND, {"account": account_id, "text": text, "phone": phone, "share": SHARE, **hashes})
        (is_all, ids) = cursor.fetchone()
    return Q() if is_all else Q(IsOneOf("pk", ids)) | Q(created_at__gt=through)


# As the text of an array: it only comes here to go back, by the list and its count.
_FOUND = """
WITH most AS (SELECT sum(delta) / %(share)s AS most FROM orders_ordercount WHERE account_id = %(account)s), found AS (
    SELECT order_id FROM orders_ordertrigrams
    WHERE (trigrams @> %(of_text)s::int[] OR trigrams @> %(of_number)s::int[]) AND account_id = %(account)s
    UNION ALL SELECT id FROM orders_order WHERE account_id = %(account)s AND phone_2_e164 = %(phone)s
    LIMIT 1 + (SELECT most FROM most)
)
SELECT (SELECT count(*) FROM found) > (SELECT most FROM most), ARRAY(
    SELECT order_id FROM found
    UNION ALL SELECT order_id FROM orders_searchchange WHERE account_id = %(account)s
    UNION ALL SELECT id FROM orders_order WHERE account_id = %(account)s AND external_id = %(text)s
)::text
"""


def _hashes(account_id: UUID, texts: Iterable[str]) -> list[int]:
    own = crc32(account_id.bytes)
    parts = {text[at : at + LENGTH] for text in texts for at in range(len(text) - LENGTH + 1)}
    return [crc32(part.encode(), own) - 2**31 for part in parts]


# --- By a worker -----------------------------------------------------------------------------------------------------

_GROWN = """
INSERT INTO orders_searchable (account_id)
SELECT account_id FROM orders_ordercount GROUP BY account_id HAVING sum(delta) >= %s ON CONFLICT DO NOTHING
"""
# Whoever is indexed later is so by what its orders say then: an account is entered in a transaction before.
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
    with connection.cursor() as cursor:
        cursor.execute(_FORGET)
        cursor.execute(_GROWN, [FEW])
        cursor.execute("SELECT account_id FROM orders_searchable")
        return [account_id for (account_id,) in cursor.fetchall()]


def index(account_id: UUID) -> bool:
    """Index the account's next STEP orders, once there are as many, and what has changed; whether more is left.

    One transaction. One at a time: nothing is done, and nothing left, while another is at it.
    """
    mine = Order.objects.filter(account_id=account_id)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            "SELECT through FROM orders_searchable WHERE account_id = %s FOR UPDATE SKIP LOCKED", [account_id]
        )
        if not (found := cursor.fetchone()):
            return False
        (through,) = found
        # Each by a statement of its own: what it sees is no older than what the one before has found out.
        over = day_sums.complete_until(cursor) - SET_BACK
        cursor.execute(_TAKE_CHANGED, [account_id, STEP])
        changed = [order_id for (order_id,) in cursor.fetchall()]
        new = Q() if through is None else Q(created_at__gt=through)
        in_order = mine.filter(new, created_at__lt=over).order_by("created_at", "id")
        ends = in_order.values_list("created_at", flat=True)[STEP - 1 : STEP]
        chosen = Q(id__in=changed)
        for end in ends:
            chosen |= new & Q(created_at__lte=end)
            cursor.execute("UPDATE orders_searchable SET through = %s WHERE account_id = %s", [end, account_id])
        orders = list(mine.filter(chosen).values_list("id", *map(Upper, _TEXTS)))
        gone = [*changed, *(order_id for order_id, *_ in orders)]
        cursor.execute("DELETE FROM orders_ordertrigrams WHERE order_id = ANY(%s)", [gone])
        with cursor.copy("COPY orders_ordertrigrams (order_id, account_id, trigrams) FROM STDIN") as copy:
            for order_id, *texts in orders:
                copy.write_row((order_id, account_id, _hashes(account_id, texts)))
    return bool(ends) or len(changed) == STEP


def clean_pending_list() -> None:
    """Sort what was indexed into place, for which the searches would have to go through a list."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT gin_clean_pending_list('order_by_trigrams')")
