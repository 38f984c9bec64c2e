"""What only the merchant can put right, for their home page: the first few things of each kind, by one statement each.

To add a kind, add a function to NEEDS.
"""

from collections.abc import Callable
from datetime import date, timedelta
from typing import NamedTuple
from uuid import UUID

from django.db.models import Q
from django.db.models.functions import Now
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from codservice import days, postgresql
from codservice.accounts.models import Account, ApiKey
from codservice.accounts.templatetags.accounts import works_until
from codservice.i18n_tags import counted, moment
from codservice.uploads.kinds import KINDS
from orders.models import CallNote
from webhooks.models import Webhook

SHOWN = 5  # of each kind
MOST = 100  # wrong numbers are counted only so far
SOLD_DAYS = 7  # stock is short when it is less than was ordered in so many days, today included
RUNNING_OUT = "running-out"  # the filter's name on the products' page
CALLED_DAYS = 30  # wrong numbers from longer ago are no longer shown


class Line(NamedTuple):
    """One thing that needs the merchant: its name and more about it.

    `address` is the page that puts it right, `readers_address` the page for those who may only read, if another.
    `phone` is E.164.
    """

    name: str
    text: str = ""
    address: str = ""
    readers_address: str = ""
    phone: str = ""


class Need(NamedTuple):
    """A kind of need: a sentence that says how many there are, the first of them, and the page that lists them all."""

    title: str
    lines: list[Line]
    address: str = ""


# Reads only days that are summed up: an order gets there within minutes.
_SHORT = """
WITH sold AS (
    SELECT key, sum(unit_count) AS units FROM orders_dayfigure
    WHERE account_id = %(account)s AND dimension = 'product' AND day >= %(since)s GROUP BY key
)
SELECT product.id, product.name, product.stock_quantity, sold.units, count(*) OVER ()
FROM sold JOIN inventory_product product ON product.id = sold.key::uuid
WHERE product.account_id = %(account)s AND product.is_active AND product.stock_quantity < sold.units
ORDER BY product.stock_quantity - sold.units, product.sku LIMIT %(shown)s
"""


def running_out(account: Account) -> list[UUID]:
    """The ids of all products that `short_stock` means."""
    since = days.today() - timedelta(days=SOLD_DAYS - 1)
    rows = postgresql.rows(_SHORT, {"account": account.id, "since": since, "shown": None})
    return [id_ for id_, *_rest in rows]


def short_stock(account: Account, today: date) -> Need | None:
    """Products of which fewer are left than were ordered in the last SOLD_DAYS."""
    since = today - timedelta(days=SOLD_DAYS - 1)
    rows = postgresql.rows(_SHORT, {"account": account.id, "since": since, "shown": SHOWN})
    if not rows:
        return None
    title = ngettext(
        "%(count)s product is running out: fewer are left than were ordered in the last week",
        "%(count)s products are running out: fewer are left than were ordered in the last week",
        rows[0][4],
    )
    said = _("%(left)s left, %(ordered)s ordered")
    return Need(
        title % {"count": counted(rows[0][4])},
        [
            Line(name, said % {"left": counted(left), "ordered": counted(ordered)})
            for _id, name, left, ordered, *_all in rows
        ],
        reverse("account-products", query={"only": RUNNING_OUT}),
    )


def ending_keys(account: Account, today: date) -> Need | None:
    """API keys in use that end soon, of which the holder is mailed, or have just ended."""
    span = ApiKey.ENDS_SOON  # as long after the end, too
    ending = ApiKey.in_use().filter(account=account, expires_at__gt=Now() - span, expires_at__lt=Now() + span)
    keys = list(ending.annotate(is_over=Q(expires_at__lte=Now())).order_by("expires_at"))  # an account has few
    if not keys:
        return None
    title = ngettext(
        "%(count)d API key in use ends soon or has ended: give your system a new one",
        "%(count)d API keys in use end soon or have ended: give your systems new ones",
        len(keys),
    )
    said = {True: _("expired %(end)s; last used %(used)s"), False: _("works until %(end)s; last used %(used)s")}
    lines = [
        Line(key.name, said[key.is_over] % {"end": works_until(key), "used": moment(key.last_used_at)})
        for key in keys[:SHOWN]
    ]
    return Need(title % {"count": len(keys)}, lines, reverse("api-keys"))


def failing_webhooks(account: Account, today: date) -> Need | None:
    """Webhooks that do not answer; the account holder has been mailed about them, or is about to be."""
    failing = Webhook.of(account.id).unanswered()
    rows = list(failing.order_by("created_at").values_list("id", "url"))  # an account has few
    if not rows:
        return None
    title = ngettext(
        "%(count)d webhook does not answer: your system misses what happens",
        "%(count)d webhooks do not answer: your system misses what happens",
        len(rows),
    )
    lines = [Line(url, "", reverse("account-webhook", args=[id_])) for id_, url in rows[:SHOWN]]
    return Need(title % {"count": len(rows)}, lines)


# Uses the index `call_note_wrong_number`. Left out are orders that were put back into the queue or answered since, and
# those with a new number, which agents call at once. Where they do not, the new number may be the same one, written in
# another way. Only an order's last such note counts: it is itself something new after those before it. A `note` is a
# remark that says nothing of the number while the order waits for a supervisor, and else put it back into the queue.
_WRONG = """
SELECT id, customer_name, phone_e164, called FROM (
    SELECT o.id, o.customer_name, o.phone_e164, n.created_at, coalesce(edit.old, o.customer_phone) AS called
    FROM (
        SELECT DISTINCT ON (order_id) order_id, created_at FROM orders_callnote
        WHERE account_id = %(account)s AND outcome = 'wrong_number' AND created_at >= %(since)s
        ORDER BY order_id DESC, created_at DESC
    ) n JOIN orders_order o ON o.id = n.order_id LEFT JOIN LATERAL (
        SELECT old FROM (
            SELECT at, field, old FROM orders_orderedit WHERE order_id = o.id AND at > n.created_at OFFSET 0
        ) since WHERE field = 'customer_phone' ORDER BY at LIMIT 1
    ) edit ON true
    WHERE o.account_id = %(account)s AND o.status = 'pending_confirmation'
        AND (edit.old IS NULL OR o.call_state IN ('review', 'test')) AND NOT EXISTS (
            SELECT FROM orders_callnote s
            WHERE s.order_id = o.id AND s.created_at > n.created_at AND s.outcome <> ALL(%(nothing_new)s)
                AND NOT (s.outcome = 'note' AND o.call_state = 'review')
        )
    ORDER BY o.id DESC LIMIT %(most)s
) AS wrong ORDER BY created_at DESC
"""


def wrong_numbers(account: Account, today: date) -> Need | None:
    """Pending orders that nobody can call, because the number is not the customer's."""
    # Imported here, because every process loads this module, and only some read phone numbers.
    from orders import phones

    since = days.start_of(today - timedelta(days=CALLED_DAYS))
    nothing_new = [outcome.value for outcome in CallNote.NOTHING_NEW]
    values = {"account": account.id, "since": since, "nothing_new": nothing_new, "most": MOST}
    asked = postgresql.rows(_WRONG, values)
    rows = [row for row in asked if phones.e164_or_none(row[3]) == row[2]]
    if not rows:
        return None
    title = ngettext(
        "%(count)s order has a wrong phone number: correct it, so that the customer can be called",
        "%(count)s orders have a wrong phone number: correct them, so that the customers can be called",
        len(rows),
    )
    return Need(
        title % {"count": len(rows) if len(asked) < MOST else f"{len(rows)}+"},
        [
            Line(name, "", reverse("account-order-correct", args=[id_]), reverse("account-order", args=[id_]), phone)
            for id_, name, phone, _called in rows[:SHOWN]
        ],
    )


# Refused rows of files that did not come again. The row of an order with a number did when an order with the number was
# imported since, or when it was refused once more, which that file is told of. Any other did when a file of its kind
# with the same headings came once its own had ended, and was taken in whole; a file with other headings comes from
# elsewhere. Such a file also brings the rows again of orders that were there before. The first half of a fingerprint is
# that of the headings, without those that a report adds. Rows are kept for some weeks. Not EXISTS, which PostgreSQL may
# answer by reading all the account's orders.
_REFUSED = """
WITH file AS (
    SELECT upload.*, EXISTS (
        SELECT FROM uploads_upload later
        WHERE later.account_id = %(account)s AND later.kind = upload.kind AND later.status = 'done'
            AND later.created_at > upload.finished_at AND left(later.headings, 32) = left(upload.headings, 32)
    ) AS came_again
    FROM uploads_upload upload
    WHERE upload.account_id = %(account)s AND upload.kind = ANY(%(kinds)s) AND upload.finished_at IS NOT NULL
)
SELECT file.id, file.name, refused.count, sum(refused.count) OVER () FROM file CROSS JOIN LATERAL (
    SELECT count(*) FROM uploads_refusedrow row WHERE row.upload_id = file.id AND NOT CASE
        WHEN file.kind <> 'orders' OR row.name = '' THEN came_again
        ELSE coalesce(
            (SELECT true FROM orders_order o WHERE o.account_id = %(account)s AND o.external_id = row.name
                AND (came_again OR o.created_at > file.finished_at)),
            (SELECT true FROM uploads_refusedrow more JOIN uploads_upload later ON later.id = more.upload_id
                WHERE more.account_id = %(account)s AND more.name = row.name AND more.name <> ''
                AND later.id > file.id AND later.kind = file.kind LIMIT 1),
            false
        )
    END
) AS refused
WHERE refused.count > 0 ORDER BY file.id DESC LIMIT %(shown)s
"""


def refused_rows(account: Account, today: date) -> Need | None:
    """Refused rows of files that were not sent again."""
    rows = postgresql.rows(_REFUSED, {"account": account.id, "kinds": list(KINDS), "shown": SHOWN})
    if not rows:
        return None
    title = ngettext(
        "%(count)s row of a file was refused: correct it and send it again",
        "%(count)s rows of files were refused: correct them and send them again",
        int(rows[0][3]),
    )
    return Need(
        title % {"count": counted(rows[0][3])},
        [Line(name, counted(count), reverse("account-upload", args=[id_])) for id_, name, count, _all in rows],
    )


NEEDS: list[Callable[[Account, date], Need | None]] = [wrong_numbers, refused_rows, short_stock, failing_webhooks]


def of_account(account: Account, today: date, *, with_keys: bool) -> list[Need]:
    """What needs the merchant now, first what costs orders. One statement for each kind; keys only `with_keys`."""
    kinds = [ending_keys, *NEEDS] if with_keys else NEEDS
    return [need for each in kinds if (need := each(account, today)) is not None]
